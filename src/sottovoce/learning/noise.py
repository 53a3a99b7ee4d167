# SPDX-License-Identifier: Apache-2.0
"""Each node's own noise: one generator a node, keyed with 128 bits, that can be asked for any round.

Round t of node i is a fixed stretch of the Philox stream with that node's key, so a run that goes on from a
checkpoint needs the keys and the number of the round, and gives the same bits.

The numbers are Gaussian in floating point: the mathematics of the guarantee is about real numbers, and Philox is
a statistical generator, not a cryptographic one.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from sottovoce.errors import InputError, at_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]
    Keys: TypeAlias = NDArray[np.uint64]

__all__ = ["NodeNoise", "NoiseSource", "SilentNoise", "fresh_keys"]

# How many numbers a node draws at once; part of what a key means, so that it must not change.
_BLOCK = 2048
_GAUSSIAN, _UNIFORM = 0, 1


class NoiseSource(Protocol):
    """Standard Gaussian noise for every node and round, and the coins by which records are sampled."""

    def gaussian(self, round_index: int) -> Array:
        """Independent N(0, 1) numbers, shape (nodes, dimension); rounds count from 0."""

    def uniform(self, round_index: int, count: int) -> Array:
        """Independent numbers in [0, 1), shape (nodes, count)."""


def fresh_keys(nodes: int, seed: int | None = None) -> Keys:
    """128 bits for each node, from the system's entropy or, for runs that can be repeated, from a seed."""
    at_least(1, nodes=nodes)
    if seed is None:
        drawn = np.frombuffer(secrets.token_bytes(16 * nodes), dtype=np.uint64)
        return drawn.reshape(nodes, 2).copy()
    at_least(0, seed=seed)
    children = np.random.SeedSequence(int(seed)).spawn(nodes)
    return np.array([child.generate_state(2, np.uint64) for child in children])


class NodeNoise:
    """The noise of all nodes, node i by its own generator with key `keys[i]`.

    >>> import numpy as np
    >>> noise = NodeNoise(fresh_keys(3, seed=1), dimension=4)
    >>> later, again = noise.gaussian(7), NodeNoise(fresh_keys(3, seed=1), dimension=4).gaussian(7)
    >>> bool(np.array_equal(later, again))
    True
    """

    def __init__(self, keys: Keys, dimension: int) -> None:
        """One generator for each row of `keys`."""
        if keys.ndim != 2 or keys.shape[1] != 2 or keys.dtype != np.uint64:
            raise InputError(
                f"keys must be two 64-bit numbers for each node; got shape {keys.shape}, {keys.dtype}"
            )
        if len(np.unique(keys, axis=0)) < len(keys):
            raise InputError("keys must differ from node to node, or nodes would draw the same noise")
        self.keys = keys
        self.dimension = dimension
        self._rounds = max(1, _BLOCK // dimension)
        self._bits = [np.random.Philox(key=key) for key in keys]
        self._generators = [np.random.Generator(bits) for bits in self._bits]
        self._drawn = -1
        self._block = np.empty((len(keys), self._rounds, dimension))

    def gaussian(self, round_index: int) -> Array:
        """Independent N(0, 1) numbers, shape (nodes, dimension)."""
        number, place = divmod(round_index, self._rounds)
        if number != self._drawn:
            for node, generator in enumerate(self._generators):
                self._place(node, number, _GAUSSIAN)
                generator.standard_normal(out=self._block[node])
            self._drawn = number
        return self._block[:, place]

    def uniform(self, round_index: int, count: int) -> Array:
        """Independent numbers in [0, 1), shape (nodes, count)."""
        coins = np.empty((len(self.keys), count))
        for node, generator in enumerate(self._generators):
            self._place(node, round_index, _UNIFORM)
            generator.random(out=coins[node])
        return coins

    def _place(self, node: int, number: int, stream: int) -> None:
        """Put a node's generator at the start of a stretch of 2¹²⁸ blocks that nothing else uses."""
        self._bits[node].state = {
            "bit_generator": "Philox",
            "state": {"counter": np.array([0, 0, number, stream], dtype=np.uint64), "key": self.keys[node]},
            "buffer": np.zeros(4, dtype=np.uint64),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }


class SilentNoise:
    """No noise at all: for baselines, and for seeing what the noise of a run costs."""

    def __init__(self, nodes: int, dimension: int, keys: Keys | None = None) -> None:
        """Zeros for every node; coins from generators of the nodes' own."""
        self._zeros = np.zeros((nodes, dimension))
        self._coins = NodeNoise(fresh_keys(nodes) if keys is None else keys, 1)

    def gaussian(self, round_index: int) -> Array:  # noqa: ARG002 - the same in every round
        """Zeros."""
        return self._zeros

    def uniform(self, round_index: int, count: int) -> Array:
        """Independent numbers in [0, 1), shape (nodes, count)."""
        return self._coins.uniform(round_index, count)
