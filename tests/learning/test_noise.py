"""What the generators emit: Gaussian, independent over nodes, rounds and coordinates, and never the same twice."""

import math
import struct
from hashlib import blake2b, shake_256

import numpy as np
import pytest
from scipy import stats

from sottovoce.errors import InputError
from sottovoce.learning import BoundNoise, NodeNoise, SilentNoise, fresh_keys

# Probability with which a sound generator fails one of the checks below; seeds are fixed, so none fails by chance.
LEVEL = 1e-4


def emitted(nodes: int, dimension: int, rounds: int, seed: int, *, bound: bool = False) -> np.ndarray:
    keys = fresh_keys(nodes, seed)
    noise = BoundNoise(keys) if bound else NodeNoise(keys, dimension)
    # The same message again and again, which is the hardest to tell apart.
    messages = np.zeros((nodes, dimension))
    return np.array([noise.covering(t, [messages], 1.0, dimension) for t in range(rounds)])


BOTH = pytest.mark.parametrize("bound", [False, True])


@BOTH
@pytest.mark.parametrize("dimension", [1, 7, 650, 3000])
def test_marginals_are_standard_gaussian(dimension: int, bound: bool) -> None:
    drawn = emitted(5, dimension, max(4, 4000 // dimension), 3, bound=bound).ravel()
    assert stats.kstest(drawn, "norm").pvalue > LEVEL
    # The variance of N samples, N times over, is χ² with N degrees of freedom.
    count = drawn.size
    assert LEVEL < stats.chi2(count).cdf((drawn**2).sum()) < 1 - LEVEL
    assert abs(drawn.mean()) * np.sqrt(count) < stats.norm.isf(LEVEL / 2)
    # Tails, where a cut-off would show.
    beyond = (np.abs(drawn) > 3).sum()
    assert stats.binom(count, 2 * stats.norm.sf(3)).cdf(beyond) > LEVEL


@BOTH
def test_nodes_rounds_and_coordinates_are_independent(bound: bool) -> None:
    drawn = emitted(6, 20, 400, 8, bound=bound)
    for streams in (
        drawn.transpose(1, 0, 2).reshape(6, -1),
        drawn[:, :, :6].transpose(2, 0, 1).reshape(6, -1),
        np.array([drawn[lag : 380 + lag].ravel() for lag in range(6)]),
    ):
        size = streams.shape[1]
        correlations = np.corrcoef(streams)[np.triu_indices(6, 1)]
        # Fisher: √size·r is close to standard Gaussian; 15 of them.
        assert np.abs(correlations).max() * np.sqrt(size) < stats.norm.isf(LEVEL / 2 / 15)


@BOTH
def test_no_number_is_emitted_twice(bound: bool) -> None:
    drawn = emitted(10, 30, 500, 1, bound=bound)
    assert len(np.unique(drawn)) == drawn.size


def test_any_round_can_be_asked_for() -> None:
    straight = emitted(3, 5, 1000, 2)
    jumping = NodeNoise(fresh_keys(3, 2), 5)
    for t in (999, 0, 409, 408, 410, 409, 3):
        assert np.array_equal(jumping.gaussian(t), straight[t])


@pytest.mark.parametrize("dimension", [1, 5, 3000])
def test_coins_between_draws_move_no_noise(dimension: int) -> None:
    straight, tossed = (NodeNoise(fresh_keys(3, 2), dimension) for _ in range(2))
    for t in range(40):
        tossed.uniform(t, 3)
        assert np.array_equal(tossed.gaussian(t), straight.gaussian(t))
        assert np.array_equal(tossed.uniform(t, 3), straight.uniform(t, 3))
    # All of a block at once is what its parts are.
    assert np.array_equal(NodeNoise(fresh_keys(3, 2), dimension).gaussian(39), straight.gaussian(39))


def test_a_node_draws_the_same_whoever_else_is_there() -> None:
    keys = fresh_keys(4, 9)
    alone = NodeNoise(keys[2:3], 6).gaussian(11)
    assert np.array_equal(NodeNoise(keys, 6).gaussian(11)[2:3], alone)


def test_keys() -> None:
    fresh = fresh_keys(50)
    assert fresh.shape == (50, 2)
    assert fresh.dtype == np.uint64
    assert not np.array_equal(fresh, fresh_keys(50))
    # 100 words of 64 fair bits: the number of ones is binomial.
    ones = int(np.unpackbits(fresh.view(np.uint8)).sum())
    assert LEVEL < stats.binom(6400, 0.5).cdf(ones) < 1 - LEVEL
    assert np.array_equal(fresh_keys(5, seed=7), fresh_keys(5, seed=7))
    assert not np.array_equal(fresh_keys(5, seed=7), fresh_keys(5, seed=8))
    assert np.array_equal(fresh_keys(3, seed=7), fresh_keys(5, seed=7)[:3])


def test_coins_are_fair_and_others_than_the_noise() -> None:
    noise = NodeNoise(fresh_keys(4, 5), 3)
    before = noise.gaussian(0).copy()
    coins = np.array([noise.uniform(t, 200) for t in range(30)])
    assert np.array_equal(noise.gaussian(0), before)
    assert stats.kstest(coins.ravel(), "uniform").pvalue > LEVEL
    assert len(np.unique(coins)) == coins.size
    assert np.array_equal(noise.uniform(7, 200), coins[7])
    assert np.array_equal(noise.gaussian(500), NodeNoise(fresh_keys(4, 5), 3).gaussian(500))


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="keys must differ from node to node"):
        NodeNoise(np.zeros((2, 2), dtype=np.uint64), 3)
    with pytest.raises(InputError, match="keys must be two 64-bit numbers for each node"):
        NodeNoise(np.zeros((2, 3), dtype=np.uint64), 3)
    with pytest.raises(InputError, match="seed must be a whole number of at least 0"):
        fresh_keys(2, -1)


def test_silence() -> None:
    silent = SilentNoise(3)
    assert np.array_equal(silent.covering(4, [np.ones((3, 2))], 1.0, 2), np.zeros((3, 2)))
    assert not silent.between(4, EDGES, [np.ones((3, 2))], 1.0, 2).any()
    assert silent.uniform(4, 5).shape == (3, 5)


def test_noise_is_bound_to_round_message_and_scale() -> None:
    keys = fresh_keys(3, 2)
    noise = BoundNoise(keys)
    messages = np.random.default_rng(1).standard_normal((3, 5))
    drawn = noise.covering(4, [messages], 0.5, 5)
    assert np.array_equal(BoundNoise(keys).covering(4, [messages.copy(order="F")], 0.5, 5), drawn)
    moved = messages.copy()
    moved[1, 3] = np.nextafter(moved[1, 3], np.inf)
    again = noise.covering(4, [moved], 0.5, 5)
    # One bit of one node: that node alone draws anew, in every coordinate.
    assert np.array_equal(again[[0, 2]], drawn[[0, 2]])
    assert not (again[1] == drawn[1]).any()
    for other in (
        noise.covering(5, [messages], 0.5, 5),
        noise.covering(4, [messages], np.nextafter(0.5, 1), 5),
        BoundNoise(fresh_keys(3, 3)).covering(4, [messages], 0.5, 5),
    ):
        assert not (other == drawn).any()


EDGES = [(0, 1), (1, 2), (0, 3)]


def shared(nodes: int, dimension: int, rounds: int, seed: int, *, bound: bool) -> np.ndarray:
    keys = fresh_keys(nodes, seed)
    noise = BoundNoise(keys) if bound else NodeNoise(keys, dimension)
    content = [np.zeros((nodes, dimension)), np.ones((nodes, 2))]
    return np.array([noise.between(t, EDGES, content, 1.0, dimension) for t in range(rounds)])


@BOTH
def test_draws_of_edges_are_gaussian_and_independent_of_each_other_and_of_those_of_nodes(bound: bool) -> None:
    rounds, dimension = 300, 8
    drawn = shared(4, dimension, rounds, 5, bound=bound)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > LEVEL
    own = emitted(4, dimension, rounds, 5, bound=bound)
    assert len(np.unique(np.concatenate([drawn.ravel(), own.ravel()]))) == drawn.size + own.size
    streams = np.concatenate([drawn.transpose(1, 0, 2).reshape(3, -1), own.transpose(1, 0, 2).reshape(4, -1)])
    correlations = np.corrcoef(streams)[np.triu_indices(7, 1)]
    assert np.abs(correlations).max() * np.sqrt(streams.shape[1]) < stats.norm.isf(LEVEL / 2 / 21)
    assert np.array_equal(drawn, shared(4, dimension, rounds, 5, bound=bound))
    assert not (drawn == shared(4, dimension, rounds, 6, bound=bound)).any()


def test_the_draw_of_an_edge_is_bound_to_what_both_ends_put_in() -> None:
    noise = BoundNoise(fresh_keys(4, 2))
    content = [np.zeros((4, 3)), np.ones((4, 2))]
    drawn = noise.between(4, EDGES, content, 0.5, 5)
    for node, touched in ((0, [0, 2]), (1, [0, 1]), (2, [1]), (3, [2])):
        moved = [part.copy() for part in content]
        moved[1][node, 1] = np.nextafter(1.0, 2)
        again = noise.between(4, EDGES, moved, 0.5, 5)
        changed = [k for k in range(3) if not (again[k] == drawn[k]).any()]
        assert changed == touched
        assert all(np.array_equal(again[k], drawn[k]) for k in range(3) if k not in touched)
    for other in (
        noise.between(5, EDGES, content, 0.5, 5),
        noise.between(4, EDGES, content, np.nextafter(0.5, 1), 5),
        BoundNoise(fresh_keys(4, 3)).between(4, EDGES, content, 0.5, 5),
    ):
        assert not (other == drawn).any()
    # An edge draws the same whichever other edges there are in the round.
    assert np.array_equal(noise.between(4, EDGES[1:2], content, 0.5, 5), drawn[1:2])


def test_bound_noise_does_not_follow_the_message() -> None:
    noise = BoundNoise(fresh_keys(1, 6))
    sizes = np.linspace(-1, 1, 4000)
    drawn = np.array([noise.covering(0, [np.array([[size]])], 1.0, 1)[0, 0] for size in sizes])
    assert stats.kstest(drawn, "norm").pvalue > LEVEL
    for other in (sizes[1:], drawn[:-1]):
        assert abs(np.corrcoef(other, drawn[1:])[0, 1]) * np.sqrt(4000) < stats.norm.isf(LEVEL / 2)


def test_without_a_seed_all_numbers_are_those_of_a_cryptographic_stream() -> None:
    keys = fresh_keys(2, 4)
    noise, messages = BoundNoise(keys), np.arange(6.0).reshape(2, 3)
    key, row = keys[1].astype("<u8").tobytes(), messages[1].astype("<f8").tobytes()
    told = blake2b(struct.pack("<Qd", 9, 0.5) + row, key=key, digest_size=32, person=b"noise").digest()
    words = struct.unpack("<4Q", shake_256(told).digest(32))
    u, v = ([(word + 0.5) / 2**64 for word in half] for half in (words[:2], words[2:]))
    known = [math.sqrt(-2 * math.log(a)) * math.cos(2 * math.pi * b) for a, b in zip(u, v, strict=True)]
    known.append(math.sqrt(-2 * math.log(u[0])) * math.sin(2 * math.pi * v[0]))
    assert noise.covering(9, [messages], 0.5, 3)[1] == pytest.approx(known, abs=1e-12)
    told = blake2b(struct.pack("<Q", 5), key=key, digest_size=32, person=b"coins").digest()
    coins = [(word >> 11) / 2**53 for word in struct.unpack("<7Q", shake_256(told).digest(56))]
    assert noise.uniform(5, 7)[1].tolist() == coins
    # More coins of a round begin with the same.
    assert noise.uniform(5, 3)[1].tolist() == coins[:3]


def test_bound_coins_are_fair_and_repeat() -> None:
    noise = BoundNoise(fresh_keys(4, 5))
    coins = np.array([noise.uniform(t, 200) for t in range(30)])
    assert stats.kstest(coins.ravel(), "uniform").pvalue > LEVEL
    assert len(np.unique(coins)) == coins.size
    assert np.array_equal(noise.uniform(7, 200), coins[7])


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_bound_noise_refuses_bad_keys(shape: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="keys must"):
        BoundNoise(np.zeros(shape, dtype=np.uint64))
