# SPDX-License-Identifier: Apache-2.0
"""How well a protocol averages: what is left of the nodes' differences, and what the noise adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.protocols import draw_counts, initial_registers, run_round

if TYPE_CHECKING:
    from sottovoce.protocols import Protocol

__all__ = ["AveragingError", "averaging_error"]


@dataclass(frozen=True, kw_only=True)
class AveragingError:
    """Mean-square error of the average at a node: mixing + σ²·noise, σ being the noise multiplier."""

    mixing: float
    noise: float

    def at(self, noise_multiplier: float) -> float:
        """The error with this much noise.

        >>> AveragingError(mixing=1.0, noise=0.5).at(2)
        3.0
        """
        return self.mixing + noise_multiplier**2 * self.noise

    def multiplier(self, error: float) -> float:
        """The noise multiplier with this error; 0 where mixing alone leaves more.

        >>> AveragingError(mixing=1.0, noise=0.5).multiplier(3.0)
        2.0
        """
        return float(np.sqrt(max(error - self.mixing, 0.0) / self.noise))


def averaging_error(protocol: Protocol) -> AveragingError:
    """The error with which each node knows the average after the last round, averaged over the nodes.

    Node k contributes the same x_k in every round, numbers of variance 1 that are independent of each other. After the
    last round node i holds Σ_k G_ik x_k + σ Σ_d H_id ξ_d in its model. It divides by g_i = Σ_k G_ik, which is public,
    and takes the result for the average of all x_k:

        mixing = mean_i Σ_k (G_ik/g_i − 1/n)²,   noise = mean_i Σ_d (H_id/g_i)².

    The program is executed on unit impulses, each draw of each round being one, so that any protocol is taken.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> found = averaging_error(gossip(graphs.uniform_weights("complete:n=4"), rounds=5))
    >>> round(found.mixing, 12), round(found.noise, 12)
    (0.0, 0.05)
    """
    n, T = protocol.n, protocol.rounds
    counts = [sum(draw_counts(*protocol.round_of(t)).values()) for t in range(T)]
    starts = n + np.concatenate([[0], np.cumsum(counts)])
    decoded = _decoder(protocol)
    held = initial_registers(protocol, int(starts[-1]))
    contribution = np.zeros((n, int(starts[-1])))
    contribution[:, :n] = np.eye(n)
    for t in range(T):
        weights, program = protocol.round_of(t)
        # The noise of a round is Σ_s (C⁻¹)_{t−s} ξ_s: with an encoder earlier impulses come in again.
        impulses = np.zeros((counts[t], int(starts[-1])))
        for s in range(t + 1):
            if decoded[t - s]:
                impulses[:, starts[s] : starts[s + 1]] = decoded[t - s] * np.eye(counts[t])
        noise, first = {}, 0
        for name, count in draw_counts(weights, program).items():
            noise[name] = impulses[first : first + count]
            first += count
        held, _ = run_round(weights, program, held, contribution, noise)
    model = held[protocol.programs[-1].model]
    gains, responses = model[:, :n], model[:, n:]
    total = gains.sum(axis=1, keepdims=True)
    return AveragingError(
        mixing=float(((gains / total - 1 / n) ** 2).sum() / n),
        noise=float(((responses / total) ** 2).sum() / n),
    )


def _decoder(protocol: Protocol) -> np.ndarray:
    """The first column of C⁻¹."""
    column = np.zeros(protocol.rounds)
    column[: len(protocol.code)] = [float(value) for value in protocol.code]
    first = np.eye(protocol.rounds)[0]
    code = linalg.toeplitz(column, np.zeros(protocol.rounds))
    return np.asarray(linalg.solve_triangular(code, first, lower=True))
