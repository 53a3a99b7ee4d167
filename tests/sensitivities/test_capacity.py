"""A horizon that does not fit into memory is refused before the work, with the one that would do."""

import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from sottovoce import View, account, certify, gossip, graphs, sensitivity, worst_coalition
from sottovoce.errors import InputError
from sottovoce.filtering import hidden_system, whitened_response
from sottovoce.protocols import MOST_ROUNDS, Protocol
from sottovoce.sensitivities import capacity
from sottovoce.sweeps import sweep
from sottovoce.views import observe


def ring(rounds: int, n: int = 5) -> Protocol:
    return gossip(graphs.metropolis_weights(f"ring:n={n}"), rounds=rounds)


@pytest.fixture
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "memory_at_hand", lambda: 48e6)


REFUSED = r"rounds must fit into memory; 1000000000 of them need about 44.7 GiB, and 45.8 MiB are free \(take at most "


@pytest.mark.usefixtures("_little_memory")
def test_every_verb_refuses_a_thousand_million_rounds(tmp_path: Path) -> None:
    protocol, view = ring(10**9), View.secure_sum(0)
    for verb in (
        lambda: sensitivity(protocol, view),
        lambda: account(protocol, view, noise_multiplier=1.0, delta=1e-5),
        lambda: certify(protocol, view, 1),
        lambda: worst_coalition(protocol, 1, size=1),
        lambda: sweep(protocol, "secure-sum", tmp_path / "pairs"),
    ):
        with pytest.raises(InputError, match=REFUSED + "1000000; rate says what each further round adds"):
            verb()
    assert not list((tmp_path / "pairs").glob("*"))


@pytest.mark.usefixtures("_little_memory")
def test_what_it_names_does() -> None:
    assert sensitivity(ring(1_000_000), View.secure_sum(0), [1])[1].squared.upper > 0
    with pytest.raises(
        InputError, match=r"rounds must fit into memory; 1000001 of them .* \(take at most 1000000;"
    ):
        sensitivity(ring(1_000_001), View.secure_sum(0), [1])
    with pytest.raises(InputError, match=r"of them need about 106.8 MiB.*\(take at most 420000;"):
        sensitivity(ring(1_000_000), View.secure_sum(0), [1], participation="separated:3")


@pytest.mark.usefixtures("_little_memory")
def test_local_dp_needs_no_memory() -> None:
    found = account(ring(10**9), View.everyone, noise_multiplier=1e4, delta=1e-5)
    assert found.squared_upper.tolist() == [1e9] * 5
    rare = account(
        ring(10**9), View.everyone, noise_multiplier=1e4, delta=1e-5, participation=f"every:{10**9}"
    )
    assert rare.squared_upper.tolist() == [1.0] * 5


def test_floats_count_no_further() -> None:
    assert (
        account(ring(MOST_ROUNDS), View.everyone, noise_multiplier=1e9, delta=1e-5).squared_upper[0] == 2**53
    )
    with pytest.raises(
        InputError, match="rounds must be at most 9007199254740992; got 100000000000000000000000"
    ):
        ring(10**23)


def test_memory_at_hand_is_less_than_all_and_respects_a_limit() -> None:
    assert 0 < capacity.memory_at_hand() < 2**50
    script = (
        "import resource\n"
        "from sottovoce.sensitivities.capacity import memory_at_hand\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, {resource.RLIM_INFINITY}))\n"
        "print(memory_at_hand())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 2 * 2**30


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"memory.max": "1000\n", "memory.current": "400\n"}, 600.0),
        ({"memory.max": "max\n", "memory.current": "400\n"}, float("inf")),
        ({}, float("inf")),
    ],
)
def test_a_container_leaves_what_its_group_leaves(
    files: dict[str, str], free: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "_lines", lambda path: files.get(Path(path).name, "").splitlines())
    assert capacity._free_in_group() == free


def wide(rounds: int) -> Protocol:
    return gossip(graphs.metropolis_weights("erdos-renyi:n=60,p=0.2,seed=1"), rounds=rounds)


def test_forms_take_no_more_memory_than_is_counted_before() -> None:
    shares = []
    for view, batch in (
        (View.neighbourhood(0), 2**23),
        (View.neighbourhood(0), 0),
        (View.secure_sum(0), 2**23),
    ):
        protocol = wide(120)
        response = whitened_response(hidden_system(protocol, observe(protocol, view)))
        tracemalloc.start()
        for _ in response.forms(np.arange(40), batch):
            pass
        shares.append(tracemalloc.get_traced_memory()[1] / response.forms_bytes(batch))
        tracemalloc.stop()
    assert max(shares) <= 1
    assert min(shares) > 0.1


def test_a_view_whose_rows_do_not_fit_is_refused_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = sensitivity(wide(60), View.neighbourhood(0))
    monkeypatch.setattr(capacity, "memory_at_hand", lambda: 8e6)
    thrifty = sensitivity(wide(60), View.neighbourhood(0))
    assert np.allclose(thrifty.squared_upper, whole.squared_upper, rtol=1e-12)
    monkeypatch.setattr(capacity, "memory_at_hand", lambda: 1e6)
    expected = (
        r"messages a round, followed on 59 states for 60 rounds, need about .* MiB are free \(take about"
    )
    with pytest.raises(InputError, match=expected):
        sensitivity(wide(60), View.neighbourhood(0))
