# SPDX-License-Identifier: Apache-2.0
"""`sottovoce verify`: whether a certificate, of a run too, or a report that carries some, proves what it claims."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - the parser reads the annotations
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sottovoce.cli.options import AS_TEXT, NO_MAPS, Doing, Maps, Shown, protocol_of
from sottovoce.cli.options import network as named_graph
from sottovoce.cli.printing import complain, progress, result_page, write_result
from sottovoce.cli.reporting import check_report, report_answer
from sottovoce.errors import FileError, InputError, NotCertified

if TYPE_CHECKING:
    from sottovoce.certificates import Certificate
    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Protocol

__all__ = ["EXAMPLE", "USAGE", "verify"]

EXAMPLE = "sottovoce verify certificate.json --graph karate"
USAGE = "sottovoce verify CERTIFICATE [OPTIONS]"


def verify(
    certificate: Annotated[
        Path,
        Parameter(
            help="A file that `sottovoce certify` or a --report wrote, or the certificate.json of a run."
        ),
    ],
    /,
    *,
    graph: Annotated[
        str | None,
        Parameter(
            help="The graph that the certificate must speak of: a file, or a name such as karate.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        Parameter(help="The gossip weights on --graph; auto if left out.", show_default=False),
    ] = None,
    protocol: Annotated[
        str | None,
        Parameter(
            help="What the nodes of --graph are meant to do each round, such as gossip or momentum:beta=0.9: a "
            "certificate of another protocol is refused. If left out, the program in the file is taken.",
            show_default=False,
        ),
    ] = None,
    maps: Maps = NO_MAPS,
    arithmetic: Annotated[
        Literal["auto", "float", "balls"],
        Parameter(
            help="What proves it: float, with margins for all rounding; balls, from the definitions in rationals and "
            "ball arithmetic, slower and simpler (needs python-flint); auto takes balls where they are at hand and "
            "the claim is small."
        ),
    ] = "auto",
    network: Annotated[
        Path | None,
        Parameter(
            help="The network.toml that the peers of a run agreed on: for the certificate.json of a run.",
            show_default=False,
        ),
    ] = None,
    transcript: Annotated[
        tuple[Path, ...],
        Parameter(
            help="A transcript that the certificate of a run follows from; transcript.jsonl beside it by default.",
            negative_iterable=(),
        ),
    ] = (),
    shown: Shown = AS_TEXT,
) -> int:
    """Check a certificate on the graph it speaks of; exit with code 3 unless everything that decides it is proved.

    Of a report, the worst pair of each view is checked by the certificate that the report carries, and the other pairs
    are proved no worse as far as that is affordable; what is left is on trust, with code 3.

    Without --graph the weights in the file are taken, and the best verdict is that the claim is consistent with them.

    The certificate of a run is proved with the keys in its --network, on the schedule that its transcripts tell.
    """
    from sottovoce import certificates
    from sottovoce.documents import is_report

    check_report(shown.report)
    if weights is not None and graph is None:
        raise InputError(
            f"--weights {weights} needs a graph to stand on; got none (name it with --graph, or leave it out)"
        )
    said = _said(protocol, maps)
    if _is_of_run(certificate):
        others = {"--graph": graph, "--report": shown.report, "--arithmetic": arithmetic}
        given = [f"{name} {value}" for name, value in others.items() if value not in (None, "auto")]
        return _run(certificate, network, transcript, said or next(iter(given), None), json=shown.json)
    if network is not None or transcript:
        raise InputError(
            f"--network and --transcript are for the certificate.json of a run; {certificate} is none (leave them out)"
        )
    if said and graph is None:
        raise InputError(f"{said} needs a graph to run on; got none (name it with --graph, or leave it out)")
    if is_report(certificate):
        if said:
            raise InputError(f"{said} is for certificates; got a report, which names its own (leave it out)")
        if arithmetic == "balls":
            raise InputError(
                "--arithmetic balls is for certificates; got a report, whose pairs are proved in floats alone (leave "
                "it out)"
            )
        return _report(certificate, graph, weights or "auto", shown)
    claim = certificates.load(certificate)
    meant = _meant(claim, graph, weights or "auto", protocol, maps)
    return _certificate(certificate, claim, meant, arithmetic, shown)


def _is_of_run(file: Path) -> bool:
    """Whether a file begins as the certificate of a run does; one that cannot be read is none."""
    try:
        with file.open("rb") as stream:
            return b'"sottovoce run certificate ' in stream.read(1000)
    except OSError:
        return False


def _run(
    file: Path, network: Path | None, transcripts: tuple[Path, ...], said: str | None, *, json: bool
) -> int:
    """Prove the certificate of a run again, as `peers verify` does."""
    from sottovoce.cli.peers import prove_run

    if said:
        raise InputError(f"{said} is for other certificates; {file} is of a run (leave it out)")
    if network is None:
        raise InputError(
            f"{file}: the certificate of a run is proved with the keys and weights that its peers agreed on; got no "
            "network (name it with --network network.toml)"
        )
    return prove_run(file, network, transcripts, json=json)


def _said(protocol: str | None, maps: Maps) -> str:
    """The option that says what nodes do, as it was written; empty where none does."""
    options = {"protocol": protocol, **asdict(maps)}
    given = (f"--{name.replace('_', '-')} {value}" for name, value in options.items() if value is not None)
    return next(given, "")


def _meant(
    claim: Certificate, graph: str | None, weights: str, protocol: str | None, maps: Maps
) -> GossipWeights | Protocol | None:
    """What the certificate is meant to speak of: nothing that is named, a network, or a protocol on it."""
    if graph is None:
        return None
    named = named_graph(graph, weights, protocol or _spelled(claim))
    if not _said(protocol, maps):
        return named.weights
    return protocol_of(named, Doing(protocol=protocol or "gossip", maps=maps), rounds=claim.rounds)


def _spelled(claim: Certificate | None) -> str:
    """A protocol that reads a graph as a certificate does: whether rows or columns of its weights sum to 1."""
    from sottovoce.graphs import uneven_row
    from sottovoce.verification import stored_weights

    try:
        divided = claim is not None and uneven_row(stored_weights(claim)[0].matrix) is not None
    except (InputError, NotCertified):
        # A large file holds hashes alone, and one that is no good is refused by the checks, with the reason.
        return "gossip"
    return "push-sum" if divided else "gossip"


def _report(file: Path, graph: str | None, weights: str, shown: Shown) -> int:
    """Check each view of a report, or the certificate that it carries alone."""
    from sottovoce import documents
    from sottovoce.documents import read_report
    from sottovoce.report import says_what_it_carries
    from sottovoce.verification import verify_account

    found = []
    read = read_report(file)
    carried = (*read.alone, *(view.certificate for view in read.views))
    first = next((each for each in carried if each is not None), None)
    meant = None if graph is None else named_graph(graph, weights, _spelled(first)).weights
    if read.alone:
        code = _certificate(file, read.alone[0], meant, "float", shown)
        return code if _page_agrees(says=says_what_it_carries(read)) else 3
    for view in read.views:
        try:
            with progress(f"pairs, {view.stated.view}") as callback:
                checked = verify_account(
                    view.stated, view.certificate, meant, further=view.further, progress=callback
                )
        except FileError:
            raise
        except InputError as error:
            raise FileError(f"{file}: {error}") from None
        found.append((view.certificate, checked))
    document = documents.report_verification_document(found, file, trusted=read.trusted, proved=read.proved)
    if shown.json:
        write_result(documents.as_json(document))
    else:
        from sottovoce.cli.proof_tables import report_verification_text

        with result_page() as console:
            report_verification_text(console, document)
    report_answer(shown.report, document, title=f"Verification of {file.name}", inputs=(file,))
    for told in document.views:
        if not told.verified:
            complain(f"not verified: {told.view}: {told.reason}")
    if not read.proved:
        complain(f"not verified: on trust are {'; '.join(read.trusted)}")
    if read.page is None and read.result is None:
        return 3
    agrees = _page_agrees(says=says_what_it_carries(read))
    return 0 if document.verified and agrees else 3


def _page_agrees(*, says: bool) -> bool:
    """Whether a page is what is written of its data; if not, with a word on it."""
    if not says:
        complain(
            "not verified: the page is not, to the letter, what this version writes of what the file carries; trust "
            "what stands above, not the page (write the report again with --report)"
        )
    return says


def _certificate(
    file: Path,
    claim: Certificate,
    meant: GossipWeights | Protocol | None,
    arithmetic: Literal["auto", "float", "balls"],
    shown: Shown,
) -> int:
    """Check one certificate."""
    from sottovoce import documents, verification

    try:
        found = verification.verify(claim, meant, arithmetic=arithmetic)
    except FileError:
        raise
    except InputError as error:
        raise FileError(f"{file}: {error}") from None
    document = documents.verification_document(claim, found, file)
    if shown.json:
        write_result(documents.as_json(document))
    else:
        from sottovoce.cli.proof_tables import verification_text

        with result_page() as console:
            verification_text(console, document, found.squared)
    report_answer(shown.report, document, title=f"Verification of {file.name}", inputs=(file,))
    if found.verified:
        return 0
    reason = (
        found.reason
        or "the claim is consistent with the weights in the file, but no graph was named (--graph)"
    )
    complain(f"not verified: {reason}")
    return 3
