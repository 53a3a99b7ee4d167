"""One round at a time: the recurrence, the accountant's matrix by unit impulses, and what is emitted."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.dense import dense_response

from sottovoce import View, gossip, graphs
from sottovoce.errors import InputError
from sottovoce.filtering import hidden_system
from sottovoce.learning import (
    Descent,
    NodeNoise,
    SilentNoise,
    Task,
    fresh_keys,
    gradient_sensitivity,
    init,
    load_data,
    quadratic,
    shards_of,
    step,
    synthetic_task,
    task_from,
)
from sottovoce.views import observe

GRAPH = "path:n=4"


class Impulses:
    """Noise of coordinate (node, round) is 1 there and 0 elsewhere: one run shows the answer to every unit impulse."""

    def __init__(self, nodes: int, rounds: int) -> None:
        self.nodes, self.rounds = nodes, rounds

    def between(self, *rest: Any) -> np.ndarray:
        raise AssertionError(rest)

    def covering(self, number: int, content: Any, scale: float, width: int) -> np.ndarray:  # noqa: ARG002
        drawn = np.zeros((self.nodes, self.nodes, self.rounds))
        drawn[np.arange(self.nodes), np.arange(self.nodes), number] = 1
        return drawn.reshape(self.nodes, -1)

    def uniform(self, round_index: int, count: int) -> np.ndarray:  # noqa: ARG002 - the form of a noise source
        return np.zeros((self.nodes, count))


def empty_task(nodes: int, dimension: int, curvature: float = 1e-30) -> Task:
    """Records that are zeros, so that the data adds nothing to any gradient."""
    shards = shards_of([np.zeros((2, dimension))] * nodes, [np.zeros(2)] * nodes, nominal=2)
    return Task(name="zeros", loss=quadratic(dimension, curvature), shards=shards)


def emitted(descent: Descent) -> np.ndarray:
    """The messages of all rounds, shape (T, n, d)."""
    state, sent = init(descent), []
    for _ in range(descent.protocol.rounds):
        state, info = step(descent, state)
        sent.append(info.messages[0])
    return np.array(sent)


@pytest.mark.parametrize("weights", ["metropolis", "lazy", "uniform"])
def test_unit_impulses_through_the_trainer_give_the_accountants_matrix(weights: str) -> None:
    """H_T of the trainer, and that of the hidden system, column by column."""
    rounds = 6
    protocol = gossip(graphs.weights_by_rule(GRAPH, weights), rounds=rounds)
    n = protocol.n
    descent = Descent(
        task=empty_task(n, n * rounds),
        protocol=protocol,
        steps=np.full(rounds, 0.25),
        noise=Impulses(n, rounds),
        noise_std=4.0,
    )
    trained = -emitted(descent).reshape(rounds, n, n, rounds)
    view = View(observation=np.eye(n)[[2, 0]], known_noise=[])
    system = hidden_system(protocol, observe(protocol, view))
    accountant = dense_response(system)
    assert system.unknown.tolist() == list(range(n))
    seen = np.einsum("mk,tkjs->tmjs", system.rows, trained)
    for t in range(rounds):
        for s in range(rounds):
            expected = accountant.powers[t - s] if t >= s else np.zeros((2, n))
            assert np.allclose(seen[t, :, :, s], expected, atol=1e-14)
    # The covariance of the view is the Gram matrix of the trainer's own responses.
    flat = seen.reshape(2 * rounds, -1)
    assert np.allclose(accountant.root @ accountant.root.T, flat @ flat.T, atol=1e-12)


def test_the_public_part_of_the_gradient_damps_what_was_received() -> None:
    rounds, size, pull = 4, 0.5, 0.8
    protocol = gossip(graphs.metropolis_weights(GRAPH), rounds=rounds)
    descent = Descent(
        task=empty_task(4, 4 * rounds, pull),
        protocol=protocol,
        steps=np.full(rounds, size),
        noise=Impulses(4, rounds),
        noise_std=1 / size,
    )
    trained = -emitted(descent).reshape(rounds, 4, 4, rounds)
    A = (1 - size * pull) * protocol.weights.matrix.toarray()
    for t in range(rounds):
        for s in range(t + 1):
            assert np.allclose(trained[t, :, :, s], np.linalg.matrix_power(A, t - s))


def test_a_round_is_what_a_plain_loop_over_nodes_does() -> None:
    task = task_from(load_data("diabetes"), 5, l2=0.2, nominal=60)
    protocol = gossip(graphs.metropolis_weights("ring:n=5"), rounds=3)
    noise = NodeNoise(fresh_keys(5, 1), task.dimension)
    descent = Descent(
        task=task, protocol=protocol, steps=np.array([0.5, 0.4, 0.3]), noise=noise, noise_std=0.1, clip=0.4
    )
    state = init(descent)
    models = np.zeros((5, task.dimension))
    W = protocol.weights.matrix.toarray()
    for t in range(3):
        sent = np.empty_like(models)
        for i in range(5):
            total = np.zeros(task.dimension)
            for r in np.flatnonzero(task.shards.present[i]):
                x, y = task.shards.features[i, r], task.shards.labels[i, r]
                gradient = x * (x @ models[i] - y)
                total += gradient * min(1, 0.4 / np.linalg.norm(gradient))
            noisy = total / 60 + 0.1 * noise.gaussian(t)[i]
            sent[i] = models[i] - descent.steps[t] * (noisy + 0.2 * models[i])
        models = np.array([sum(W[i, j] * sent[j] for j in range(5)) for i in range(5)])
        state, info = step(descent, state)
        assert np.allclose(info.messages[0], sent, rtol=1e-7)
        assert np.allclose(state.models, models, rtol=1e-7)
        mean = models.mean(axis=0)
        assert info.consensus_distance == pytest.approx(
            np.sqrt(np.mean([np.sum((model - mean) ** 2) for model in models]))
        )


def test_what_is_emitted_is_the_gaussian_noise_that_was_planned() -> None:
    """s_t less all that is known of it is noise of deviation η·σ, independent over nodes, rounds and coordinates."""
    n, d, rounds, size, deviation = 6, 40, 60, 0.2, 3.0
    protocol = gossip(graphs.metropolis_weights("ring:n=6"), rounds=rounds)
    descent = Descent(
        task=empty_task(n, d, 0.5),
        protocol=protocol,
        steps=np.full(rounds, size),
        noise=NodeNoise(fresh_keys(n, 4), d),
        noise_std=deviation,
    )
    sent = emitted(descent)
    W = protocol.weights.matrix.toarray()
    received = np.concatenate([np.zeros((1, n, d)), np.einsum("ij,tjd->tid", W, sent[:-1])])
    fresh = (sent - (1 - 0.5 * size) * received) / (size * deviation)
    assert stats.kstest(fresh.ravel(), "norm").pvalue > 1e-4
    assert 1e-4 < stats.chi2(fresh.size).cdf((fresh**2).sum()) < 1 - 1e-4
    for streams in (fresh.transpose(1, 0, 2), fresh.transpose(0, 1, 2)[:10], fresh.transpose(2, 0, 1)[:10]):
        table = np.asarray(np.corrcoef(streams.reshape(len(streams), -1)))
        pairs = table[np.triu_indices(len(streams), 1)]
        bound = stats.norm.isf(1e-4 / 2 / len(pairs)) / np.sqrt(streams[0].size)
        assert np.abs(pairs).max() < bound


@pytest.mark.parametrize("unit", ["record", "node"])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_one_record_moves_a_message_by_no_more_than_the_sensitivity(unit: Any, fraction: float) -> None:
    """From one state, with the same coins and noise: what the message of a node can differ by."""
    data = load_data("breast-cancer")
    whole = task_from(data, 4, nominal=50)
    protocol = gossip(graphs.metropolis_weights(GRAPH), rounds=2)
    models = np.random.default_rng(0).standard_normal((4, whole.dimension))
    moved = []
    for dropped in range(0, int(whole.shards.counts[1]), 7):
        present = whole.shards.present.copy()
        if unit == "record":
            present[1, dropped] = False
        sent = []
        for mask in (whole.shards.present, present):
            shards = whole.shards.__class__(
                features=whole.shards.features, labels=whole.shards.labels, present=mask, nominal=50
            )
            task = Task(name="own", loss=whole.loss, shards=shards)
            descent = Descent(
                task=task,
                protocol=protocol,
                steps=np.array([0.5, 0.5]),
                noise=NodeNoise(fresh_keys(4, 3), task.dimension),
                noise_std=0.1,
                clip=0.2,
                unit=unit,
                batch_fraction=fraction,
            )
            sent.append(step(descent, init(descent)._replace(registers=models[None]))[1].messages[0])
        difference = np.linalg.norm(sent[0] - sent[1], axis=1)
        assert not difference[[0, 2, 3]].any()
        moved.append(difference[1])
        assert difference[1] <= 0.5 * gradient_sensitivity(whole, 0.2, unit, fraction) * (1 + 1e-9)
    if unit == "record":
        assert max(moved) > 0.99 * 0.5 * 0.2 / (50 * fraction)


def test_a_node_as_unit_clips_its_whole_update() -> None:
    task = synthetic_task(4, dimension=3, heterogeneity=5.0)
    protocol = gossip(graphs.metropolis_weights(GRAPH), rounds=1)
    descent = Descent(
        task=task,
        protocol=protocol,
        steps=np.array([0.5]),
        noise=SilentNoise(4),
        noise_std=0.0,
        clip=0.7,
        unit="node",
    )
    assert gradient_sensitivity(task, 0.7, "node") == 0.7
    _, info = step(descent, init(descent))
    lengths = np.linalg.norm(info.messages[0], axis=1)
    assert lengths.max() == pytest.approx(0.35)
    assert lengths.max() <= 0.35
    assert info.clipped > 0


def test_batches_are_drawn_by_coins_of_each_record() -> None:
    task = synthetic_task(4, dimension=2, records=400, spread=1.0)
    protocol = gossip(graphs.metropolis_weights(GRAPH), rounds=1)
    steps = np.array([0.5])

    def sent(fraction: float, seed: int) -> np.ndarray:
        noise = SilentNoise(4, fresh_keys(4, seed))
        descent = Descent(
            task=task,
            protocol=protocol,
            steps=steps,
            noise=noise,
            noise_std=0,
            clip=100,
            batch_fraction=fraction,
        )
        return step(descent, init(descent))[1].messages[0]

    whole = sent(1.0, 0)
    drawn = np.array([sent(0.25, seed) for seed in range(200)])
    # Unbiased, as sums are divided by the nominal batch and not by the number drawn.
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - whole) < 5 * error).all()
    assert (drawn.std(axis=0) > 0).all()


def test_averages_over_rounds() -> None:
    task = synthetic_task(4, dimension=2)
    protocol = gossip(graphs.metropolis_weights(GRAPH), rounds=5)
    for weighting, weights in (("uniform", np.ones(5)), ("linear", np.arange(1.0, 6.0))):
        descent = Descent(
            task=task,
            protocol=protocol,
            steps=np.full(5, 0.3),
            noise=NodeNoise(fresh_keys(4, 1), 2),
            noise_std=0.1,
            weighting=weighting,  # type: ignore[arg-type]
        )
        state, means = init(descent), []
        for _ in range(5):
            means.append(state.models.mean(axis=0))
            state, _ = step(descent, state)
        assert np.allclose(state.average, np.average(means, axis=0, weights=weights))


def test_the_same_state_gives_the_same_round() -> None:
    task = synthetic_task(4, dimension=2)
    descent = Descent(
        task=task,
        protocol=gossip(graphs.metropolis_weights(GRAPH), rounds=9),
        steps=np.full(9, 0.3),
        noise=NodeNoise(fresh_keys(4, 1), 2),
        noise_std=0.1,
        batch_fraction=0.5,
    )
    state = init(descent)
    for _ in range(4):
        state, _ = step(descent, state)
    later = state
    for _ in range(5):
        later, _ = step(descent, later)
    again, _ = step(descent, state)
    assert np.array_equal(again.models, step(descent, state)[0].models)
    with pytest.raises(InputError, match="the protocol has 9 rounds, and all of them are done"):
        step(descent, later)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"clip": 0.0}, "clip must be a finite number above 0"),
        ({"unit": "world"}, "unit must be one of record, node"),
        ({"weighting": "none"}, "weighting must be one of uniform, linear"),
        ({"batch_fraction": 0.0}, r"batch_fraction must lie in \(0, 1\]"),
        ({"noise_std": -1.0}, "noise_std must be a finite number of at least 0"),
        ({"steps": np.array([0.1, 0.1])}, "a step size above 0 for each of the 3 rounds; got 2"),
        ({"steps": np.array([0.1, 0.0, 0.1])}, "a step size above 0 for each of the 3 rounds"),
        ({"steps": np.array([0.1, 2.0, 0.1])}, r"step times curvature is 2 \(take a step of at most 1\)"),
        ({"task": synthetic_task(5, dimension=2)}, "one shard for each node; got 5 shards and 4 nodes"),
    ],
)
def test_what_is_refused(change: dict[str, Any], complaint: str) -> None:
    settings: dict[str, Any] = {
        "task": synthetic_task(4, dimension=2),
        "protocol": gossip(graphs.metropolis_weights(GRAPH), rounds=3),
        "steps": np.full(3, 0.1),
        "noise": SilentNoise(4),
        "noise_std": 0.1,
    }
    with pytest.raises(InputError, match=complaint):
        Descent(**{**settings, **change})
