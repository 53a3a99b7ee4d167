# SPDX-License-Identifier: Apache-2.0
"""Who a node is: a key that signs, a key that seals, and a certificate for mutual TLS made of the first.

The keys are in a file that its owner alone can read. What others need to know, the two public keys and the certificate,
goes into `network.toml`: that file is the trust list, and there is no authority beside it.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import ipaddress
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sottovoce.errors import FileError, InputError
from sottovoce.files import put_whole
from sottovoce.forms import Form, json_text, read_form, strict_json

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Card",
    "Identity",
    "check_name",
    "check_public",
    "create_identity",
    "host_and_port",
    "read_identity",
    "write_identity",
]

_YEARS = 20
_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_PRIVATE = stat.S_IRWXG | stat.S_IRWXO


class Card(Form, frozen=True, kw_only=True):
    """What everybody knows of a node: its name, where it listens, its public keys and its certificate, in base64."""

    name: str
    address: str
    signing: str
    sealing: str
    certificate: str

    @property
    def signing_key(self) -> Ed25519PublicKey:
        """The key that its signatures are checked with."""
        return Ed25519PublicKey.from_public_bytes(_decoded(self.signing, f"signing of {self.name}", 32))

    @property
    def sealing_key(self) -> X25519PublicKey:
        """The key that what is for its eyes alone is sealed with."""
        return X25519PublicKey.from_public_bytes(_decoded(self.sealing, f"sealing of {self.name}", 32))

    @property
    def x509(self) -> x509.Certificate:
        """The certificate that it shows when it connects."""
        content = _decoded(self.certificate, f"certificate of {self.name}", None)
        try:
            return x509.load_der_x509_certificate(content)
        except ValueError as error:
            raise InputError(
                f"certificate of {self.name} must be that which `sottovoce peers identity` wrote; {error} "
                "(copy the node's public file again)"
            ) from None


class _KeyFile(Form, frozen=True, kw_only=True):
    """The file with the keys of a node."""

    signing: str
    sealing: str
    public: Card


@dataclass(frozen=True, kw_only=True, eq=False)
class Identity:
    """A node's own keys, and what others know of it."""

    signing: Ed25519PrivateKey
    sealing: X25519PrivateKey
    card: Card

    @property
    def name(self) -> str:
        """What the node is called."""
        return self.card.name

    @cached_property
    def signing_pem(self) -> bytes:
        """The signing key as TLS takes it."""
        return self.signing.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def public_text(self) -> str:
        """The lines for `network.toml` that stand for this node."""
        fields = ("name", "address", "signing", "sealing", "certificate")
        return "[[nodes]]\n" + "".join(f'{name} = "{getattr(self.card, name)}"\n' for name in fields)


def create_identity(name: str, address: str = "127.0.0.1:7447") -> Identity:
    """A new identity: keys from the system's generator, and a certificate that they sign themselves."""
    check_name(name)
    host, _ = host_and_port(address)
    signing, sealing = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    return Identity(
        signing=signing,
        sealing=sealing,
        card=Card(
            name=name,
            address=address,
            signing=_encoded(signing.public_key().public_bytes_raw()),
            sealing=_encoded(sealing.public_key().public_bytes_raw()),
            certificate=_encoded(_self_signed(name, host, signing)),
        ),
    )


def write_identity(identity: Identity, folder: Path) -> tuple[Path, Path]:
    """Write NAME.keys, for its owner's eyes alone, and NAME.public.toml; keys that are there are never replaced."""
    keys, public = folder / f"{identity.name}.keys", folder / f"{identity.name}.public.toml"
    if not folder.is_dir():
        raise FileError(f"{folder}: there is no such directory (create it, or choose another)")
    for path in (keys, public):
        if path.exists():
            raise FileError(
                f"{path}: is there already, and keys that are lost cannot be made again (move it away, or choose "
                "another name)"
            )
    held = _KeyFile(
        signing=_encoded(identity.signing.private_bytes_raw()),
        sealing=_encoded(identity.sealing.private_bytes_raw()),
        public=identity.card,
    )
    try:
        put_whole([json_text(held, indent=2).encode(), b"\n"], folder, lambda: keys.name, rights=0o600)
        put_whole([identity.public_text.encode()], folder, lambda: public.name, rights=0o644)
    except OSError as error:
        raise FileError(f"{folder}: keys cannot be written: {error.strerror or error} (make room)") from None
    return keys, public


