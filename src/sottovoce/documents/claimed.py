# SPDX-License-Identifier: Apache-2.0
"""Whether what a report answers is what its pairs and certificates say: nothing else proves it."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from sottovoce.documents.pairs import EndsForm
from sottovoce.documents.proofs import certificate_document
from sottovoce.errors import InputError, SottovoceError
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.verification import own_price, price_of, stored_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sottovoce.accounting import Account
    from sottovoce.certificates import Certificate
    from sottovoce.documents.pages import PageDocument
    from sottovoce.documents.proofs import CertificateDocument
    from sottovoce.documents.runs import RunDocument

__all__ = ["check_certified", "check_run"]

MEASURED = "accuracies, losses and distances, which were measured without noise: nothing here proves them"
EARLIER = "ε of the view before the last round, which does not follow from what is proved of all rounds"
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


def check_run(
    run: RunDocument, page: PageDocument, certificates: Sequence[Certificate]
) -> tuple[list[str], bool]:
    """What of a run's report is on trust, and whether all its bounds follow from its pairs and their certificates.

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
        "number of pairs": (
            (run.pairs_computed, run.pairs_possible),
            (page.pairs_computed, page.pairs_possible),
        ),
        "nodes": ((run.graph.nodes, run.graph.edges), (page.graph.nodes, page.graph.edges)),
    }
    for name, (mine, theirs) in stated.items():
        if mine != theirs:
            raise InputError(f"the {name} of its run must be that of its pairs, {theirs!r}; got {mine!r}")
    _check_program(run, page)
    _check_history(run)
    if said.sensitivity_squared is not None:
        _no_less("Δ² of its view", said.sensitivity_squared.interval.upper, max(map(_end, page.pairs.upper)))
    _no_less(
        "μ of its view", _end(said.mu.upper), _page_account(page, max(map(_end, page.pairs.upper))).mu.upper
    )
    _no_less("ε of its view", _upper(said.epsilon), _end(page.epsilon_upper))
    _no_less("ε of its view after all rounds", _end(run.history["epsilon"][-1]), _end(page.epsilon_upper))
    trusted = [MEASURED, SETTING]
    if run.averaging is not None:
        trusted.append("the number of averaging, which is no guarantee for training")
    price = _own_price(page, certificates)
    known = _check_unassumed(run, page, price)
    drawn = _earlier_holds(run, page, certificates, price if known else math.inf)
    open_ = [said for said, holds in ((UNASSUMED, known), (EARLIER, drawn)) if not holds]
    return [*trusted, *open_], not open_


def _is_local(run: RunDocument) -> bool:
    """Whether a view is given no less than local DP, which rests on nothing and is looked at by itself.

    Other pairs may rest on an assumption then, and the worst on none.
    """
    return run.account.assumption == "none" and _upper(run.account.epsilon) >= _upper(
        run.unconditional.epsilon
    )


