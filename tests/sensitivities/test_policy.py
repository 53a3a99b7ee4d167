# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.sparse import csgraph
from tests.dense import dense_response
from tests.pairings import each_pair
from tests.reference import CASES, custom_view, definition, graph_of, named_view
from tests.scenes import ENGINES, EVERY_ENGINE

from sottovoce.errors import GraphError, InputError, ViewError
from sottovoce.filtering import hidden_system, whitened_response
from sottovoce.graphs import GossipWeights, matrix_weights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import Sensitivities, absolute_bound, sensitivity, spectral_bound
from sottovoce.sensitivities.rounding import widened
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from sottovoce.protocols import Protocol

FAMILIES = {
    "erdos-renyi": "erdos-renyi:n=20,p=0.3,seed=1",
    "preferential": "preferential:n=20,core=3,links=2,seed=1",
    "torus": "torus:rows=4,cols=5",
    "ring": "ring:n=16",
    "star": "star:n=12",
    "complete": "complete:n=10",
    "small-world": "small-world:n=20,k=4,p=0.2,seed=1",
    "karate": "karate",
}


def view_of(name: str, observer: Any, ally: Any) -> View:
    return {
        "everyone": View.everyone,
        "secure-sum": View.secure_sum(observer),
        "single-node hidden": View.single_node(observer, own_noise="hidden"),
        "single-node known": View.single_node(observer),
        "neighbourhood": View.neighbourhood(observer),
        "coalition-sums": View.coalition_sums([observer, ally]),
        "coalition-messages": View.coalition_messages([observer, ally]),
    }[name]


VIEW_KINDS = (
    "everyone",
    "secure-sum",
    "single-node hidden",
    "single-node known",
    "neighbourhood",
    "coalition-sums",
    "coalition-messages",
)


def cast(weights: GossipWeights) -> tuple[int, int, int]:
    """A neighbour of node 0, a node as far from it as any, and a third one to be its ally."""
    hops = csgraph.shortest_path(weights.matrix, unweighted=True, indices=0)
    near, far = int(weights.neighbours(0)[0]), int(np.argmax(hops))
    if near == far:
        far = int(weights.neighbours(0)[-1])
    ally = next(k for k in range(1, weights.n) if k not in {near, far})
    return near, far, ally


def true_values(found: Sensitivities) -> list[float]:
    """What the witness of each target moves the view by, by running it through the dense response."""
    system = hidden_system(found.protocol, observe(found.protocol, found.view), complete=False)
    response, positions = dense_response(system), np.searchsorted(system.unknown, found.indices)
    return [
        float(np.linalg.norm(response.respond(int(position), result.witness)) ** 2)
        for position, result in zip(positions, found, strict=True)
    ]


def weights_of_case(case: dict[str, Any]) -> GossipWeights:
    weights = metropolis_weights(graph_of(case))
    assert np.allclose(weights.matrix.toarray(), case["W"], rtol=0, atol=1e-15)
    return weights


EVERY_THREAT = pytest.mark.parametrize("threat", sorted({case["threat"] for case in CASES}))


@cache
def stored(threat: str) -> list[tuple[str, dict[str, Any], Protocol]]:
    """The stored cases of a kind of view: what they are called, and their protocols."""
    return [
        (f"{k}-{case['graph']}", case, gossip(weights_of_case(case), rounds=case["T"]))
        for k, case in enumerate(CASES)
        if case["threat"] == threat
    ]


@EVERY_THREAT
def test_stored_cases_through_every_engine(threat: str) -> None:
    for name, case, protocol in stored(threat):
        system = hidden_system(protocol, observe(protocol, named_view(case)))
        position = np.searchsorted(system.unknown, [case["target"]])
        for engine in ENGINES:
            (forms,) = whitened_response(system, engine=engine).forms(position)
            form = forms.matrices[0]
            assert absolute_bound(form) == pytest.approx(case["abs_sum"], rel=1e-9), (name, engine)
            assert spectral_bound(form) == pytest.approx(case["spectral"], rel=1e-9), (name, engine)


@EVERY_THREAT
def test_stored_cases_lie_inside_their_intervals(threat: str) -> None:
    """Their forms are those of every engine, as above; signs and vectors take turns in who makes them here."""
    for turn, (name, case, protocol) in enumerate(stored(threat)):
        for place, (contribution, low, high) in enumerate(
            (
                ("scalar", case["sens_sq_scalar"], case["sens_sq_scalar"]),
                ("vector", case["sens_sq_vector_lower"], case["sens_sq_vector_upper"]),
            )
        ):
            engine = ENGINES[(turn + place) % len(ENGINES)]
            found = sensitivity(
                protocol,
                named_view(case),
                [case["target"]],
                engine=engine,
                contribution=contribution,  # type: ignore[arg-type]
            )
            # The stored numbers are floats themselves, good to about 1e-12.
            assert found.squared_lower[0] <= high * (1 + 1e-10), (name, engine, contribution)
            assert low <= found.squared_upper[0] * (1 + 1e-10), (name, engine, contribution)
            assert found.squared_upper[0] <= high * (1 + 1e-3), (name, engine, contribution)


