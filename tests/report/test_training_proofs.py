# SPDX-License-Identifier: Apache-2.0
"""Reports carry their proofs: the worst pair's and, of training, those of pairs that no simple bound covers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from msgspec import UNSET

from sottovoce import View, certify, gossip, graphs
from sottovoce.accounting import account, account_all, carried_proofs
from sottovoce.documents import PageDocument, as_json, occasion, page_document
from sottovoce.documents.carried import Carried, read_report
from sottovoce.forms import read_form, strict_json
from sottovoce.graphs import WeightedGraph, as_graph
from sottovoce.participation import Participation
from sottovoce.protocols import Slopes, repeated, scheduled
from sottovoce.report import proof_section, sheet_html
from sottovoce.report.html import report_html
from sottovoce.verification import AccountVerification, verify, verify_account
from sottovoce.verification.asked import training_question
from sottovoce.verification.meaning import question
from sottovoce.verification.training import simple_bound

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.graphs import GossipWeights


def carried(folder: Path, source: str, view: str, **options: Any) -> tuple[GossipWeights, Carried]:
    """What a report of training carries, written to a file and read back."""
    graph = as_graph(source)
    weights = graphs.metropolis_weights(graph)
    protocol = gossip(weights, rounds=4, **options)
    table = account_all(protocol, view, noise_multiplier=4.0, delta=1e-5)
    found = carried_proofs([table])
    account = page_document(found[0].table, WeightedGraph(graph=graph, weights=weights))
    file = folder / f"{graph.n}-{view}.html"
    file.write_text(
        report_html(
            title="training",
            account=account,
            sections=[proof_section(found)],
            proofs=[each.texts for each in found],
        ),
        encoding="utf-8",
    )
    (held,) = read_report(file).views
    return weights, held


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> tuple[GossipWeights, Carried]:
    """Slopes in [0.5, 1]: neighbours are the worst pairs, and need the inequality."""
    return carried(tmp_path_factory.mktemp("ring"), "ring:n=4", "secure-sum", updates=(0.5, 1))


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> tuple[GossipWeights, Carried]:
    """Maps of any kind, noise of level 2: all pairs are alike, and each needs a proof by twins."""
    folder = tmp_path_factory.mktemp("complete")
    return carried(folder, "complete:n=3", "secure-sum", updates="any", noise_levels=2)


def checked(held: tuple[GossipWeights, Carried], **changes: Any) -> AccountVerification:
    weights, one = held
    return verify_account(replace(one.stated, **changes), one.certificate, weights, further=one.further)


def test_all_pairs_of_training_are_proved(ring: Any, complete: Any) -> None:
    for held, assumption in ((ring, "smooth"), (complete, "none")):
        found = checked(held)
        assert (found.verdict, found.reason) == ("verified", "")
        assert found.proved_pairs == found.held_pairs
        assert held[1].stated.assumption == assumption
    assert len(complete[1].further) == 5
    assert all(each.weights is None for each in complete[1].further)


def test_without_further_certificates_other_pairs_are_the_reports_word(complete: Any) -> None:
    weights, one = complete
    found = verify_account(one.stated, one.certificate, weights)
    assert (found.verdict, found.proved_pairs) == ("consistent", 1)
    assert "the report's word" in found.reason.replace("\n", " ")


def test_a_page_that_shows_less_is_refused(ring: Any) -> None:
    squared = ring[1].stated.squared_upper
    found = checked(ring, squared_upper=squared * 0.999)
    assert (found.verdict, found.checks[-1].name) == ("refused", "headline")
    assert checked(ring, protocol_hash="0" * 64).reason.startswith("the protocol of the page has the hash")
    assert checked(ring, assumption="none").verdict == "refused"


def test_zero_out_asks_of_every_node_that_its_ball_holds_the_identity(tmp_path: Path) -> None:
    """The worst pair's target may send on what it received; node 2 may not, and its pairs need the slopes."""
    slopes = Slopes(lower=np.full(4, 0.5), upper=np.array([1.0, 1.0, 0.9, 1.0]))
    weights, one = carried(tmp_path, "ring:n=4", "secure-sum", updates=slopes)
    assert checked((weights, one)).verdict == "verified"
    assert one.certificate is not None
    assert one.certificate.mechanism is not None
    zeroed = replace(one.certificate, mechanism=replace(one.certificate.mechanism, relation="zero-out"))
    stated = replace(one.stated, relation="zero-out")
    assert verify(zeroed, weights, arithmetic="float").verified
    found = verify_account(stated, zeroed, weights, further=one.further)
    assert found.verdict == "refused"
    assert found.reason.startswith("zero-out needs slopes that hold 1 at every node")
    assert verify_account(replace(stated, assumption="none"), zeroed, weights).checks[-1].name != "relation"


def test_a_certificate_of_another_ball_does_not_serve(ring: Any) -> None:
    """Narrower slopes make every number smaller: the hash of the protocol is that of the page."""
    weights, one = ring
    narrow = Slopes.of((0.9, 1), 4)
    found = verify_account(one.stated, replace(one.certificate, updates=narrow), weights)
    assert (found.verdict, found.checks[-1].name) == ("refused", "pairs")
    assert "that of its certificate" in found.reason


