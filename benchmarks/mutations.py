# SPDX-License-Identifier: Apache-2.0
"""What becomes of certificates whose fields were changed: whatever is still verified is held against exact rationals.

Honest certificates of all kinds are changed in one to three places, most of them with a claim made bolder as well, and
hashed again as a forger would. Each mutant is read and verified on the graph, in floats and in balls: what floats
accept balls must accept, too. An accepted claim must hold the truth,
which `tests/reference.py` computes from the definition in whole numbers; nothing may end in anything but a verdict or
an error on purpose.

    python -m benchmarks.mutations [--count 20000] [--seed 1]
"""

from __future__ import annotations

import argparse
import collections
import copy
import hashlib
import itertools
import json
import math
import re
import time
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from tests.interpreter import exact_view, largest_over_signs
from tests.reference import exact_weights

from sottovoce.certificates import Certificate, HorizonProof, Mechanism, from_text, to_text
from sottovoce.errors import InputError, NotCertified
from sottovoce.feedback import training_sensitivity
from sottovoce.graphs import (
    GossipWeights,
    laplacian_weights,
    matrix_weights,
    metropolis_weights,
    uniform_weights,
)
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    push_sum,
    repeated,
    scheduled,
)
from sottovoce.sensitivities import certify
from sottovoce.verification import verify
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from sottovoce.certificates import StatedView
    from sottovoce.verification import Verification

    Weights = GossipWeights | tuple[GossipWeights, ...]

MOST_SECONDS = 20.0
MOST_ROUNDS = 7
TOLERANCE = 1e-9
"""How far floats, in which the maximum over vectors is computed, may be from the truth."""


@dataclass(frozen=True)
class Tally:
    """How many mutants ended how, and every one that should not have."""

    ends: dict[str, int]
    failures: list[str]


@cache
def weights_at_hand() -> dict[str, Weights]:
    """The graphs, a column-stochastic one, and a schedule."""
    pushed = push_sum(np.array([[0.5, 0, 0.25], [0.5, 0.5, 0], [0, 0.5, 0.75]]), rounds=1)
    turns = scheduled([np.kron(np.eye(2), np.full((2, 2), 0.5)), "ring:n=4"], rounds=1)
    return {**gossip_weights(), "pushed": pushed.weights, "turns": turns.schedule}


@cache
def gossip_weights() -> dict[str, GossipWeights]:
    """The graphs: rules and floats, symmetric and not, with equal sums and with sums that are nearly equal."""
    bent = np.full((4, 4), 0.25)
    bent[0, 1:3] = np.nextafter(bent[0, 1:3], [1.0, 0.0])
    directed = np.array([[0.5, 0.25, 0, 0.25], [0.5, 0.5, 0, 0], [0, 0.75, 0.25, 0], [0.125, 0, 0.375, 0.5]])
    return {
        "ring": metropolis_weights("ring:n=5"),
        "complete": metropolis_weights("complete:n=4"),
        "star": uniform_weights("star:n=4"),
        "nearly": laplacian_weights("complete:n=3", 0.3333333333333333),
        "bent": matrix_weights(bent),
        "directed": matrix_weights(directed, labels=["a", "b", "c", "d"]),
    }


@cache
def honest() -> tuple[tuple[str, Certificate], ...]:
    """Honest certificates of all kinds, each with the name of its graph; every one is verified on it."""
    return tuple(_honest())