@EVERY_THREAT
def test_named_views_say_what_their_rows_say(threat: str) -> None:
    for name, case, protocol in stored(threat):
        view = named_view(case)
        seen = observe(protocol, view)
        rows = np.sort(seen.rows.toarray(), axis=0)
        assert np.allclose(rows, np.sort(np.array(case["observation"]), axis=0), atol=1e-15), name
        assert seen.known.tolist() == sorted(case["known_noise"]), name
        # Thirds written as floats are other numbers: where these rows are dependent and those are not, the written
        # view shows more. It never shows less.
        named = sensitivity(protocol, view, [case["target"]], contribution="scalar")
        written = sensitivity(protocol, custom_view(case), [case["target"]], contribution="scalar")
        assert written.squared_upper[0] >= named.squared_lower[0] * (1 - 1e-12), name
        if threat not in {"coalition-sums", "secure-sum"}:
            assert written.squared_upper[0] == pytest.approx(named.squared_upper[0], rel=1e-9), name


@pytest.mark.parametrize(("family", "kind", "rounds"), each_pair(FAMILIES, VIEW_KINDS, [24, 80]))
def test_intervals_are_narrow_and_their_witnesses_are_real(family: str, kind: str, rounds: int) -> None:
    weights = metropolis_weights(FAMILIES[family])
    near, far, ally = cast(weights)
    found = sensitivity(gossip(weights, rounds=rounds), view_of(kind, 0, ally), [near, far])
    assert (found.squared_lower > 0).all()
    assert (found.squared_upper <= found.squared_lower * (1 + 1e-3)).all()
    assert (found.squared_upper <= rounds).all()
    if rounds == 24:
        for result in found:
            stream = result.witness.reshape(rounds, -1)
            assert np.linalg.norm(stream, axis=1).max() <= 1 + 1e-12
        assert true_values(found) == pytest.approx(found.squared_lower, rel=1e-6)


@pytest.mark.parametrize(("family", "kind"), [("ring", "single-node hidden"), ("star", "secure-sum")])
def test_a_thousand_rounds(family: str, kind: str) -> None:
    weights = metropolis_weights(FAMILIES[family])
    near, far, ally = cast(weights)
    found = sensitivity(gossip(weights, rounds=1000), view_of(kind, 0, ally), [near, far])
    assert (found.squared_upper <= found.squared_lower * (1 + 1e-3)).all()


@pytest.mark.parametrize("kind", VIEW_KINDS)
def test_scalar_witnesses_are_signs_that_attain_the_lower_end(kind: str) -> None:
    weights = metropolis_weights("ring:n=9")
    found = sensitivity(gossip(weights, rounds=30), view_of(kind, 0, 4), [1, 2], contribution="scalar")
    for result in found:
        assert np.isin(result.witness, (-1.0, 1.0)).all()
        assert result.contribution == "scalar"
    assert true_values(found) == pytest.approx(found.squared_lower, rel=1e-6)


def test_a_target_is_solved_again_only_for_its_witness_and_once() -> None:
    found = sensitivity(gossip(metropolis_weights("ring:n=9"), rounds=30), View.secure_sum(0), [1, 2, 4])
    solved: list[int] = []

    def counting(place: int) -> np.ndarray:
        solved.append(place)
        return found.witness_of(place)

    counted = replace(found, witness_of=counting)
    assert [each.squared.upper for each in counted] == found.squared_upper.tolist()
    assert "witness" not in repr(counted[2])
    assert solved == []
    one = counted[2]
    assert one.witness is one.witness
    assert one.witness.shape[0] == 30
    assert solved == [1]


def test_a_witness_of_an_over_informed_view_is_real() -> None:
    weights = metropolis_weights("path:n=5")
    view = View(observation=[[0, 0, 1, 0, 0]], known_noise=[0])
    found = sensitivity(gossip(weights, rounds=12), view, [3])
    stream = found[3].witness.reshape(12, -1)
    attained = np.einsum("st,sd,td->", definition(weights, view, 3, 12).floats, stream, stream)
    assert attained == pytest.approx(found.squared_lower[0], rel=1e-6)
    assert found.squared_lower[0] < found.squared_upper[0] < 1.001 * found.squared_lower[0]


