# SPDX-License-Identifier: Apache-2.0
"""Where the processor time of the tests goes: by file, folder, test or its cases together, with processes they start.

One process runs the tests, whatever the machine does besides: seconds are the processor's, of this process and of the
children it waited for, from set-up to tear-down. What a fixture of a session or a module computes counts for the first
test that asks for it, and what a file imports counts for the collection.

    python -m benchmarks.suite [--by file|folder|function|test] [--most 40] [-- what pytest is told: tests/laws]
"""

from __future__ import annotations

import argparse
import resource
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BY = ("file", "folder", "function", "test")


def spent() -> float:
    """Processor seconds of this process, and of its children that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


class Meter:
    """Adds up what each test took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.collection = 0.0

    def pytest_collection_finish(self) -> None:
        """What start-up and collection took."""
        self.collection = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure one test, its set-up and its tear-down."""
        begun = spent()
        done = yield
        self.seconds[item.nodeid] = spent() - begun
        return done


def place(test: str, by: str) -> str:
    """Which file, which folder, which test or which function of all its cases the seconds of a test belong to."""
    file = test.partition("::")[0]
    folder, function = str(PurePosixPath(file).parent), test.partition("[")[0]
    return {"file": file, "folder": folder, "function": function, "test": test}[by]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run tests and print where their time went, the dearest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=BY, default="file")
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("told", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args(arguments)
    meter = Meter()
    pytest.main(["-q", "-p", "no:cacheprovider", *options.told], plugins=[meter])
    totals: defaultdict[str, float] = defaultdict(float)
    for test, seconds in meter.seconds.items():
        totals[place(test, options.by)] += seconds
    whole = sum(totals.values()) + meter.collection
    print(f"\n{whole:9.1f} s  100.0 %  altogether, {len(meter.seconds)} tests")
    print(f"{meter.collection:9.1f} s {meter.collection / whole:6.1%}  start and collection")
    for name, seconds in sorted(totals.items(), key=lambda entry: -entry[1])[: options.most]:
        print(f"{seconds:9.1f} s {seconds / whole:6.1%}  {name}")


if __name__ == "__main__":
    main()
