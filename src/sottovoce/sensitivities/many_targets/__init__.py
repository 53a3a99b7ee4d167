# SPDX-License-Identifier: Apache-2.0
"""Second storey: all targets of a view at once, from tables of the filter that serve every one of them.

What a bound needs of a target is a quadratic form of its input b, so that r basis responses serve any number.

| module | question |
|---|---|
| `at_once` | which bound serves which target, and what does a stream attain? The door: `ends_at_once` |
| `projection` | what if the response is smooth in time, as that of far targets is? |
| `polynomials` | which slow streams stand for all others? |
| `details` | what do streams show that are beside the slow ones? |
| `block_dual` | which diagonals lie above forms on blocks, and what do vectors that keep to a block attain? |
| `lag_sums` | what if the filter settles long before the end? |
| `peak` | what if the best stream turns at one frequency, as that of near targets does? |
| `streams` | what does a stream that turns, or never changes, attain? |
| `lag_forms` | what does a settled filter show of an input ever later, and how far off is that? |
| `units` | in which units are all states seen about equally well? |
| `programs` | how do these bounds serve protocols that are not plain gossip, and what if rounds differ? |
"""
