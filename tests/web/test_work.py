# SPDX-License-Identifier: Apache-2.0
"""The work: the documents of the command line, typed answers, limits before any work, and no file opened."""

from __future__ import annotations

import builtins
import hashlib
import io
import json
import os
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from sottovoce import documents
from sottovoce.accounting import account, account_all, calibrate, local_account
from sottovoce.errors import FileError, GraphError, InputError
from sottovoce.feedback import gradient_steps
from sottovoce.graphs import WeightedGraph, as_graph, metropolis_weights, weights_by_rule
from sottovoce.protocols import clean_state, gossip, push_sum
from sottovoce.questions import Spelled
from sottovoce.views import View
from sottovoce.web.limits import Limits
from sottovoce.web.reports import command_of
from sottovoce.web.requests import ReportRequest
from sottovoce.web.work import KINDS, LimitError, perform

if TYPE_CHECKING:
    from collections.abc import Callable

RING = {"kind": "name", "name": "ring:n=6"}
RUN = {"graph": RING, "rounds": 4}
PROTOCOL = gossip(metropolis_weights("ring:n=6"), rounds=4)


def asked(
    kind: str,
    value: dict[str, Any],
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """The answer to a request, which has to be of its described type."""
    request: Any = msgspec.json.decode(json.dumps(value), type=KINDS[kind].request)
    content = perform(kind, request, limits or Limits(), progress or (lambda *_: None))
    msgspec.json.decode(content, type=KINDS[kind].result)
    return json.loads(content)


def test_an_account_is_that_of_the_command_line() -> None:
    value = {
        **RUN,
        "noise_multiplier": 3.0,
        "delta": 1e-6,
        "relation": "replace-one",
        "view": "neighbourhood",
    }
    found = asked("account", value)
    table = account_all(PROTOCOL, "neighbourhood", noise_multiplier=3.0, delta=1e-6, relation="replace-one")
    graph = as_graph("ring:n=6")
    expected = documents.account_document(table, WeightedGraph(graph=graph, weights=PROTOCOL.weights))
    assert found == json.loads(documents.as_json(expected))


def test_a_coalition_and_a_participation_are_understood() -> None:
    value = {
        **RUN,
        "noise_multiplier": 3.0,
        "view": "coalition-messages",
        "observers": ["0", 3],
        "targets": [1],
        "participation": "at-most:2",
        "contribution": "scalar",
        "own_noise": "hidden",
    }
    found = asked("account", value)
    table = account(
        PROTOCOL,
        View.coalition_messages([0, 3], own_noise="hidden"),
        noise_multiplier=3.0,
        delta=1e-5,
        targets=[1],
        participation="at-most:2",
        contribution="scalar",
    )
    assert found["pairs"][0]["epsilon"]["upper"] == table.epsilon_upper[0]
    assert found["participation"] == "at-most:2"


def test_a_calibration_is_that_of_the_library() -> None:
    found = asked("calibrate", {**RUN, "target_epsilon": 0.7, "target_delta": 1e-7})
    assert found["noise_multiplier"] == calibrate(
        PROTOCOL, "neighbourhood", target_epsilon=0.7, target_delta=1e-7
    )


def test_pages_curves_and_graphs() -> None:
    calls: list[tuple[int, int]] = []
    page = asked("page", {**RUN, "observers": [2, 2]}, progress=lambda *call: calls.append(call))
    assert page["observers"] == [[2]]
    assert calls[-1] == (5, 5)
    curve = asked("curve", {**RUN, "observers": [2]})
    assert curve["worst"][-1]["upper"] == max(page["pairs"]["upper"])
    assert asked("curve", {**RUN, "view": "everyone"})["worst"][-1] == {"lower": 4.0, "upper": 4.0}
    text = {"kind": "text", "text": "source,target\na,b\nb,c\n", "format": "csv"}
    assert asked("graph", {"graph": text})["labels"] == ["a", "b", "c"]


def test_the_weights_that_a_file_carries_are_used_and_named() -> None:
    own = "a,a,0.5\na,b,0.5\nb,b,0.25\nb,c,0.25\nc,c,0.75\n"
    file = {"kind": "text", "text": "source,target,weight\n" + own, "format": "csv", "name": "friends.csv"}
    found = asked("graph", {"graph": file})
    assert (found["rule"], found["origin"]) == ("graph", "as given in friends.csv")
    chosen = asked("graph", {"graph": file, "weights": "metropolis"})
    assert chosen["origin"] == "metropolis rule on the graph of friends.csv, whose own weights are left out"
    with pytest.raises(GraphError, match=r"friends.csv: .* row 'c' sums to 1.75 .*metropolis, lazy"):
        asked("graph", {"graph": {**file, "text": file["text"].replace("c,c,0.75", "c,c,1.5")}})
    elsewhere = asked("graph", {"graph": {**file, "name": "/etc/passwd"}})
    assert elsewhere["origin"] == "as given in graph.csv"


MATRIX = "%%MatrixMarket matrix array real general\n2 2\n0.5\n0.25\n0.5\n0.75\n"


def test_real_networks_and_matrices_are_those_of_the_command_line(tmp_path: Any) -> None:
    found = asked("graph", {"graph": {"kind": "name", "name": "topohub:topozoo/Geant2012"}})
    assert found["labels"] == list(as_graph("topohub:topozoo/Geant2012").labels)
    (tmp_path / "two.mtx").write_text(MATRIX)
    network = as_graph(tmp_path / "two.mtx")
    file = {"kind": "text", "text": MATRIX, "format": "mtx", "name": "two.mtx"}
    found = asked("graph", {"graph": file})
    assert (found["rule"], found["origin"]) == ("graph", "as given in two.mtx")
    assert found["hash"] == weights_by_rule(network).hash
    pair = {"kind": "text", "text": "0 1\n"}
    found = asked("graph", {"graph": pair, "matrix": MATRIX})
    assert (found["rule"], found["origin"]) == ("matrix", "as given in the matrix")
    assert found["hash"] == weights_by_rule(network).hash
    asking = {**RUN, "graph": pair, "matrix": MATRIX, "noise_multiplier": 3.0, "view": "neighbourhood"}
    said = json.loads(re.findall('id="data">(.*?)</script>', asked("report", asking)["html"])[0])["occasion"]
    assert "--weights matrix.mtx" in said["command"]
    assert said["inputs"][1] == {"name": "matrix.mtx", "sha256": hashlib.sha256(MATRIX.encode()).hexdigest()}


def test_a_width_may_be_asked_for() -> None:
    value = {**RUN, "view": "secure-sum", "tolerance": 0.5}
    table = account_all(PROTOCOL, "secure-sum", noise_multiplier=1.0, delta=1e-5, tolerance=0.5)
    assert asked("page", value)["pairs"]["upper"] == table.squared_upper.tolist()


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (
            {
                "graph": {
                    "kind": "text",
                    "format": "mtx",
                    "text": "%%MatrixMarket\n9999999 9999999 1\n1 1 1\n",
                }
            },
            LimitError,
            "at most 2000 nodes; got 9999999",
        ),
        (
            {"graph": RING, "matrix": "%%MatrixMarket\n3 1000000000\n"},
            LimitError,
            "at most 2000 nodes; got 10000",
        ),
        (
            {"graph": RING, "matrix": f"%%MatrixMarket\n3 {'0' * 30}1000000000\n"},
            LimitError,
            "at most 2000 nodes; got 10000",
        ),
        (
            {"graph": RING, "matrix": "%%MatrixMarket\nhere\n"},
            FileError,
            "must give its size in the first line",
        ),
        (
            {"graph": RING, "matrix": MATRIX},
            FileError,
            "one row per node; it has 2 rows and the graph 6 nodes",
        ),
        (
            {"graph": RING, "matrix": MATRIX, "weights": "lazy"},
            InputError,
            "weights must be left out beside a matrix",
        ),
        (
            {"graph": {"kind": "name", "name": "topohub:topozoo/Geant"}},
            GraphError,
            "did you mean topozoo/Heanet or topozoo/Geant2012",
        ),
    ],
)
def test_matrices_and_names_that_cannot_be_read_are_refused(
    value: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        asked("graph", value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "page",
            {"graph": {"kind": "name", "name": "ring:n=61"}},
            "at most 60 nodes; got 61 (take a smaller graph",
        ),
        ("page", {"graph": {"kind": "name", "name": "hypercube:dim=24"}}, "at most 60 nodes"),
        ("page", {"graph": {"kind": "name", "name": "grid:rows=8,cols=8"}}, "at most 60 nodes; got 64"),
        ("page", {"graph": {"kind": "name", "name": "complete:n=50"}}, "at most 1000 edges; got 1225"),
        ("page", {"rounds": 51}, "at most 50 rounds; got 51"),
        ("curve", {"rounds": 51, "observers": [0]}, "at most 50 rounds; got 51"),
        (
            "page",
            {"graph": {"kind": "name", "name": "ring:n=40"}},
            "at most 900 pairs; got 1600 (name fewer observers",
        ),
    ],
)
def test_limits_hold_before_any_work(kind: str, changes: dict[str, Any], message: str) -> None:
    limits = Limits(nodes=60, edges=1000, rounds=50, pairs=900)
    with pytest.raises(LimitError) as caught:
        asked(kind, {**RUN, **changes}, limits)
    assert message in str(caught.value)


