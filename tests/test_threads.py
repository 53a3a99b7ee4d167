# SPDX-License-Identifier: Apache-2.0
"""BLAS runs on one thread while something is computed, and as before afterwards."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sottovoce import View, gossip, graphs, sensitivity, threads
from sottovoce.threads import PINNED, one_blas_thread, pinned_environment


def blas_threads() -> list[int]:
    """How many threads each BLAS library of this process may use, those of NumPy and SciPy among them."""
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_it_is_one_thread_meanwhile_and_as_before_afterwards() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        # Some libraries that other tests have loaded were built for one thread.
        before = blas_threads()
        assert 2 in before
        with one_blas_thread(), one_blas_thread():
            assert set(blas_threads()) == {1}
        assert blas_threads() == before
        with pytest.raises(KeyboardInterrupt), one_blas_thread():
            raise KeyboardInterrupt
        assert blas_threads() == before


class _Library:
    """A BLAS that runs on four threads, or refuses to run on fewer."""

    def __init__(self, *, refuses: bool) -> None:
        self.threads, self.refuses = 4, refuses

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, threads: int) -> None:
        if self.refuses and threads < self.threads:
            raise OSError("no fewer threads")
        self.threads = threads


def test_a_library_that_refuses_leaves_the_others_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = [_Library(refuses=False), _Library(refuses=True)]
    monkeypatch.setattr(threads, "_libraries", lambda: libraries)
    for _ in range(2):
        with pytest.raises(OSError, match="no fewer"), one_blas_thread():
            pass
        assert [each.threads for each in libraries] == [4, 4]
    libraries.pop()
    with one_blas_thread():
        assert libraries[0].threads == 1
    assert libraries[0].threads == 4


def test_of_several_threads_the_last_one_out_gives_the_limit_back() -> None:
    first, second = one_blas_thread(), one_blas_thread()
    # Not as a context: no other thread could then change what one of them has set.
    limits = threadpool_limits(limits=2, user_api="blas")
    before = blas_threads()
    with ThreadPoolExecutor(1) as other:
        other.submit(first.__enter__).result()
        second.__enter__()
        other.submit(first.__exit__, None, None, None).result()
        meanwhile = blas_threads()
        second.__exit__(None, None, None)
    afterwards = blas_threads()
    limits.restore_original_limits()
    assert 2 in before
    assert set(meanwhile) == {1}
    assert afterwards == before


def test_a_question_is_answered_on_one_thread() -> None:
    seen: set[int] = set()
    ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=5)
    with threadpool_limits(limits=2, user_api="blas"):
        sensitivity(ring, View.neighbourhood(0), progress=lambda *_: seen.update(blas_threads()))
    assert seen == {1}


def test_the_environment_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = PINNED
    monkeypatch.setenv(first, "7")
    monkeypatch.delenv(second, raising=False)
    with pinned_environment():
        assert {os.environ[name] for name in (first, second, third)} == {"1"}
    assert os.environ[first] == "7"
    assert second not in os.environ
