# SPDX-License-Identifier: Apache-2.0
"""No field of a certificate is there for show: whichever is changed, verify refuses it or says something else."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from benchmarks.mutations import hashed, short_horizon
from tests import test_shift_certificates as training

from sottovoce import View, certify, gossip, verify
from sottovoce.certificates import Mechanism, from_text, to_text
from sottovoce.documents import as_json, verification_document
from sottovoce.errors import InputError, SottovoceError
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.protocols import momentum

if TYPE_CHECKING:
    from collections.abc import Iterator

RING = metropolis_weights("ring:n=4")
FLOATS = matrix_weights(RING.matrix.toarray(), labels=list("abcd"))
NOISE = Mechanism(noise_multiplier=2.0, delta=1e-5)


CASES: dict[str, Any] = {
    "gossip": (RING, lambda: certify(gossip(RING, rounds=2), View.secure_sum(0), 1, mechanism=NOISE)),
    "floats": (FLOATS, lambda: certify(gossip(FLOATS, rounds=2), View.neighbourhood("a"), "c")),
    "rows": (
        RING,
        lambda: certify(gossip(RING, rounds=2), View(observation=[[1.0, 0.5, 0, 0]], known_noise=[0]), 2),
    ),
    "momentum": (
        RING,
        lambda: certify(momentum(RING, rounds=2, beta="9/10"), View.secure_sum(0), 1, contribution="energy"),
    ),
    "encoder": (
        RING,
        lambda: certify(
            gossip(RING, rounds=3, encoder=(1, "1/2")),
            View.secure_sum(0),
            1,
            contribution="scalar",
            participation="at-most:2",
        ),
    ),
    "horizon": (RING, lambda: short_horizon(gossip(RING, rounds=5), View.secure_sum(0), 1)),
    # Three rounds are enough for a first one, one in between and a last one; but what slopes of an attack multiply
    # must have reached all nodes, as a slope that meets nothing says nothing.
    **{
        name: (weights, functools.partial(training.certified, weights, **{**options, "rounds": rounds}))
        for name, rounds in {"shift, round by round": 3, "memory-one": 3, "twins": 3, "cap": 9}.items()
        for weights, options in [training.CASES[name]]
    },
}


def leaves(part: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a document holds anything but fields and entries."""
    if isinstance(part, dict | list) and part:
        keys = part if isinstance(part, dict) else range(len(part))
        for key in keys:
            yield from leaves(part[key], (*place, key))
    else:
        yield place


def others(value: Any) -> list[Any]:
    """What a value may be changed to."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1]
        case float():
            return [value + 1000.0, value * 1.01 if value else 0.01, -value - 1.0]
        case str():
            try:
                return [str(Fraction(value) * Fraction(1001, 1000)), str(Fraction(value) + 1)]
            except ValueError:
                return [value + "x"]
        case None:
            return [[1.0], 1.0, "any", {"noise_multiplier": 1.0, "delta": 0.1, "relation": "zero-out"}]
    return [[1]]


def said(text: str, weights: Any) -> str:
    """Everything that verify says of a certificate but the hash of the file, which any change changes."""
    try:
        certificate = from_text(text)
        document = verification_document(
            certificate, verify(certificate, weights, arithmetic="float"), "file"
        )
    except SottovoceError as error:
        return f"{type(error).__name__}: {error}"
    return json.dumps({name: part for name, part in json.loads(as_json(document)).items() if name != "hash"})


@pytest.mark.parametrize("name", CASES)
def test_every_field_that_is_changed_is_noticed(name: str) -> None:
    weights, made = CASES[name]
    document = json.loads(to_text(made()))
    before = said(hashed(document), weights)
    assert json.loads(before)["verdict"] == "verified"
    silent = set()
    for place in leaves({key: part for key, part in document.items() if key != "hash"}):
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        value = holder[place[-1]]
        for other in others(value):
            holder[place[-1]] = other
            if said(hashed(document), weights) != before:
                break
        else:
            silent.add(".".join("#" if isinstance(key, int) else key for key in place))
        holder[place[-1]] = value
    # Before the last round the inequality holds for any difference that the last round will not show.
    assert silent <= ({"proof.end.#.factor.#.#"} if name == "shift, round by round" else set())


@pytest.mark.parametrize(
    ("name", "place", "value", "sentence"),
    [
        ("shift, round by round", ("end", 0, "factor", 0, 0), 0.1, "must be 0 at the pivots of what is seen"),
        (
            "shift, round by round",
            ("end", 0, "multipliers", 0),
            0.1,
            "must be 0 at nodes that are not hidden",
        ),
        ("memory-one", ("bulk", 0, "kappa"), 0.1, "one vector, and no kappa or multipliers"),
        ("memory-one", ("bulk", 0, "multipliers", 2), 0.1, "one vector, and no kappa or multipliers"),
        ("twins", ("bulk", 0, "factor", 0, 0), 0.1, "must be 0 at the pivots of what is seen"),
        ("cap", ("support",), [1], "needs neither support nor steps"),
    ],
)
def test_what_is_not_read_must_be_0(name: str, place: tuple[Any, ...], value: Any, sentence: str) -> None:
    text = training.forged(training.case(name), "proof", *place, value=value)
    for arithmetic in ("float", "balls"):
        with pytest.raises(InputError, match=sentence):
            verify(from_text(text), training.CASES[name][0], arithmetic=arithmetic)


def test_slopes_of_the_first_round_must_be_0() -> None:
    text = training.forged(training.case("cap"), "proof", "attack", "slopes", 0, 0, value=0.5)
    found = verify(from_text(text), training.RING)
    assert found.reason == "the attack is none: its slopes of the first round, which meet nothing, must be 0"


def test_weights_beside_the_hash_are_held_against_it() -> None:
    certificate = certify(gossip(FLOATS, rounds=3), View.secure_sum("a"), "b")
    assert certificate.weights is not None
    values = [0.3, *certificate.weights.values[1:]]
    diagonal = np.array(certificate.weights.diagonal)
    diagonal[0] += certificate.weights.values[0] - 0.3  # type: ignore[operator]
    forged = replace(certificate, weights=replace(certificate.weights, values=values, diagonal=diagonal))
    found = verify(forged, FLOATS)
    assert found.verdict == "refused"
    assert found.reason.startswith("the weights in the file do not have the hash")
