"""What others will know, before any connection, against a node's own policy."""

from pathlib import Path
from typing import Any

import pytest
from tests.peers.networks import complete, network

from sottovoce.accounting import calibrate
from sottovoce.errors import FileError, InputError
from sottovoce.peers import Budget, Policy, known_after, read_policy


def test_eight_sites_need_less_noise_behind_sums() -> None:
    eight: dict[str, Any] = {"rounds": 20, "edges": complete(8), "unit": "node", "noise_multiplier": 0.845}
    hidden = known_after(network(8, sums="masked", **eight), "site-3", observers=[0])
    assert hidden.nodes[0].epsilon <= 10.0
    assert (hidden.nodes[0].sees, hidden.nodes[0].assumption) == ("sums", "none")
    clear = known_after(network(8, **{**eight, "noise_multiplier": 2.236}), "site-3", observers=[0])
    assert (
        clear.nodes[0].epsilon
        <= 10.0
        < known_after(network(8, **eight), "site-3", observers=[0]).nodes[0].epsilon
    )
    # The everyone view is that of the accountant.
    local = calibrate(network(8, **eight).protocol, "everyone", target_epsilon=10.0, target_delta=1e-5)
    assert 2.235 < local < 2.236


def test_a_coalition_with_a_threshold_of_senders_sees_messages() -> None:
    five = network(5, edges=complete(5), sums="masked", unit="node", rounds=4, colluders=0)
    two = known_after(five, "site-0", size=2, observers=[])
    three = known_after(five, "site-0", size=3, observers=[])
    assert two.coalition is not None
    assert three.coalition is not None
    assert (two.coalition.sees, three.coalition.sees) == ("sums", "messages")
    assert three.coalition.epsilon == three.everyone.epsilon > two.coalition.epsilon
    # A higher threshold bears one colluder more.
    safer = network(5, edges=complete(5), sums="masked", unit="node", rounds=4, colluders=2)
    assert (five.threshold(0), safer.threshold(0)) == (3, 4)
    found = known_after(safer, "site-0", size=3, observers=[]).coalition
    assert found is not None
    assert found.sees == "sums"
    with pytest.raises(InputError, match="a coalition of 5 needs as many nodes"):
        known_after(five, "site-0", size=5)


def test_whoever_is_above_the_policy_is_named() -> None:
    found = known_after(network(rounds=9), "site-1", observers=[0, 2])
    assert found.above(Policy()) == []
    assert [seen.who for seen, _ in found.above(Policy(node=0.5))] == [("site-0",), ("site-2",)]
    assert [seen.kind for seen, _ in found.above(Policy(everyone=0.5))] == ["everyone"]


def test_a_budget_allows_what_is_certain_and_once_a_run_deviates_nothing_else() -> None:
    run = network(4, edges=complete(4), sums="masked", unit="node", rounds=20)
    certain = Budget.of(run, "site-1", Policy()).certain
    assert len(certain) == 21
    assert list(certain) == sorted(certain)
    known = max(seen.epsilon for seen in known_after(run, "site-1").nodes)
    allowed = Budget.of(run, "site-1", Policy(node=known))
    assert certain[20] > known
    assert allowed.allows(19, deviated=False)
    assert not allowed.allows(20, deviated=False)
    sent = max(count for count in range(20) if certain[count] <= known)
    assert allowed.allows(sent - 1, deviated=True)
    assert not allowed.allows(sent, deviated=True)
    tight = Budget.of(run, "site-1", Policy(everyone=certain[7]))
    assert tight.allows(6, deviated=True)
    assert not tight.allows(7, deviated=False)


def test_what_the_grid_costs_is_in_every_number() -> None:
    masked, plain = (
        network(4, edges=complete(4), unit="node", rounds=9, sums=sums) for sums in ("masked", "plain")
    )
    both = [Budget.of(run, "site-1", Policy()).certain for run in (masked, plain)]
    assert all(on_grid > real for on_grid, real in zip(both[0][1:], both[1][1:], strict=True))
    assert both[0][9] < both[1][9] * (1 + 1e-6)
    found = [known_after(run, "site-1", observers=[0]).everyone.epsilon for run in (masked, plain)]
    assert found[0] > found[1]
    # Messages that are opened one by one still lie on the grid.
    assert masked.grid_excess((0,), sums=False) > 0


def test_a_policy_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    for text, sentence in (
        ("node = -1", "node must be a finite number above 0"),
        ("nodes = 1", "a policy has an unknown field nodes"),
        ("delta = 1", "delta must lie strictly between 0 and 1"),
        ("node", "is no TOML file"),
    ):
        file.write_text(text)
        with pytest.raises(FileError, match=rf"policy.toml: .*{sentence}"):
            read_policy(file)
    file.write_text("node = 2\ncoalition = 3.5\nsize = 3\n")
    assert read_policy(file) == Policy(node=2.0, coalition=3.5, size=3)


def test_a_coalition_of_one_is_held_to_its_limit_when_a_run_has_deviated() -> None:
    run = network(4, edges=complete(4), sums="masked", unit="node", rounds=4)
    free = Budget.of(run, "site-0", Policy())
    most = min(epsilon for _, epsilon in free.known(0, 2))
    kept = Budget.of(run, "site-0", Policy(coalition=0.9 * most, size=1))
    assert not kept.allows(1, deviated=True, clean=0)
