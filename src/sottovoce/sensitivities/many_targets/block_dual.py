# SPDX-License-Identifier: Apache-2.0
"""The dual problem on blocks of rounds, for many small forms at once: diagonals that lie above them.

A stream of which block I holds an energy of at most h_I makes at most Σ y_I h_I of a form G with diag(y_I ⊗ I) ⪰ G. The
best y is ‖(GV)_I‖/‖V_I‖ of the V that makes most, which a few steps of the generalised power method come close to;
whatever they find, one number λ ≥ ‖Y^{−½}GY^{−½}‖ makes it a proof.
Source: docs/proofs/details.md; docs/mathematics.md, sections 4 and 7.
"""

from __future__ import annotations

import numpy as np

from sottovoce.filtering import norm_above
from sottovoce.rounding import gamma

__all__ = ["constant_in_blocks", "dominating"]

# Speed alone, all of these: steps of the power method, streams that it follows together, and the share of the mean that
# no y is smaller than.
STEPS, STREAMS, FLOOR = 12, 4, 1e-3


def dominating(forms: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Numbers y with diag(y_I ⊗ I) ⪰ G for each symmetric G of `forms` (k, n, n), as (k, blocks), of small Σ y_I h_I.

    Guarantee: proved by `norm_above` for each form as stored, whatever V was found; infinite where that is no number.
    Source: docs/proofs/details.md.
    """
    count, blocks = len(forms), len(lengths)
    degree = forms.shape[1] // blocks
    roots = np.sqrt(lengths)
    streams = np.broadcast_to(_start(blocks, degree), (count, blocks * degree, STREAMS))
    for _ in range(STEPS):
        # V_I ← Σ_J G_IJ √ℓ_J V_J/‖V_J‖
        streams = forms @ (_unit(streams, blocks) * np.repeat(roots, degree)[:, None])
    made = np.sqrt((streams.reshape(count, blocks, -1) ** 2).sum(axis=2)) / roots
    y = made + FLOOR * made.mean(axis=1, keepdims=True)
    y = np.where(y > 0, y, 1.0)
    scale = np.repeat(1 / np.sqrt(y), degree, axis=1)
    scaled = forms * scale[:, :, None] * scale[:, None, :]
    # Four roundings an entry: root, reciprocal and two products, on both sides.
    highest = norm_above(scaled) + gamma(8) * np.sqrt((scaled**2).sum(axis=(1, 2)))
    found = y * highest[:, None] * (1 + gamma(8))
    return np.where(np.isfinite(found), found, np.inf)


def constant_in_blocks(forms: np.ndarray, streams: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors v_I, (k, blocks, d), that make much of Σ G_IJ⟨v_I, v_J⟩ in d = `streams` dimensions, and that sum.

    Guarantee: the sum is that of vectors of norm 1 within γ_d, off by less than γ_k of Σ|G_IJ|, k of order blocks·d.
    """
    blocks = forms.shape[1]
    vectors = np.broadcast_to(_start(blocks, 1)[:, :streams], (len(forms), blocks, streams))
    vectors = _filled(_unit(vectors, blocks))
    for _ in range(STEPS):
        # v_I ← Σ_J G_IJ v_J, at norm 1
        vectors = _filled(_unit(forms @ vectors, blocks))
    return vectors, np.einsum("kid,kid->k", vectors, forms @ vectors)


def _filled(vectors: np.ndarray) -> np.ndarray:
    """The vectors with the first unit vector in the place of those that are 0."""
    empty = ~vectors.any(axis=2)
    vectors[empty, 0] = 1.0
    return vectors


def _start(blocks: int, degree: int) -> np.ndarray:
    """Streams to begin with: one that never changes, slow ones, and a little of all others."""
    place = (np.arange(blocks) + 0.5) / blocks
    streams = 0.02 * np.cos(np.outer(np.arange(blocks * degree), 1.7 + np.arange(STREAMS)))
    streams[::degree] += np.cos(np.pi * np.outer(place, np.arange(STREAMS))) * 0.5 ** np.arange(STREAMS)
    return streams


def _unit(streams: np.ndarray, blocks: int) -> np.ndarray:
    """The streams with blocks of norm 1; a block that is 0 stays."""
    cut = streams.reshape(len(streams), blocks, -1)
    sizes = np.sqrt((cut**2).sum(axis=2, keepdims=True))
    return np.asarray((cut / np.where(sizes > 0, sizes, 1.0)).reshape(streams.shape))