def _honest() -> Iterator[tuple[str, Certificate]]:
    graphs = gossip_weights()
    settings = itertools.cycle(
        ["full", "every:2", "at-most:2", "separated:2", "fixed:1,3", "separated:2,at-most=2"]
    )
    dampings = itertools.cycle([None, None, "some"])
    for name, weights in graphs.items():
        labels = list(weights.labels)
        first, second, last = labels[0], labels[1], labels[-1]
        rows = np.array([[1.0, 0.5, 0, 0, 0][: weights.n], [0, 0.1, 0.25, 0, 0][: weights.n]])
        for view in (
            View.everyone,
            View.secure_sum(first),
            View.neighbourhood(first, own_noise="hidden"),
            View.single_node(second),
            View.coalition_sums([first, second], own_noise="hidden"),
            View.coalition_messages([first]),
            View(observation=rows, known_noise=[first]),
        ):
            damping = None if next(dampings) is None else [1.0, 0.5, -0.25, 0.1, 1.0][: weights.n]
            participation, rounds = next(settings), 4
            protocol = gossip(weights, rounds=rounds, damping=damping)
            mechanism = Mechanism(noise_multiplier=2.0, delta=1e-5) if view.name == "secure-sum" else None
            try:
                made = certify(protocol, view, last, participation=participation, mechanism=mechanism)
            except NotCertified:
                continue
            yield name, made
        yield from ((name, made) for made in _trained(weights, next(settings)))
        for damping in (None, [0.5, 1.0, -0.5, 0.0, 1.0][: weights.n]):
            yield (
                name,
                short_horizon(gossip(weights, rounds=5, damping=damping), View.secure_sum(first), last),
            )
    yield from _honest_programs()


def protocols() -> Iterator[tuple[str, Protocol]]:
    """One of every builder, and a program of its own that changes in turns, each with the name of its weights."""
    graphs = weights_at_hand()
    ring, star, bent = graphs["ring"], graphs["star"], graphs["bent"]
    noisy = Program(
        keeps=("model", "kept"),
        draws=(Draw("u", level="1/2"), Draw("w", level=2, each="edge")),
        instructions=(
            Combine("message", {"model": "1/3", "kept": -1, "contribution": 2, "u": 1, "w": 1}),
            Exchange("message", "sum"),
            Combine("kept", {"message": "1/2"}),
            Exchange("kept", "model"),
        ),
    )
    still = Program(keeps=("model", "kept"), draws=(), instructions=(Exchange("model", "model"),))
    yield "ring", momentum(ring, rounds=3, beta="9/10")
    yield "bent", momentum(bent, rounds=3, beta=0.5, noise="message")
    yield "star", gradient_tracking(star, rounds=3, noise="messages")
    yield "ring", exact_diffusion(ring, rounds=3)
    yield "ring", pairwise_noise(ring, rounds=3, local=1, shared=2)
    yield "star", repeated(star, rounds=2, steps=3)
    yield "ring", chebyshev(ring, rounds=2, steps=3, gamma="6/5")
    yield "ring", once(ring, steps=3)
    yield "bent", clean_state(bent, rounds=3, keep="1/2")
    yield "star", gossip(star, rounds=4, encoder=(1, "1/2", "3/8"))
    yield "star", gossip(star, rounds=3, noise_levels=(1, "1/3", 2, 0.5))
    yield "pushed", push_sum(graphs["pushed"], rounds=4)
    yield "turns", Protocol(weights=graphs["turns"], program=gossip(star, rounds=1).program, rounds=5)
    yield "ring", Protocol(weights=ring, program=(noisy, still), rounds=4)


def _honest_programs() -> Iterator[tuple[str, Certificate]]:
    """Certificates of programs, the settings taken in turns."""
    turns: Any = itertools.cycle(
        itertools.product(
            ("vector", "scalar", "energy"), ("full", "every:2", "fixed:1", "at-most:2", "separated:2")
        )
    )
    for name, protocol in protocols():
        for view in (
            View.neighbourhood(0),
            View.secure_sum(1, own_noise="hidden"),
            View.coalition_messages([0], exchanges=[1]),
            View(observation=[[1.0, 0.5, *[0.0] * (protocol.n - 2)]], known_noise=[0]),
        ):
            contribution, participation = next(turns)
            if protocol.rounds == 1:
                participation = "full"
            yield (
                name,
                certify(protocol, view, 2, contribution=contribution, participation=participation),
            )


