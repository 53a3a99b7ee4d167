"""A PyTorch module between peers: the account of `train`, the gradients of `train`, and one model in the end."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.peers.networks import complete, network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sottovoce.errors import FileError, InputError
from sottovoce.learning import Data, clipped_gradients, plan, sites
from sottovoce.learning.sites import module_task
from sottovoce.peers import (
    Network,
    Peer,
    Policy,
    TaskFacts,
    Trained,
    create_identity,
    module_facts,
    read_network,
    write_identity,
)
from sottovoce.peers.local import free_ports
from sottovoce.peers.modules import _own


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def records(seed: int) -> TensorDataset:
    drawn = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(10, 4, generator=drawn), torch.randint(0, 2, (10,), generator=drawn))


def agreed(**changes: Any) -> Network:
    task = module_facts(small(), shard_size=12, step="0.5", l2=0.01)
    return network(3, edges=complete(3), task=task, rounds=3, **changes)


@pytest.mark.parametrize("unit", ["record", "node"])
def test_the_account_and_what_is_sent_are_those_of_train(unit: str) -> None:
    run, loss = agreed(unit=unit), nn.functional.cross_entropy
    # Chunks of one size: how a processor rounds float32 depends on how many gradients it takes together.
    loaders = [DataLoader(records(k), batch_size=5) for k in range(3)]
    joint = module_task(small(), loss, loaders, shard_size=12, l2=0.01)
    same = plan(
        joint,
        run.protocol,
        noise_multiplier=4.0,
        target_delta=1e-5,
        clip=1.0,
        unit=run.settings.unit,
        step="0.5",
    )
    mine = run.plan("everyone")
    assert (run.dimension, mine.noise_std) == (joint.dimension, same.noise_std)
    assert mine.unconditional.epsilon() == same.unconditional.epsilon()
    assert mine.account.epsilon() == same.account.epsilon()
    models = np.tile(joint.loss.start, (3, 1))  # type: ignore[arg-type]
    found = clipped_gradients(
        joint, models, joint.shards.present.astype(np.float64), clip=1.0, unit=run.settings.unit
    )
    for k in range(3):
        own, fill = _own(run, small(), loaders[k], loss, device="cpu", chunk=None)
        sent = own.contribution(0, np.zeros((1, run.dimension)))
        expected = -0.5 * (found.values[k] + 0.01 * models[k])
        np.testing.assert_allclose(sent[0], expected, rtol=1e-12, atol=1e-15)
        # No model has moved, and the module is the one that it was.
        for one, other in zip(fill(np.zeros(run.dimension)).parameters(), small().parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("chunk", [2, 5])
def test_records_are_gone_through_in_chunks_of_the_size_that_is_asked_for(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []

    def noted(*_: Any, **named: Any) -> Any:
        seen.append(named["chunk"])
        raise StopIteration

    monkeypatch.setattr(sites, "module_task", noted)
    peer = Peer(written(tmp_path), "site-0")
    with pytest.raises(StopIteration):
        peer.train(small(), records(0), nn.functional.cross_entropy, chunk=chunk)
    assert seen == [chunk]


def test_another_module_and_a_file_of_records_are_refused() -> None:
    run, loss = agreed(), nn.functional.cross_entropy
    for other in (small(1), nn.Sequential(nn.Linear(4, 2))):
        with pytest.raises(InputError, match="the module must be the one that the network agreed on"):
            _own(run, other, records(0), loss, device="cpu", chunk=None)
    with pytest.raises(InputError, match="trains a PyTorch module"):
        run.local_task(Data(name="mine", features=np.eye(23), labels=np.arange(23) % 2, classes=2))
    with pytest.raises(InputError, match="must say step and start"):
        network(3, edges=complete(3), task=TaskFacts(loss="module", features=5, shard_size=5))


def written(folder: Path) -> Path:
    sites = [create_identity(f"site-{k}", f"127.0.0.1:{port}") for k, port in enumerate(free_ports(3))]
    for each in sites:
        write_identity(each, folder)
    task = module_facts(small(), shard_size=12, step="0.5")
    text = f"""name = "modules"
rounds = 3
noise_multiplier = 2.0
unit = "node"
sums = "masked"
weights = "uniform"
edges = [["site-0", "site-1"], ["site-1", "site-2"], ["site-0", "site-2"]]
deadlines = {{ join = 30, round = 10, lost = 1 }}
[task]
loss = "module"
features = {task.features}
shard_size = 12
l2 = 0.0
step = "0.5"
start = "{task.start}"
"""
    path = folder / "network.toml"
    path.write_text(text + "".join("\n" + each.public_text for each in sites))
    return path


def test_three_peers_train_one_module_over_real_links(tmp_path: Path) -> None:
    path, found = written(tmp_path), dict[int, Trained]()
    # Threads share torch's seed, so that modules are made one after the other.
    modules = [small() for _ in range(3)]

    def one(k: int) -> None:
        peer = Peer(path, f"site-{k}", policy=Policy(everyone=50.0))
        found[k] = peer.train(modules[k], DataLoader(records(k), batch_size=5), nn.functional.cross_entropy)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert {each.outcome.reason for each in found.values()} == {"finished"}
    states = [each.module.state_dict() for each in found.values()]
    assert all(torch.equal(states[0][name], state[name]) for state in states for name in state)
    assert not torch.equal(states[0]["0.weight"], small().state_dict()["0.weight"])
    assert (tmp_path / "site-1.spent.jsonl").exists()
    epsilon = read_network(path).plan("everyone").unconditional.epsilon().upper
    assert found[0].outcome.epsilon == pytest.approx(epsilon, rel=1e-6)
    with pytest.raises(FileError, match="keys cannot be read"):
        Peer(path, "nobody").train(small(), records(0), nn.functional.cross_entropy)