def test_a_matrix_has_no_more_edges_than_a_graph_may() -> None:
    """The weights of a request may join nodes that its graph does not."""
    limits, size = Limits(edges=14), 6
    head = "%%MatrixMarket matrix array real general\n6 6\n"
    even = head + f"{1 / size!r}\n" * size**2
    with pytest.raises(LimitError, match=r"at most 14 edges; got 15 \(take a sparser graph"):
        asked("graph", {"graph": RING, "matrix": even}, limits)
    assert asked("graph", {"graph": RING, "matrix": even}, Limits(edges=15))["rule"] == "matrix"
    rows = (
        np.full((size, size), 0.1)
        + np.diag(np.full(size, 0.4))
        + 0.01 * (np.eye(size, k=1) - np.eye(size, k=2))
    )
    rows /= rows.sum(axis=1, keepdims=True)
    one_way = head + "".join(f"{entry!r}\n" for entry in rows.T.ravel().tolist())
    with pytest.raises(LimitError, match="at most 29 edges; got 30"):
        asked("graph", {"graph": RING, "matrix": one_way}, Limits(edges=29))


@pytest.mark.parametrize(
    "name",
    [
        "grid:rows=2000,cols=2000",
        "torus:rows=1999,cols=1999",
        "hypercube:dim=20",
        "complete:n=1900",
        "erdos-renyi:n=2000,p=0.9",
        "random-regular:n=2000,d=1998",
        "small-world:n=2000,k=1998,p=0",
        "preferential:n=2000,core=1900,links=2",
        "exponential:n=2001",
    ],
)
def test_a_graph_that_is_too_large_is_never_built(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*_: object) -> None:
        raise AssertionError(f"{name} was built")

    monkeypatch.setattr("sottovoce.web.work.generate_graph", built)
    with pytest.raises(
        LimitError, match=r"this server takes at most [0-9]+ (nodes|edges); got [0-9]+ \(take a"
    ):
        asked("graph", {"graph": {"kind": "name", "name": name}})


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("page", {"observers": [77]}, "no node is called 77"),
        ("page", {"view": "coalition-sums"}, "needs the members of the coalition (name each in observers)"),
        ("page", {"view": "everyone", "observers": [1]}, "the view everyone takes no observer"),
        ("curve", {}, "a curve of the view neighbourhood has one observer"),
        ("curve", {"observers": [0, 1]}, "a curve of the view neighbourhood has one observer"),
        ("page", {"participation": "now and then"}, "participation"),
        (
            "graph",
            {"graph": {"kind": "text", "text": "a \0b"}},
            "a graph file must be text; found binary content",
        ),
        ("graph", {"graph": {"kind": "text", "text": "a"}}, "an edge is written as source, target"),
    ],
)
def test_mistakes_are_told_in_the_words_of_the_library(
    kind: str, changes: dict[str, Any], message: str
) -> None:
    value = {**(RUN if kind != "graph" else {}), **changes}
    with pytest.raises(InputError) as caught:
        asked(kind, value)
    assert message in str(caught.value)


