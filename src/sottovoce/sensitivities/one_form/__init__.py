# SPDX-License-Identifier: Apache-2.0
"""First storey: one quadratic form M, written out, → attained ≤ Δ² ≤ bound, with the stream and the y behind them.

| module | question |
|---|---|
| `solution` | what is known of Δ² when the target contributes in every round? The door: `solve_form` |
| `batches` | and of many forms at once, in ends that hold for the true forms? `batch_ends` |
| `patterns` | and when it contributes in some rounds only, over a family of patterns? `solve_participation` |
| `energy` | and when its contributions share one norm, Σ‖c_t‖² ≤ 1? `solve_energy` |
| `bounds` | which y with diag(y) ⪰ M need no search? Absolute values and the largest eigenvalue |
| `dual` | which y has the least sum, and is diag(y) ⪰ M proved in floating point? `is_dominated` says so |
| `witnesses` | which streams show that Δ² is no smaller? |

`solution` takes the better of `bounds` and `dual` above and of `witnesses` below; `patterns` and `energy` ask it,
or the same modules, for M on the rounds of a pattern.
"""
