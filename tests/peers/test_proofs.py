"""What a run gave away, from its transcripts: as it was, not as it was planned, and nothing forged is believed."""

import base64
import dataclasses
import hashlib
import json
import math
import random
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from benchmarks.mutations import hashed
from scipy.linalg import null_space
from tests import test_shift_certificates as training
from tests.peers.networks import complete, identities, joined, network
from tests.peers.swarm import Swarm

from sottovoce.accounting import account
from sottovoce.cli import main
from sottovoce.errors import SottovoceError
from sottovoce.interval import Interval
from sottovoce.peers import Network, Policy, TaskFacts, known_after, notes
from sottovoce.peers.exchanges import Masking, masked_by
from sottovoce.peers.history import RunHistory, history_of
from sottovoce.peers.proofs import (
    _CONTEXT,
    RunCertificate,
    _form,
    certify_run,
    read_run,
    verify_run,
    write_run,
)
from sottovoce.peers.spending import spent, stands_alone
from sottovoce.peers.transcript import Transcript, read_transcript
from sottovoce.protocols import Combine, Draw, Exchange, Program, Protocol, gossip, round_weights
from sottovoce.sensitivities import certify
from sottovoce.views import View

Files = dict[str, Path]


class Noisy:
    """Contributions and noise on the grid of a network."""

    def __init__(self, run: Network) -> None:
        self.run, self.rng = run, np.random.default_rng(3)

    def __call__(self, _: int, t: int, model: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        grid, shape = self.run.grid, model.shape
        scale = float(self.run.steps[t]) * self.run.noise_std
        whole = [grid.real(grid.whole(self.rng.standard_normal(shape) * size)) for size in (0.1, scale)]
        return whole[0], {"u": whole[1]}


def masked(loss: str, rounds: int = 6, **changes: Any) -> Network:
    task = TaskFacts(
        loss=loss,  # type: ignore[arg-type]
        features=2,
        shard_size=20,
        classes=2 if loss == "logistic" else 0,
        step="0.5" if loss == "quadratic" else None,
    )
    usual: dict[str, Any] = {"edges": complete(5), "sums": "masked", "unit": "node", "colluders": 0}
    return network(5, **{**usual, "rounds": rounds, "task": task, **changes})


def lived(run: Network, folder: Path, deaths: dict[int, tuple[int, int | None]]) -> tuple[Swarm, Files]:
    """A run in which nodes die at events of one's choice, and come back or not; and the transcripts of the living."""
    swarm, events = Swarm(run, Noisy(run)), iter(range(10**9))
    for i in range(run.n):
        swarm.start(i)

    def chaos() -> None:
        event = next(events)
        for i, (dies, back) in deaths.items():
            if event == dies and i in swarm.nodes and i not in swarm.done:
                swarm.kill(i)
            if event == back and i not in swarm.nodes:
                swarm.start(i)

    swarm.run(chaos)
    files = {}
    for i, node in swarm.nodes.items():
        node.ended()
        swarm.notes[i] += [note for note in node.notes if note.number > len(swarm.notes[i])]
        files[run.names[i]] = folder / f"{run.names[i]}.jsonl"
        Transcript(files[run.names[i]], identities(5)[i].signing).add(swarm.notes[i])
    return swarm, files


def offline(run: Network, swarm: Swarm, me: int, observer: int, delta: float) -> Interval:
    """ε of the schedule that all nodes noted, by the accountant and another way to the matrices."""
    weights, programs = [], []
    told = [(i, note) for i, several in swarm.notes.items() for note in several]
    for t in range(run.settings.rounds):
        acting = {i for i, note in told if isinstance(note, notes.Sent) and note.round == t}
        matrix = np.eye(run.n)
        for i, note in told:
            if not isinstance(note, notes.Summed if i == observer else notes.Closed) or note.round != t:
                continue
            matrix[i] = 0
            for name in note.survivors:
                matrix[i, run.index(name)] = run.numerators[i][run.index(name)] / run.denominator
            if run.settings.missing == "survivors" and note.survivors:
                matrix[i, i] = run.numerators[i][i] / run.denominator
                matrix[i] /= matrix[i].sum()
            else:
                matrix[i, i] = 1 - matrix[i].sum()
        weights.append(round_weights(matrix))
        there = tuple(int(i in acting) for i in range(run.n))
        damping = float(run.exposure.damping[t, 0])
        kept = tuple(damping if here else 1 for here in there)
        message = Combine("message", {"model": kept, "contribution": there, "u": 1})
        programs.append(
            Program(
                keeps=("model",),
                draws=(Draw("u", level=there),),
                instructions=(message, Exchange("message", "model")),
            )
        )
    whole = Protocol(weights=tuple(weights), program=tuple(programs), rounds=run.settings.rounds)
    found = account(
        whole,
        View.secure_sum(observer),
        noise_multiplier=run.settings.noise_multiplier,
        delta=delta,
    )
    return found.about(me).epsilon()


@pytest.mark.parametrize(
    ("deaths", "missing"),
    [
        ({3: (150, None)}, "receiver"),
        ({1: (190, 260), 4: (400, None)}, "receiver"),
        ({2: (95, 230), 3: (310, 420)}, "receiver"),
        ({2: (95, 230), 3: (310, 420)}, "survivors"),
    ],
    ids=["one dies", "one comes back", "two come back", "weight is spread"],
)
def test_certificates_are_within_a_hundredth_of_the_offline_account(
    tmp_path: Path, deaths: dict[int, tuple[int, int | None]], missing: str
) -> None:
    run = masked("quadratic", rounds=4, missing=missing)
    swarm, files = lived(run, tmp_path, deaths)
    keys = {name: identities(5)[run.index(name)].card.signing_key for name in files}
    lines = {name: read_transcript(path, keys[name]) for name, path in files.items()}
    together, alone = history_of(swarm.network, lines), history_of(swarm.network, {"site-0": lines["site-0"]})
    planned = known_after(run, "site-0", observers=[1]).nodes[0].epsilon
    # All hear all: observers are alike but for who died.
    alive = next(i for i in range(1, 5) if i not in deaths)
    for observer in (min(deaths), alive):
        found = spent(together, 0, (observer,), delta=1e-5)
        mine = spent(alone, 0, (observer,), delta=1e-5)
        true = offline(run, swarm, 0, observer, 1e-5)
        assert mine.epsilon >= found.epsilon >= true.lower
        # Whether a node that died in a round had opened its sum, nobody can say but itself.
        if observer == alive:
            assert found.epsilon <= 1.01 * true.lower
            assert abs(found.epsilon / planned - 1) > 0.01


def test_rounds_cost_what_they_were_whatever_comes_later(tmp_path: Path) -> None:
    run = masked("logistic", rounds=5)
    swarm, files = lived(run, tmp_path, {3: (350, None)})
    key = identities(5)[0].card.signing_key
    history = history_of(swarm.network, {"site-0": read_transcript(files["site-0"], key)})
    found = spent(history, 0, (1,), delta=1e-5)
    clean = swarm.nodes[0].clean
    assert 0 < clean < 4
    # Four hidden nodes look alike as long as all are there, three where the fourth was never heard of again; with
    # the weight of the dead on their own messages no two of the others do.
    assert found.squared == pytest.approx(clean / 4 + 1 / 3 + 4 - clean)
    assert found.seen == 4 - clean
    # The node knew nearly as much all along, and no number is taken back.
    budget = swarm.budgets[0]
    (told,) = [epsilon for cost, epsilon in budget.known(clean, 5) if cost.observers == (1,)]
    assert found.epsilon < told < budget.certain[5]
    assert spent(history, 0, (), delta=1e-5).epsilon == pytest.approx(budget.certain[5], rel=1e-6)
    allowed = dataclasses.replace(budget, policy=Policy(node=told))
    assert allowed.allows(4, deviated=True, clean=clean)
    assert not allowed.allows(4, deviated=True, clean=clean - 1)


def test_weight_that_is_spread_over_survivors_leaves_them_alike(tmp_path: Path) -> None:
    run = masked("logistic", rounds=5, missing="survivors")
    swarm, files = lived(run, tmp_path, {3: (350, None)})
    key = identities(5)[0].card.signing_key
    lines = read_transcript(files["site-0"], key)
    found = spent(history_of(swarm.network, {"site-0": lines}), 0, (1,), delta=1e-5)
    clean = swarm.nodes[0].clean
    # Three hidden nodes still hide each other after the fourth has died: a round costs 1/3, and not all of it.
    assert 0 < clean < 4
    assert found.seen <= 1
    assert found.squared == pytest.approx(clean / 4 + (5 - clean - found.seen) / 3 + found.seen)
    closed = {line.round: line for line in lines if isinstance(line, notes.Closed)}
    assert closed[4].weights == dict.fromkeys(["site-0", "site-1", "site-2", "site-4"], 1)
    assert closed[4].denominator == 4
    made = certify_run(run, identities(5)[0], {"site-0": files["site-0"]}, delta=1e-5)
    assert all(each.holds for each in verify_run(made, run, {"site-0": files["site-0"]}))
    # Weights that are not those of the rule are refused, even if the node signs them.
    for change in ({"denominator": 5}, {"weights": {**closed[4].weights, "site-0": 2}}):
        forged = tmp_path / "forged.jsonl"
        forged.unlink(missing_ok=True)
        Transcript(forged, identities(5)[0].signing).add(
            msgspec.structs.replace(note, **(change if note == closed[4] else {})) for note in lines
        )
        with pytest.raises(SottovoceError, match="weights are not those"):
            history_of(swarm.network, {"site-0": read_transcript(forged, key)})


def test_a_node_stops_before_a_round_that_what_happened_forbids() -> None:
    run = masked("quadratic", rounds=8)
    most = known_after(run, "site-0").nodes[0].epsilon
    policies = {0: Policy(node=1.2 * most)}
    swarm = Swarm(run, Noisy(run), policies)
    for i in range(5):
        swarm.start(i)
    events = iter(range(10**9))
    swarm.run(lambda: swarm.kill(3) if next(events) == 700 else None)
    assert swarm.done[0] == "policy"
    assert {swarm.done[i] for i in (1, 2, 4)} == {"finished"}
    node = swarm.nodes[0]
    known = dict.fromkeys(range(5), 0.0) | {
        cost.observers[0]: epsilon for cost, epsilon in swarm.budgets[0].known(node.clean, node.sent)
    }
    assert 0 < max(known.values()) <= 1.2 * most
    assert node.sent < 8


def test_what_is_sent_in_the_clear_counts_as_seen(tmp_path: Path) -> None:
    run = network(4, edges=complete(4), rounds=3)
    swarm = Swarm(run, lambda _, __, model: (model, {"u": model}))
    for i in range(4):
        swarm.start(i)
    swarm.run()
    file = tmp_path / "site-0.jsonl"
    Transcript(file, identities(4)[0].signing).add(swarm.notes[0])
    made = certify_run(run, identities(4)[0], {"site-0": file}, delta=1e-5)
    assert [each.squared for each in made.known] == [pytest.approx(3.0)] * len(made.known)
    assert {each.seen for each in made.known} == {3}
    assert all(each.holds for each in verify_run(made, run, {"site-0": file}))


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Network, Path, Files]:
    folder = tmp_path_factory.mktemp("certified")
    run = masked("quadratic", rounds=3)
    _, files = lived(run, folder, {3: (250, None)})
    made = certify_run(run, identities(5)[0], {"site-0": files["site-0"]}, delta=1e-5)
    write_run(made, folder / "certificate.json")
    return run, folder / "certificate.json", {"site-0": files["site-0"]}