PATHS = ["/etc/passwd", "../graph.edgelist", "graph.edgelist", "file:graph.edgelist", "karate.npy"]


@pytest.mark.parametrize("name", PATHS)
def test_a_name_is_never_a_path(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "graph.edgelist").write_text("a b\n")
    monkeypatch.chdir(tmp_path)
    asked("graph", {"graph": {"kind": "name", "name": "ring:n=3"}})
    opened: list[object] = []

    def watched(opener: Callable[..., Any]) -> Callable[..., Any]:
        def watch(path: object, *rest: Any, **more: Any) -> Any:
            opened.append(path)
            return opener(path, *rest, **more)

        return watch

    for place in (builtins, io, os):
        monkeypatch.setattr(place, "open", watched(place.open))
    with pytest.raises(GraphError, match="there is no family of graphs called"):
        asked("graph", {"graph": {"kind": "name", "name": name}})
    assert opened == []


def test_entities_are_not_expanded() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;">]><graphml>&b;</graphml>'
    with pytest.raises(InputError, match="must not declare a DOCTYPE or entities"):
        asked("graph", {"graph": {"kind": "text", "text": bomb, "format": "graphml"}})


def test_a_protocol_is_that_of_the_command_line() -> None:
    value = {**RUN, "noise_multiplier": 3.0, "view": "secure-sum", "protocol": "clean-state:keep=1/2"}
    found = asked("account", value)
    protocol = clean_state(PROTOCOL.weights, rounds=4, keep="1/2")
    table = account_all(protocol, "secure-sum", noise_multiplier=3.0, delta=1e-5)
    expected = documents.account_document(
        table, WeightedGraph(graph=as_graph("ring:n=6"), weights=PROTOCOL.weights)
    )
    assert found == json.loads(documents.as_json(expected))
    assert (found["protocol"], found["protocol_hash"]) == ("clean_state", protocol.hash)
    page = asked("page", {**RUN, "protocol": "clean-state:keep=1/2"})
    local = local_account(protocol, noise_multiplier=1.0, delta=0.5).sensitivity_squared
    assert local is not None
    assert page["local_squared"]["upper"] == local.upper
    assert page["central_squared"] is None
    curve = asked("curve", {**RUN, "protocol": "clean-state:keep=1/2", "observers": [0]})
    assert curve["counts"] == []