def _trained(weights: GossipWeights, participation: str) -> Iterator[Certificate]:
    """Certificates of kind shift: a proof by steps, one by a single vector, and one for maps of any kind."""
    labels, n = list(weights.labels), weights.n
    levels = (1.0, 2.0, 1.0, 0.5, 1.0)[:n]
    mechanism = Mechanism(noise_multiplier=2.0, delta=1e-5, relation="zero-out")
    ends = [0.0, 0.5, -0.5, 0.9, 1.0][:n], [1.0, 1.0, 0.5, 1.1, 1.0][:n]
    cases: tuple[tuple[Any, View, Any, str], ...] = (
        (ends, View.secure_sum(labels[0]), levels, "full"),
        ((0.5, 1), View.secure_sum(labels[0]), None, participation),
        ((-0.2, 0.2), View.coalition_sums([labels[0], labels[1]]), None, "full"),
        ("any", View.single_node(labels[1], own_noise="hidden"), None, participation),
    )
    for updates, view, noise, asked in cases:
        protocol = gossip(weights, rounds=3, updates=updates, noise_levels=noise)
        yield certify(
            protocol,
            view,
            labels[-1],
            participation=asked,
            mechanism=mechanism if updates == (0.5, 1) else None,
        )


def short_horizon(protocol: Any, view: View, target: Any) -> Certificate:  # noqa: ANN401
    """A certificate of kind horizon over so few rounds that its truth can be computed; its rate is sought."""
    dense = certify(protocol, view, target)

    @cache
    def proved(rate: float) -> Certificate | None:
        for start in (1.0, 3.0):
            proof = HorizonProof(start=np.full(2, start * rate), rate=rate)
            upper = min((3 + 2 * start) * rate * (1 + 1e-6), 5.0)
            made = Certificate(
                **{**vars(dense), "proof": proof, "squared_lower": 0.0, "squared_upper": upper}
            )
            if verify(made, protocol.weights, arithmetic="float").verified:
                return made
        return None

    rates = np.geomspace(0.05, 1.0, 12).tolist()
    # What is proved at a rate is proved at every higher one.
    made = proved(rates[bisect_left(rates, True, hi=11, key=lambda rate: proved(rate) is not None)])
    if made is None:
        raise AssertionError("no rate up to 1 was proved")
    return made


def hashed(document: dict[str, Any]) -> str:
    """The text of a document with the hash that belongs to it, as a forger would write it."""
    body = {name: value for name, value in document.items() if name != "hash"}
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**body, "hash": hashlib.sha256(canonical.encode()).hexdigest()})


def mutants(seed: int, count: int) -> Iterator[tuple[str, str, str]]:
    """Texts of changed certificates: the graph's name, what was changed, and the text."""
    rng = np.random.default_rng(seed)
    originals = [(name, json.loads(to_text(certificate))) for name, certificate in honest()]
    for _ in range(count):
        name, original = originals[rng.integers(len(originals))]
        document = copy.deepcopy(original)
        changed = []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            if rng.random() < 0.2:
                donor = originals[rng.integers(len(originals))][1]
                part = str(rng.choice(["view", "proof", "claim", "protocol", "target", "participation"]))
                document[part] = copy.deepcopy(donor[part])
                changed.append(f"{part} of another")
            elif rng.random() < 0.3 and isinstance(document.get("protocol"), dict):
                # What nodes do is small beside weights and proofs, and would rarely be met.
                said = {name: document["protocol"].get(name) for name in ("programs", "encoder", "rounds")}
                changed.append(_mutated(said, rng))
                document["protocol"].update(said)
            else:
                changed.append(_mutated(document, rng))
        if rng.random() < 0.5 and isinstance(document.get("claim"), dict):
            changed.append(_bolder(document, rng))
        yield name, "; ".join(changed), hashed(document)


