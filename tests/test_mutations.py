"""Certificates whose fields were changed: what is still verified is true. `benchmarks/mutations.py` tries many more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import mutations

from sottovoce.certificates import from_text, to_text
from sottovoce.errors import InputError, NotCertified
from sottovoce.interval import Interval
from sottovoce.verification import Verification, verify

if TYPE_CHECKING:
    import pytest


def test_what_is_verified_of_a_few_hundred_mutants_is_true() -> None:
    tally = mutations.run(seed=3, count=400)
    assert tally.failures == []
    assert tally.ends["verified, true"] >= 10
    assert tally.ends["refused"] >= 40
    assert tally.ends["not read"] >= 100


def test_the_honest_ones_are_verified_and_hold_the_truth() -> None:
    kinds = set()
    for graph, certificate in mutations.honest():
        assert mutations.outcome(graph, to_text(certificate)) == ("verified, true", "")
        kinds.add((certificate.view.name, certificate.proof.kind, certificate.assumption))
    assert {kind for _, kind, _ in kinds} == {"dense", "horizon", "shift"}
    assert len(kinds) >= 14


def test_a_verifier_that_believes_everything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(certificate: Any, weights: Any, *, arithmetic: Any) -> Verification:
        found = verify(certificate, weights, arithmetic=arithmetic)
        believed = Interval(certificate.squared_lower, certificate.squared_upper)
        return Verification(**{**vars(found), "verdict": "verified", "squared": believed})

    monkeypatch.setattr(mutations, "verify", believe)
    tally = mutations.run(seed=3, count=200)
    assert tally.ends["false"] >= 5
    assert len(tally.failures) == tally.ends["false"]


def test_without_the_graph_no_mutant_is_verified() -> None:
    for _, _, text in mutations.mutants(seed=4, count=60):
        try:
            found = verify(from_text(text))
        except (InputError, NotCertified):
            continue
        assert found.verdict in {"consistent", "refused"}
