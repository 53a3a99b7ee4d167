# SPDX-License-Identifier: Apache-2.0
"""Training runs: the file that holds a run or its checkpoint, and the JSON form of what came of it.

The file is an .npz with a JSON header and the arrays. An unfinished run holds the keys of the noise generators, so
the file is readable by its owner alone, and it appears whole or not at all.
"""

from __future__ import annotations

import io
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from msgspec import UNSET, UnsetType

from sottovoce.accounting import Account, Relation, SampledAccount
from sottovoce.arrays import read_npz
from sottovoce.documents.accounts import HEAD, SCHEMA, Document, GraphFacts, graph_facts, pairs_possible
from sottovoce.documents.files import check_path, write_bytes
from sottovoce.documents.pairs import Count, EndsForm, Label, finite_or_null, plain_label
from sottovoce.errors import FileError, InputError
from sottovoce.forms import Form, json_text, read_form, strict_json
from sottovoce.protocols import Contribution
from sottovoce.views import Assumption

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from sottovoce.graphs import WeightedGraph
    from sottovoce.interval import Interval
    from sottovoce.learning import Baseline, Run, StepCost, Task
    from sottovoce.protocols import Protocol

__all__ = ["RunDocument", "check_run_path", "read_run", "run_document", "write_run"]

_ACCOUNTS = ("account", "unconditional", "averaging")
_AS_THEY_ARE = (
    "rounds",
    "cut",
    "seeded",
    "zeroed",
    "noise_multiplier",
    "noise_std",
    "accuracy",
    "node_accuracies",
)
_REMEDY = "give what train --output wrote, or begin a new run under another name"
_NOT_PRIVATE = (
    "accuracy",
    "node_accuracy",
    "loss",
    "excess_risk",
    "average_excess_risk",
    "consensus_distance",
    "history",
)


class CoinsForm(Form, frozen=True, kw_only=True):
    """Coins by which a record takes part in each of `rounds` rounds.

    A file holds all that its account follows from: `squared_upper[i]` is Δ² of any `counts[i]` rounds at most. A
    document shows ε at δ: `told` if coins are told, `amplified` if they are secret (null where that is not known),
    `full` as if the record took part in every round.
    """

    rate: float
    rounds: int
    told_method: str
    own_level: float | None
    counts: tuple[int, ...] | UnsetType = UNSET
    squared_upper: tuple[float, ...] | UnsetType = UNSET
    told: float | UnsetType = UNSET
    amplified: float | UnsetType | None = UNSET
    full: float | UnsetType = UNSET


class AccountForm(Form, frozen=True, kw_only=True):
    """All that an account says; `epsilon` is that at its δ, where a document shows it."""

    view: str
    observers: tuple[Label, ...]
    target: Label | None
    sensitivity_squared: EndsForm | None
    method: str
    assumption: Assumption
    relation: Relation
    contribution: Contribution
    participation: str
    noise_multiplier: float | None
    delta: float | None
    mu: EndsForm
    coins: CoinsForm | None = None
    epsilon: EndsForm | UnsetType = UNSET


Risk = float | Literal["inf", "-inf", "nan"] | None
"""What was measured of a run; one that has lost its way may have no number, which JSON cannot hold."""


class RunHeader(Document, frozen=True, kw_only=True, tag="run-file"):
    """What the file of a run says beside its arrays."""

    settings: dict[str, Any]
    rounds: int
    round: int
    cut: bool
    seeded: bool
    randomness: str
    zeroed: int
    noise_multiplier: float
    noise_std: float
    account: AccountForm
    unconditional: AccountForm
    averaging: AccountForm | None
    loss: Risk
    excess_risk: Risk
    average_excess_risk: Risk
    accuracy: float | None
    node_accuracies: tuple[float, float] | None


class DataFacts(Form, frozen=True, kw_only=True):
    """What a run was trained on."""

    name: str
    nodes: int
    features: int
    shard_size: int
    test_records: int
    fingerprint: str


