"""Which gossip matrix a command uses, and that it says so: a matrix of one's own is never replaced in silence."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy

from sottovoce import graphs
from sottovoce.accounting import account_all
from sottovoce.protocols import gossip, push_sum

Run = Callable[..., Any]
RUN = ("--rounds", "4", "--view", "secure-sum")
NOISE = ("--noise-multiplier", "2")


def mixing(n: int = 5) -> np.ndarray:
    """A gossip matrix that no rule builds: symmetric, uneven, with rows that sum to 1."""
    rng = np.random.default_rng(8)
    edges = np.triu(rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.5), 1)
    for k in range(n):
        i, j = sorted((k, (k + 1) % n))
        edges[i, j] = 0.3
    off = (edges + edges.T) / (1.1 * (edges + edges.T).sum(axis=1).max())
    matrix = off + np.diag(1 - off.sum(axis=1))
    return np.asarray(matrix)


def write(matrix: np.ndarray, name: str) -> None:
    """The matrix as a file of each kind, with every digit; the files say what row i receives from column j."""
    suffix = Path(name).suffix
    entries = [(i, j, matrix[i, j].item()) for i, j in zip(*np.nonzero(np.triu(matrix)), strict=True)]
    graph = nx.Graph()
    graph.add_nodes_from(range(len(matrix)))
    graph.add_weighted_edges_from(entries)
    if suffix == ".npy":
        np.save(name, matrix)
    elif suffix == ".npz":
        scipy.sparse.save_npz(name, scipy.sparse.csr_array(matrix))
    elif suffix == ".mtx":
        scipy.io.mmwrite(name, scipy.sparse.coo_array(matrix), precision=17)
    elif suffix == ".graphml":
        nx.write_graphml(graph, name)
    elif suffix == ".gml":
        nx.write_gml(graph, name)
    else:
        mark = "," if suffix == ".csv" else " "
        header = "source,target,weight\n" if suffix == ".csv" else ""
        Path(name).write_text(header + "".join(f"{i}{mark}{j}{mark}{w!r}\n" for i, j, w in entries))


@cache
def own_epsilon() -> float:
    table = account_all(gossip(mixing(), rounds=4), "secure-sum", noise_multiplier=2.0, delta=1e-5)
    return float(table.epsilon_upper.max())


def facts(sottovoce: Run, *words: str) -> dict[str, Any]:
    code, out, err = sottovoce(*words, "--json")
    assert (code, err) == (0, "")
    return dict(json.loads(out))


@pytest.mark.parametrize(
    "name", ["mix.npy", "mix.npz", "mix.mtx", "mix.csv", "mix.edgelist", "mix.graphml", "mix.gml"]
)
def test_a_matrix_whose_rows_sum_to_1_is_the_gossip_matrix(name: str, sottovoce: Run) -> None:
    matrix = mixing()
    write(matrix, name)
    found = facts(sottovoce, "account", name, *RUN, *NOISE)
    worst = max(pair["epsilon"]["upper"] for pair in found["pairs"])
    metropolis = facts(sottovoce, "account", name, *RUN, *NOISE, "--weights", "metropolis")
    assert worst == pytest.approx(own_epsilon(), rel=1e-9)
    assert worst > 1.01 * max(pair["epsilon"]["upper"] for pair in metropolis["pairs"])
    assert (found["graph"]["rule"], found["graph"]["origin"]) == ("graph", f"as given in {name}")
    left_out = f"metropolis rule on the graph of {name}, whose own weights are left out"
    assert (metropolis["graph"]["rule"], metropolis["graph"]["origin"]) == ("metropolis", left_out)


def test_every_command_uses_it_and_says_so(sottovoce: Run) -> None:
    matrix = mixing()
    write(matrix, "mix.npy")
    given = "weights        as given in mix.npy\n"
    hashed = graphs.matrix_weights(matrix).hash
    pair = ("--observer", "0", "--target", "1")
    for words in (
        ("account", "mix.npy", *RUN, *NOISE),
        ("account", "mix.npy", *RUN[:2], *NOISE),
        ("calibrate", "mix.npy", *RUN, "--target-epsilon", "1"),
        ("audit", "mix.npy", *RUN, *NOISE, *pair, "--seed", "1", "--trials", "200"),
    ):
        assert given in sottovoce(*words).out
        assert facts(sottovoce, *words)["graph"]["hash"] == hashed
    assert "weights       as given in mix.npy\n" in sottovoce("rate", "mix.npy", *RUN[2:], *pair).out
    train = ("train", "synthetic", "--graph", "mix.npy", *RUN, "--target-epsilon", "2", "--seed", "1")
    assert "weights     as given in mix.npy\n" in sottovoce(*train).out
    assert facts(sottovoce, *train)["graph"]["hash"] == hashed
    search = ("coalition", "mix.npy", "--target", "0", "--size", "1", "--rounds", "4")
    assert "as given in mix.npy\n" in sottovoce(*search, "--view", "coalition-sums").out
    assert "weights  as given in mix.npy; symmetric\n" in sottovoce("graph", "mix.npy").out
    certify = ("certify", "mix.npy", *RUN, *pair, "--output", "mix.json")
    assert "weights       as given in mix.npy\n" in sottovoce(*certify).out
    assert sottovoce("verify", "mix.json", "--graph", "mix.npy").code == 0
    assert sottovoce("verify", "mix.json", "--graph", "mix.npy", "--weights", "metropolis").code == 3
    assert sottovoce("sweep", "mix.npy", *RUN, "--output", "pairs").code == 0
    assert given in sottovoce("summary", "pairs", *NOISE).out
    found = facts(sottovoce, "summary", "pairs", *NOISE)["graph"]
    assert (found["hash"], found["rule"], found["origin"]) == (hashed, "graph", "as given in mix.npy")
    assert json.loads(Path("pairs/manifest.json").read_text())["origin"] == "as given in mix.npy"


def test_a_report_and_a_table_of_pairs_say_it_too(sottovoce: Run) -> None:
    write(mixing(), "mix.npy")
    words = ("account", "mix.npy", *RUN, *NOISE, "--report", "mix.html", "--output", "mix.csv")
    assert sottovoce(*words).code == 0
    page = Path("mix.html").read_text(encoding="utf-8")
    assert "(as given in mix.npy)" in page
    assert '"origin": "as given in mix.npy"' in page or '"origin":"as given in mix.npy"' in page
    lines = Path("mix.csv").read_text(encoding="utf-8").splitlines()
    assert {line.rpartition(",")[2] for line in lines[1:]} == {"as given in mix.npy"}


@pytest.mark.parametrize("command", ["account", "calibrate", "graph", "train"])
def test_weights_that_are_no_gossip_matrix_are_refused_with_the_choices(command: str, sottovoce: Run) -> None:
    Path("strength.csv").write_text("source,target,weight\na,b,3\nb,c,1\nc,a,2\n")
    words = {
        "account": ("strength.csv", *RUN, *NOISE),
        "calibrate": ("strength.csv", *RUN, "--target-epsilon", "1"),
        "graph": ("strength.csv",),
        "train": ("digits", "--graph", "strength.csv", "--rounds", "2", *NOISE),
    }[command]
    code, out, err = sottovoce(command, *words)
    assert (code, out) == (2, "")
    assert (
        "strength.csv: the weights that a graph carries are its gossip matrix if every row sums to 1; row 'a' sums to "
        "5 (scale the rows, or name with --weights a rule that builds weights from the edges alone: metropolis, lazy, "
        "maximum-degree, laplacian:STEP, uniform)"
    ) in err
    if command != "train":
        assert sottovoce(command, *words, "--weights", "metropolis").code == 0


def test_an_edge_list_that_leaves_out_what_nodes_keep(sottovoce: Run) -> None:
    Path("kept.edgelist").write_text("a b 0.25\nb c 0.25\n")
    err = sottovoce("graph", "kept.edgelist").err
    assert "row 'a' sums to 0.25 (if node 'a' keeps the rest, say so by an edge from it to itself; " in err
    Path("kept.edgelist").write_text("a b 0.25\nb c 0.25\na a 0.75\nb b 0.5\nc c 0.75\n")
    assert facts(sottovoce, "graph", "kept.edgelist")["weights"]["rule"] == "graph"


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(("name", "mark"), [("w.csv", ","), ("w.txt", " "), ("w.tsv", "\t")])
def test_a_table_of_numbers_is_a_matrix_too(size: int, name: str, mark: str, sottovoce: Run) -> None:
    matrix = mixing(size) if size > 2 else np.array([[0.5, 0.5], [0.5, 0.5]])
    np.savetxt(name, matrix, delimiter=mark, fmt="%.17g")
    found = facts(sottovoce, "graph", name)
    assert found["graph"]["hash"] == graphs.matrix_weights(matrix).hash
    assert found["graph"]["origin"] == f"as given in {name}"


def test_tables_that_are_no_matrix_are_refused_or_edges(sottovoce: Run) -> None:
    np.savetxt("rounded.csv", np.full((6, 6), 1 / 6), delimiter=",", fmt="%.6f")
    err = sottovoce("graph", "rounded.csv").err
    assert (
        "a table of 6 by 6 numbers is a matrix if it holds zeros and ones, or if every row sums to 1" in err
    )
    assert "row 1 sums to 1.000002 (write every digit" in err
    np.savetxt("ones.csv", 1 - np.eye(3), delimiter=",", fmt="%d")
    assert (
        "three lines of three zeros and ones may be a matrix or edges" in sottovoce("graph", "ones.csv").err
    )
    np.savetxt("ring.csv", graphs.as_graph("ring:n=6").adjacency.toarray(), delimiter=",", fmt="%d")
    assert facts(sottovoce, "graph", "ring.csv")["graph"]["edges"] == 6
    Path("three.csv").write_text("0,1,0.5\n1,2,0.5\n2,0,0.5\n")
    Path("two.csv").write_text("0,1\n1,2\n")
    assert facts(sottovoce, "graph", "two.csv")["graph"]["nodes"] == 3
    words = ("graph", "three.csv", "--weights", "metropolis")
    assert facts(sottovoce, *words)["graph"]["nodes"] == 3


@pytest.mark.parametrize(
    "matrix",
    [
        [[0, 1], [1, 0]],
        [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]],
        [[1, 1, 0], [1, 1, 1], [0, 1, 1]],
    ],
    ids=["one edge, whose rows sum to 1", "a ring", "a path with loops"],
)
def test_zeros_and_ones_say_where_edges_are(matrix: list[list[int]], sottovoce: Run) -> None:
    np.save("ones.npy", np.array(matrix))
    assert (
        facts(sottovoce, "graph", "ones.npy")["graph"]["origin"] == "metropolis rule on the graph of ones.npy"
    )
    edges = [(i, j) for i, row in enumerate(matrix) for j, entry in enumerate(row) if entry and i <= j]
    Path("ones.csv").write_text("".join(f"{i},{j},1.0\n" for i, j in edges))
    assert (
        facts(sottovoce, "graph", "ones.csv")["graph"]["origin"] == "metropolis rule on the graph of ones.csv"
    )


def test_a_directed_ring_of_ones_is_an_edge_list_and_not_a_matrix_that_swaps(sottovoce: Run) -> None:
    np.save("cycle.npy", np.roll(np.eye(5), 1, axis=1))
    code, out, err = sottovoce("graph", "cycle.npy")
    assert (code, out) == (2, "")
    assert "needs an undirected graph; this one is directed (use --weights uniform" in err
    code, out, err = sottovoce("graph", "cycle.npy", "--weights", "graph")
    assert (code, out) == (2, "")
    assert "must not be periodic; these have period 5" in err


def test_names_of_files_cannot_steer_the_terminal(sottovoce: Run) -> None:
    write(mixing(), "\x1b[31mred.npy")
    out = sottovoce("graph", "\x1b[31mred.npy").out
    assert "\x1b" not in out
    assert "as given in \\x1b[31mred.npy" in out


@pytest.mark.parametrize("name", ["call.csv", "call.graphml"])
def test_numbers_at_edges_that_are_not_called_weights_are_not_passed_over_in_silence(
    name: str, sottovoce: Run
) -> None:
    if name.endswith(".csv"):
        Path(name).write_text("source,target,strength\na,b,0.5\nb,c,0.25\nc,a,0.5\n", encoding="utf-8")
    else:
        edges = (("a", "b", 0.5), ("b", "c", 0.25), ("c", "a", 0.5))
        nx.write_graphml(nx.Graph((u, v, {"strength": weight}) for u, v, weight in edges), name)
    told = (
        f"metropolis rule on the graph of {name}, where strength at the edges is not read (call it weight if it is "
        "meant)"
    )
    assert facts(sottovoce, "graph", name)["graph"]["origin"] == told
    assert facts(sottovoce, "account", name, *RUN, *NOISE)["graph"]["origin"] == told
    # Whoever calls them so has them used, or is asked.
    Path(name).write_text(Path(name).read_text().replace("strength", "weight"), encoding="utf-8")
    assert "every row sums to 1; row 'b' sums to 0.75" in sottovoce("graph", name).err


def test_push_sum_takes_weights_whose_columns_sum_to_1(sottovoce: Run, tmp_path: Path) -> None:
    divided = np.array([[0.5, 0.25, 0.0], [0.5, 0.5, 0.5], [0.0, 0.25, 0.5]])
    np.save(tmp_path / "P.npy", divided)
    run = ("--rounds", "3", "--view", "secure-sum", "--noise-multiplier", "2", "--protocol", "push-sum")
    expected = push_sum(divided, rounds=3)
    table = account_all(expected, "secure-sum", noise_multiplier=2.0, delta=1e-5)
    for words in (("P.npy",), ("path:n=3", "--weights", "P.npy")):
        document = json.loads(sottovoce("account", *words, *run, "--json").out)
        assert document["protocol_hash"] == expected.hash
        assert document["worst"]["epsilon"]["upper"] == table.epsilon_upper.max()
    assert sottovoce("account", "P.npy", *run, "--report", "r.html").code == 0
    assert sottovoce("verify", "r.html", "--graph", "P.npy").code == 0
    pair = ("--observer", "0", "--target", "2", "--output", "c.json")
    assert sottovoce("certify", "P.npy", *run, *pair).code == 0
    assert sottovoce("verify", "c.json", "--graph", "P.npy").code == 0
    assert sottovoce("verify", "c.json", "--graph", "P.npy", "--protocol", "push-sum").code == 0
    code, _, err = sottovoce("account", "P.npy", *run[:-2])
    assert (code, "if every row sums to 1; row 1 sums to 1.5" in err) == (2, True)
    np.save(tmp_path / "P.npy", divided.T)
    code, _, err = sottovoce("account", "P.npy", *run)
    assert (code, "must have columns that sum to 1; column 1 sums to 1.5" in err) == (2, True)


def test_push_sum_divides_equally_on_a_directed_graph(sottovoce: Run, tmp_path: Path) -> None:
    directed = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
    nx.write_graphml(directed, tmp_path / "d.graphml")
    run = ("--rounds", "3", "--view", "secure-sum", "--noise-multiplier", "2", "--protocol", "push-sum")
    document = json.loads(sottovoce("account", "d.graphml", *run, "--json").out)
    assert document["graph"]["origin"] == "uniform columns rule on the graph of d.graphml"
    parts = np.array([[1 / 3, 0.0, 0.5], [1 / 3, 0.5, 0.0], [1 / 3, 0.5, 0.5]])
    table = account_all(push_sum(parts, rounds=3), "secure-sum", noise_multiplier=2.0, delta=1e-5)
    assert document["worst"]["epsilon"]["upper"] == table.epsilon_upper.max()


def test_push_sum_is_refused_where_a_network_falls_apart_as_gossip_is(sottovoce: Run, tmp_path: Path) -> None:
    run = ("--rounds", "3", "--view", "secure-sum", "--noise-multiplier", "2", "--protocol", "push-sum")
    nx.write_graphml(nx.DiGraph([(0, 1), (1, 2), (2, 1)]), tmp_path / "d.graphml")
    np.save(tmp_path / "apart.npy", np.kron(np.eye(2), np.full((2, 2), 0.5)))
    np.save(tmp_path / "turns.npy", np.roll(np.eye(3), 1, axis=0))
    (tmp_path / "two.edgelist").write_text("a b\nc d\n", encoding="utf-8")
    for words, why in (
        (("d.graphml",), "the graph falls into 2 strongly connected components"),
        (
            ("two.edgelist", "--weights", "uniform"),
            "the graph falls into 2 components, the largest with 2 of 4",
        ),
        (("apart.npy",), "the graph falls into 2 components"),
        (("path:n=4", "--weights", "apart.npy"), "the graph falls into 2 components"),
        (("path:n=3", "--weights", "turns.npy"), "must not be periodic; these have period 3"),
    ):
        code, out, err = sottovoce("account", *words, *run)
        assert (code, out) == (2, ""), words
        assert why in err, words
    assert push_sum(np.kron(np.eye(2), np.full((2, 2), 0.5)), rounds=3).rounds == 3
