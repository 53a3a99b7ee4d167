"""Networks of peers to test with: identities that are made once, on addresses that nobody listens at."""

import functools
import itertools
from typing import Any

from sottovoce.peers import Deadlines, Identity, Network, Settings, TaskFacts, create_identity
from sottovoce.peers.naming import drawn_part


@functools.cache
def identity(k: int, port: int) -> Identity:
    return create_identity(f"site-{k}", f"127.0.0.1:{port}")


def identities(count: int, port: int = 18000) -> tuple[Identity, ...]:
    return tuple(identity(k, port + k) for k in range(count))


def ring(count: int) -> tuple[tuple[str, str], ...]:
    return tuple((f"site-{k}", f"site-{(k + 1) % count}") for k in range(count))


def complete(count: int) -> tuple[tuple[str, str], ...]:
    return tuple((f"site-{a}", f"site-{b}") for a, b in itertools.combinations(range(count), 2))


def settings(count: int = 4, port: int = 18000, **changes: Any) -> Settings:
    usual: dict[str, Any] = {
        "name": "test",
        "rounds": 5,
        "noise_multiplier": 4.0,
        "task": TaskFacts(loss="logistic", features=3, classes=2, shard_size=20),
        "nodes": tuple(each.card for each in identities(count, port)),
        "edges": ring(count),
        "weights": "uniform",
        "deadlines": Deadlines(join=20.0, round=5.0, lost=0.5),
    }
    return Settings(**{**usual, **changes})


def joined(run: Network, port: int = 18000) -> Network:
    """A network whose nodes have met, in a run of its own."""
    keys = identities(run.n, port)
    return run.joined(drawn_part(run.hash, i, each) for i, each in enumerate(keys))


def network(count: int = 4, port: int = 18000, **changes: Any) -> Network:
    return Network.of(settings(count, port, **changes))