def _mutated(document: dict[str, Any], rng: np.random.Generator) -> str:
    """Change one place of a document, whichever it is; say which."""
    place: list[Any] = []
    holder: Any = document
    while True:
        keys = (
            [key for key in holder if key != "hash"] if isinstance(holder, dict) else list(range(len(holder)))
        )
        if not keys:
            return "nothing"
        key = keys[rng.integers(len(keys))]
        place.append(key)
        inner = holder[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.93:
            holder = inner
            continue
        sensible = _ways(inner)
        ways = sensible if sensible and rng.random() < 0.85 else [*_JUNK, [inner]]
        way = ways[rng.integers(len(ways))]
        if way is ...:
            del holder[key]
        else:
            holder[key] = way
        return f"{'.'.join(map(str, place))} = {str(way)[:40]}"


_JUNK: list[Any] = [..., None, True, "x", [], {}, 0, -1, 1, 0.5, 2**63, 1e308, 10**30]


def _ways(value: Any) -> list[Any]:  # noqa: ANN401
    """What a value may be changed to without ceasing to be of its kind."""
    if isinstance(value, bool) or value is None:
        return [[1.0], [1.0, 1.0, 1.0, 1.0], {"noise_multiplier": 1.0, "delta": 0.1, "relation": "zero-out"}]
    if isinstance(value, int):
        return [value + 1, value - 1, value + 2, value * 2, float(value), str(value), value * 1.5]
    if isinstance(value, float):
        factors = (1 + 1e-15, 1 - 1e-12, 1 - 1e-9, 1 - 1e-6, 0.999, 0.9, 0.5, 2, 1e-6, 1e6, -1)
        return [*(value * factor for factor in factors), value + 1, round(value, 3), str(value)]
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+(/[1-9][0-9]*)?", value):
        number = Fraction(value)
        times = (1 + Fraction(1, 10**9), Fraction(999, 1000), Fraction(1, 2), 2, -1, 0)
        return [*(str(number * factor) for factor in times), str(number + 1), float(number), "1/0", [value]]
    if isinstance(value, str):
        words = [
            "full",
            "every:2",
            "every:3,offset=1",
            "at-most:1",
            "at-most:3",
            "separated:3",
            "fixed:1",
            "fixed:2",
        ]
        words += [
            "secure-sum",
            "neighbourhood",
            "single-node",
            "coalition-sums",
            "coalition-messages",
            "everyone",
        ]
        words += [
            "known",
            "hidden",
            "vector",
            "scalar",
            "energy",
            "edge",
            "message",
            "contribution",
            "0",
            "-1",
            "2",
            "dense",
            "horizon",
            "shift",
            "memory-one",
            "twins",
            "cap",
            "any",
            "model",
            "u",
            "1/3",
            "1/2",
            "1/4",
            "2/6",
        ]
        words += [
            "replace-one",
            "zero-out",
            "0.3333333333333333",
            "every:" + "9" * 30,
            value + "0",
            value[:-1],
        ]
        # A word of the same vocabulary is likelier to be read than any.
        near = [
            word for word in words if word.partition(":")[0] in _VOCABULARY.get(value.partition(":")[0], ())
        ]
        return [*words, *near * 5]
    if isinstance(value, list):
        return [value[:-1], value[1:], [*value, *value[:1]], value[::-1], [*value, 0]]
    return [{**value, "more": 1}, dict(list(value.items())[:-1])]


_VOCABULARIES = (
    ("full", "every", "at-most", "separated", "fixed"),
    ("secure-sum", "neighbourhood", "single-node", "coalition-sums", "coalition-messages", "everyone"),
    ("known", "hidden"),
    ("vector", "scalar", "energy"),
    ("node", "edge"),
    ("shift", "memory-one", "twins", "cap"),
)
_VOCABULARY = {word: words for words in _VOCABULARIES for word in words}


def _steps(proof: object) -> list[Any]:
    """The steps of a proof of kind shift in a document; none of any other."""
    if not isinstance(proof, dict) or proof.get("kind") != "shift":
        return []
    parts = [proof.get(part) for part in ("start", "bulk", "end")]
    return [step for part in parts if isinstance(part, list) for step in part]


def _bolder(document: dict[str, Any], rng: np.random.Generator) -> str:
    """Make the claim say more than it did, in a way that the proof might follow."""
    factor = float(rng.choice([1 - 1e-7, 0.9999, 0.99, 0.9, 0.5, 0.01]))
    claim, proof = document["claim"], document.get("proof")
    steps = _steps(proof)
    try:
        if rng.random() < 0.3:
            claim["lower"] = min(claim["lower"] / factor, claim["upper"])
            return f"lower / {factor}"
        claim["upper"] *= factor
        claim["lower"] = min(claim["lower"], claim["upper"])
        if isinstance(proof, dict) and rng.random() < 0.7:
            for name in ("y", "start"):
                if isinstance(proof.get(name), list) and not steps:
                    proof[name] = [x * factor for x in proof[name]]
            if "rate" in proof:
                proof["rate"] *= factor
            for step in steps:
                step["kappa"] /= factor
    except (TypeError, KeyError):
        return "claim as it was"
    return f"upper * {factor}"


def patterns(text: str, rounds: int) -> list[tuple[int, ...]]:
    """All sets of rounds that a spelling allows, tried one by one."""
    kind, _, rest = text.partition(":")
    numbers = [int(part.split("=")[-1]) for part in rest.split(",") if part]

    def allowed(chosen: tuple[int, ...]) -> bool:
        apart = min((b - a for a, b in itertools.pairwise(chosen)), default=math.inf)
        match kind:
            case "full":
                return True
            case "fixed":
                return all(t + 1 in numbers for t in chosen)
            case "every":
                phases = {t % numbers[0] for t in chosen}
                return len(phases) < 2 and (len(numbers) == 1 or phases <= {numbers[1] - 1})
            case "at-most":
                return len(chosen) <= numbers[0]
            case _:
                return apart >= numbers[0] and (len(numbers) == 1 or len(chosen) <= numbers[1])

    sets = [
        chosen
        for size in range(rounds, 0, -1)
        for chosen in itertools.combinations(range(rounds), size)
        if allowed(chosen)
    ]
    return [chosen for chosen in sets if not any(set(chosen) < set(other) for other in sets)]


def _view(view: StatedView, labels: Sequence[Hashable]) -> View:
    """A stated view in terms of node indices, its rows in rationals."""
    place = {label: k for k, label in enumerate(labels)}
    if view.name == "custom":
        rows: Any = [[dict(row).get(j, Fraction(0)) for j in range(len(labels))] for row in view.rows]
        known = [place[label] for label in view.known_noise]
        return View(observation=rows, known_noise=known, exchanges=view.exchanges)
    observers = tuple(place[label] for label in view.observers)
    return View(name=view.name, observers=observers, own_noise=view.own_noise, exchanges=view.exchanges)  # type: ignore[arg-type]


_FORMS: dict[tuple[str, str, StatedView, Hashable], list[list[Fraction]] | None] = {}


def _form(certificate: Certificate, weights: Weights) -> list[list[Fraction]] | None:
    """M of what a certificate asks, exactly; None where it is infinite."""
    key = (certificate.weights_hash, certificate.protocol_hash, certificate.view, certificate.target)
    if key not in _FORMS:
        protocol = Protocol(
            weights=weights,
            program=certificate.program,
            rounds=certificate.rounds,
            encoder=certificate.encoder,
        )
        target = list(protocol.labels).index(certificate.target)
        seen = exact_view(protocol, _view(certificate.view, protocol.labels), target)
        none = [[Fraction(0)] * protocol.rounds for _ in range(protocol.rounds)]
        _FORMS[key] = seen.form() if seen.G else none
    return _FORMS[key]


def truth(graph: str, certificate: Certificate) -> tuple[float, float]:
    """Two numbers between which Δ² lies: equal for scalars, close for vectors, and some way apart for training."""
    weights = weights_at_hand()[graph]
    if certificate.updates is not None:
        assert isinstance(weights, GossipWeights)
        return _training_truth(weights, certificate)
    form = _form(certificate, weights)
    if form is None:
        return math.inf, math.inf
    low = high = 0.0
    for chosen in patterns(certificate.participation, certificate.rounds):
        part = [[form[s][t] for t in chosen] for s in chosen]
        floats = np.array(part, dtype=np.float64)
        if certificate.contribution == "energy":
            signs = top = float(np.linalg.eigvalsh(floats)[-1])
        else:
            signs = float(largest_over_signs(part))
            top = signs if certificate.contribution == "scalar" else _vector_maximum(floats, signs)
        low, high = max(low, signs), max(high, top)
    return low, high


def _rows(
    view: StatedView, W: list[list[Fraction]], place: dict[Any, int]
) -> tuple[list[list[Fraction]], list[int]]:
    """What a stated view sees and whose noise it knows, from the table of threat models."""
    n = len(W)
    unit = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    if view.name == "custom":
        rows = [[dict(row).get(j, Fraction(0)) for j in range(n)] for row in view.rows]
        return rows, [place[label] for label in view.known_noise]
    who = [place[label] for label in view.observers]
    known = who if view.own_noise == "known" else []
    senders = sorted({j for i in who for j in range(n) if W[i][j] and j != i})
    match view.name:
        case "everyone":
            return unit, []
        case "neighbourhood":
            return [unit[j] for j in sorted({*who, *senders})], known
        case "single-node":
            return [unit[i] for i in who], known
        case "coalition-messages":
            return [unit[j] for j in senders if j not in who], known
        case _:
            return [W[i] for i in who], known


def _training_truth(weights: GossipWeights, certificate: Certificate) -> tuple[float, float]:
    """What linear loops with slopes at the ends of the ball attain, and a bound that is found anew."""
    place = {label: k for k, label in enumerate(weights.labels)}
    W = exact_weights(weights)
    rows, known = _rows(certificate.view, W, place)
    target, rounds = place[certificate.target], certificate.rounds
    drawn = certificate.programs[0].draws[0].level
    several = drawn if isinstance(drawn, tuple) else (drawn,) * weights.n
    levels = [float(Fraction(level)) for level in several]
    slopes = certificate.updates
    ends = (
        [(-2.0, 2.0)] * weights.n
        if isinstance(slopes, str) or slopes is None
        else list(zip(slopes.lower.tolist(), slopes.upper.tolist(), strict=True))
    )
    A, C = (np.array([[float(x) for x in row] for row in part]).reshape(-1, weights.n) for part in (W, rows))
    low = 0.0
    for chosen in patterns(certificate.participation, rounds):
        for d in itertools.product(*ends):
            low = max(low, _loop_value(np.array(d), A, C, known, target, np.array(levels), rounds, chosen))
    view = View(
        observation=np.array([[float(x) for x in row] for row in rows]).reshape(-1, weights.n),
        known_noise=[weights.labels[k] for k in known],
    )
    found = training_sensitivity(
        weights,
        view,
        certificate.target,
        rounds=rounds,
        updates="any" if isinstance(slopes, str) or slopes is None else (slopes.lower, slopes.upper),
        noise_levels=np.square(levels),
        participation=certificate.participation,
    )
    # Floats with small eigenvalues left out are this close.
    return low * (1 - 1e-6), found.squared.upper


def _loop_value(
    d: np.ndarray,
    A: np.ndarray,
    C: np.ndarray,
    known: list[int],
    target: int,
    levels: np.ndarray,
    rounds: int,
    chosen: tuple[int, ...],
) -> float:
    """The largest mᵀ Σ⁺ m over signs in the chosen rounds: the whole view of a linear loop, from its definition.

    The view is C s_t for all rounds and the noise of the known nodes, s_t = D A s_{t−1} + x_t + u_t.
    """
    n = len(A)
    steps = [np.linalg.matrix_power(d[:, None] * A, k) for k in range(rounds)]
    seen = [
        np.hstack([C @ steps[t - s] if s <= t else np.zeros_like(C) for s in range(rounds)])
        for t in range(rounds)
    ]
    told = np.vstack(
        [*seen, *(np.eye(n * rounds)[t * n + np.array(known, dtype=int)] for t in range(rounds))]
    )
    covariance = (told * np.tile(levels**2, rounds)) @ told.T
    moved = told[:, [t * n + target for t in chosen]]
    moved[len(C) * rounds :] = 0.0
    form = moved.T @ np.linalg.pinv(covariance, rcond=1e-8, hermitian=True) @ moved
    signs = itertools.product((1.0, -1.0), repeat=len(chosen))
    return max(float(np.array(c) @ form @ np.array(c)) for c in signs)


def _vector_maximum(M: np.ndarray, at_least: float) -> float:
    """An upper bound of max Σ M_st ⟨c_s, c_t⟩ over unit vectors, close to it: y from the fixed point, lifted."""
    C = np.random.default_rng(0).normal(size=(len(M), len(M)))
    best = math.inf
    for step in range(400):
        C = C / np.maximum(np.linalg.norm(C, axis=1, keepdims=True), 1e-300)
        C = M @ C
        if step % 40 == 39:
            y = np.linalg.norm(C, axis=1)
            best = min(best, float(np.sum(y + max(0.0, -float(np.linalg.eigvalsh(np.diag(y) - M)[0])))))
    return max(best, at_least)


def outcome(graph: str, text: str) -> tuple[str, str]:
    """How a mutant ended, and why this must not be (empty if it may)."""
    begun = time.perf_counter()
    try:
        certificate = from_text(text)
        in_floats, in_balls = (_verified(certificate, graph, arithmetic) for arithmetic in ("float", "balls"))
    except InputError:
        return "not read", ""
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"
    if time.perf_counter() - begun > MOST_SECONDS:
        return "slow", f"{time.perf_counter() - begun:.1f} seconds"
    if in_floats is None and in_balls is None:
        return "not checked", ""
    if in_balls is not None and in_floats is not None and in_floats.verified and not in_balls.verified:
        return "false", f"floats accept what balls refuse: {in_balls.reason}"
    accepted = [found for found in (in_floats, in_balls) if found is not None and found.verified]
    if not accepted:
        return "refused", ""
    if certificate.rounds > MOST_ROUNDS:
        capped = certificate.squared_upper >= certificate.rounds and certificate.squared_lower == 0
        return ("verified, the cap" if capped else "verified, too long to try"), ""
    try:
        low, high = truth(graph, certificate)
    except InputError as error:
        return "false", f"no claim at all: {error}"
    room = TOLERANCE * max(high, 1e-12)
    if certificate.squared_upper < low - room or certificate.squared_lower > high + room:
        return "false", f"[{certificate.squared_lower}, {certificate.squared_upper}] against [{low}, {high}]"
    for found in accepted:
        if not found.squared.lower - room <= high or not low <= found.squared.upper + room:
            return "false", f"proved {found.squared} against [{low}, {high}]"
    return "verified, true" if len(accepted) == 2 else f"verified by {accepted[0].arithmetic} alone, true", ""


def _verified(
    certificate: Certificate, graph: str, arithmetic: Literal["float", "balls"]
) -> Verification | None:
    """The verification in floats or in balls; None where it is not done."""
    try:
        return verify(certificate, weights_at_hand()[graph], arithmetic=arithmetic)
    except NotCertified:
        return None


def run(seed: int, count: int, *, progress: Callable[[int], None] | None = None) -> Tally:
    """Try `count` mutants."""
    ends: collections.Counter[str] = collections.Counter()
    failures = []
    for k, (graph, changed, text) in enumerate(mutants(seed, count)):
        end, wrong = outcome(graph, text)
        ends[end] += 1
        if wrong:
            failures.append(f"{graph}: {changed}: {end}: {wrong}")
        if progress is not None and k % 1000 == 999:
            progress(k + 1)
    return Tally(dict(ends), failures)


def main() -> None:
    """Print how the mutants ended, and every failure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    tally = run(chosen.seed, chosen.count, progress=lambda k: print(f"{k} mutants", flush=True))
    for end, count in sorted(tally.ends.items()):
        print(f"{count:8}  {end}")
    for failure in tally.failures:
        print(f"FAILURE  {failure}")
    raise SystemExit(3 if tally.failures else 0)


if __name__ == "__main__":
    main()