def accepted(run: Network, certificate: RunCertificate, files: Files) -> bool:
    try:
        return all(each.holds for each in verify_run(certificate, run, files))
    except SottovoceError:
        return False


def resigned(certificate: RunCertificate, **changes: Any) -> RunCertificate:
    """What a node that lies would sign."""
    bare = msgspec.structs.replace(certificate, **changes, signature="")
    signature = identities(5)[0].signing.sign(_CONTEXT + _form(bare))
    return msgspec.structs.replace(bare, signature=base64.b64encode(signature).decode())


def test_a_certificate_is_read_back_and_holds(certified: tuple[Network, Path, Files]) -> None:
    run, file, files = certified
    made = read_run(file)
    assert accepted(run, made, files)
    assert [each.observers for each in made.known][-1] == []
    assert len(made.known) == 4 + math.comb(4, 2) + 1


def test_whatever_is_changed_in_files_is_refused(
    certified: tuple[Network, Path, Files], tmp_path: Path
) -> None:
    run, file, files = certified
    rng, made, whole = random.Random(5), read_run(file), file.read_bytes()
    lines, changed = files["site-0"].read_bytes(), tmp_path / "changed"
    tried = 0
    while tried < 250:
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(7)
        changed.write_bytes(content)
        try:
            other = read_run(changed)
        except SottovoceError:
            tried += 1
            continue
        if other != made:
            tried += 1
            assert not accepted(run, other, files)
    for _ in range(150):
        content = bytearray(lines)
        place = rng.randrange(len(content))
        if rng.randrange(3):
            content[place] ^= 1 << rng.randrange(7)
        else:
            del content[place : place + rng.choice((1, 300))]
        changed.write_bytes(content)
        assert not accepted(run, made, {"site-0": changed})
    assert not accepted(run, made, {})


