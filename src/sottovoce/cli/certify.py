# SPDX-License-Identifier: Apache-2.0
"""`sottovoce certify`: the sensitivity of one pair, with a proof that others can check."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sottovoce.cli.options import (
    AS_TEXT,
    SURROUNDINGS,
    Delta,
    Horizon,
    RelationName,
    Shown,
    Sight,
    Source,
    Spending,
    Surroundings,
    Tolerance,
    ViewOption,
    network,
    scenario_of,
)
from sottovoce.cli.printing import result_page, write_result
from sottovoce.cli.reporting import Carried, check_report, files_of, report_answer
from sottovoce.errors import FileError, InputError

__all__ = ["EXAMPLE", "USAGE", "certify"]

EXAMPLE = (
    "sottovoce certify karate --rounds 50 --view secure-sum --observer 3 --target 7 --output certificate.json"
)
USAGE = "sottovoce certify GRAPH --rounds INT --view VIEW --target STR --output PATH [OPTIONS]"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OnePair:
    """What one observer, or one coalition, sees of one target."""

    view: ViewOption
    observer: Annotated[
        tuple[str, ...],
        Parameter(
            help="Name of the observing node; repeat it for each member of a coalition.",
            show_default=False,
            negative_iterable=(),
        ),
    ] = ()
    target: Annotated[str, Parameter(help="Name of the node to protect.")]
    surroundings: Surroundings = SURROUNDINGS

    @property
    def sight(self) -> Sight:
        """The same as one of many."""
        return self.surroundings.seen(self.view, observer=self.observer, target=(self.target,))


def certify(
    graph: Source,
    /,
    *,
    span: Horizon,
    pair: OnePair,
    noise_multiplier: Annotated[
        float | None,
        Parameter(
            help="Have verify say the ε that follows for this noise, in units of the clipping norm.",
            show_default=False,
        ),
    ] = None,
    delta: Delta = 1e-5,
    relation: RelationName = "add-remove",
    tolerance: Tolerance = None,
    output: Annotated[Path, Parameter(help="Write the certificate to this .json file.")],
    shown: Shown = AS_TEXT,
) -> int:
    """Write a certificate of Δ² for one observer (or coalition) and one target, which verify can check."""
    from sottovoce import certificates, documents

    mechanism = None
    if noise_multiplier is not None:
        mechanism = certificates.Mechanism(noise_multiplier=noise_multiplier, delta=delta, relation=relation)
    elif relation != "add-remove":
        raise InputError(
            f"--relation {relation} changes what follows for ε, and no noise is given (add --noise-multiplier, or "
            "leave it out)"
        )
    spending = Spending(tolerance=tolerance).effort_of()
    documents.check_certificate_path(output)
    check_report(shown.report)
    chosen = network(graph, pair.surroundings.doing.weights, pair.surroundings.doing.protocol)
    _check_alone(pair)
    asked = scenario_of(chosen, pair.sight, span.under(relation))

    from sottovoce.sensitivities import certify as prove

    certificate = prove(asked, mechanism=mechanism, effort=spending)
    failure = None
    try:
        # A link keeps pointing to its file: what it points to is replaced, not the link.
        certificates.save(certificate, output.resolve())
    except FileError as error:
        failure = error
    written = None if failure else output
    document = documents.certificate_document(certificate, written, origin=chosen.weights.origin)
    if shown.json:
        write_result(documents.as_json(document))
    else:
        from sottovoce.cli.proof_tables import certificate_text

        with result_page() as console:
            certificate_text(console, document)
    report_answer(
        shown.report,
        document,
        title=f"Certificate on {Path(graph).name}",
        inputs=(graph, *files_of(pair.surroundings.doing)),
        carried=Carried(certificates=[certificates.to_text(certificate)]),
    )
    if failure is not None:
        raise failure
    return 0


def _check_alone(pair: OnePair) -> None:
    """Refuse several observers in turn: a certificate is about one view."""
    alone = pair.view not in {"everyone", "coalition-sums", "coalition-messages"}
    if alone and len(pair.observer) != 1:
        raise InputError(
            f"a certificate speaks of one observer; got {' and '.join(pair.observer) or 'none'} "
            "(name one with --observer)"
        )
