# SPDX-License-Identifier: Apache-2.0
"""What the verifier rebuilds of a program is what the definition says, in rationals."""

from __future__ import annotations

import functools
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interpreter import exact_view, knowing, largest_over_signs
from tests.laws.test_program_laws import NAMES, _protocol, _view, of_each_view, programs
from tests.profiles import examples
from tests.scenes import VIEWS

from sottovoce import certify, verify
from sottovoce.certificates import DenseProof
from sottovoce.errors import NotCertified
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import Protocol, gossip

if TYPE_CHECKING:
    from sottovoce import View
    from sottovoce.certificates import Certificate

GRAPHS = {name: metropolis_weights(name) for name in ("path:n=3", "star:n=4", "ring:n=4", "complete:n=3")}


@functools.cache
def carrier(graph: str, view: View) -> Certificate:
    """A certificate of one round of something else on the same nodes, in the same view."""
    weights = GRAPHS[graph]
    return certify(gossip(weights, rounds=1), view, min(set(range(weights.n)) - knowing(view)))


@examples(120)
@given(st.data())
def test_what_is_proved_of_any_program_holds_the_exact_value(data: Any) -> None:
    graph = data.draw(st.sampled_from(list(GRAPHS)))
    weights = GRAPHS[graph]
    first = data.draw(programs())
    several = data.draw(st.booleans())
    others = (data.draw(programs().filter(lambda each: each.keeps == first.keeps)),) if several else ()
    encoder = (1,) if others else data.draw(st.sampled_from([(1,), ("1/2",), (1, "1/2", "3/8"), (2, -1)]))
    protocol = Protocol(
        weights=weights, program=(first, *others), rounds=data.draw(st.integers(1, 4)), encoder=encoder
    )
    view = data.draw(st.sampled_from([view for view in VIEWS if view.exchanges is None]))
    targets = sorted(set(range(protocol.n)) - knowing(view))
    if not ({int(str(label)) for label in view.observers} <= set(range(protocol.n)) and targets):
        return
    target = data.draw(st.sampled_from(targets))
    # Its hints are as wrong as they may be.
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    signs = rng.choice([-1.0, 1.0], protocol.rounds)
    claim = replace(
        carrier(graph, view),
        target=target,
        rounds=protocol.rounds,
        program=protocol.program,
        encoder=protocol.encoder,
        proof=DenseProof(y=rng.uniform(0, 3, protocol.rounds), witness=signs),
        squared_lower=0.0,
        squared_upper=1e6,
        contribution="scalar",
    )
    try:
        found = verify(claim, protocol)
    except NotCertified:
        return
    M = exact_view(protocol, view, target).form()
    if M is None:
        assert "Δ is infinite" in found.reason
        return
    assert np.isfinite(found.squared.upper)
    assert largest_over_signs(M) <= Fraction(found.squared.upper)
    c = [Fraction(x) for x in signs.tolist()]
    value = sum(c[s] * c[t] * M[s][t] for s in range(len(c)) for t in range(len(c)))
    assert Fraction(found.squared.lower) <= value
    assert found.squared.lower >= float(value) * (1 - 1e-6) - 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_golden_values_of_programs_are_certified(name: str) -> None:
    for case in of_each_view(name, 0):
        protocol, view = _protocol(case), _view(case)
        if case["infinite"]:
            with pytest.raises(NotCertified, match="Δ is infinite"):
                certify(protocol, view, case["target"])
            continue
        certificate = certify(protocol, view, case["target"])
        assert verify(certificate, protocol).verified, view
        least, most = case["vector"]
        assert certificate.squared_lower <= most * (1 + 1e-12) + 1e-9, view
        assert least * (1 - 1e-12) - 1e-9 <= certificate.squared_upper <= most * (1 + 1e-3) + 1e-9, view