class NodeAccuracy(Form, frozen=True, kw_only=True):
    """The accuracy of the worst node's model, and that of all on average."""

    min: float
    mean: float


class RunUpdates(Form, frozen=True, kw_only=True):
    """What is known of the steps that nodes take."""

    smoothness: float | None
    losses: str | None
    slopes: Any


class ComparedRun(Form, frozen=True, kw_only=True):
    """What a run is compared with, after the same rounds: a trusted server at the same (ε, δ), or no noise at all."""

    name: str
    noise_multiplier: float
    rounds: tuple[int, ...]
    loss: tuple[float | None, ...]
    accuracy: tuple[float | None, ...]
    consensus_distance: tuple[float | None, ...]


class RunDocument(Document, frozen=True, kw_only=True, tag="run"):
    """A finished run; what is null is not defined for its loss or data, and `not_private` names what tells of data.

    `compared` stands where a report was asked for, which draws the curves of other runs beside those of this one.
    `account` is about the worst of the pairs that were computed, all of them bounded by it.
    """

    graph: GraphFacts
    data: DataFacts
    objective: str
    dimension: int
    l2: float
    step: str
    clip: float
    unit: str
    batch_fraction: float
    batches: int
    local_steps: int
    rounds: int
    protocol: str
    program: str
    protocol_hash: str
    stopped_by_budget: bool
    noise_multiplier: float
    noise_std: float
    seeded: bool
    randomness: str
    delta: float
    relation: str
    view: str
    own_noise: str
    accuracy: float | None
    node_accuracy: NodeAccuracy | None
    loss: float | None
    excess_risk: float | None
    average_excess_risk: float | None
    consensus_distance: float
    pairs_computed: Count | UnsetType = UNSET
    pairs_possible: Count | UnsetType = UNSET
    account: AccountForm
    unconditional: AccountForm
    averaging: AccountForm | None
    updates: RunUpdates
    step_cost: dict[str, Any] | None
    history: dict[str, list[float | None]]
    compared: tuple[ComparedRun, ...] | UnsetType = UNSET
    not_private: tuple[str, ...]


def check_run_path(path: str | os.PathLike[str], *, fresh: bool = False, overwrite: bool = False) -> Path:
    """The path, if a run can be put there.

    A `fresh` one takes the place of a finished run if that is said, and of an unfinished one or of another file never.
    """
    file = check_path(path, (".npz",), "a run")
    if not fresh or not file.exists() or not file.stat().st_size:
        return file
    try:
        found = read_run(file)
    except FileError:
        raise FileError(
            f"{file}: a run takes the place of a run alone, and what lies there is none that can be read (choose "
            "another name, or remove it)"
        ) from None
    if not found.finished:
        raise InputError(
            f"{file}: an unfinished run lies there, {found.state.round} of {found.rounds} rounds done "
            "(continue with resume=True, or choose another name)"
        )
    if not overwrite:
        raise InputError(
            f"{file}: a finished run lies there, of {found.rounds} rounds (choose another name, or replace it with "
            "overwrite=True)"
        )
    return file


