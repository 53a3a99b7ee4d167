# SPDX-License-Identifier: Apache-2.0
"""Every numbered statement of the paper: what it says, whether it holds, and the functions that compute it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["STATEMENTS", "Statement", "Status"]

Status = Literal["definition", "holds", "holds under a condition", "does not hold"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One numbered statement of the paper.

    `note` gives the condition or what is wrong; `erratum` the letter of the study that shows it, or "" where there is
    none; `functions` are dotted paths.
    """

    number: str
    about: str
    status: Status
    functions: tuple[str, ...]
    note: str = ""
    erratum: str = ""


STATEMENTS = (
    Statement(
        number="Definition 1",
        about="(ε, δ)-differential privacy",
        status="definition",
        functions=("sottovoce.gaussian.delta",),
    ),
    Statement(
        number="Lemma 2",
        about="δ(ε) is a hockey-stick divergence",
        status="holds",
        functions=("sottovoce.gaussian.delta",),
    ),
    Statement(
        number="Definition 3",
        about="the Gaussian mechanism",
        status="definition",
        functions=("sottovoce.gaussian.delta", "sottovoce.gaussian.epsilon"),
    ),
    Statement(
        number="Lemma 4",
        about="T Gaussian mechanisms compose to μ = √T·Δ/σ",
        status="holds",
        functions=("sottovoce.theory.composed_mu",),
    ),
    Statement(
        number="Definition 5",
        about="compact SVD and pseudoinverse",
        status="definition",
        functions=("sottovoce.theory.projected_sensitivity",),
    ),
    Statement(
        number="Lemma 6",
        about="a projected Gaussian mechanism has sensitivity ‖A⁺v‖",
        status="holds",
        functions=("sottovoce.theory.projected_sensitivity",),
    ),
    Statement(
        number="Definition 7",
        about="primitive gossip matrices",
        status="definition",
        functions=("sottovoce.graphs.check_weights", "sottovoce.graphs.spectrum"),
    ),
    Statement(
        number="Remark 8",
        about="a primitive W has one eigenvalue 1, all others are smaller",
        status="holds",
        functions=("sottovoce.graphs.spectrum",),
    ),
    Statement(
        number="Lemma 9",
        about="W = 11ᵀ/n + R with ‖Rᵗ‖ ≤ ρᵗ",
        status="holds",
        functions=("sottovoce.theory.decompose",),
    ),
    Statement(
        number="Lemma 10",
        about="a view is H_T times contributions and noise",
        status="holds",
        functions=("sottovoce.theory.system_matrix",),
        note="the last line of the recursion is y_T, printed y_{T−1}; the noise has nT entries, printed T",
        erratum="e",
    ),
    Statement(
        number="Remark 11",
        about="selectors for a neighbourhood and for secure summation",
        status="holds under a condition",
        functions=("sottovoce.View",),
        note="S = e_i shows the sums of rounds 1..T−1 only: the last sum that i receives is not in it",
    ),
    Statement(
        number="Theorem 12",
        about="node j has the guarantee of a Gaussian mechanism with Δ, and Δ is bounded by absolute sums",
        status="holds under a condition",
        functions=(
            "sottovoce.theory.quadratic_form",
            "sottovoce.theory.largest_over_signs",
            "sottovoce.theory.absolute_bound",
            "sottovoce.sensitivity",
        ),
        note="for numbers fixed in advance; the sums bound Δ² and not Δ; vectors and hidden states need more",
        erratum="d, e, f",
    ),
    Statement(
        number="Section 3.3",
        about="known noise: columns of H_T removed",
        status="holds",
        functions=("sottovoce.theory.quadratic_form",),
    ),
    Statement(
        number="Section 3.4",
        about="Δ² ≤ T·λ_max(M)",
        status="holds",
        functions=("sottovoce.theory.spectral_bound",),
        note="M_T is T × T, printed Tm × Tm",
        erratum="e",
    ),
    Statement(
        number="Theorem 13",
        about="Δ²/T → 1/n for every target of a single-node view",
        status="does not hold",
        functions=("sottovoce.theory.single_node_limit", "sottovoce.theory.constant_limit", "sottovoce.rate"),
        note="holds for constant contributions, for far targets and on well-mixing graphs; the limit is sup φ",
        erratum="a",
    ),
    Statement(
        number="Remark 14",
        about="T/n is what central aggregation gives",
        status="holds",
        functions=("sottovoce.theory.central_growth",),
        note="nσ² is the noise variance of the sum, not of the average",
        erratum="e",
    ),
    Statement(
        number="Theorem 15",
        about="Δ² ≤ (m/n)T + 2/(1−ρ)²·√((m/n)T) + 2/(1−ρ)⁴ when m nodes are seen",
        status="does not hold",
        functions=("sottovoce.theory.multiple_node_bound", "sottovoce.theory.multiple_node_limit"),
        note="m/n is the mean over targets; a target that is seen itself has nearly 1; Δ²/T is printed for Δ²",
        erratum="b",
    ),
    Statement(
        number="Theorem 16",
        about="lim sup Δ²/T ≤ m/(n−m) when the observers' noise is known",
        status="does not hold",
        functions=("sottovoce.theory.removed_noise_limit",),
        note="a neighbour has about 1/degree",
        erratum="c",
    ),
    Statement(
        number="Eq. 5.4",
        about="Δ² ≤ T/n + (2/γ²)·√(T/n) + 2/γ⁴ for one node",
        status="does not hold",
        functions=("sottovoce.theory.single_node_bound",),
        note="two nodes that average exceed it",
        erratum="a",
    ),
    Statement(
        number="Eq. 5.5",
        about="classical calibration σ = Δ·√(2 log(1.25/δ))/ε",
        status="holds under a condition",
        functions=("sottovoce.theory.classical_noise", "sottovoce.theory.analytic_noise"),
        note="for ε < 1",
        erratum="e",
    ),
    Statement(
        number="Theorem 17",
        about="five terms of the excess risk of private decentralised learning",
        status="does not hold",
        functions=("sottovoce.theory.excess_risk_terms",),
        note="not with the constant step 1/L; with a step tuned to T the leading term survives",
        erratum="g",
    ),
    Statement(
        number="Theorem A.1",
        about="views are matrix mechanisms (Bellet et al., Theorem 5)",
        status="holds",
        functions=("sottovoce.theory.system_matrix",),
    ),
    Statement(
        number="Definition A.2",
        about="sensitivity under participation",
        status="definition",
        functions=("sottovoce.Participation",),
    ),
    Statement(
        number="Theorem A.3",
        about="absolute sums bound the sensitivity of a matrix mechanism, chosen adaptively or not (Bellet et al.)",
        status="holds under a condition",
        functions=("sottovoce.theory.absolute_bound",),
        note="for its square, and for contributions that adapt to what the observer has seen, not to hidden states",
        erratum="e, f",
    ),
    Statement(
        number="Appendix F",
        about="the spectral bound is less than 10 percent above the constant-sign value",
        status="holds under a condition",
        functions=("sottovoce.theory.spectral_bound", "sottovoce.theory.constant_value"),
        note="on well-mixing graphs for long horizons; study figure-2 measures it",
    ),
    Statement(
        number="Lemma G.2",
        about="the transient part of Δ² is bounded for all T",
        status="does not hold",
        functions=("sottovoce.theory.transient_constant", "sottovoce.theory.transient_form"),
        note="a residual of the Gram projection is compared with a predictor that it does not minimise over",
        erratum="e",
    ),
    Statement(
        number="Lemma H.1",
        about="the same for m observed nodes",
        status="does not hold",
        functions=("sottovoce.theory.transient_constant",),
        note="as Lemma G.2; also K_T = (1/n)J ⊗ I_m + G_T should read J ⊗ 11ᵀ",
        erratum="e",
    ),
    Statement(
        number="Lemma J.1",
        about="one gossip step leaves at most ρ² of the disagreement",
        status="holds",
        functions=("sottovoce.theory.contraction", "sottovoce.theory.consensus_parameter"),
    ),
    Statement(
        number="Lemma J.2",
        about="1/p = O(1/γ) for p = 1 − ρ²",
        status="holds",
        functions=("sottovoce.theory.consensus_parameter", "sottovoce.theory.printed_consensus_parameter"),
        note="Eq. 5.3 and the proof of Theorem 17 print p = 1 − γ²",
        erratum="e",
    ),
    Statement(
        number="Lemma J.3",
        about="convergence of decentralised SGD (Koloskova et al.)",
        status="holds under a condition",
        functions=("sottovoce.theory.template_terms",),
        note="for a step tuned to T and weighted averages, not for the constant step 1/L",
        erratum="g",
    ),
)
