# SPDX-License-Identifier: Apache-2.0
"""Each node's own noise, by a key of 128 bits that is its own. There are two kinds.

`BoundNoise` is for data that matter. It draws from the key, the number of the draw and what the noise is for,

    ξ = Gaussian(SHAKE256(PRF_key(draw, scale, what the node holds and contributes))),   PRF keyed BLAKE2b.

A round that is computed again, bit for bit the same, gets the same noise and shows nobody anything new; one in which
the node puts in something else by a single bit, or at another scale, gets noise of its own. So the same noise never
covers two contributions, whose difference would lay the data bare, whatever goes wrong with a run that goes on from a
checkpoint.

`NodeNoise` is for simulations, by a seed: round t of node i is a fixed stretch of the Philox stream with that node's
key, whatever it is added to, so that a run can be repeated on another machine, whose sums round otherwise.

The draw of an edge is made once for its two ends, by a key of the edge's own that is made of theirs, and is bound to
what both of them put in.

Keys come from the system's cryptographic generator, and BLAKE2b and SHAKE256 are cryptographic too: without its key
nobody tells bound noise, coins or orders from fresh ones. Philox is a statistical generator, which is enough where a
seed is known anyhow. The numbers are Gaussian in floating point, by the method of Box & Muller from 64 bits each, which
ends at 9.4 deviations; the mathematics of the guarantee is about real numbers.
"""

from __future__ import annotations

import secrets
import struct
from hashlib import blake2b, shake_256
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from sottovoce.errors import InputError, at_least

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]
    Keys: TypeAlias = NDArray[np.uint64]
    Content: TypeAlias = Sequence[Array]
    Edges: TypeAlias = Sequence[tuple[int, int]]

__all__ = ["BoundNoise", "NodeNoise", "NoiseSource", "SilentNoise", "drawn_by", "fresh_keys"]

# How many numbers a node draws at once; part of what a key means, so that it must not change.
_BLOCK = 2048
_GAUSSIAN, _UNIFORM = 0, 1
_START = np.zeros(4, dtype=np.uint64)


class NoiseSource(Protocol):
    """Standard Gaussian noise for every node and round, and the coins by which records are sampled."""

    def covering(self, number: int, content: Content, scale: float, width: int) -> Array:
        """Independent N(0, 1) numbers, `width` a node, that times `scale` cover what each row of `content` makes.

        `content` holds what the nodes put in, one row a node in each of its arrays. Draws of a run are numbered from 0,
        round after round.
        """

    def between(self, number: int, edges: Edges, content: Content, scale: float, width: int) -> Array:
        """The same for a draw of edges, `width` numbers for each pair of nodes, that cover the rows of both."""

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


