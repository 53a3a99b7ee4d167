# SPDX-License-Identifier: Apache-2.0
"""From a protocol and a view to the whitened response F: eliminate what is known, reduce, filter.

With N the map from unknown noise to what is seen and G that of a target's contributions, F = L⁻¹G for N Nᵀ = L Lᵀ,
and M = FᵀF = Gᵀ(N Nᵀ)⁻¹G is the quadratic form that `sottovoce.sensitivities` maximises. N and G are never formed.

Plain gossip, s_t = A s_{t−1} + x_t + u_t:

* `elimination` takes out what the observer can compute, with ranks decided in rationals (`rowspace`);
* `krylov_space` writes what is left in a few dozen coordinates, and says how far its relations are off;
* `kalman` runs the filter, `response` follows contributions through it, `gram` forms M from their responses;
* `closed_loop` is the filter once its gains no longer change, for long horizons and for `sottovoce.rates`.

Any other program, z_{t+1} = A z_t + B u_t + B_x x_t:

* `decorrelation` takes out what is known, in whole numbers; `stages` rounds what is left, each entry once;
* `backward` and `reduction` put large networks on a Krylov space, `growth` bounds what its cut part can become;
* `lifted` takes one of W for all that rows are made of (`generators`) where noise misses a combination of registers;
* `frozen_gains` says what gains cost that are frozen after some round;
* `windows` says what noise of several rounds puts into every direction where that of one does not;
* `restriction` leaves out what the observer knows where a filter runs away, by guesses of `residues` that it checks;
* `plain_steps` runs the filter in plain floats, `blocks` carries its rows back in blocks of rounds (`slabs` leaves out
  zeros), and `block_forms` forms M of them; `block_states` and `block_rounding` say how far it is off;
* where that leaves too much open, `innovations` runs it with products in `doubled` precision, so that defects of single
  steps are measured, and `program_forms` forms M from all rows; `overall` says for all targets at once how far they
  are off, from norms. `engines` chooses.

Allowances that proofs need are functions of `rounding` and `block_rounding`; what a single step errs by is put together
beside it, in the units of `sottovoce.rounding`; `lines` counts and adds up the entries that they speak of. `riccati`
and the goals of reductions are speed: what comes of them is measured.

Source: docs/mathematics.md, sections 4 to 6 and 11; docs/proofs/filter.md, docs/proofs/cut.md, docs/proofs/programs.md
and docs/proofs/blocks.md.
"""

from sottovoce.filtering.block_forms import BlockResponse
from sottovoce.filtering.closed_loop import ClosedLoop
from sottovoce.filtering.decorrelation import SeenRound, echelon, seen_view
from sottovoce.filtering.doubled import (
    Doubled,
    Parts,
    add,
    from_left,
    from_right,
    product,
    sparse_rows,
)
from sottovoce.filtering.elimination import HiddenSystem, hidden_system
from sottovoce.filtering.engines import program_response, quick_response
from sottovoce.filtering.frozen_gains import in_full
from sottovoce.filtering.innovations import FilterStep
from sottovoce.filtering.kalman import FilterSizes, Gains, gain_distortion, square, whitener_error
from sottovoce.filtering.krylov_space import KrylovSpace, krylov_space
from sottovoce.filtering.program_forms import ProgramForm, ProgramResponse
from sottovoce.filtering.rational_rows import float_row
from sottovoce.filtering.response import (
    BATCH_BYTES,
    ENGINES,
    EXPLICIT_ROUNDS,
    Engine,
    FilteredResponse,
    QuadraticForms,
    whitened_response,
)
from sottovoce.filtering.riccati import doublings
from sottovoce.filtering.rounding import (
    SMALLEST,
    UNDERFLOWN,
    Step,
    built_up,
    eigenvalue_ends,
    fine_gamma,
    norm_above,
    power_sum,
    product_error,
    spectral_norm,
    spread,
    terms,
    top_eigenvalue,
    transform_error,
    transform_units,
)
from sottovoce.filtering.windows import noise_of_rounds

__all__ = [
    "BATCH_BYTES",
    "ENGINES",
    "EXPLICIT_ROUNDS",
    "SMALLEST",
    "UNDERFLOWN",
    "BlockResponse",
    "ClosedLoop",
    "Doubled",
    "Engine",
    "FilterSizes",
    "FilterStep",
    "FilteredResponse",
    "Gains",
    "HiddenSystem",
    "KrylovSpace",
    "Parts",
    "ProgramForm",
    "ProgramResponse",
    "QuadraticForms",
    "SeenRound",
    "Step",
    "add",
    "built_up",
    "doublings",
    "echelon",
    "eigenvalue_ends",
    "fine_gamma",
    "float_row",
    "from_left",
    "from_right",
    "gain_distortion",
    "hidden_system",
    "in_full",
    "krylov_space",
    "noise_of_rounds",
    "norm_above",
    "power_sum",
    "product",
    "product_error",
    "program_response",
    "quick_response",
    "seen_view",
    "sparse_rows",
    "spectral_norm",
    "spread",
    "square",
    "terms",
    "top_eigenvalue",
    "transform_error",
    "transform_units",
    "whitened_response",
    "whitener_error",
]