def test_further_certificates_speak_for_their_own_pair_and_run(complete: Any) -> None:
    weights, one = complete
    first = one.further[0]
    strangers = (
        replace(first, rounds=1, squared_lower=0.0),
        replace(first, updates=Slopes.of((0.5, 1), 3)),
        replace(first, participation="at-most:1"),
    )
    # All that is taken from a further certificate is its pair and its proof, and these hold for the run of the page.
    for stranger in strangers:
        found = verify_account(one.stated, one.certificate, weights, further=[stranger, stranger])
        assert found.proved_pairs == 2
    elsewhere = replace(first, view=replace(first.view, own_noise="hidden"))
    assert verify_account(one.stated, one.certificate, weights, further=[elsewhere]).proved_pairs == 1
    useless = replace(
        first,
        proof=replace(first.proof, recurring=(), support=np.zeros(0, dtype=np.int64), method="cap"),
        squared_upper=4.0,
    )
    assert verify_account(one.stated, one.certificate, weights, further=[useless]).proved_pairs == 1


def test_a_page_that_needs_no_slopes_must_not_use_them(complete: Any) -> None:
    """With a ball at hand one round of memory proves pairs; under the assumption `none` it must not."""
    weights, one = complete
    ball = replace(one.certificate, updates=Slopes.of((0, 0.1), 3))
    asked = training_question(ball, question(ball, weights), Participation.full())
    assert simple_bound(asked) < simple_bound(replace(asked, slopes=None))
    assert simple_bound(replace(asked, slopes=None)) == pytest.approx(1.0, rel=1e-12)
    assert np.isclose(float(one.stated.squared), 0.5, rtol=1e-9)


def test_other_pairs_of_a_schedule_are_held_against_all_of_its_weights(tmp_path: Path) -> None:
    """A page that shows its second worst pair as the worst: the first matrix alone would bear it out."""
    full, path = (graphs.metropolis_weights(name) for name in ("complete:n=4", "path:n=4"))
    protocol = scheduled([full, path], rounds=4)
    table = account_all(protocol, "secure-sum", noise_multiplier=4.0, delta=1e-5)
    found = carried_proofs([table])
    account = page_document(found[0].table, WeightedGraph(graph=as_graph("complete:n=4"), weights=full))
    file = tmp_path / "schedule.html"
    file.write_text(
        report_html(
            title="schedule",
            account=account,
            sections=[proof_section(found)],
            proofs=[each.texts for each in found],
        ),
        encoding="utf-8",
    )
    (one,) = read_report(file).views
    honest = verify_account(one.stated, one.certificate)
    assert (honest.verdict, honest.proved_pairs) == ("consistent", 12)
    assert one.stated.squared > 2.5
    assert one.certificate is not None
    second = replace(certify(protocol, View.secure_sum(1), 0), mechanism=one.certificate.mechanism)
    lowered = np.minimum(one.stated.squared_upper, second.squared_upper)
    lowered[[one.stated.pair(k) for k in range(12)].index(((1,), 0))] = second.squared_upper
    forged = verify_account(replace(one.stated, squared_upper=lowered), second)
    assert (forged.verdict, forged.checks[-1].name) == ("refused", "worst")
    assert "Δ² of 0 about 1 is at least 2.53" in forged.reason


def test_a_report_of_some_exchanges_says_so_and_is_held_to_it(tmp_path: Path) -> None:
    """Two exchanges a round, of which the view sees the first: the data say so, and without it nothing is proved."""
    protocol = repeated(graphs.metropolis_weights("ring:n=5"), rounds=2, steps=2)
    network = WeightedGraph(graph=as_graph("ring:n=5"), weights=protocol.schedule[0])
    table = account(protocol, View.secure_sum(0, exchanges=[1]), noise_multiplier=4.0, delta=1e-5)
    found = carried_proofs([table])
    said = occasion("sottovoce account", [], None)
    page = page_document(found[0].table, network, occasion=said)
    told = page_document(
        account(protocol, View.secure_sum(0), noise_multiplier=4.0, delta=1e-5),
        network,
    )
    assert (page.exchanges, told.exchanges) == ((1,), UNSET)
    assert read_form(strict_json(as_json(page), "it"), PageDocument, "it").exchanges == (1,)
    assert ", exchanges [1] of a round alone: what" in sheet_html(page)

    def read(document: PageDocument) -> Any:
        file = tmp_path / "part.html"
        texts = [each.texts for each in found]
        file.write_text(
            report_html(title="part", account=document, sections=[], proofs=texts), encoding="utf-8"
        )
        (one,) = read_report(file).views
        return verify_account(one.stated, one.certificate, protocol.schedule[0])

    honest = read(page)
    assert honest.verdict in {"verified", "consistent"}
    # The numbers of the narrower view under the name of the whole one.
    forged = read(msgspec.structs.replace(page, exchanges=UNSET))
    assert forged.verdict == "refused"
    assert forged.reason == "the list of exchanges of the page is all, that of its certificate (1,)"
    assert read(msgspec.structs.replace(page, exchanges=(2,))).verdict == "refused"


def test_the_epsilon_of_a_page_is_held_to_the_last_digits(ring: tuple[GossipWeights, Carried]) -> None:
    weights, held = ring
    honest = verify_account(held.stated, held.certificate, weights, further=held.further)
    assert honest.verdict == "verified"
    less = replace(held.stated, epsilon_upper=held.stated.epsilon_upper * (1 - 1e-10))
    found = verify_account(less, held.certificate, weights, further=held.further)
    assert found.verdict == "refused"
    assert "from its Δ² follows ε" in found.reason
