# SPDX-License-Identifier: Apache-2.0
"""`audit` for the protocols of this package, and `audit_simulator` for any run that can be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import numpy as np

from sottovoce.accounting import table_of
from sottovoce.auditing.attack import ViewAttack, fitted_attack, plain_stream
from sottovoce.auditing.confidence import Evidence, evidence
from sottovoce.auditing.programs import linear_attack, program_scene, program_simulator
from sottovoce.auditing.results import Audit, claimed_ends
from sottovoce.errors import InputError, at_least, positive, probability
from sottovoce.protocols import missing_noise
from sottovoce.scenarios import RELATIONS, RelationWords, asked
from sottovoce.sensitivities import sensitivity
from sottovoce.threads import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sottovoce.accounting import Account
    from sottovoce.auditing.simulate import Simulator
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Scenario
    from sottovoce.views import View

__all__ = ["CONFIDENCE", "audit", "audit_simulator"]

CONFIDENCE = 0.999
# Runs that are simulated if no number is given: as many as so many noise draws allow, within limits.
DRAWS = 200_000_000
FEWEST, MOST = 2_000, 40_000
# More noise draws than this take hours, and so do more rounds.
MOST_DRAWS = 100_000_000_000
MOST_ROUNDS = 5_000
# How many numbers a batch of runs may hold at the same time.
BATCH = 4_000_000


@one_blas_thread()
def audit(
    question: Scenario | Protocol,
    view: View | None = None,
    target: Hashable = None,
    *,
    noise_multiplier: float,
    delta: float,
    claim: Account | float | None = None,
    trials: int | None = None,
    confidence: float = CONFIDENCE,
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[RelationWords],
) -> Audit:
    """Attack a simulated view with the best test there is, and hold what it finds against the certified number.

    The stream behind the lower end of Δ² is run with and without the target's contributions (with either sign under
    replace-one), all nodes drawing their noise, and the observer's view of each run is scored by the likelihood ratio.

    Args:
        question: a `Scenario` of one view and one target; or a protocol, such as `gossip(weights, rounds=100)`.
        view: what the observer sees and whose noise it knows.
        target: the node that the attack is about.
        noise_multiplier: σ/clip, the noise that each node adds in each round of the simulation.
        delta: the δ at which ε is claimed.
        claim: what to audit: an `Account` from anywhere, or an ε at `delta`; the account of this package if None.
        trials: how many runs to simulate, half of them in each world; chosen by the size of the problem if None.
        confidence: with which probability the empirical bounds hold.
        rng: where noise comes from; system entropy if None.
        progress: called with (runs done, runs in all).
        words: as in `sottovoce.scenarios.RelationWords`: `relation`, `contribution`, `participation`, and what may be
            spent on the account.

    Guarantee: if the claim is right, the audit refutes it with probability at most 1 − `confidence`; nothing follows
    from a claim that is not refuted. Simulation and accountant share the meaning of weights and programs alone.
    Source: Neyman & Pearson 1933 for the attack; Clopper & Pearson 1934 for the bounds.

    >>> from sottovoce import View, gossip, graphs
    >>> pair = gossip(graphs.metropolis_weights("path:n=2"), rounds=4)
    >>> rng = np.random.default_rng(7)
    >>> found = audit(pair, View.secure_sum(0), 1, noise_multiplier=1, delta=1e-5, trials=4000, rng=rng)
    >>> found.refuted, 0 < found.empirical_epsilon_lower < found.certified_epsilon_upper
    (False, True)
    >>> found = audit(pair, View.secure_sum(0), 1, noise_multiplier=1, delta=1e-5, trials=4000, rng=rng, claim=1.0)
    >>> found.refuted
    True
    """
    named = None if target is None else [target]
    scenario, effort = asked(question, view, words, RelationWords, targets=named)
    protocol, view, target, relation = (
        scenario.protocol,
        scenario.one_view,
        scenario.one_target,
        scenario.relation,
    )
    positive(noise_multiplier=noise_multiplier)
    probability(delta=delta, confidence=confidence)
    if protocol.updates is not None:
        raise InputError(
            "an audit simulates nodes that average and do not train; got a protocol with updates (audit real training "
            "with sottovoce.auditing.audit_training, or leave updates out)"
        )
    if protocol.rounds > MOST_ROUNDS:
        raise InputError(
            f"an audit walks through every round of every run, at most {MOST_ROUNDS} of them; got {protocol.rounds} "
            "(audit fewer rounds)"
        )
    exposed = sensitivity(scenario, effort=effort)
    table = table_of(scenario, [exposed], noise_multiplier=noise_multiplier, delta=delta)
    certified = table[target]
    if np.isinf(certified.mu.lower):
        raise InputError(
            f"an audit needs a finite sensitivity; no noise hides node {target!r} in {view!r}, as "
            f"{missing_noise(protocol, protocol.index(target))} (nothing is claimed)"
        )
    epsilon, mu = claimed_ends(certified if claim is None else claim, delta)
    stream = plain_stream(np.asarray(exposed[target].witness, dtype=np.float64))
    wanted = _runs(trials, protocol.n * protocol.rounds * stream.shape[1])
    simulator, attack = _played(protocol, view, target, stream, noise_multiplier)
    found = audit_simulator(
        simulator,
        (-stream if relation == "replace-one" else np.zeros_like(stream), stream),
        delta=delta,
        score=attack,
        trials=wanted,
        batch=max(1, BATCH // (stream[0].size * protocol.n * 3 + attack.weights.size)),
        confidence=confidence,
        rng=rng,
        progress=progress,
    )
    separation = attack.separation or 0.0
    return Audit(
        scenario=scenario,
        account=certified,
        noise_multiplier=float(noise_multiplier),
        delta=float(delta),
        claimed_epsilon=epsilon,
        claimed_mu=mu,
        attack_mu=separation * RELATIONS[relation] / noise_multiplier,
        dimension=int(stream.shape[1]),
        found=found,
    )


@one_blas_thread()
def audit_simulator(
    run: Simulator,
    streams: tuple[np.ndarray, np.ndarray],
    *,
    delta: float,
    score: Callable[[np.ndarray], np.ndarray] | None = None,
    trials: int = FEWEST,
    batch: int = 1000,
    confidence: float = CONFIDENCE,
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evidence:
    """What an attack proves about any mechanism that can be run again and again, training included.

    Args:
        run: called as run(stream, runs, rng); returns what the observer sees of each run, one row a run.
        streams: the target's contributions without and with the record, in whatever form `run` takes them.
        delta: the δ at which ε is bounded.
        score: a number for each view, large where the record is there; if None, Fisher's discriminant of the first
            third of the runs, which serve for nothing else.
        trials: how many runs to make, half of them in each world.
        batch: how many runs to ask for at a time.
        confidence: with which probability the bounds hold.
        rng: where noise comes from; system entropy if None.
        progress: called with (runs done, runs in all).

    Guarantee: with probability at least `confidence` the ε of the mechanism at δ is at least `epsilon_lower`, and no
    view that is μ-GDP has a μ below `mu_lower`, if runs are independent and the streams are neighbours.
    Source: as for `evidence`.

    >>> def release(stream, runs, rng):
    ...     return stream.sum() + rng.standard_normal((runs, 1))
    >>> streams = np.zeros(1), np.ones(1)
    >>> found = audit_simulator(release, streams, delta=1e-5, trials=60_000, rng=np.random.default_rng(3))
    >>> 0.8 < found.mu_lower < 1
    True
    """
    at_least(16, trials=trials)
    at_least(1, batch=batch)
    source = np.random.default_rng() if rng is None else rng
    each = int(trials) // 2
    fitted = each // 3
    done = 0

    def views_of(world: int, wanted: int) -> list[np.ndarray]:
        nonlocal done
        parts = []
        for begin in range(0, wanted, batch):
            size = min(batch, wanted - begin)
            views = np.asarray(run(streams[world], size, source))
            if len(views) != size:
                raise InputError(
                    f"a simulator must return one view for each of the {size} runs; got {len(views)}"
                )
            parts.append(views if score is None else score(views))
            done += size
            if progress is not None:
                progress(done, 2 * each)
        return parts

    if score is None:
        attack = fitted_attack(*(np.concatenate(views_of(world, fitted)) for world in (0, 1)))
        scores = [
            np.concatenate([attack(part) for part in views_of(world, each - fitted)]) for world in (0, 1)
        ]
    else:
        scores = [np.concatenate(views_of(world, each)) for world in (0, 1)]
    return evidence(scores[0], scores[1], delta=delta, confidence=confidence)


def _played(
    protocol: Protocol, view: View, target: Hashable, stream: np.ndarray, noise_multiplier: float
) -> tuple[Simulator, ViewAttack]:
    """The program as it is run, and the attack on it."""
    scene = program_scene(protocol, view, target)
    attack = linear_attack(protocol, scene, stream)
    return program_simulator(scene, noise_multiplier=noise_multiplier), attack


def _runs(trials: int | None, draws: int) -> int:
    """The runs that were asked for, or as many as a fixed number of noise draws allows, within limits."""
    if trials is not None:
        at_least(16, trials=trials)
    runs = min(max(DRAWS // draws, FEWEST), MOST) if trials is None else int(trials)
    if runs * draws > MOST_DRAWS:
        raise InputError(
            f"{runs} runs of {draws} noise draws each would take hours (ask for fewer trials or rounds)"
        )
    return runs
