# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as torch files: a state dict for each node, and all that a run needs to go on.

    torch.load(path)["models"][k]

is the state dict of node k's model, for `load_state_dict`. An unfinished run holds the keys of its noise, so the file
can be read by its owner alone, and it appears whole or not at all. What a file says is a claim: accounts are made anew
when a run goes on, shapes and settings are compared, and the last round is run once more.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import torch
from msgspec import Meta

from sottovoce.arrays import check_declared
from sottovoce.errors import FileError, InputError
from sottovoce.files import put_whole
from sottovoce.forms import Form, json_text, read_form, strict_json
from sottovoce.learning.descent import State
from sottovoce.learning.results import History, check_parts
from sottovoce.learning.sites.modules import state_of

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from sottovoce.accounting import Account
    from sottovoce.learning.results import Run
    from sottovoce.learning.sites.losses import ModuleLoss

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Checkpoint", "check_fresh", "read_checkpoint", "write_checkpoint"]

_KIND, _SCHEMA = "sottovoce-checkpoint", 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """What a file says of a run: as much as it takes to go on, and nothing that privacy is believed from."""

    settings: dict[str, Any]
    rounds: int
    state: State
    before: Array | None
    history: History
    noise_multiplier: float
    seeded: bool
    zeroed: int
    keys: NDArray[np.uint64] | None


class _Head(Form, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What is read of a file besides its arrays."""

    round: Annotated[int, Meta(ge=0)]
    rounds: Annotated[int, Meta(ge=0)]
    settings: str
    noise_multiplier: Annotated[float, Meta(ge=0, le=sys.float_info.max)]
    seeded: bool
    zeroed: Annotated[int, Meta(ge=0)]


def write_checkpoint(run: Run, loss: ModuleLoss, path: str | os.PathLike[str]) -> Path:
    """Write a run, finished or not, to a file that its owner alone can read."""
    file = _checked(path)
    content = io.BytesIO()
    torch.save(
        {
            "kind": _KIND,
            "schema": _SCHEMA,
            "round": run.state.round,
            "rounds": run.rounds,
            "models": [state_of(loss.module, loss.layout, model) for model in run.state.models],
            "account": _said(run.account),
            "unconditional": _said(run.unconditional),
            "settings": json_text(dict(run.settings)),
            "noise_multiplier": run.noise_multiplier,
            "seeded": run.seeded,
            "zeroed": run.zeroed,
            "registers": torch.from_numpy(run.state.registers),
            "start": torch.from_numpy(run.state.start),
            "average": torch.from_numpy(run.state.average),
            "before": None if run.before is None else torch.from_numpy(run.before),
            "keys": None if run.keys is None else torch.from_numpy(run.keys.view(np.int64)),
            "history": {name: torch.from_numpy(column) for name, column in run.history._asdict().items()},
        },
        content,
    )
    try:
        return put_whole([content.getbuffer()], file.parent, lambda: file.name, rights=0o600)
    except OSError as error:
        raise FileError(f"{file}: the checkpoint cannot be written: {error} (choose another place)") from None


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """What a file says of a run; one that is torn or of another kind is refused. No code in it is run."""
    file = Path(path)
    try:
        check_declared(file)
        found = torch.load(file, map_location="cpu", weights_only=True)
        if not isinstance(found, dict) or (found.get("kind"), found.get("schema")) != (_KIND, _SCHEMA):
            raise InputError(f"a checkpoint of schema {_SCHEMA} was expected")
        return _read(found)
    except FileNotFoundError:
        raise FileError(f"{file}: there is no such file (give what a training run has written)") from None
    except (FileError, MemoryError):
        raise
    # A spoilt pickle goes wrong in a way of its own at every place.
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        # Torch proposes to open what may run code.
        if "weights" in first.lower():
            first = "it is damaged, or holds more than tensors and numbers"
        raise FileError(f"{file}: not a checkpoint: {first} (give what a training run has written)") from None


def check_fresh(path: str | os.PathLike[str]) -> None:
    """Refuse to begin a run in the place of another: what was sent has been seen, and no run comes out twice."""
    file = _checked(path)
    if not file.exists():
        return
    found = read_checkpoint(file)
    if found.state.round < found.rounds:
        raise InputError(
            f"{file}: an unfinished run lies there, {found.state.round} of {found.rounds} rounds done (continue with "
            "resume=True, or choose another name)"
        )
    raise InputError(
        f"{file}: a finished run lies there, of {found.rounds} rounds (choose another name, or remove it)"
    )


def _read(found: dict[str, Any]) -> Checkpoint:
    """The parts of a file, each of the type and shape that it has to have."""
    head = read_form(found, _Head, "the checkpoint")
    state = State(head.round, *(found[name].numpy() for name in ("registers", "start", "average")))
    before = None if found["before"] is None else found["before"].numpy()
    keys = None if found["keys"] is None else found["keys"].numpy().view(np.uint64)
    history = History(**{name: found["history"][name].numpy() for name in History._fields})
    check_parts(state, head.rounds, before, keys, history)
    return Checkpoint(
        settings=read_form(strict_json(head.settings, "settings"), dict[str, Any], "settings"),
        rounds=head.rounds,
        state=state,
        before=before,
        history=history,
        noise_multiplier=head.noise_multiplier,
        seeded=head.seeded,
        zeroed=head.zeroed,
        keys=keys,
    )


def _said(account: Account) -> dict[str, Any]:
    """What an account says, for who reads the file."""
    return {
        "view": account.view,
        "assumption": account.assumption,
        "method": account.method,
        "relation": account.relation,
        "participation": account.participation,
        "noise_multiplier": account.noise_multiplier,
        "delta": account.default_delta,
        "epsilon": account.epsilon().upper,
    }


def _checked(path: str | os.PathLike[str]) -> Path:
    """The path, if a checkpoint can be put there."""
    file = Path(path)
    if file.suffix not in {".pt", ".pth"}:
        raise InputError(f"a checkpoint is a file that ends in .pt or .pth; got {str(file)!r} (name it so)")
    if not file.parent.is_dir():
        raise FileError(f"{file}: there is no folder {file.parent} (make it first)")
    return file
