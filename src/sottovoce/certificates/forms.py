# SPDX-License-Identifier: Apache-2.0
"""What stands in the file of a certificate, field by field. What it means is checked by the values made of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from sottovoce.certificates.shifts import Method
from sottovoce.forms import CountedLabels, Form

__all__ = [
    "AttackForm",
    "CertificateForm",
    "ClaimForm",
    "CustomViewForm",
    "DenseForm",
    "DrawForm",
    "HorizonForm",
    "InstructionForm",
    "Label",
    "MatrixForm",
    "MechanismForm",
    "MovesForm",
    "NamedViewForm",
    "Number",
    "Numbers",
    "ProtocolForm",
    "RoundForm",
    "ShiftForm",
    "StepForm",
    "UpdatesForm",
    "WeightsForm",
]

# What a certificate may hold of programs: far more than people write, and not enough to keep a reader busy.
MOST_INSTRUCTIONS, MOST_REGISTERS = 1000, 100

Number = int | float | str
"""A rational: a JSON number is the one it is, text such as "1/3" the one it says."""

Numbers = Number | list[Number]
"""One rational for all nodes, or one a node."""

Label = bool | int | float | str | list[Any] | None
"""A node's name; a list stands for a tuple."""

Some = Meta(min_length=1)


class MatrixForm(Form, frozen=True, kw_only=True):
    """Gossip weights in compressed rows without the diagonal, which is null where it is what is left to 1."""

    labels: CountedLabels | list[Label]
    indptr: list[int]
    indices: list[int]
    values: list[Number]
    diagonal: list[float] | None


class WeightsForm(Form, frozen=True, kw_only=True):
    """The weights of a round: their hash, how they are said to have been built, and themselves."""

    hash: str
    rule: str
    matrix: MatrixForm | None


class DrawForm(Form, frozen=True, kw_only=True):
    """Noise of a program."""

    name: str
    level: Numbers
    each: str


class InstructionForm(Form, frozen=True, kw_only=True):
    """A register set to a weighted sum (`combine`, `terms`), or one sent, and where what was received goes.

    Which of the fields go together `Program.from_json` knows, for files of every kind.
    """

    combine: str | UnsetType = UNSET
    terms: dict[str, Numbers] | UnsetType = UNSET
    exchange: str | UnsetType = UNSET
    into: str | UnsetType = UNSET


class RoundForm(Form, frozen=True, kw_only=True):
    """What nodes do in a round: the types of its parts. What they mean together `Program.from_json` says."""

    keeps: Annotated[list[str], Meta(max_length=MOST_REGISTERS)]
    draws: Annotated[list[DrawForm], Meta(max_length=MOST_REGISTERS)]
    instructions: Annotated[list[InstructionForm], Meta(max_length=MOST_INSTRUCTIONS)]
    model: str


class UpdatesForm(Form, frozen=True, kw_only=True):
    """The ball of slopes of the update maps of training, one pair a node."""

    lower: list[float]
    upper: list[float]


class ProtocolForm(Form, frozen=True, kw_only=True):
    """Weights and programs of rounds 1, 2, …, which repeat; the encoder of the noise; the maps of training."""

    weights: Annotated[list[WeightsForm], Some]
    programs: Annotated[list[RoundForm], Some]
    rounds: int
    encoder: Annotated[list[Number], Some]
    updates: UpdatesForm | Literal["any"] | None


class NamedViewForm(Form, frozen=True, kw_only=True):
    """A view that has a name."""

    name: str
    observers: list[Label]
    own_noise: str
    exchanges: list[int] | None


class CustomViewForm(Form, frozen=True, kw_only=True):
    """A view of rows of its own, as pairs of a node's index and a number."""

    name: Literal["custom"]
    rows: list[list[tuple[int, Number]]]
    known_noise: list[Label]
    exchanges: list[int] | None


class ClaimForm(Form, frozen=True, kw_only=True):
    """The ends of Δ²."""

    lower: float
    upper: float


class DenseForm(Form, frozen=True, kw_only=True, tag_field="kind", tag="dense"):
    """Hints for a claim that is rebuilt whole."""

    y: list[float] | None
    witness: list[list[float]] | None


class HorizonForm(Form, frozen=True, kw_only=True, tag_field="kind", tag="horizon"):
    """Hints for a claim on very many rounds."""

    start: list[float]
    rate: float


class StepForm(Form, frozen=True, kw_only=True):
    """One round of a proof of kind shift."""

    factor: list[list[float]]
    multipliers: list[float]
    kappa: float
    last: bool


class AttackForm(Form, frozen=True, kw_only=True):
    """Linear maps and a statistic that show what Δ² of training is at least."""

    slopes: list[list[float]]
    statistic: list[list[list[float]]]
    contributions: list[list[float]]
    angle: float | None


class ShiftForm(Form, frozen=True, kw_only=True, tag_field="kind", tag="shift"):
    """Hints for a claim on training."""

    method: Method
    support: list[int]
    start: list[StepForm]
    recurring: list[StepForm] = field(name="bulk")
    end: list[StepForm]
    attack: AttackForm | None


class MovesForm(Form, frozen=True, kw_only=True, tag_field="kind", tag="moves"):
    """Hints for a claim on training that remembers more than a model."""

    factors: list[list[list[float]]]
    multipliers: list[list[float]]
    kappas: list[float]


class MechanismForm(Form, frozen=True, kw_only=True):
    """What turns a sensitivity into an (ε, δ)."""

    noise_multiplier: float
    delta: float
    relation: str


class CertificateForm(Form, frozen=True, kw_only=True):
    """The whole file; `view` is a `CustomViewForm` or a `NamedViewForm`, told by its name.

    `hash` is the SHA-256 of everything else in canonical form.
    """

    schema: Literal[3]
    protocol: ProtocolForm
    view: dict[str, Any]
    target: Label
    contribution: str
    participation: str
    claim: ClaimForm
    proof: DenseForm | HorizonForm | ShiftForm | MovesForm
    mechanism: MechanismForm | None
    hash: str