def lies(lines: list[dict[str, Any]], rng: random.Random) -> Iterator[list[dict[str, Any]]]:
    """Transcripts that a node could sign, of which something is not so."""
    places = [k for k, line in enumerate(lines) if line["what"] in {"told", "given", "farewell", "closed"}]
    while True:
        several = [dict(line) for line in lines]
        line = several[rng.choice(places)]
        field = rng.choice(
            [
                key
                for key in line
                if key
                in {
                    *("signed", "body", "receipt", "survivors", "peer", "receiver", "weights", "denominator"),
                    *(() if line["what"] == "closed" else ("round",)),
                }
            ]
        )
        match line[field]:
            case str() as text if field in {"peer", "receiver"}:
                line[field] = rng.choice([f"site-{k}" for k in range(1, 5) if f"site-{k}" != text])
            case str() as text:
                place = rng.randrange(len(text))
                line[field] = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
            case list() as held if field == "survivors":
                line[field] = held[1:] if len(held) == 4 else [*held, "site-3"]
            case list() as held:
                line[field] = held[: rng.randrange(2)] + ["A" * len(held[0])] * 2
            case dict() as held:
                line[field] = {**held, rng.choice(list(held)): rng.randrange(2, 5)}
            case int() as number:
                line[field] = number + 1 if field == "denominator" else (number + 1) % 3
        if line["what"] == "told" and field == "round":
            continue
        yield several