def _check_program(run: RunDocument, page: PageDocument) -> None:
    """Refuse a run whose words on what nodes do are not those of its pairs, which may go on with the updates."""
    # Losses that are quadratic damp the loop of the pairs, and not what nodes do.
    damped = page.damping is not UNSET and page.gossips and _PLAIN_GOSSIP.fullmatch(run.program)
    if not damped and page.program != run.program and not page.program.startswith(f"{run.program}; "):
        raise InputError(
            f"the program of its run must be that of its pairs, {page.program!r}; got {run.program!r}"
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


def _own_price(page: PageDocument, certificates: Sequence[Certificate]) -> float:
    """What a contribution costs at most whoever sees whatever; infinite where that is not known.

    In gossip with noise of level 1 each contribution is a Gaussian mechanism of sensitivity 1. Of other programs it is
    what the certificate says of the noise of a node's own.
    """
    # Programs that take turns, and levels and encoders of noise, stand in the sentence too: they are not counted here.
    if _PLAIN_GOSSIP.fullmatch(page.program):
        return 1.0
    try:
        return own_price(certificates[0], stored_weights(certificates[0])) if certificates else math.inf
    except SottovoceError:
        return math.inf


def _least(page: PageDocument, squared: float) -> float:
    """ε that a Gaussian mechanism of this Δ² has at least, with the noise of a page."""
    return _page_account(page, squared).epsilon().lower


def _page_account(page: PageDocument, squared: float) -> Account:
    """The account of one Δ² with the noise of a page."""
    from sottovoce.accounting import Account

    relation: Any = page.relation
    return Account.of(
        Interval(squared, squared),
        method="local DP",
        relation=relation,
        noise_multiplier=page.noise_multiplier,
        delta=page.delta,
    )


def _local(page: PageDocument, price: float, rounds: int) -> float:
    """Δ² of local DP after so many rounds."""
    count = Participation.parse(page.participation).largest_count(rounds)
    return price if page.contribution == "energy" else price * count


def _check_unassumed(run: RunDocument, page: PageDocument, price: float) -> bool:
    """Whether local DP of a run is no less than its own noise gives; of gossip, where that is all, less is refused."""
    local = run.unconditional
    if math.isinf(price) or (local.assumption, local.view) != ("none", "everyone"):
        return False
    squared = math.inf if local.sensitivity_squared is None else local.sensitivity_squared.interval.upper

    def told(price: float) -> Iterator[tuple[str, float, float]]:
        """Each number, and the least that it may be at such a price of a contribution."""
        for rounds, epsilon in zip(run.history["rounds"], run.history["unconditional"], strict=True):
            least = _least(page, _local(page, price, int(rounds or 0)))
            yield f"ε of local DP after {rounds:g} rounds", _end(epsilon), least
        whole = _local(page, price, run.rounds)
        yield "ε of local DP", _upper(local.epsilon), _least(page, whole)
        yield "Δ² of local DP", squared, whole

    if run.protocol == "gossip":
        for name, number, least in told(price):
            _no_less(name, number, least)
    # What was computed for all messages together may be less than the cap, and nothing here proves it then.
    return all(number >= least for _, number, least in told(price))


def _earlier_holds(
    run: RunDocument, page: PageDocument, certificates: Sequence[Certificate], price: float
) -> bool:
    """Whether the line of ε is nowhere below what follows for fewer rounds: from the prices of rounds, or of all.

    Every pair without a certificate of its own is proved by a bound that costs the same in each round, so that its Δ²
    of fewer rounds is in proportion to how often a record takes part.
    """
    taken, worst = Participation.parse(page.participation), max(map(_end, page.pairs.upper))
    whole = taken.largest_count(run.rounds)
    trained = [each for each in certificates if each.updates is not None]
    for rounds, epsilon in zip(run.history["rounds"], run.history["epsilon"], strict=True):
        first = int(rounds or 0)
        prices = [price_of(each, first, taken) for each in trained] or [math.inf]
        line = max(worst * taken.largest_count(first) / whole, *prices)
        squared = min(line, _local(page, price, first), worst)
        if _end(epsilon) < _least(page, squared):
            return False
    return True


_PLAIN_GOSSIP = re.compile(
    r"message = model \+ contribution \+ u; exchange message → model; \d+ rounds?(, \d+ weight matrices in turn)?"
    r"(; each node also contributes the step of its model by a map (of any kind|with slopes in [^;]*))?"
)
_COLUMNS = ("rounds", "accuracy", "loss", "consensus_distance", "epsilon", "unconditional")


def _end(value: float | None) -> float:
    return math.inf if value is None else value


def _upper(epsilon: object) -> float:
    return epsilon.interval.upper if isinstance(epsilon, EndsForm) else 0.0 if epsilon is UNSET else math.inf


def _no_less(name: str, shown: float, least: float) -> None:
    if shown < least:
        raise InputError(f"{name} must be at least {least!r}, as its pairs say; got {shown!r}")