def test_training_may_be_asked_for() -> None:
    page = asked("page", {**RUN, "protocol": "gossip:updates=0.9+1", "observers": [0], "targets": [1]})
    assert page["updates"]["lower"] == 0.9


def test_a_program_is_sent_as_text_and_may_be_infinite() -> None:
    text = 'keeps = ["model"]\ninstructions = [{ combine = "m", terms = { model = 1, contribution = 1 } }, '
    page = asked("page", {**RUN, "program": text + '{ exchange = "m", into = "model" }]'})
    assert set(page["pairs"]["lower"]) == set(page["pairs"]["upper"]) == {None}
    assert "the program draws no noise" in page["infinite"]
    assert page["local_squared"] == {"lower": None, "upper": None}


@pytest.mark.parametrize(
    ("change", "kind", "complaint"),
    [
        ({"protocol": "/etc/passwd.toml"}, InputError, "send its text as program"),
        ({"protocol": "adam"}, InputError, "protocol must be one of gossip"),
        ({"protocol": "repeated:steps=100000000000"}, LimitError, "at most 64 steps"),
        ({"protocol": "repeated:steps =100"}, LimitError, "at most 64 steps; got 100"),
        ({"protocol": "repeated:steps=000000000000100"}, LimitError, "at most 64 steps; got 100"),
        ({"protocol": "momentum:beta=1e9999999"}, LimitError, "exponents of at most 3 digits"),
        ({"program": 'keeps = ["1.e9999"]'}, LimitError, "exponents of at most 3 digits"),
        ({"program": "keeps"}, InputError, "the program: is no TOML file"),
        ({"program": f"keeps = {'9' * 5000}"}, InputError, "the program: is no TOML file"),
        ({"program": "keeps = ['x']\ninstructions = []"}, InputError, "the program: a program must exchange"),
        ({"program": "keeps = []", "protocol": "push-sum"}, InputError, "left out beside a program"),
    ],
)
def test_protocols_that_a_server_does_not_run_are_refused(
    change: dict[str, str], kind: type[Exception], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "open", lambda *_, **__: pytest.fail("a file was opened"))
    with pytest.raises(kind, match=complaint):
        asked("page", {**RUN, **change})