def signed_anew(lines: list[dict[str, Any]], path: Path) -> None:
    """Write lines as a node signs them, whatever stands in them."""
    before = ""
    with path.open("wb") as file:
        for line in lines:
            said = {**line, "before": before}
            del said["signature"]
            content = msgspec.json.encode(said, order="sorted")
            signature = identities(5)[0].signing.sign(b"sottovoce transcript 1\n" + content)
            whole = msgspec.json.encode({**said, "signature": signature}, order="sorted")
            before = hashlib.sha256(whole).hexdigest()
            file.write(whole + b"\n")


def test_what_neighbours_did_not_sign_is_refused_even_if_the_node_signs_it(
    certified: tuple[Network, Path, Files], tmp_path: Path
) -> None:
    run, file, files = certified
    made, rng = read_run(file), random.Random(6)
    lines = [json.loads(line) for line in files["site-0"].read_bytes().splitlines()]
    signed_anew(lines, tmp_path / "same.jsonl")
    assert (tmp_path / "same.jsonl").read_bytes() == files["site-0"].read_bytes()
    for count, lie in zip(range(100), lies(lines, rng), strict=False):
        path = tmp_path / f"{count}.jsonl"
        signed_anew(lie, path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert not accepted(run, resigned(made, transcripts={"site-0": digest}), {"site-0": path})


def test_a_claim_of_less_is_refused_even_if_the_node_signs_it(
    certified: tuple[Network, Path, Files],
) -> None:
    run, file, files = certified
    made = read_run(file)
    assert accepted(run, resigned(made), files)
    for place, stated in enumerate(made.known[:2] + made.known[-1:]):
        changes: list[dict[str, Any]] = [
            {"epsilon": stated.epsilon * (1 - 1e-9)},
            {"squared": stated.squared * (1 - 1e-9)},
            {"mu": stated.mu * (1 - 1e-9)},
            {"seen": stated.seen - 1} if stated.seen else {"certificates": []},
            {"together": not stated.together} if stated.certificates else {"epsilon": 0.0},
        ]
        where = place if place < 2 else len(made.known) - 1
        for change in changes:
            known = list(made.known)
            known[where] = msgspec.structs.replace(stated, **change)
            assert not accepted(run, resigned(made, known=known), files), change
    others: list[dict[str, Any]] = [
        {"known": made.known[1:]},
        {"delta": made.delta / 10},
        {"size": 1},
        {"me": "site-1"},
        {"sent": made.sent - 1},
        {"run": "00" * 32},
        {"network": "00" * 32},
        {"transcripts": {}},
    ]
    for changed in others:
        assert not accepted(run, resigned(made, **changed), files), changed
    # A certificate of other weights, with all its numbers, proves nothing here.
    other = json.loads(json.dumps(made.known[0].certificates))
    for document in other:
        document["claim"]["upper"] /= 2
    known = [
        msgspec.structs.replace(made.known[0], certificates=other, squared=0.1, epsilon=0.1),
        *made.known[1:],
    ]
    assert not accepted(run, resigned(made, known=known), files)
    # Nor does one that claims a tenth of what it proves, hashed again, so that a little less could be stated.
    stated = made.known[0]
    bold = [
        json.loads(
            hashed({**each, "claim": {**each["claim"], "lower": 0.0, "upper": each["claim"]["upper"] / 10}})
        )
        for each in stated.certificates
    ]
    less = {name: 0.99 * getattr(stated, name) for name in ("squared", "mu", "epsilon")}
    known = [msgspec.structs.replace(stated, certificates=bold, **less), *made.known[1:]]
    assert bold
    assert not accepted(run, resigned(made, known=known), files)


def test_rounds_stand_alone_by_proofs_in_which_nobody_moves() -> None:
    alone = {name: stands_alone(training.case(name)) for name in ("twins", "cap", "memory-one")}
    assert alone == {"twins": True, "cap": True, "memory-one": False}
    assert not stands_alone(training.case("shift, round by round"))
    assert not stands_alone(certify(gossip(training.RING, rounds=1), View.secure_sum(0), 1))


def test_the_command_line_proves_it_again(
    certified: tuple[Network, Path, Files],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, file, files = certified
    monkeypatch.setattr("sottovoce.peers.read_network", lambda _: run)
    words = ["peers", "verify", str(file), "network.toml", "--json", "--transcript"]
    assert main([*words, str(files["site-0"])]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["holds"] for each in found["known"]] == [True] * 11
    (other,) = file.parent.glob("site-1.jsonl")
    assert main([*words, str(other)]) == 3
    assert "follows from other transcripts of site-0, site-1" in capsys.readouterr().err
    assert main([*words, str(file)]) == 2


def test_verify_knows_the_certificate_of_a_run(
    certified: tuple[Network, Path, Files],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    run, file, files = certified
    monkeypatch.setattr("sottovoce.peers.read_network", lambda _: run)
    given = ["--transcript", str(files["site-0"])]
    for words in ([], ["--json"]):
        assert main(["peers", "verify", str(file), "network.toml", *given, *words]) == 0
        told = capsys.readouterr()
        assert main(["verify", str(file), "--network", "network.toml", *given, *words]) == 0
        assert capsys.readouterr() == told
    assert main(["verify", str(file), *given]) == 2
    assert "got no network (name it with --network network.toml)" in capsys.readouterr().err
    assert main(["verify", str(file), "--network", "network.toml", "--graph", "karate"]) == 2
    assert "--graph karate is for other certificates" in capsys.readouterr().err
    # A number that is too small, signed by the node itself.
    made = read_run(file)
    less = msgspec.structs.replace(made.known[0], epsilon=made.known[0].epsilon / 2)
    write_run(resigned(made, known=[less, *made.known[1:]]), tmp_path / "less.json")
    assert main(["verify", str(tmp_path / "less.json"), "--network", "network.toml", *given]) == 3
    found = capsys.readouterr()
    assert "less was claimed" in found.out
    assert "not verified: a number is smaller than what follows from the transcripts" in found.err
    (tmp_path / "other.json").write_text("{}")
    assert main(["verify", str(tmp_path / "other.json"), "--network", "network.toml"]) == 2
    assert "other.json is none (leave them out)" in capsys.readouterr().err


def test_who_was_killed_does_not_say_that_it_gave_nothing() -> None:
    run = joined(network(3, edges=complete(3), sums="masked", unit="node", colluders=0))
    # As a node is that comes back: it may have opened this sum before it was killed.
    exchange = masked_by(identities(3)[0].signing)(run, 0, 0, 0, np.zeros((1, run.dimension)))
    assert not exchange.busy
    assert exchange.end() == []
    assert exchange.notes == []


def costs(run: Network, swarm: Swarm, me: int, observer: int) -> dict[int, float]:
    """What each round in which a node sent costs it alone, from what all nodes noted, by a kernel in floats."""
    told = [(run.names[i], note) for i, several in swarm.notes.items() for note in several]
    closed = {(note.round, name): note.survivors for name, note in told if isinstance(note, notes.Closed)}
    given = {(note.round, note.receiver): note.survivors for _, note in told if isinstance(note, notes.Given)}
    found = {}
    for t in sorted(note.round for note in swarm.notes[me] if isinstance(note, notes.Sent)):
        matrix = np.zeros((run.n, run.n))
        for i, name in enumerate(run.names):
            heard = (given if i == observer else closed).get((t, name), ())
            for j, weight in run.row(i, map(run.index, heard)).items():
                matrix[i, j] = weight
        kernel = null_space(np.delete(matrix, observer, axis=1))
        found[t] = 1 - float(kernel[me - (me > observer)] @ kernel[me - (me > observer)])
    return found


def test_a_round_costs_what_hides_no_more_where_its_observer_received_nothing(tmp_path: Path) -> None:
    run = masked("logistic", rounds=6, missing="survivors")
    swarm, files = lived(run, tmp_path, {1: (190, 700)})
    away = {note.round for note in swarm.notes[1] if isinstance(note, notes.Sent)} ^ set(range(6))
    lines = {
        name: read_transcript(path, identities(5)[run.index(name)].card.signing_key)
        for name, path in files.items()
    }
    history = history_of(swarm.network, lines)
    true = costs(run, swarm, 0, 1)
    found = spent(history, 0, (1,), delta=1e-5)
    # A node that sends nothing in a round says so, and what it did not receive shows nothing; but it is not free.
    assert len(away) > 1
    assert all(0.2 < true[t] < 0.5 for t in away)
    assert found.seen == 0
    assert found.squared == pytest.approx(sum(true.values()), rel=1e-9)
    made = certify_run(run, identities(5)[0], files, delta=1e-5)
    assert all(each.holds for each in verify_run(made, run, files))
    (stated,) = [each for each in made.known if each.observers == ["site-1"]]
    assert stated.squared == found.squared


def early(note: notes.AnyNote) -> bool:
    """Whether a line is of no round from the third on."""
    return getattr(note, "round", 0) < 2


def test_an_old_copy_of_a_transcript_is_not_believed_about_later_rounds(tmp_path: Path) -> None:
    """Who is said to have sent nothing would be said to have taken nothing up, and to have opened nothing."""
    run = masked("logistic", rounds=4)
    swarm, files = lived(run, tmp_path, {})
    keys = {name: identities(5)[run.index(name)].card.signing_key for name in files}
    lines = {name: read_transcript(path, keys[name]) for name, path in files.items()}
    lines["site-2"] = [line for line in lines["site-2"] if early(line)]
    with pytest.raises(
        SottovoceError, match=r"transcript of site-2 knows nothing of round 3.*is an old copy"
    ):
        history_of(swarm.network, {name: lines[name] for name in ("site-0", "site-2")})


def test_a_copy_that_ends_too_early_says_nothing_of_what_came_later(tmp_path: Path) -> None:
    """The observer keeps its list from the target alone: the others opened it, and old copies do not know of that."""
    linked = [(0, 1), (1, 2), (1, 3), (1, 4), (2, 3), (3, 4)]
    run = masked("logistic", rounds=4, edges=tuple((f"site-{i}", f"site-{j}") for i, j in linked))
    swarm, files = lived(run, tmp_path, {})
    keys = {name: identities(5)[run.index(name)].card.signing_key for name in files}
    whole = {name: read_transcript(path, keys[name]) for name, path in files.items() if name != "site-1"}
    heard = [line for line in whole["site-0"] if not isinstance(line, notes.Told | notes.Receipt)]
    mine = [line for line in heard if not isinstance(line, notes.Given) or early(line)]
    failed = [
        notes.Failed(
            round=t, exchange=0, receiver="site-1", phase="opened", reason="late", dealers=("site-0",)
        )
        for t in (2, 3)
    ]
    others = {name: lines for name, lines in whole.items() if name != "site-0"}
    stopped_short = {name: list(takewhile(early, lines)) for name, lines in others.items()}
    told = history_of(swarm.network, {"site-0": [*mine, *failed], **others})
    stale = history_of(swarm.network, {"site-0": [*mine, *failed], **stopped_short})
    assert [told.row(t, 1, observers=(1,)) for t in (2, 3)] == [told.planned(1)] * 2
    assert [stale.row(t, 1, observers=(1,)) for t in (2, 3)] == [None] * 2
    # Who says that it took part no more, opened nothing later.
    gone = {name: [*lines, notes.Stopped(reason="policy", round=2)] for name, lines in stopped_short.items()}
    history = history_of(swarm.network, {"site-0": [*mine, *failed], **gone})
    assert [history.row(t, 1, observers=(1,)) for t in (2, 3)] == [run.row(1, ())] * 2


def test_a_sum_that_too_few_opened_shows_nothing_even_if_masked_messages_were_sent(tmp_path: Path) -> None:
    """The receiver dies with all masked messages in its hands; no sender shows a share, so that they stay masked."""
    run = masked("logistic", rounds=4, missing="survivors")
    swarm = Swarm(run, Noisy(run))
    for i in range(run.n):
        swarm.start(i)
    killed = False

    def when_all_is_masked() -> None:
        nonlocal killed
        exchange = swarm.nodes[1]._exchange if 1 in swarm.nodes else None
        if isinstance(exchange, Masking) and exchange.round == 1:
            machine = exchange._receiver
            if machine is not None and machine.phase == "agreed":
                swarm.kill(1)
                killed = True

    swarm.run(when_all_is_masked)
    assert killed
    for node in swarm.nodes.values():
        node.ended()
    lines = {run.names[i]: swarm.notes[i] + swarm.nodes[i].notes for i in swarm.nodes}
    failed = [
        line for line in lines["site-0"] if isinstance(line, notes.Failed) and line.receiver == "site-1"
    ]
    assert len(failed[0].dealers) == 4
    files = {name: tmp_path / name for name in lines}
    for name, said in lines.items():
        Transcript(files[name], identities(5)[run.index(name)].signing).add(said)
    keys = {name: identities(5)[run.index(name)].card.signing_key for name in files}
    history = history_of(swarm.network, {name: read_transcript(files[name], keys[name]) for name in files})
    assert history.row(1, 1, observers=(1,)) == run.row(1, ())
    # A receiver and two of its senders need one more, and with three might have opened it without the fourth.
    assert history.row(1, 1, observers=(1, 2, 3)) == run.row(1, ())
    assert history.row(1, 1, observers=(1, 2, 3, 4)) is None
    assert spent(history, 0, (1,), delta=1e-5).seen == 0


def test_observers_are_not_believed_that_they_gave_nothing_to_each_other() -> None:
    run = joined(network(3, edges=complete(3), sums="masked", unit="node", colluders=0))
    history = RunHistory(network=run, authors=frozenset({0, 2}))
    history.silent[0, 1].add(2)
    assert history.row(0, 1, observers=(1,)) == run.row(1, ())
    assert history.row(0, 1, observers=(1, 2)) is None
