# SPDX-License-Identifier: Apache-2.0
"""Whether the numbers in a certificate mean what its words say: rows and known noise, and a stored model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.verification.hidden import hidden_nodes, rational_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.certificates import Certificate, HorizonModel, SparseRows
    from sottovoce.verification.hidden import RationalWeights

__all__ = ["LARGEST_REBUILT", "model_mismatch", "view_mismatch"]

# A stored model is compared with its graph up to this many nodes and responses.
LARGEST_REBUILT = 2000
_MOST_RESPONSES = 256


def view_mismatch(certificate: Certificate) -> str:
    """How the stored rows and known noise differ from what the named view means on the stored weights; empty if not.

    A custom view means its rows, whatever they are.
    """
    if certificate.view == "custom" or certificate.weights is None:
        return ""
    place = {label: k for k, label in enumerate(certificate.labels)}
    unknown = [label for label in certificate.observers if label not in place]
    if unknown:
        return f"the observer {unknown[0]!r} is not a node of the graph"
    observers = sorted(place[label] for label in certificate.observers)
    rows = _named_rows(certificate.view, observers, certificate.weights)
    if rows is None:
        return f"no view is called {certificate.view!r}"
    told = certificate.own_noise == "known" and certificate.view != "everyone"
    if sorted(certificate.known_noise.tolist()) != (observers if told else []):
        return f"the known noise is not that of the {certificate.view} view"
    stored = [certificate.observation.row(k) for k in range(certificate.observation.rows)]
    if sorted(map(_key, stored)) != sorted(map(_key, rows)):
        return f"the observed rows are not those of the {certificate.view} view"
    return ""


def _named_rows(name: str, observers: list[int], weights: SparseRows) -> list[dict[int, float]] | None:
    """The rows that a named view sees of each round's messages; None for a name that is not one."""
    senders = {j for i in observers for j in weights.row(i) if j != i}
    match name:
        case "everyone":
            seen = [*range(weights.rows)]
        case "neighbourhood":
            seen = [*{*observers, *senders}]
        case "single-node":
            seen = observers
        case "coalition-messages":
            seen = [*(senders - set(observers))]
        case "secure-sum" | "coalition-sums":
            return [weights.row(i) for i in observers]
        case _:
            return None
    return [{i: 1.0} for i in seen]


def _key(row: dict[int, float]) -> list[tuple[int, float]]:
    """A row in a form that can be sorted and compared."""
    return sorted(row.items())


def model_mismatch(certificate: Certificate, model: HorizonModel) -> tuple[float, int]:
    """How far the stored model is from the graph in its first responses, and how many of them were compared.

    With V_ℓ = C Aˡ over the hidden nodes and R_ℓ = C_r A_rˡ, the numbers ⟨V_ℓ e_j, V_k e_j⟩ and tr(V_ℓ V_kᵀ), which no
    choice of basis changes, must be ⟨R_ℓ b, R_k b⟩ and tr(R_ℓ R_kᵀ). Twice as many responses as there are states are
    compared and a few more, at most 256; for several observed rows these numbers do not fix the model altogether.
    """
    hidden = hidden_nodes(certificate, _rationals(certificate), complete=True)
    count = min(certificate.rounds, 2 * model.source.size + 8, _MOST_RESPONSES)
    target = int(np.searchsorted(hidden.unknown, certificate.target))
    graph, reduced = [np.asarray(hidden.rows)], [model.rows]
    for _ in range(count - 1):
        graph.append(np.asarray((hidden.transition.T @ graph[-1].T).T))
        reduced.append(reduced[-1] @ model.transition)
    signals = (np.stack(graph)[:, :, target], np.stack(reduced) @ model.source)
    away = max(
        _apart(*(np.asarray(signal @ signal.T) for signal in signals)),
        _apart(*(_traces(np.stack(rows)) for rows in (graph, reduced))),
    )
    return away, count


def _rationals(certificate: Certificate) -> RationalWeights:
    """The stored weights in rationals."""
    assert certificate.weights is not None
    return rational_weights(certificate.weights, fractions=certificate.fractions)


def _traces(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """tr(V_ℓ V_kᵀ) for all ℓ and k."""
    flat = rows.reshape(len(rows), -1)
    return np.asarray(flat @ flat.T)


def _apart(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The largest difference of two matrices."""
    return float(np.abs(one - other).max())