def read_identity(path: Path) -> Identity:
    """The identity in a file of keys; one that others can read is refused."""
    try:
        open_to_others = path.stat().st_mode & _PRIVATE
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(
            f"{path}: keys cannot be read: {reason} (make some with: sottovoce peers identity NAME)"
        ) from None
    if open_to_others:
        raise FileError(
            f"{path}: keys must be readable by their owner alone; others have rights too (chmod 600 {path}; "
            "if somebody may have read them, make new ones)"
        )
    held = read_form(strict_json(text, "a file of keys"), _KeyFile, "a file of keys")
    identity = Identity(
        signing=Ed25519PrivateKey.from_private_bytes(_decoded(held.signing, "signing", 32)),
        sealing=X25519PrivateKey.from_private_bytes(_decoded(held.sealing, "sealing", 32)),
        card=held.public,
    )
    fits = (
        _encoded(identity.signing.public_key().public_bytes_raw()) == held.public.signing
        and _encoded(identity.sealing.public_key().public_bytes_raw()) == held.public.sealing
    )
    if not fits:
        raise FileError(f"{path}: private and public keys do not belong together (take the original file)")
    return identity


def check_public(node: Card) -> None:
    """Refuse a node whose keys are none, or whose certificate is not its own for the address that it names."""
    check_name(node.name)
    host, _ = host_and_port(node.address)
    key, certificate = node.signing_key, node.x509
    _ = node.sealing_key
    held = certificate.public_key()
    if not isinstance(held, Ed25519PublicKey) or held.public_bytes_raw() != key.public_bytes_raw():
        raise InputError(
            f"certificate of {node.name} must be made of the node's own signing key, which it is not (copy all lines "
            "of the node's public file)"
        )
    try:
        certificate.verify_directly_issued_by(certificate)
    except (InvalidSignature, ValueError, TypeError):
        raise InputError(
            f"certificate of {node.name} must be signed by the node itself, which it is not (copy the node's public "
            "file again)"
        ) from None
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if _host_name(host) not in names:
        raise InputError(
            f"address of {node.name} must be the one in its certificate, or nobody will connect to it; got {host!r} "
            "(make the identity again with --address)"
        )


def check_name(name: str) -> None:
    """Refuse names that are no part of a path or a key expression."""
    if not _PATTERN.fullmatch(name):
        raise InputError(
            f"a node must have a name of at most 63 letters, digits, '_', '-' and '.'; got {name!r} (rename it)"
        )


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of HOST:PORT.

    >>> host_and_port("127.0.0.1:7447"), host_and_port("[::1]:7447")
    (('127.0.0.1', 7447), ('::1', 7447))
    """
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", address)
    if found is None or not 0 < int(found[3]) < 65536:
        raise InputError(
            f"an address must be HOST:PORT with a port from 1 to 65535; got {address!r} (as in 127.0.0.1:7447)"
        )
    return found[1] or found[2], int(found[3])


def _self_signed(name: str, host: str, key: Ed25519PrivateKey) -> bytes:
    """A certificate of a node by itself, not of an authority: it vouches for this key at this host and nothing else."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host_name(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .sign(key, None)
        .public_bytes(serialization.Encoding.DER)
    )


def _host_name(host: str) -> x509.GeneralName:
    """A host as certificates name it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decoded(text: str, what: str, length: int | None) -> bytes:
    """Bytes in base64, so many of them."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if not content or (length is not None and len(content) != length):
        raise InputError(
            f"{what} must be {length or 'some'} bytes in base64; got {text[:48]!r} (copy the node's public file again)"
        )
    return content