def test_damping_and_training_are_those_of_the_command_line() -> None:
    weights = metropolis_weights("ring:n=6")
    lines = "".join(f"{label},0.{k + 3}\n" for k, label in enumerate(weights.labels))
    for told, protocol in (
        ({"damping": "0.5"}, gossip(weights, rounds=4, damping=0.5)),
        ({"damping": lines}, gossip(weights, rounds=4, damping=[0.3, 0.4, 0.5, 0.6, 0.7, 0.8])),
        ({"updates": "0.9,1"}, gossip(weights, rounds=4, updates=(0.9, 1))),
        (
            {"step_smoothness": 0.2, "losses": "smooth"},
            gossip(weights, rounds=4, updates=gradient_steps(0.2, "smooth", 6)),
        ),
        ({"contribution": "energy", "effort": "bulk"}, PROTOCOL),
    ):
        found = asked("page", {**RUN, "view": "secure-sum", **told})
        more = {name: told[name] for name in ("contribution", "effort") if name in told}
        table = account_all(protocol, "secure-sum", noise_multiplier=1.0, delta=1e-5, **more)  # type: ignore[arg-type]
        assert found["pairs"]["upper"] == table.squared_upper.tolist(), told


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"damping": "a,b,c"}, "the damping: line 1 must hold a node's name and a number"),
        ({"damping": "/etc/passwd"}, "the damping: line 1 must hold a node's name and a number"),
        ({"damping": "0.5", "protocol": "push-sum"}, "damping must be left out with the protocol 'push-sum'"),
        ({"damping": "nan"}, "damping must lie between -1 and 1; node 0 has nan"),
        ({"losses": "smooth"}, "losses must be those that steps are on, and their size is missing"),
        ({"updates": "any", "step_smoothness": 1}, "say the same thing twice"),
    ],
)
def test_training_that_makes_no_sense_is_refused(told: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        asked("page", {**RUN, **told})
    assert message in str(caught.value)


def test_a_report_says_of_its_origin_what_the_server_knows() -> None:
    """A text has the hash of what arrived, whatever it is called; the command says what was asked."""
    text = "a b\nb c\nc a\n"
    source = {"kind": "text", "text": text, "name": "../<b>my graph</b>.edgelist"}
    value = {"graph": source, "rounds": 3, "noise_multiplier": 3.0000000001, "other_view": "secure-sum"}
    found = asked("report", {**value, "participation": "every:2"})
    said = json.loads(re.findall('id="data">(.*?)</script>', found["html"])[0])["occasion"]
    assert said["inputs"] == [
        {"name": "../<b>my graph</b>.edgelist", "sha256": hashlib.sha256(text.encode()).hexdigest()}
    ]
    assert said["command"] == (
        "sottovoce account '../<b>my graph</b>.edgelist' --rounds 3 --noise-multiplier 3.0000000001 --delta 1e-05 "
        "--participation every:2"
    )
    assert "<b>my" not in found["html"].partition('id="data">')[0]
    # Nor does a report open what a name may lead to.
    named = asked("report", {"graph": RING, "rounds": 2, "noise_multiplier": 1, "view": "everyone"})
    assert '"inputs":[]' in named["html"]


CHANGED: dict[str, tuple[Any, str]] = {
    "graph": ({"kind": "name", "name": "ring:n=7"}, "account ring:n=7 "),
    "rounds": (5, "--rounds 5"),
    "noise_multiplier": (3.0, "--noise-multiplier 3.0"),
    "delta": (1e-7, "--delta 1e-07"),
    "view": ("secure-sum", "--view secure-sum"),
    "own_noise": ("hidden", "--own-noise hidden"),
    "exchanges": ([1, 3], "--exchanges 1,3"),
    "observers": ([0, 2], "--observer 0 --observer 2"),
    "targets": (["1"], "--target 1"),
    "weights": ("lazy", "--weights lazy"),
    "matrix": (MATRIX, "--weights matrix.mtx"),
    "protocol": ("repeated:steps=3", "--protocol repeated:steps=3"),
    "program": ("keeps = []", "--protocol program.toml"),
    "damping": ("0.5", "--damping 0.5"),
    "updates": ("any", "--updates any"),
    "step_smoothness": (0.5, "--step-smoothness 0.5"),
    "losses": ("smooth", "--losses smooth"),
    "contribution": ("scalar", "--contribution scalar"),
    "participation": ("every:2", "--participation every:2"),
    "relation": ("replace-one", "--relation replace-one"),
    "engine": ("reduced", "--engine reduced"),
    "effort": ("bulk", "--effort bulk"),
    "tolerance": (0.5, "--tolerance 0.5"),
    "max_epsilon": (2.0, "--max-epsilon 2.0"),
}


def test_the_command_of_a_report_says_every_word_that_was_asked() -> None:
    assert {"files", *ReportRequest.__struct_fields__} >= {word.name for word in fields(Spelled)}
    # Where two views stand side by side, none is named.
    assert set(ReportRequest.__struct_fields__) - set(CHANGED) == {"other_view"}
    usual = {**RUN, "noise_multiplier": 2.0}
    for word, (value, said) in CHANGED.items():
        command = command_of(msgspec.convert({**usual, word: value}, ReportRequest))
        assert said in command, word
        assert said not in command_of(msgspec.convert(usual, ReportRequest)), word


def test_push_sum_takes_a_matrix_whose_columns_sum_to_1() -> None:
    divided = np.array([[0.5, 0.25, 0.0], [0.5, 0.5, 0.5], [0.0, 0.25, 0.5]])
    lines = [f"{i + 1} {j + 1} {divided[i, j]}" for i, j in np.argwhere(divided).tolist()]
    text = "\n".join(["%%MatrixMarket matrix coordinate real general", f"3 3 {len(lines)}", *lines, ""])
    sources = (
        {"graph": {"kind": "text", "text": text, "format": "mtx"}},
        {"graph": {"kind": "name", "name": "path:n=3"}, "matrix": text},
    )
    for source in sources:
        page = asked("page", {**source, "rounds": 3, "protocol": "push-sum"})
        assert page["protocol_hash"] == push_sum(divided, rounds=3).hash
        assert asked("graph", {**source, "protocol": "push-sum"})["hash"] == page["graph"]["hash"]
        with pytest.raises(InputError, match=r"sums? to 1"):
            asked("page", {**source, "rounds": 3})
