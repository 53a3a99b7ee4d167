"""The manifest: what it says, that it is read back as written, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sottovoce import __version__, graphs
from sottovoce.errors import FileError
from sottovoce.forms import CountedLabels
from sottovoce.graphs import spectrum
from sottovoce.protocols import Protocol, gossip
from sottovoce.sweeps import Manifest, sweep


def test_it_says_what_was_swept(protocol: Protocol, tmp_path: Path) -> None:
    done = sweep(protocol, "secure-sum", tmp_path, tile=4)
    facts = json.loads((tmp_path / "manifest.json").read_text())
    labels = facts.pop("labels")
    assert labels == list(protocol.labels)
    assert facts == {
        "kind": "sweep",
        "schema": 4,
        "version": __version__,
        "weights_hash": protocol.weights.hash,
        "nodes": 15,
        "rounds": 5,
        "view": "secure-sum",
        "own_noise": "known",
        "contribution": "vector",
        "participation": "full",
        "engine": "auto",
        "effort": "auto",
        "assumption": "oblivious",
        "tile": 4,
        "tiles": 4,
        "pairs": 210,
        "rule": "metropolis",
        "origin": "metropolis rule on the graph of florentine",
        "edges": 20,
        "gap": spectrum(protocol.weights).gap,
        "gap_converged": True,
        "protocol": {
            "protocol": "gossip",
            "plain": True,
            "program": protocol.sentence,
            "programs": [protocol.programs[0].to_json()],
            "encoder": ["1"],
            "weights": [protocol.weights.hash],
        },
        "protocol_hash": protocol.hash,
    }
    text = (tmp_path / "manifest.json").read_text()
    assert Manifest.from_json(text, "manifest.json") == done.manifest
    assert [done.manifest.span(tile) for tile in (0, 3)] == [range(4), range(12, 15)]
    assert [done.manifest.rows(tile) for tile in (0, 3)] == [56, 42]


def test_names_that_count_up_are_a_range(tmp_path: Path) -> None:
    ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=2)
    manifest = sweep(ring, "secure-sum", tmp_path).manifest
    assert json.loads(manifest.to_json())["labels"] == {"first": 0, "count": 5}
    assert Manifest.from_json(manifest.to_json(), "it") == manifest


def test_edges_of_a_directed_graph_count_each(tmp_path: Path) -> None:
    cycle = graphs.matrix_weights([[1, 1, 0], [0, 1, 1], [1, 0, 1]], labels="abc", normalise=True)
    assert sweep(gossip(cycle, rounds=2), "secure-sum", tmp_path).manifest.edges == 3


def test_the_fingerprint_is_that_of_the_settings(protocol: Protocol, tmp_path: Path) -> None:
    manifest = sweep(protocol, "secure-sum", tmp_path, tile=15).manifest
    assert (
        replace(manifest, gap=0.5, names=CountedLabels(first=0, count=15)).fingerprint == manifest.fingerprint
    )
    assert replace(manifest, rounds=6).fingerprint != manifest.fingerprint


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"schema": 1}, "a sweep of schema 4 was expected; got 1"),
        ({"schema": 2}, "a sweep of schema 4 was expected; got 2"),
        # Those of plain gossip did not say their protocol.
        ({"schema": 3, "protocol": None}, "a sweep of schema 4 was expected; got 3"),
        ({"tiles": 7}, "the numbers of nodes, tiles and pairs do not fit"),
        ({"colour": "red"}, "not the manifest of a sweep: .* has an unknown field colour"),
        ({"tile": 0}, "not the manifest of a sweep: tile must be a whole number of at least 1; got 0"),
        ({"gap": "0.1"}, "not the manifest of a sweep: gap must be a number; got '0.1'"),
        ({"labels": {"first": 0, "count": 10**12}}, "the numbers of nodes, tiles and pairs do not fit"),
        ({"labels": {"first": 0, "count": 10**30}}, "not the manifest of a sweep: labels"),
        (
            {"assumption": "hidden-state"},
            "its assumption must be 'oblivious', which follows from its view and damping; got 'hidden-state'",
        ),
        ({"assumption": "anything"}, "assumption must be one of .*oblivious.*got 'anything'"),
        ({"contribution": "tensor"}, "contribution must be one of energy, scalar, vector; got 'tensor'"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(
    change: dict[str, Any],
    complaint: str,
    protocol: Protocol,
    swept: Callable[[int, Path], None],
    tmp_path: Path,
) -> None:
    swept(15, tmp_path)
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(FileError, match=complaint):
        sweep(protocol, "secure-sum", tmp_path, resume=True)
    file.write_text("[]")
    with pytest.raises(FileError, match="not the manifest of a sweep"):
        sweep(protocol, "secure-sum", tmp_path, resume=True)
