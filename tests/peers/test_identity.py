"""Keys of a node: who can read them, and what of them is public."""

import stat
from pathlib import Path

import pytest
from tests.peers.networks import identities

from sottovoce.errors import FileError, InputError
from sottovoce.peers import Card, create_identity, read_identity, write_identity
from sottovoce.peers.identity import check_public


def changed(card: Card, **fields: str) -> Card:
    return Card(**{name: fields.get(name, getattr(card, name)) for name in card.__struct_fields__})


def test_keys_are_for_their_owner_alone_and_are_never_replaced(tmp_path: Path) -> None:
    made = create_identity("ward-3", "127.0.0.1:7447")
    keys, public = write_identity(made, tmp_path)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    again = read_identity(keys)
    assert (again.signing_pem, again.card) == (made.signing_pem, made.card)
    assert made.signing_pem.decode().splitlines()[1] not in public.read_text()
    before = keys.read_bytes()
    with pytest.raises(FileError, match="is there already"):
        write_identity(create_identity("ward-3"), tmp_path)
    assert keys.read_bytes() == before
    keys.chmod(0o640)
    with pytest.raises(FileError, match=r"readable by their owner alone.*chmod 600"):
        read_identity(keys)


def test_keys_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    one, other = identities(2)
    keys, _ = write_identity(one, tmp_path)
    keys.write_text(keys.read_text().replace(one.card.signing, other.card.signing))
    with pytest.raises(FileError, match="do not belong together"):
        read_identity(keys)


def test_a_certificate_must_be_the_nodes_own() -> None:
    one, other = (each.card for each in identities(2))
    check_public(one)
    cases = {
        "made of the node's own signing key": changed(one, certificate=other.certificate),
        "address of site-0 must be the one in its certificate": changed(one, address="10.0.0.1:7447"),
        "signing of site-0 must be 32 bytes": changed(one, signing="AAAA"),
        "that which `sottovoce peers identity` wrote": changed(one, certificate="AAAA"),
        "a node must have a name": changed(one, name="a/b"),
        "an address must be HOST:PORT": changed(one, address="127.0.0.1"),
    }
    for sentence, card in cases.items():
        with pytest.raises(InputError, match=sentence):
            check_public(card)


def test_a_certificate_that_somebody_else_signed_is_refused() -> None:
    from base64 import b64encode

    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    one, other = identities(2)
    mine = one.card.x509
    forged = (
        x509.CertificateBuilder()
        .subject_name(mine.subject)
        .issuer_name(mine.subject)
        .public_key(one.signing.public_key())
        .serial_number(1)
        .not_valid_before(mine.not_valid_before_utc)
        .not_valid_after(mine.not_valid_after_utc)
        .sign(other.signing, None)
    )
    card = changed(one.card, certificate=b64encode(forged.public_bytes(Encoding.DER)).decode())
    with pytest.raises(InputError, match="must be signed by the node itself"):
        check_public(card)
