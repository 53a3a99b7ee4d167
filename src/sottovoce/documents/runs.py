# SPDX-License-Identifier: Apache-2.0
"""Training runs: the file that holds a run or its checkpoint, and the JSON form of what came of it.

The file is an .npz with a JSON header and the arrays. An unfinished run holds the keys of the noise generators, so
the file is readable by its owner alone, and it appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce._version import __version__
from sottovoce.accounting import Account
from sottovoce.documents.accounts import SCHEMA, graph_facts
from sottovoce.documents.files import check_path, write_bytes
from sottovoce.documents.pairs import ends_to_json, finite_or_null, interval_from_json, plain_label
from sottovoce.errors import FileError, InputError
from sottovoce.learning.descent import State
from sottovoce.learning.results import History, Run

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from sottovoce.graphs import Graph, Spectrum
    from sottovoce.interval import Interval
    from sottovoce.learning.advice import StepCost
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Protocol

__all__ = ["check_run_path", "read_run", "run_document", "write_run"]

_RESULTS = ("loss", "excess_risk", "average_excess_risk", "accuracy", "node_accuracies")
_NOT_PRIVATE = [
    "accuracy",
    "node_accuracy",
    "loss",
    "excess_risk",
    "average_excess_risk",
    "consensus_distance",
    "history",
]


def check_run_path(path: str | os.PathLike[str], *, fresh: bool = False) -> Path:
    """The path, if a run can be put there; a `fresh` one does not take the place of an unfinished one."""
    file = check_path(path, (".npz",), "a run")
    if fresh and file.exists():
        with contextlib.suppress(FileError):
            found = read_run(file)
            if not found.finished:
                raise InputError(
                    f"{file}: an unfinished run lies there, {found.state.round} of {found.rounds} rounds done "
                    "(continue with resume=True, or choose another name)"
                )
    return file


def write_run(run: Run, path: str | os.PathLike[str]) -> Path:
    """Write a run, finished or not, to a file that its owner alone can read."""
    file = check_run_path(path)
    header = {
        "schema": SCHEMA,
        "kind": "run",
        "version": __version__,
        "settings": dict(run.settings),
        "rounds": run.rounds,
        "round": run.state.round,
        "cut": run.cut,
        "seeded": run.seeded,
        "zeroed": run.zeroed,
        "noise_multiplier": run.noise_multiplier,
        "noise_std": run.noise_std,
        "account": _account_to_json(run.account),
        "unconditional": _account_to_json(run.unconditional),
        "averaging": None if run.averaging is None else _account_to_json(run.averaging),
        **{name: getattr(run, name) for name in _RESULTS},
    }
    arrays: dict[str, Any] = {
        "header": np.array(json.dumps(header)),
        "registers": run.state.registers,
        "start": run.state.start,
        "average": run.state.average,
        **{f"history_{name}": column for name, column in run.history._asdict().items()},
    }
    if run.keys is not None:
        arrays["keys"] = run.keys
    if run.before is not None:
        arrays["before"] = run.before
    content = io.BytesIO()
    np.savez(content, **arrays)
    return write_bytes(content.getvalue(), file, "the run", private=True)


def read_run(path: str | os.PathLike[str]) -> Run:
    """The run in a file that `write_run` wrote; one that was tampered with into nonsense is refused."""
    file = Path(path)
    try:
        with np.load(file, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        header = json.loads(str(arrays["header"]))
        if header.get("schema") != SCHEMA or header.get("kind") != "run":
            raise FileError(f"{file}: a run of schema {SCHEMA} was expected (give what train --output wrote)")
        return _run(header, arrays)
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{file}: there is no such file (give what train --output wrote)") from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, InputError) as error:
        raise FileError(f"{file}: not a run: {error} (write the file again)") from None


def run_document(
    run: Run,
    task: Task,
    protocol: Protocol,
    graph: Graph,
    spectrum: Spectrum,
    cost: StepCost | None = None,
) -> dict[str, Any]:
    """The JSON object of a finished run; what is null is not defined for its loss or data."""
    accuracies = run.node_accuracies
    return {
        "schema": SCHEMA,
        "version": __version__,
        "graph": graph_facts(protocol.weights, graph, spectrum),
        "data": {
            "name": task.name,
            "nodes": task.nodes,
            "features": int(task.shards.features.shape[2]),
            "shard_size": task.shards.nominal,
            "test_records": 0 if task.test is None else task.test.records,
            "fingerprint": task.shards.fingerprint,
        },
        "objective": task.loss.name,
        "dimension": task.dimension,
        **{name: run.settings[name] for name in ("l2", "step", "clip", "unit", "batch_fraction")},
        "rounds": run.rounds,
        **protocol.terms,
        "stopped_by_budget": run.cut,
        "noise_multiplier": run.noise_multiplier,
        "noise_std": run.noise_std,
        "seeded": run.seeded,
        "delta": run.settings["target_delta"],
        "relation": run.settings["relation"],
        "view": run.settings["view"],
        "own_noise": run.settings["own_noise"],
        "accuracy": run.accuracy,
        "node_accuracy": None if accuracies is None else {"min": accuracies[0], "mean": accuracies[1]},
        "loss": finite_or_null(run.loss),
        "excess_risk": finite_or_null(run.excess_risk),
        "average_excess_risk": finite_or_null(run.average_excess_risk),
        "consensus_distance": run.consensus_distance,
        "account": _account_document(run.account, run.epsilon),
        "unconditional": _account_document(run.unconditional, run.unconditional_epsilon),
        "averaging": None
        if run.averaging is None
        else _account_document(run.averaging, run.averaging.epsilon()),
        "updates": {name: run.settings[name] for name in ("smoothness", "losses", "slopes")},
        "step_cost": None if cost is None else asdict(cost),
        "history": _history_to_json(run.history),
        "not_private": _NOT_PRIVATE,
    }


def _history_to_json(history: History) -> dict[str, list[float | None]]:
    """One list for each column; what is not a number is null."""
    columns = {name: [finite_or_null(x) for x in column] for name, column in history._asdict().items()}
    return {**columns, "rounds": history.rounds.tolist()}


def _account_document(account: Account, epsilon: Interval) -> dict[str, Any]:
    """An account with its ε at the δ it was made for, as every output of the run shows it."""
    return {**_account_to_json(account), "epsilon": ends_to_json(epsilon)}


def _account_to_json(account: Account) -> dict[str, Any]:
    """All that an account says; an infinite upper end is null."""
    squared = account.sensitivity_squared
    return {
        "view": account.view,
        "observers": [plain_label(name) for name in account.observers],
        "target": None if account.target is None else plain_label(account.target),
        "sensitivity_squared": None if squared is None else ends_to_json(squared),
        "method": account.method,
        "assumption": account.assumption,
        "relation": account.relation,
        "contribution": account.contribution,
        "participation": account.participation,
        "noise_multiplier": account.noise_multiplier,
        "delta": account.default_delta,
        "mu": ends_to_json(account.mu),
    }


def _account(value: Mapping[str, Any]) -> Account:
    """The account in a JSON object."""
    squared = value["sensitivity_squared"]
    return Account(
        mu=interval_from_json(value["mu"]),
        relation=value["relation"],
        method=value["method"],
        contribution=value["contribution"],
        assumption=value["assumption"],
        view=value["view"],
        observers=tuple(value["observers"]),
        target=value["target"],
        sensitivity_squared=None if squared is None else interval_from_json(squared),
        noise_multiplier=value["noise_multiplier"],
        default_delta=value["delta"],
        participation=value["participation"],
    )


def _run(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Run:
    """A run from its header and arrays."""
    registers, start, average = arrays["registers"], arrays["start"], arrays["average"]
    keys, before = arrays.get("keys"), arrays.get("before")
    rounds, done = int(header["rounds"]), int(header["round"])
    fits = registers.ndim == 3 and start.shape == average.shape == registers.shape[2:] and len(registers) > 0
    if not fits or registers.dtype != np.float64:
        raise InputError("its models and their average do not fit each other")
    if not 0 <= done <= rounds or (keys is None) != (done == rounds):
        raise InputError("its round and its keys do not fit each other")
    if keys is not None and (keys.shape != (registers.shape[1], 2) or keys.dtype != np.uint64):
        raise InputError("its keys are not two 64-bit numbers for each node")
    if (before is None) != (done in {0, rounds}) or (before is not None and before.shape != registers.shape):
        raise InputError("its round and the models before it do not fit each other")
    results = {name: header[name] for name in _RESULTS}
    if results["node_accuracies"] is not None:
        results["node_accuracies"] = tuple(results["node_accuracies"])
    return Run(
        settings=header["settings"],
        rounds=rounds,
        cut=bool(header["cut"]),
        seeded=bool(header["seeded"]),
        zeroed=int(header["zeroed"]),
        state=State(round=done, registers=registers, start=start, average=average),
        history=History(**{name: arrays[f"history_{name}"] for name in History._fields}),
        noise_multiplier=float(header["noise_multiplier"]),
        noise_std=float(header["noise_std"]),
        account=_account(header["account"]),
        unconditional=_account(header["unconditional"]),
        averaging=None if header["averaging"] is None else _account(header["averaging"]),
        keys=keys,
        before=before,
        **results,
    )
