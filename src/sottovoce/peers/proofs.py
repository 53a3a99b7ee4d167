# SPDX-License-Identifier: Apache-2.0
"""A certificate of a run: what each observer knows of a node, proved from transcripts, in a file that others check.

The node signs it. It names the transcripts that it follows from by their digests, and holds for each observer the
certificates of `sottovoce.certificates` that prove its number. Whoever checks it believes none of the numbers: the
schedule of weights is built again from the transcripts, every certificate is proved again on it, and ε follows.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from cryptography.exceptions import InvalidSignature

from sottovoce.certificates import from_document, to_document
from sottovoce.errors import FileError, InputError, probability
from sottovoce.files import put_whole
from sottovoce.forms import Form, read_form, strict_json
from sottovoce.peers.history import history_of
from sottovoce.peers.messages import Refused
from sottovoce.peers.notes import AnyNote, Begun
from sottovoce.peers.spending import layout_of, observers_of, spent, stands_alone, total
from sottovoce.peers.transcript import line_of, read_transcript
from sottovoce.verification import verify

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sottovoce.certificates import Certificate
    from sottovoce.peers.history import RunHistory
    from sottovoce.peers.identity import Identity
    from sottovoce.peers.network import Network
    from sottovoce.peers.spending import CertifiedRounds, Spent

__all__ = [
    "Checked",
    "RunCertificate",
    "Stated",
    "authors_of",
    "certify_run",
    "made_before",
    "read_run",
    "verify_run",
    "write_run",
]

_CONTEXT = b"sottovoce run certificate 1\n"
# Of a first line: the parts of a run of thousands of nodes.
_LONGEST = 2**20


class Stated(Form, frozen=True, kw_only=True):
    """What one set of observers knows at most; nobody is whoever reads every message."""

    observers: list[str]
    together: bool
    seen: Annotated[int, msgspec.Meta(ge=0)]
    squared: float
    mu: float
    epsilon: float
    certificates: list[dict[str, Any]]


class RunCertificate(Form, frozen=True, kw_only=True):
    """The file: of which network, run and node, from which transcripts, and what follows for whom."""

    schema: Literal["sottovoce run certificate 1"] = "sottovoce run certificate 1"
    network: str
    run: str
    me: str
    sent: int
    delta: float
    size: Annotated[int, msgspec.Meta(ge=1, le=64)]
    transcripts: dict[str, str]
    known: list[Stated]
    signature: str = ""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What became of one statement: the ε that was proved again."""

    observers: tuple[str, ...]
    claimed: float
    proved: float

    @property
    def holds(self) -> bool:
        """Whether no more is claimed than was proved."""
        return self.proved <= self.claimed


def certify_run(
    network: Network,
    identity: Identity,
    transcripts: Mapping[str, Path],
    *,
    delta: float,
    size: int = 2,
    checked: bool = False,
) -> RunCertificate:
    """The certificate of a node from its own transcript, and of what others lay open of theirs.

    Guarantee: `verify_run` accepts it, on the same files. `checked` says that signatures were checked as they came.
    """
    probability(delta=delta)
    me, names = network.index(identity.name), network.names
    network, lines, digests = _read(network, transcripts)
    history = history_of(network, lines, checked=checked)
    found = [spent(history, me, group, delta=delta) for group in observers_of(network, me, size)]
    made = RunCertificate(
        network=network.hash.hex(),
        run=network.run_name.hex(),
        me=identity.name,
        sent=sum(i == me for _, i in history.sent),
        delta=delta,
        size=size,
        transcripts=digests,
        known=[_stated(each, names) for each in found],
    )
    signature = identity.signing.sign(_CONTEXT + _form(made))
    return msgspec.structs.replace(made, signature=base64.b64encode(signature).decode())


def _stated(found: Spent, names: tuple[str, ...]) -> Stated:
    return Stated(
        observers=[names[i] for i in found.observers],
        together=found.together,
        seen=found.seen,
        squared=found.squared,
        mu=found.mu,
        epsilon=found.epsilon,
        certificates=[to_document(each) for each in found.certificates],
    )


def verify_run(
    certificate: RunCertificate, network: Network, transcripts: Mapping[str, Path]
) -> tuple[Checked, ...]:
    """Prove a certificate of a run again: signatures, transcripts, the schedule, each certificate in it, and ε.

    Guarantee: if every statement `holds`, ε ≤ what it claims, if transcripts of hidden nodes are true, and given what
    `sottovoce.verification.verify` trusts. What is not genuine, or of another run, is refused as an error.
    Source: docs/proofs/transcripts.md.
    """
    if certificate.network != network.hash.hex():
        raise InputError(
            f"the certificate is of the network {certificate.network}, and this one's hash is {network.hash.hex()} "
            "(take the network.toml of that run)"
        )
    probability(delta=certificate.delta)
    me = network.index(certificate.me)
    if not _is_signed(certificate, network):
        raise InputError(f"the certificate is not signed by {certificate.me} (take the original file)")
    network, lines, digests = _read(network, transcripts)
    if certificate.run != network.run_name.hex():
        raise InputError(
            f"the certificate is of the run {certificate.run}, and the transcripts are of {network.run_name.hex()} "
            "(lay those of that run beside it)"
        )
    if digests != certificate.transcripts:
        other = sorted(
            name
            for name in {*digests, *certificate.transcripts}
            if digests.get(name) != certificate.transcripts.get(name)
        )
        raise InputError(
            f"the certificate follows from other transcripts of {', '.join(other)} (lay those that it names beside it)"
        )
    history = history_of(network, lines)
    stated = [tuple(network.index(name) for name in each.observers) for each in certificate.known]
    if stated != observers_of(network, me, certificate.size):
        raise InputError("the certificate leaves out observers, or names some twice (certify again)")
    if certificate.sent != sum(i == me for _, i in history.sent):
        raise InputError(
            f"the transcript of {certificate.me} does not say that it sent {certificate.sent} times"
        )
    return tuple(
        _checked(history, me, group, each, certificate.delta)
        for group, each in zip(stated, certificate.known, strict=True)
    )