@pytest.mark.parametrize("seed", range(12))
def test_noise_that_is_known_beside_inflow_that_is_not_costs_nothing_beyond_the_view(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = np.triu(rng.integers(0, 4, (6, 6)), 1)
    shares[np.arange(5), np.arange(1, 6)] += 1
    weights = matrix_weights(shares + shares.T + np.eye(6), normalise=True)
    rows = rng.integers(0, 3, 6) + np.eye(6)[2]
    view, protocol = View(observation=rows[np.newaxis], known_noise=[0, 1]), gossip(weights, rounds=7)
    assert hidden_system(protocol, observe(protocol, view)).over_informed
    found = sensitivity(protocol, view, contribution="scalar")
    for j, lower, upper in zip(found.indices, found.squared_lower, found.squared_upper, strict=True):
        exact = definition(weights, view, int(j), 7).scalar_maximum()
        assert lower <= exact <= upper <= (1 + 1e-9) * float(exact) + 1e-12
    # A Krylov space is given the inflow, and stands above.
    given = sensitivity(protocol, view, contribution="scalar", engine="reduced")
    assert (given.squared_upper >= found.squared_lower).all()


def test_all_targets_but_the_known_ones_come_in_index_order() -> None:
    weights = matrix_weights(np.full((4, 4), 0.25), labels=["d", "c", "b", "a"])
    found = sensitivity(gossip(weights, rounds=3), View.coalition_sums(["b"]))
    assert found.targets.tolist() == ["d", "c", "a"]
    assert found.indices.tolist() == [0, 1, 3]
    assert len(found) == 3
    assert [result.target for result in found] == ["d", "c", "a"]
    assert found["a"].squared.upper == found.squared_upper[2]
    with pytest.raises(InputError, match="node 'b' is not among the targets"):
        found["b"]


def test_everyone_sees_each_contribution_beside_its_own_noise_alone() -> None:
    found = sensitivity(gossip(metropolis_weights("star:n=5"), rounds=9), View.everyone)
    assert found.squared_lower.tolist() == [9.0] * 5
    assert found.squared_upper.tolist() == [9.0] * 5
    assert set(found.method) == {"exact"}
    custom = sensitivity(
        gossip(metropolis_weights("star:n=5"), rounds=9), View(observation=np.eye(5)), contribution="scalar"
    )
    assert np.allclose(custom.squared_upper, 9.0, rtol=1e-7)
    assert (custom.squared_upper <= 9.0).all()


@EVERY_ENGINE
@pytest.mark.parametrize("rounds", [1, 2])
def test_one_and_two_rounds(engine: Any, rounds: int) -> None:
    weights = metropolis_weights("complete:n=4")
    own = sensitivity(gossip(weights, rounds=rounds), View.single_node(0), [1], engine=engine)
    total = sensitivity(gossip(weights, rounds=rounds), View.secure_sum(0), [1], engine=engine)
    # The sum of round 1 hides one of three fresh noises; the own message of round 1 carries nothing of node 1.
    assert own.squared_upper[0] == pytest.approx(0.0 if rounds == 1 else 1 / 3, abs=1e-12)
    if rounds == 1:
        assert total.squared_upper[0] == pytest.approx(1 / 3, rel=1e-12)


def test_methods_name_the_bound() -> None:
    ring = gossip(metropolis_weights("ring:n=16"), rounds=30)
    assert sensitivity(ring, View.secure_sum(0), [1]).method.tolist() == ["dual"]
    short = gossip(metropolis_weights("ring:n=16"), rounds=6)
    assert sensitivity(short, View.secure_sum(0), [1], contribution="scalar").method.tolist() == [
        "enumeration"
    ]
    assert sensitivity(short, View.secure_sum(0), [8]).method.tolist() == ["unreached"]
    complete = gossip(metropolis_weights("complete:n=5"), rounds=30)
    assert sensitivity(complete, View.single_node(0, own_noise="hidden"), [1]).method.tolist() == ["abs"]


def test_a_tighter_tolerance_brings_the_ends_together() -> None:
    ring = gossip(metropolis_weights("ring:n=16"), rounds=40)
    for tolerance in (1e-2, 1e-4):
        found = sensitivity(ring, View.secure_sum(0), [1], tolerance=tolerance)
        assert found[1].squared.gap <= tolerance * 1.01


def test_progress_counts_to_the_end() -> None:
    calls: list[tuple[int, int]] = []
    sensitivity(
        gossip(metropolis_weights("ring:n=12"), rounds=4),
        View.secure_sum(0),
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls[-1][0] == calls[-1][1] == 8
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"targets": [99]}, GraphError, "no node is called 99; the nodes are called 0 to 4"),
        ({"targets": [0]}, InputError, r"node 0 cannot be a target of View\(secure-sum of 0"),
        ({"targets": []}, InputError, "targets must name at least one node; got none"),
        (
            {"contribution": "matrix"},
            InputError,
            "contribution must be one of vector, scalar, energy; got 'matrix'",
        ),
        ({"engine": "quick"}, InputError, "engine must be one of auto, filter, reduced; got 'quick'"),
        ({"tolerance": 0.0}, InputError, "tolerance must be a finite number above 0; got 0.0"),
        ({"tolerance": 1.5}, InputError, "tolerance must be at most 1; got 1.5"),
        ({"tolerance": float("nan")}, InputError, "tolerance must be a finite number above 0; got nan"),
        ({"participation": "sometimes"}, InputError, "participation must be spelled like one of"),
        ({"view": "secure-sum"}, ViewError, "a view must be a View"),
        ({"view": View.secure_sum(7)}, GraphError, "no node is called 7"),
        ({"view": View(observation=[[1, 2]])}, ViewError, "one column for each of the 5 nodes"),
        ({"view": View(observation=[[np.nan] * 5])}, ViewError, "must hold finite numbers"),
        ({"view": View.coalition_sums(range(5))}, ViewError, "knows the noise of every node"),
    ],
)
def test_errors_name_value_rule_and_remedy(
    arguments: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    protocol = gossip(metropolis_weights("ring:n=5"), rounds=4)
    with pytest.raises(kind, match=sentence):
        sensitivity(protocol, **{"view": View.secure_sum(0), **arguments})


def test_widening_moves_both_ends_outward() -> None:
    attained, bound = np.array([2.0]), np.array([3.0])
    low, high = widened(attained, bound, distortion=1e-3, missing=1e-2, rounds=16)
    assert low[0] == pytest.approx(0.99 * ((np.sqrt(2) - 4e-3) / 1.001) ** 2)
    assert high[0] == pytest.approx(((np.sqrt(3) + 4e-3) / 0.999) ** 2)
    same = widened(attained, bound, distortion=0.0, missing=0.0, rounds=16)
    assert np.allclose(same, [[2.0], [3.0]], rtol=1e-14)


def test_a_distortion_that_says_nothing_leaves_only_the_cap() -> None:
    low, high = widened(np.array([2.0]), np.array([3.0]), distortion=0.6, missing=0.0, rounds=16)
    assert low[0] == 0.0
    assert high[0] == np.inf


def test_a_lower_end_never_falls_below_0() -> None:
    low, _ = widened(np.array([-1e-18, 1e-30]), np.zeros(2), distortion=1e-10, missing=0.0, rounds=100)
    assert low.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("engine", ["auto", "filter", "reduced"])
def test_a_view_that_shows_nothing_learns_nothing(engine: Any) -> None:
    protocol = gossip(metropolis_weights("ring:n=5"), rounds=4)
    for view in (View(observation=np.zeros((1, 5))), View.coalition_messages(range(5), own_noise="hidden")):
        found = sensitivity(protocol, view, engine=engine)
        assert found.squared_upper.tolist() == [0.0] * 5
        assert set(found.method) == {"unreached"}


def test_rounds_from_which_nothing_arrives_in_time_do_not_count() -> None:
    protocol = gossip(metropolis_weights("ring:n=5"), rounds=3)
    assert sensitivity(protocol, View.secure_sum(0), [2], participation="fixed:3").squared_upper[0] == 0
    assert sensitivity(protocol, View.secure_sum(0), [2], participation="fixed:2").squared_lower[0] > 0


def test_words_are_checked_whatever_the_view() -> None:
    protocol = gossip(metropolis_weights("ring:n=5"), rounds=2)
    with pytest.raises(InputError, match="engine must be one of auto, filter, reduced; got 'bogus'"):
        sensitivity(protocol, View.everyone, engine="bogus")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="participation must be a Participation or its spelling, such as"):
        sensitivity(protocol, View.secure_sum(0), participation=5)  # type: ignore[arg-type]


def test_only_the_distance_says_that_nothing_arrives() -> None:
    chain = matrix_weights(np.array([[1 - 1e-200, 1e-200, 0], [0, 1 - 1e-200, 1e-200], [0.5, 0, 0.5]]))
    damped = gossip(chain, rounds=6, damping=[1, 1e-200, 1])
    found = sensitivity(damped, View.secure_sum(0), [2])
    assert found.squared_upper[0] > 0
    assert found.method[0] != "unreached"
    cut = sensitivity(gossip(chain, rounds=6, damping=[1, 0, 1]), View.secure_sum(0), [2])
    assert cut.squared_upper[0] == 0
    assert cut.method[0] == "unreached"
