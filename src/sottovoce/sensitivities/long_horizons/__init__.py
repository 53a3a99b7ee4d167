# SPDX-License-Identifier: Apache-2.0
"""Third storey: horizons too long for a T × T matrix, one target at a time.

| module | question |
|---|---|
| `closest` | which of the ways below is worth its time for which target? The door: `long_ends` |
| `insertion` | is the filter settled early? Then M of a few rounds tells M of many: `inserted_ends` |
| `start_and_rate` | is there a y that is constant after a start? `solve_horizon`, at a cost free of T |
| `round_by_round` | and if the filter takes thousands of rounds to settle? `solve_followed`, at a cost ∝ T |
| `bounded_real` | is diag(y) ⪰ M proved, without M? The recursion backwards through the rounds |
| `streams` | what do vectors that turn, or signs that repeat, attain? |
| `model` | the response of one target as matrices, and where it is largest over frequencies |
"""