def drawn_by(keys: Keys, dimension: int, *, seeded: bool) -> NoiseSource:
    """The noise of a run: bound to its messages, or, for a run that a seed repeats, a stream of its own."""
    return NodeNoise(keys, dimension) if seeded else BoundNoise(keys)


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
        self.keys = _checked(keys)
        self.dimension = dimension
        self._rounds = max(1, _BLOCK // dimension)
        self._generators = [np.random.Generator(np.random.Philox(key=key)) for key in keys]
        self._shared = np.random.Generator(np.random.Philox(key=0))
        self._between: dict[tuple[int, int], Keys] = {}
        self._drawn, self._filled = -1, 0
        self._block = np.empty((len(keys), self._rounds, dimension))

    def gaussian(self, number: int) -> Array:
        """Independent N(0, 1) numbers, shape (nodes, dimension)."""
        block, place = divmod(number, self._rounds)
        if block != self._drawn:
            for generator, key in zip(self._generators, self.keys, strict=True):
                _place(generator, key, block, _GAUSSIAN)
            self._drawn, self._filled = block, 0
        if place >= self._filled:
            # A block is drawn little by little, as short runs never come to its end. Speed alone.
            begun, self._filled = self._filled, min(max(place + 1, 2 * self._filled, 8), self._rounds)
            for node, generator in enumerate(self._generators):
                generator.standard_normal(out=self._block[node, begun : self._filled])
        return self._block[:, place]

    def covering(self, number: int, content: Content, scale: float, width: int) -> Array:  # noqa: ARG002
        """The numbers of the draw, whatever they cover."""
        return self.gaussian(number).copy()

    def between(self, number: int, edges: Edges, content: Content, scale: float, width: int) -> Array:  # noqa: ARG002
        """The numbers of the draw of each edge, whatever they cover."""
        drawn = np.empty((len(edges), width))
        for row, ends in zip(drawn, edges, strict=True):
            if ends not in self._between:
                self._between[ends] = _key_between(self.keys, ends)
            _place(self._shared, self._between[ends], number, _GAUSSIAN)
            self._shared.standard_normal(out=row)
        return drawn

    def uniform(self, round_index: int, count: int) -> Array:
        """Independent numbers in [0, 1), shape (nodes, count)."""
        coins = np.empty((len(self.keys), count))
        for row, key in zip(coins, self.keys, strict=True):
            _place(self._shared, key, round_index, _UNIFORM)
            self._shared.random(out=row)
        return coins


class BoundNoise:
    """The noise of all nodes, drawn for the messages that it covers; node i has the key `keys[i]`.

    >>> import numpy as np
    >>> noise, messages = BoundNoise(fresh_keys(3)), np.zeros((3, 4))
    >>> drawn, again = (noise.covering(7, [messages], 1.0, 4) for _ in range(2))
    >>> other = noise.covering(7, [messages + 1e-300], 1.0, 4)
    >>> bool((drawn == again).all()), bool((drawn == other).any())
    (True, False)
    """

    def __init__(self, keys: Keys) -> None:
        """One key for each row of `keys`."""
        self.keys = _checked(keys)
        secret = [key.astype("<u8").tobytes() for key in keys]
        self._covers, self._coins = (
            [blake2b(key=key, digest_size=32, person=use) for key in secret] for use in (b"noise", b"coins")
        )
        self._shares: dict[tuple[int, int], blake2b] = {}

    def covering(self, number: int, content: Content, scale: float, width: int) -> Array:
        """Independent N(0, 1) numbers that are the same only for the same draw, content and scale."""
        drawn = np.empty((len(self.keys), width))
        about, parts = struct.pack("<Qd", number, scale), _little_endian(content)
        for node, function in enumerate(self._covers):
            drawn[node] = _gaussian(_bits(function, about, *(part[node].data for part in parts)), width)
        return drawn

    def between(self, number: int, edges: Edges, content: Content, scale: float, width: int) -> Array:
        """Independent N(0, 1) numbers that are the same only for the same edge, draw, content of its ends and scale."""
        drawn = np.empty((len(edges), width))
        about, parts = struct.pack("<Qd", number, scale), _little_endian(content)
        for row, ends in zip(drawn, edges, strict=True):
            if ends not in self._shares:
                key = _key_between(self.keys, ends).astype("<u8").tobytes()
                self._shares[ends] = blake2b(key=key, digest_size=32, person=b"shared")
            content_of_both = (part[node].data for node in ends for part in parts)
            row[:] = _gaussian(_bits(self._shares[ends], about, *content_of_both), width)
        return drawn

    def uniform(self, round_index: int, count: int) -> Array:
        """Independent numbers in [0, 1), shape (nodes, count)."""
        coins = np.empty((len(self.keys), count))
        for node, function in enumerate(self._coins):
            words = _words(_bits(function, struct.pack("<Q", round_index)), count)
            coins[node] = np.ldexp((words >> np.uint64(11)).astype(np.float64), -53)
        return coins


def _bits(function: blake2b, *parts: bytes | memoryview) -> bytes:
    """The 256 bits that belong to these parts."""
    digest = function.copy()
    for part in parts:
        digest.update(part)
    return digest.digest()


def _words(bits: bytes, count: int) -> Keys:
    """The first 64-bit numbers of the stream that these bits begin; more of them begin with the same."""
    return np.frombuffer(shake_256(bits).digest(8 * count), dtype="<u8")


def _gaussian(bits: bytes, width: int) -> Array:
    """Independent N(0, 1) numbers of the stream that these bits begin: √(−2 log u) times cosine and sine of 2πv."""
    pairs = (width + 1) // 2
    u, v = (_words(bits, 2 * pairs).reshape(2, pairs) + 0.5) * 2.0**-64
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:width]


def _little_endian(content: Content) -> list[Array]:
    """Arrays whose rows can be digested as they lie in memory."""
    return [np.ascontiguousarray(part, dtype="<f8") for part in content]


def _key_between(keys: Keys, ends: tuple[int, int]) -> Keys:
    """The key of an edge, made of those of its ends."""
    secret = b"".join(keys[node].astype("<u8").tobytes() for node in ends)
    return np.frombuffer(blake2b(secret, digest_size=16, person=b"edge").digest(), dtype="<u8")


def _checked(keys: Keys) -> Keys:
    """Keys of 128 bits that differ from node to node."""
    if keys.ndim != 2 or keys.shape[1] != 2 or keys.dtype != np.uint64:
        raise InputError(
            f"keys must be two 64-bit numbers for each node; got shape {keys.shape}, {keys.dtype}"
        )
    if len(set(map(tuple, keys.tolist()))) < len(keys):
        raise InputError("keys must differ from node to node, or nodes would draw the same noise")
    return keys


def _place(generator: np.random.Generator, key: Keys, number: int, stream: int) -> None:
    """Put a Philox generator at the start of a stretch of 2¹²⁸ blocks that nothing else uses: each key has 2¹²⁸."""
    generator.bit_generator.state = {
        "bit_generator": "Philox",
        "state": {"counter": np.array([0, 0, number, stream], dtype=np.uint64), "key": key},
        "buffer": _START,
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }


class SilentNoise:
    """No noise at all: for baselines, and for seeing what the noise of a run costs."""

    def __init__(self, nodes: int, keys: Keys | None = None) -> None:
        """Zeros for every node; coins from generators of the nodes' own."""
        self._coins = NodeNoise(fresh_keys(nodes) if keys is None else keys, 1)

    def covering(self, number: int, content: Content, scale: float, width: int) -> Array:  # noqa: ARG002
        """Zeros."""
        return np.zeros((len(content[0]), width))

    def between(self, number: int, edges: Edges, content: Content, scale: float, width: int) -> Array:  # noqa: ARG002
        """Zeros."""
        return np.zeros((len(edges), width))

    def uniform(self, round_index: int, count: int) -> Array:
        """Independent numbers in [0, 1), shape (nodes, count)."""
        return self._coins.uniform(round_index, count)
