# SPDX-License-Identifier: Apache-2.0
"""Whether what a report answers is what its pairs and certificates say: nothing else proves it."""

from __future__ import annotations

import math
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
        "assumption": (said.assumption, page.assumption),
        "δ": (run.delta, page.delta),
        "noise multiplier": (run.noise_multiplier, page.noise_multiplier),
        "graph": (run.graph.hash, page.graph.hash),
        "nodes": ((run.graph.nodes, run.graph.edges), (page.graph.nodes, page.graph.edges)),
    }
    for name, (mine, theirs) in stated.items():
        if mine != theirs:
            raise InputError(f"the {name} of its run must be that of its pairs, {theirs!r}; got {mine!r}")
    _no_less("ε of its view", _upper(said.epsilon), _end(page.epsilon_upper))
    _no_less("ε of its view after all rounds", _end(run.history["epsilon"][-1]), _end(page.epsilon_upper))
    trusted = [MEASURED, EARLIER]
    if run.averaging is not None:
        trusted.append("the number of averaging, which is no guarantee for training")
    known = _check_unassumed(run, page)
    return (trusted if known else [*trusted, UNASSUMED]), known


def _check_unassumed(run: RunDocument, page: PageDocument) -> bool:
    """Whether local DP of a run can be checked; refused if it is less than the rounds in which a record takes part.

    In gossip with noise of level 1 each such round is a Gaussian mechanism of sensitivity 1, whatever else is known.
    """
    from sottovoce.accounting import Account

    program = page.program if isinstance(page.program, str) else ""
    if run.protocol != "gossip" or not program.startswith(_GOSSIP) or " of level " in program:
        return False
    taken = Participation.parse(page.participation)
    relation: Any = page.relation

    def least(rounds: int) -> float:
        squared = 1.0 if page.contribution == "energy" else float(taken.largest_count(rounds))
        found = Account.of(
            Interval(squared, squared),
            method="local DP",
            relation=relation,
            noise_multiplier=page.noise_multiplier,
            delta=page.delta,
        )
        return found.epsilon().lower

    shown = run.history["unconditional"]
    for rounds, epsilon in zip(run.history["rounds"], shown, strict=True):
        _no_less(f"ε of local DP after {rounds:g} rounds", _end(epsilon), least(int(rounds or 0)))
    _no_less("ε of local DP", _upper(run.unconditional.epsilon), least(run.rounds))
    return run.unconditional.assumption == "none"


_GOSSIP = "message = model + contribution + u; exchange message → model"


def _end(value: float | None) -> float:
    return math.inf if value is None else value


def _upper(epsilon: object) -> float:
    return epsilon.interval.upper if isinstance(epsilon, Ends) else 0.0 if epsilon is UNSET else math.inf


def _no_less(name: str, shown: float, least: float) -> None:
    if shown < least:
        raise InputError(f"{name} must be at least {least!r}, as its pairs say; got {shown!r}")
