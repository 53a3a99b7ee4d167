# SPDX-License-Identifier: Apache-2.0
"""Check a certificate on the graph it speaks of, by code that shares nothing with what found it.

A certificate claims lower ≤ Δ² ≤ upper for one target, one view and one protocol, and carries hints: a vector y, a
witness, factors, an attack. Nothing here believes a hint. Each is put into an inequality that holds for every
choice of it, so that a bad hint proves less, and never something false.

The way from the file to the verdict, in order:

1. `sottovoce.certificates` reads the file: types, finite numbers, lengths, and the hash against accidents.
2. `checking.verify` compares the hashes of weights and protocol with what is at hand, and chooses an arithmetic.
3. `meaning` turns words into rationals: the rows C that the view shows, the nodes whose noise is known, the target.
   Floats of the file count as the rationals that they are.
4. The upper end, then the lower end, by one of the two paths below.
5. `checking` writes the verdict: every check by name, what was proved, and what was taken on trust.
6. For a report of many pairs `accounts.verify_account` does this for the worst pair, and shows of the others
   (`others`, `training.no_worse_in_training`) that none is worse.

**Balls** (`balls`, needs python-flint) is the path to read first. Rationals as far as they go, then midpoints with
a proved radius; no error analysis, and no margin.

**Floats** (`floats` and all other modules) prove the same in double precision and reach further. Every step has a
bound of its rounding, stated where it is used:

| claim | upper end | lower end |
|---|---|---|
| gossip, dense | `spans`, `hidden` (ranks), `forms` (M, diag(y) ⪰ M), `ends` | `forms`, `ends` |
| programs, dense | `programs`: `backwards`, `fresh`, `definition`, `ports`, `forms`, `ends` | `definition` |
| gossip, horizon | `hidden`, `reduction` (a small model), `horizon` (bounded-real inequalities) | none |
| training, shift | `training`: `asked`, `loops` (what is hidden), `shift` (steps that contract) | `attacks` |
| training, moves | `memory`: `recursions` (differences of a program), `moves` (an inequality for each) | none |
| training, dense | `memory` (as if every message were heard), then as averaging | none |

Notation of the room: u = 2⁻⁵³ is `UNIT_ROUNDOFF`, and γ_k = ku/(1 − ku) is `rounding.gamma(k)`. A sum of k products,
done in whatever order, is off by at most γ_k times the same sum with absolute values (Higham, Accuracy and
Stability of Numerical Algorithms, Section 3.1). Factors 1.01 on a bound stand for the rounding of the bound itself.

What is trusted: Python, numpy, scipy and IEEE arithmetic rounded to nearest (in balls Python and FLINT); of LAPACK that
it factorises and substitutes by sums of products, in whatever order, while spectra, inverses and orthonormal bases
are guesses that `spectra` proves or measures; the exact rows of `GossipWeights`, `Participation`, and what
`Verification.trusted` says in words. Nothing of `filtering`, `rates` or `sensitivities` is imported; a test reads the
imports.
"""

from sottovoce.verification.accounts import (
    MOST_FURTHER,
    AccountVerification,
    verify_account,
)
from sottovoce.verification.asked import TrainingQuestion, squares_below, training_question
from sottovoce.verification.attacks import attained_by_each, rates_by_each
from sottovoce.verification.checking import Verdict, Verification, stored_weights, verify
from sottovoce.verification.loops import ExactRow, HiddenLoop, hidden_loop, kernel
from sottovoce.verification.meaning import program_question, question
from sottovoce.verification.memory import AlikePairs, as_if_heard, memory_recursion, own_price, price_of
from sottovoce.verification.moves import Exact, Move, Recursion, product, proved_cost, stored_moves
from sottovoce.verification.programs import require_affordable
from sottovoce.verification.recursions import Parts, worked_out, zeros
from sottovoce.verification.shift import check_shift, stored_form
from sottovoce.verification.stated import StatedAccount
from sottovoce.verification.training import simple_bound

__all__ = [
    "MOST_FURTHER",
    "AccountVerification",
    "AlikePairs",
    "Exact",
    "ExactRow",
    "HiddenLoop",
    "Move",
    "Parts",
    "Recursion",
    "StatedAccount",
    "TrainingQuestion",
    "Verdict",
    "Verification",
    "as_if_heard",
    "attained_by_each",
    "check_shift",
    "hidden_loop",
    "kernel",
    "memory_recursion",
    "own_price",
    "price_of",
    "product",
    "program_question",
    "proved_cost",
    "question",
    "rates_by_each",
    "require_affordable",
    "simple_bound",
    "squares_below",
    "stored_form",
    "stored_moves",
    "stored_weights",
    "training_question",
    "verify",
    "verify_account",
    "worked_out",
    "zeros",
]
