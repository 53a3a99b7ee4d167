# SPDX-License-Identifier: Apache-2.0
"""Whether what a report answers is what its pairs and certificates say: nothing else proves it."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from sottovoce.documents.pairs import Ends
from sottovoce.documents.proofs import certificate_document
from sottovoce.errors import InputError
from sottovoce.interval import Interval
from sottovoce.participation import Participation

if TYPE_CHECKING:
    from sottovoce.certificates import Certificate
    from sottovoce.documents.pages import PageDocument
    from sottovoce.documents.proofs import CertificateDocument
    from sottovoce.documents.runs import RunDocument

__all__ = ["check_certified", "check_run"]

MEASURED = "accuracies, losses and distances, which were measured without noise: nothing here proves them"
EARLIER = "ε of the view before the last round: what is proved is that of all rounds"
SETTING = (
    "what was trained on what: data, loss and steps, whether records or nodes are protected, clipping and shard size, "
    "the hash of the protocol without its updates, and whether a seed made the noise"
)
UNASSUMED = "the number without any assumption: there is no rule to check it by for this program"


def check_certified(document: CertificateDocument, certificate: Certificate) -> None:
    """Refuse a report that does not say what its certificate claims."""
    claim = certificate_document(certificate, document.certificate, origin=document.graph.origin)
    if replace(claim, version=document.version) != document:
        raise InputError("what it says must be what its certificate claims; got something else")


def check_run(run: RunDocument, page: PageDocument) -> tuple[list[str], bool]:
    """What of a run's report is on trust, and whether all its bounds over all rounds follow from its pairs.

    Refused is a run that is not that of the pairs, or whose ε is below theirs.
    """
    said = run.account
    stated = {
        "rounds": (run.rounds, page.rounds),
        "view": ((run.view, said.view), (page.view, page.view)),
        "own noise": (run.own_noise, page.own_noise),
        "relation": (run.relation, page.relation),
        "participation": (said.participation, page.participation),
        "contribution": (said.contribution, page.contribution),
        "assumption": (page.assumption if _is_local(run) else said.assumption, page.assumption),
        "δ": (run.delta, page.delta),
        "noise multiplier": (run.noise_multiplier, page.noise_multiplier),
        "graph": (run.graph.hash, page.graph.hash),
        "nodes": ((run.graph.nodes, run.graph.edges), (page.graph.nodes, page.graph.edges)),
    }
    for name, (mine, theirs) in stated.items():
        if mine != theirs:
            raise InputError(f"the {name} of its run must be that of its pairs, {theirs!r}; got {mine!r}")
    _check_program(run, page)
    _check_history(run)
    if said.sensitivity_squared is not None:
        _no_less("Δ² of its view", said.sensitivity_squared.interval.upper, max(map(_end, page.pairs.upper)))
    _no_less("ε of its view", _upper(said.epsilon), _end(page.epsilon_upper))
    _no_less("ε of its view after all rounds", _end(run.history["epsilon"][-1]), _end(page.epsilon_upper))
    trusted = [MEASURED, EARLIER, SETTING]
    if run.averaging is not None:
        trusted.append("the number of averaging, which is no guarantee for training")
    known = _check_unassumed(run, page)
    return (trusted if known else [*trusted, UNASSUMED]), known


def _is_local(run: RunDocument) -> bool:
    """Whether a view is given no less than local DP, which rests on nothing and is looked at by itself.

    Other pairs may rest on an assumption then, and the worst on none.
    """
    return run.account.assumption == "none" and _upper(run.account.epsilon) >= _upper(
        run.unconditional.epsilon
    )


def _check_program(run: RunDocument, page: PageDocument) -> None:
    """Refuse a run whose words on what nodes do are not those of its pairs, which may go on with the updates."""
    program = page.program if isinstance(page.program, str) else "gossip"
    if program == "gossip" and _GOSSIP.fullmatch(run.program):
        return
    if program != run.program and not program.startswith(f"{run.program}; "):
        raise InputError(
            f"the program of its run must be that of its pairs, {program!r}; got {run.program!r}"
        )


def _check_history(run: RunDocument) -> None:
    """Refuse columns that are missing or of other lengths, and rounds that do not grow up to the last one."""
    history = run.history
    lengths = {name: len(history.get(name, ())) for name in _COLUMNS}
    rounds = [each or 0.0 for each in history.get("rounds", ())]
    grows = all(before < after for before, after in pairwise([0.0, *rounds]))
    whole = all(each == int(each) for each in rounds)
    if not rounds or len(set(lengths.values())) > 1 or not (grows and whole) or rounds[-1] != run.rounds:
        raise InputError(
            f"the history of its run must have columns {', '.join(_COLUMNS)} of one length, for whole rounds that grow "
            f"up to {run.rounds}; got lengths {list(lengths.values())} and rounds {rounds[:3]} to {rounds[-1:]}"
        )


def _check_unassumed(run: RunDocument, page: PageDocument) -> bool:
    """Whether local DP of a run can be checked; refused if it is less than the rounds in which a record takes part.

    In gossip with noise of level 1 each such round is a Gaussian mechanism of sensitivity 1, whatever else is known.
    """
    from sottovoce.accounting import Account

    program = page.program if isinstance(page.program, str) else ""
    # Programs that take turns, and levels and encoders of noise, stand in the sentence too: they are not counted here.
    if run.protocol != "gossip" or not _GOSSIP.fullmatch(program):
        return False
    taken = Participation.parse(page.participation)
    relation: Any = page.relation

    def squared(rounds: int) -> float:
        return 1.0 if page.contribution == "energy" else float(taken.largest_count(rounds))

    def least(rounds: int) -> float:
        found = Account.of(
            Interval(squared(rounds), squared(rounds)),
            method="local DP",
            relation=relation,
            noise_multiplier=page.noise_multiplier,
            delta=page.delta,
        )
        return found.epsilon().lower

    shown = run.history["unconditional"]
    for rounds, epsilon in zip(run.history["rounds"], shown, strict=True):
        _no_less(f"ε of local DP after {rounds:g} rounds", _end(epsilon), least(int(rounds or 0)))
    local = run.unconditional
    _no_less("ε of local DP", _upper(local.epsilon), least(run.rounds))
    if local.sensitivity_squared is not None:
        _no_less("Δ² of local DP", local.sensitivity_squared.interval.upper, squared(run.rounds))
    return (local.assumption, local.view) == ("none", "everyone")


_GOSSIP = re.compile(
    r"message = model \+ contribution \+ u; exchange message → model; \d+ rounds?(, \d+ weight matrices in turn)?"
    r"(; each node then updates its model by a map (of any kind|with slopes in [^;]*))?"
)
_COLUMNS = ("rounds", "accuracy", "loss", "consensus_distance", "epsilon", "unconditional")


def _end(value: float | None) -> float:
    return math.inf if value is None else value


def _upper(epsilon: object) -> float:
    return epsilon.interval.upper if isinstance(epsilon, Ends) else 0.0 if epsilon is UNSET else math.inf


def _no_less(name: str, shown: float, least: float) -> None:
    if shown < least:
        raise InputError(f"{name} must be at least {least!r}, as its pairs say; got {shown!r}")