def _is_signed(certificate: RunCertificate, network: Network) -> bool:
    """Whether the node that a certificate names signed it."""
    try:
        network.settings.nodes[network.index(certificate.me)].signing_key.verify(
            base64.b64decode(certificate.signature, validate=True),
            _CONTEXT + _form(msgspec.structs.replace(certificate, signature="")),
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def made_before(
    network: Network, path: Path, transcript: Path, *, delta: float, size: int
) -> RunCertificate | None:
    """The certificate in a file, if the node signed it for this run, as its transcript stands and for what is asked.

    Guarantee: it is what `certify_run` made, to the last bit, of the same transcript.
    """
    try:
        found = read_run(path)
        digest = hashlib.sha256(transcript.read_bytes()).hexdigest()
    except (FileError, OSError):
        return None
    asked = (network.hash.hex(), network.run_name.hex(), {found.me: digest}, delta, size)
    said = (found.network, found.run, found.transcripts, found.delta, found.size)
    return found if said == asked and found.me in network.names and _is_signed(found, network) else None


def _checked(history: RunHistory, me: int, group: tuple[int, ...], stated: Stated, delta: float) -> Checked:
    """What the certificates of one statement prove on the schedule that the transcripts tell."""
    layout = layout_of(history, me, group, together=stated.together)
    held: dict[str, Certificate] = {}
    for document in stated.certificates:
        read = from_document(document)
        held[read.protocol_hash] = read

    def proof(part: CertifiedRounds) -> float | None:
        certificate = held.pop(part.protocol.hash, None)
        if certificate is None or not (part.together or stands_alone(certificate)):
            return None
        view, mine = certificate.view, layout.view
        named = (view.name, view.observers, view.own_noise, view.exchanges, certificate.target)
        asked = (mine.name, mine.observers, mine.own_noise, mine.exchanges, layout.network.names[me])
        if named != asked or (certificate.participation, certificate.contribution) != ("full", "vector"):
            return None
        return float(verify(certificate, part.protocol).squared.upper)

    found = total(layout, proof, delta)
    if held:
        raise InputError(
            "a certificate speaks of weights that the transcripts do not tell of (certify again)"
        )
    # All of these numbers are claims.
    enough = (stated.seen, stated.squared) >= (found.seen, found.squared) and stated.mu >= found.mu
    claimed = stated.epsilon if enough else 0.0
    return Checked(observers=tuple(stated.observers), claimed=claimed, proved=found.epsilon)


def write_run(certificate: RunCertificate, path: Path) -> None:
    """Write it, whole or not at all."""
    content = msgspec.json.format(msgspec.json.encode(certificate), indent=1) + b"\n"
    try:
        put_whole([content], path.parent, lambda: path.name, rights=0o644)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror or error} (make room)") from None


def read_run(path: Path) -> RunCertificate:
    """Read a certificate of a run; a file that is none is refused."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read: {error} (check the path)") from None
    try:
        return read_form(
            strict_json(text, "a certificate of a run"), RunCertificate, "a certificate of a run"
        )
    except InputError as error:
        raise FileError(f"{path}: {error}") from None


def _read(
    network: Network, transcripts: Mapping[str, Path]
) -> tuple[Network, dict[str, list[AnyNote]], dict[str, str]]:
    """The one run of transcripts, their lines, each checked under the key that is pinned for its author, and digests.

    The name of the run is made again from what each node drew and signed, as the first line of each transcript says.
    """
    lines, digests = {}, {}
    for name, path in sorted(transcripts.items()):
        key = network.settings.nodes[network.index(name)].signing_key
        lines[name] = read_transcript(path, key)
        digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    runs = {_parts_in(each) for each in lines.values()}
    if len(runs) != 1:
        raise InputError(f"transcripts must be of one run; these are of {len(runs)} (leave the others out)")
    try:
        return network.joined(runs.pop()), lines, digests
    except (Refused, ValueError) as error:
        raise InputError(f"transcripts must be of a run of this network: {error}") from None


def _parts_in(lines: Sequence[AnyNote]) -> tuple[bytes, ...]:
    """What every node drew for a run, by the first line of a transcript."""
    first = lines[0]
    if not isinstance(first, Begun):
        raise InputError("a transcript must begin with the parts of its run (take the original file)")
    return first.parts


def authors_of(paths: Iterable[Path]) -> dict[str, Path]:
    """Whose transcripts files are, by what their first lines say; whether that is so is checked when they are read."""
    found: dict[str, Path] = {}
    for path in paths:
        try:
            with path.open("rb") as stream:
                first = line_of(stream.readline(_LONGEST).removesuffix(b"\n"))
        except OSError as error:
            raise FileError(f"{path}: cannot be read: {error.strerror or error} (check the path)") from None
        except InputError as error:
            raise FileError(f"{path}: begins as no transcript does: {error}") from None
        if not isinstance(first, Begun) or first.me in found:
            raise FileError(
                f"{path}: begins as no transcript does, or as one that was given (check the path)"
            )
        found[first.me] = path
    return found


def _form(certificate: RunCertificate) -> bytes:
    return msgspec.json.encode(certificate, order="deterministic")
