# SPDX-License-Identifier: Apache-2.0
"""One BLAS thread at a time: the matrices are small, and bits must not depend on how many cores a machine has.

Several threads share a product of small matrices by waiting for each other. On a machine whose cores have other work
that takes fifty times as long as one thread does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from threadpoolctl import LibController

__all__ = ["PINNED", "one_blas_thread", "pin_blas", "pinned_environment"]

# What BLAS libraries read when they are loaded.
PINNED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


_lock = threading.Lock()
_inside: list[list[int]] = []


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS run on one thread meanwhile, and as before afterwards; also as a decorator of a function.

    Of several threads of Python that ask for it, the first sets the limit and the last one out takes it away. A BLAS
    that is loaded later, as that of PyTorch may be, keeps its threads.

    Speed, and bits that are the same everywhere, alone: what is guaranteed of a number holds for any number of threads.
    """
    with _lock:
        before = [each.get_num_threads() for each in _libraries()]
        with contextlib.ExitStack() as undone:
            for each, threads in zip(_libraries(), before, strict=True):
                undone.callback(each.set_num_threads, threads)
                each.set_num_threads(1)
            undone.pop_all()
        _inside.append(before)
    try:
        yield
    finally:
        with _lock:
            # The first one knows what was before; whoever leaves earlier than all others gives nothing back.
            last = _inside.pop()
            if not _inside:
                for each, threads in zip(_libraries(), last, strict=True):
                    each.set_num_threads(threads)


@cache
def _libraries() -> list[LibController]:
    """The BLAS libraries of this process, found once they are loaded."""
    import scipy.linalg  # noqa: F401 - scipy brings a library of its own
    from threadpoolctl import ThreadpoolController

    return [each for each in ThreadpoolController().lib_controllers if each.user_api == "blas"]


def pin_blas() -> None:
    """Let BLAS begin with one thread, as every worker does, so that the bits do not depend on who computes."""
    if "numpy" not in sys.modules:
        os.environ.update(dict.fromkeys(PINNED, "1"))


@contextlib.contextmanager
def pinned_environment() -> Iterator[None]:
    """Let processes that start meanwhile run BLAS on one thread, so that their bits do not depend on timing."""
    before = {name: os.environ.get(name) for name in PINNED}
    os.environ.update(dict.fromkeys(PINNED, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
