# SPDX-License-Identifier: Apache-2.0
"""The certificates that go with a table of accounts: of its worst pair, and of those that need one of their own.

A table of training shows many pairs whose bounds are of several kinds. One certificate proves the worst; another pair
needs its own only where a simple bound, which a reader can check without a search, does not put it below the worst.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.accounting.room import reached
from sottovoce.certificates import Mechanism, MovesProof, ShiftProof, to_text
from sottovoce.errors import SottovoceError
from sottovoce.sensitivities import QUICK, certify
from sottovoce.verification import (
    MOST_FURTHER,
    AlikePairs,
    question,
    simple_bound,
    training_question,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.accounting.table import AccountTable
    from sottovoce.certificates import Certificate

__all__ = ["CarriedProof", "carried_proofs"]

# Speed alone: pairs that are looked at one by one for a proof of their own.
MOST_LOOKED_AT = 2000
# Speed alone: how close a proof is tried to come that has not come down to what is shown.
CLOSER = 1e-5


@dataclass(frozen=True, kw_only=True, eq=False)
class CarriedProof:
    """Certificates that prove what a table shows of its worst pair, or why there are none.

    Of training the worst pair comes first, then those whose smaller bound needs a proof of its own. `table` is what a
    report shows beside them: the table, with the most that a certificate claims as the bound of the worst pair, where
    that is more than the account says.
    """

    table: AccountTable
    certificates: tuple[Certificate, ...] = ()
    missing: str = ""

    @property
    def view(self) -> str:
        """What the view is called."""
        return self.table.view

    @property
    def texts(self) -> str | list[str] | None:
        """As a page carries them: one text, a list for training, None where there is none.

        Guarantee: each text reads back as the certificate that `verify` has accepted.
        """
        written = [to_text(certificate) for certificate in self.certificates]
        if not written:
            return None
        return written[0] if self.certificates[0].updates is None else written


def carried_proofs(
    tables: Sequence[AccountTable], *, progress: Callable[[int, int], None] | None = None
) -> list[CarriedProof]:
    """What proves the worst pair of each table.

    Args:
        tables: tables of accounts, one a view.
        progress: called with (tables done, tables in all).

    Guarantee: `verify` has accepted every certificate, and what is shown of the worst pair is at least what its
    certificate claims; one that does not come close to the number of a table is left out, and `missing` says so.
    """
    proofs = []
    for count, table in enumerate(tables, start=1):
        try:
            proofs.append(_certified(table))
        except SottovoceError as error:
            proofs.append(CarriedProof(table=table, missing=str(error)))
        if progress is not None:
            progress(count, len(tables))
    return proofs


def _certified(table: AccountTable) -> CarriedProof:
    """The certificate of the worst pair of a table, and further ones; refused where it does not reach what is shown."""
    if table.contribution == "energy":
        raise SottovoceError(
            "the certificates of reports are checked for contributions of bounded norm alone (sottovoce certify writes "
            "one of a pair whose energy is bounded)"
        )
    place = int(np.argmax(table.squared_upper))
    said = float(table.squared_upper.max())
    certificate = _of_pair(table, place, said)
    claimed = certificate.squared_upper
    if not reached(claimed, said, table.protocol.rounds):
        raise SottovoceError(
            f"what can be certified is Δ² ≤ {claimed:.6g}, and the Δ² ≤ {said:.6g} that is shown rests on a search "
            "that no certificate holds"
        )
    certificates = [certificate]
    if certificate.updates is not None:
        certificates += _further(table, certificate, place, max(claimed, said))
    # Pairs that are alike may be certified a little above the first.
    claims = [
        one.squared_upper for one in certificates if reached(one.squared_upper, said, table.protocol.rounds)
    ]
    upper = table.squared_upper.copy()
    upper[place] = max(said, *claims)
    return CarriedProof(table=replace(table, squared_upper=upper), certificates=tuple(certificates))


def _of_pair(table: AccountTable, place: int, shown: float) -> Certificate:
    """The certificate of one pair of a table that comes down to what is shown of the worst, if there is one.

    Of training a step that recurs is tried first: it is what tables of many rounds are made of, and costs the same in
    every round, so that fewer rounds follow from it.
    """
    mechanism = Mechanism(
        noise_multiplier=float(table.noise_multiplier), delta=float(table.delta), relation=table.relation
    )
    asked, rounds = table.question(place), table.protocol.rounds
    if table.protocol.updates is not None and table.protocol.gossips:
        found = certify(asked, mechanism=mechanism, tolerance=QUICK)
        if reached(found.squared_upper, shown, rounds):
            return found
    found = certify(asked, mechanism=mechanism)
    if table.protocol.updates is None and not reached(found.squared_upper, shown, rounds):
        # A table's search may have ended elsewhere within its tolerance.
        found = certify(asked, mechanism=mechanism, tolerance=CLOSER)
    return found


def _further(table: AccountTable, first: Certificate, worst: int, shown: float) -> list[Certificate]:
    """Certificates of the pairs of training that no simple bound proves to stay below the worst, the largest first.

    Guarantee: every pair of the table that is not named has `simple_bound` at most what is shown, unless there are
    more pairs than are looked at or more certificates than a page carries.
    """
    found: list[Certificate] = []
    if len(table) > MOST_LOOKED_AT:
        return found
    weights = table.protocol.schedule[0]
    if not isinstance(first.proof, ShiftProof):
        return _unlike(table, first, worst)
    for place in np.argsort(-table.squared_upper, kind="stable").tolist():
        if place == worst or len(found) == MOST_FURTHER:
            continue
        stated = replace(first.view, observers=table.view_of(int(table.observer_of[place])).observers)
        label = table.protocol.labels[int(table.target_indices[place])]
        claim: Any = replace(first, view=stated, target=label)
        asked = training_question(claim, question(claim, weights), table.participation)
        if simple_bound(asked) > shown:
            # The weights stand in the first certificate.
            found.append(replace(_of_pair(table, place, shown), weights=None))
    return found


def _unlike(table: AccountTable, first: Certificate, worst: int) -> list[Certificate]:
    """Certificates of training with memory, one for all pairs that are alike; hearing every message bounds the rest.

    Guarantee: a pair whose bound rests on hidden states is certified, or carried by a relabelling from one that is,
    as long as there are not more than a page carries.
    """
    if not isinstance(first.proof, MovesProof):
        return []
    alike = AlikePairs(first, table.protocol.schedule[0])
    found: list[Certificate] = []
    certified = [_pair(table, worst)]
    for place in np.argsort(-table.squared_upper, kind="stable").tolist():
        pair = _pair(table, place)
        hidden = str(table.method[place]) == "shift"
        if (
            hidden
            and len(found) < MOST_FURTHER
            and pair not in certified
            and not alike.holds(pair, certified)
        ):
            found.append(replace(_of_pair(table, place, np.inf), weights=None))
            certified.append(pair)
    return found


def _pair(table: AccountTable, place: int) -> tuple[tuple[int, ...], int]:
    """The observers of a pair, ascending, and its target, by their indices."""
    index = table.protocol.index
    observers = table.view_of(int(table.observer_of[place])).observers
    return tuple(sorted(map(index, observers))), int(table.target_indices[place])