def write_run(run: Run, path: str | os.PathLike[str]) -> Path:
    """Write a run, finished or not, to a file that its owner alone can read."""
    file = check_run_path(path)
    header = RunHeader(
        **HEAD,
        **{name: getattr(run, name) for name in _AS_THEY_ARE},
        loss=_spelled(run.loss),
        excess_risk=_spelled(run.excess_risk),
        average_excess_risk=_spelled(run.average_excess_risk),
        **{name: _account_form(getattr(run, name)) for name in _ACCOUNTS},
        settings=dict(run.settings),
        randomness=run.randomness,
        round=run.state.round,
    )
    arrays: dict[str, Any] = {
        "header": np.array(json_text(header)),
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
        arrays = read_npz(file, str(file), _REMEDY)
        header = strict_json(str(arrays["header"]), "the header")
        if not isinstance(header, dict) or (header.get("kind"), header.get("schema")) != ("run-file", SCHEMA):
            raise FileError(f"{file}: a run of schema {SCHEMA} was expected (give what train --output wrote)")
        return _run(read_form(header, RunHeader, "the header"), arrays)
    except FileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        reason = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else error
        raise FileError(f"{file}: not a run: {reason} ({_REMEDY})") from None


def run_document(
    run: Run,
    task: Task,
    protocol: Protocol,
    network: WeightedGraph,
    cost: StepCost | None = None,
    compared: Sequence[Baseline] = (),
) -> RunDocument:
    """The document of a finished run.

    Its program is that of its pairs, but for maps of training: the loop that quadratic losses close is another than was
    asked for, and so are steps that vary and fewer rounds.
    """
    accuracies, settings = run.node_accuracies, run.settings
    ran = replace(protocol, rounds=run.rounds)
    if run.table is not None and not run.table.protocol.plain:
        ran = replace(run.table.protocol, updates=None)
    return RunDocument(
        **HEAD,
        graph=graph_facts(network, protocol.weights),
        data=DataFacts(
            name=task.name,
            nodes=task.nodes,
            features=int(task.shards.features.shape[2]),
            shard_size=task.shards.nominal,
            test_records=0 if task.test is None else task.test.records,
            fingerprint=task.shards.fingerprint,
        ),
        objective=task.loss.name,
        dimension=task.dimension,
        **{
            name: settings[name]
            for name in ("l2", "step", "clip", "unit", "batch_fraction", "batches", "local_steps")
        },
        **{name: settings[name] for name in ("relation", "view", "own_noise")},
        protocol=protocol.name,
        program=ran.sentence,
        protocol_hash=protocol.hash,
        rounds=run.rounds,
        stopped_by_budget=run.cut,
        noise_multiplier=run.noise_multiplier,
        noise_std=run.noise_std,
        seeded=run.seeded,
        randomness=run.randomness,
        delta=settings["target_delta"],
        accuracy=run.accuracy,
        node_accuracy=None if accuracies is None else NodeAccuracy(min=accuracies[0], mean=accuracies[1]),
        loss=finite_or_null(run.loss),
        excess_risk=finite_or_null(run.excess_risk),
        average_excess_risk=finite_or_null(run.average_excess_risk),
        consensus_distance=run.consensus_distance,
        account=_account_form(run.account, run.epsilon),
        pairs_computed=UNSET if run.table is None else len(run.table),
        pairs_possible=UNSET if run.table is None else pairs_possible(run.table),
        unconditional=_account_form(run.unconditional, run.unconditional_epsilon),
        averaging=None if run.averaging is None else _account_form(run.averaging, run.averaging.epsilon()),
        updates=RunUpdates(**{name: settings[name] for name in RunUpdates.__struct_fields__}),
        step_cost=None if cost is None else asdict(cost),
        history={
            **{name: [finite_or_null(x) for x in column] for name, column in run.history._asdict().items()},
            "rounds": run.history.rounds.tolist(),
        },
        compared=tuple(_compared(task, each) for each in compared) or UNSET,
        not_private=_NOT_PRIVATE,
    )


def _compared(task: Task, baseline: Baseline) -> ComparedRun:
    """A run to compare with, measured as the run itself; a server has one model, and no distance."""
    with np.errstate(over="ignore", invalid="ignore"):
        losses = [task.risk(model) for model in baseline.models]
    return ComparedRun(
        name=baseline.name,
        noise_multiplier=baseline.noise_multiplier,
        rounds=baseline.rounds,
        loss=tuple(map(finite_or_null, losses)),
        accuracy=tuple(finite_or_null(task.accuracy(model)) for model in baseline.models),
        consensus_distance=tuple(
            None if baseline.name == "central" else finite_or_null(each) for each in baseline.distances
        ),
    )


@overload
def _account_form(account: Account, epsilon: Interval | None = None) -> AccountForm: ...
@overload
def _account_form(account: None) -> None: ...
def _account_form(account: Account | None, epsilon: Interval | None = None) -> AccountForm | None:
    """All that an account says, with its ε where a document shows it."""
    if account is None:
        return None
    squared = account.sensitivity_squared
    return AccountForm(
        view=account.view,
        observers=tuple(map(plain_label, account.observers)),
        target=None if account.target is None else plain_label(account.target),
        sensitivity_squared=None if squared is None else EndsForm.of(squared),
        method=account.method,
        assumption=account.assumption,
        relation=account.relation,
        contribution=account.contribution,
        participation=account.participation,
        noise_multiplier=account.noise_multiplier,
        delta=account.default_delta,
        mu=EndsForm.of(account.mu),
        coins=_coins_form(account, shown=epsilon is not None),
        epsilon=UNSET if epsilon is None else EndsForm.of(epsilon),
    )


def _coins_form(account: Account, *, shown: bool) -> CoinsForm | None:
    """The coins of an account: what is shown of them, or what they follow from."""
    coins = account.coins
    if coins is None:
        return None
    bounds = coins.bounds()
    return CoinsForm(
        **{name: getattr(coins, name) for name in ("rate", "rounds", "told_method", "own_level")},
        **(
            {
                "told": bounds["told"],
                "amplified": bounds.get("amplified"),
                "full": account.always.epsilon().upper,
            }
            if shown
            else {"counts": coins.counts, "squared_upper": coins.squared_upper}
        ),
    )


def _coins(form: AccountForm) -> SampledAccount | None:
    """The coins of an account from a file."""
    coins = form.coins
    if coins is None:
        return None
    if not (coins.counts and coins.squared_upper and form.noise_multiplier and form.delta):
        raise InputError("its coins lack the rounds that they are about")
    return SampledAccount(
        rounds=coins.rounds,
        rate=coins.rate,
        relation=form.relation,
        view=form.view,
        noise_multiplier=form.noise_multiplier,
        default_delta=form.delta,
        counts=coins.counts,
        squared_upper=coins.squared_upper,
        told_assumption=form.assumption,
        told_method=coins.told_method,
        own_level=coins.own_level,
    )


def _account(form: AccountForm) -> Account:
    """The account of a form."""
    squared = form.sensitivity_squared
    return Account(
        mu=form.mu.interval,
        relation=form.relation,
        method=form.method,
        contribution=form.contribution,
        assumption=form.assumption,
        view=form.view,
        observers=form.observers,
        target=form.target,
        sensitivity_squared=None if squared is None else squared.interval,
        noise_multiplier=form.noise_multiplier,
        default_delta=form.delta,
        participation=form.participation,
        coins=_coins(form),
    )


def _spelled(risk: float | None) -> Risk:
    """What was measured, as a header holds it."""
    return risk if risk is None or math.isfinite(risk) else str(float(risk))  # type: ignore[return-value]


def _measured(risk: Risk) -> float | None:
    """What was measured, from a header."""
    return None if risk is None else float(risk)


def _run(header: RunHeader, arrays: Mapping[str, np.ndarray]) -> Run:
    """A run from its header and arrays."""
    # An account, whose documents stand beside this one, needs no trainer.
    from sottovoce.learning import History, Run, State, check_parts

    state = State(header.round, *(arrays[name] for name in ("registers", "start", "average")))
    keys, before = arrays.get("keys"), arrays.get("before")
    history = History(**{name: arrays[f"history_{name}"] for name in History._fields})
    check_parts(state, header.rounds, before, keys, history)
    return Run(
        **{name: getattr(header, name) for name in _AS_THEY_ARE},
        loss=_measured(header.loss),
        excess_risk=_measured(header.excess_risk),
        average_excess_risk=_measured(header.average_excess_risk),
        settings=header.settings,
        state=state,
        history=history,
        account=_account(header.account),
        unconditional=_account(header.unconditional),
        averaging=None if header.averaging is None else _account(header.averaging),
        keys=keys,
        before=before,
    )
