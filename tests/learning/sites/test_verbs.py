# SPDX-License-Identifier: Apache-2.0
"""Whole runs of modules: what runs is what is accounted for, and the account is the best that is known of any map."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.learning.sites.samples import cnn, frozen, images, squared, tables
from tests.learning.test_programs import STEP, Impulse, answers, sent_by_maps
from tests.scenes import PROTOCOLS
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sottovoce import Scenario, gaussian, gossip, graphs, train
from sottovoce.errors import InputError
from sottovoce.learning.sites import begin, module_task, train_module
from sottovoce.protocols import Protocol, momentum
from sottovoce.protocols.compiled import edges_of

CROSS = nn.functional.cross_entropy
WORDS: dict[str, Any] = {"shard_size": 12, "rounds": 6, "noise_multiplier": 2.0, "step": 0.1}


class Dealt(Impulse):
    """An impulse that also deals the first place of every node to the batch of round t."""

    def __init__(self, nodes: int, t: int, number: int | None, owners: tuple[int, ...]) -> None:
        super().__init__(number, owners)
        self.nodes, self.t = nodes, t

    def uniform(self, round_index: int, count: int) -> np.ndarray:
        assert round_index == 0
        order = np.arange(count, dtype=float)
        order[0], order[self.t] = order[self.t], order[0]
        return np.tile(order / count, (self.nodes, 1))


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: f"{each.name}-{each.n}-{each.rounds}")
def test_the_trainer_of_modules_answers_impulses_as_the_compiled_maps_do(protocol: Protocol) -> None:
    n, rounds = protocol.n, protocol.rounds
    # The loss −⟨w, x⟩ has the gradient −x, whatever the model: one record is 1, the others are 0.
    module = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(0)

    def sent(t: int, source: str, owners: tuple[int, ...]) -> np.ndarray:
        contributes = source == "contribution"
        sites = [
            TensorDataset(torch.full((1, 1), float(contributes and (i,) == owners)), torch.zeros(1))
            for i in range(n)
        ]
        task = module_task(module, lambda output, _: -output.sum(), sites, shard_size=rounds)
        found = answers(
            task, protocol, t, source, owners, noise=partial(Dealt, n, t), clip=2.0, batches=rounds
        )
        # A step goes up along the record.
        return found / STEP if contributes else found

    t = rounds // 2
    weights, program = protocol.round_of(t)
    sources: list[tuple[str, tuple[int, ...]]] = [("contribution", (0,)), ("contribution", (n - 1,))]
    sources += [
        (draw.name, (n - 1,) if draw.each == "node" else edges_of(weights)[-1]) for draw in program.draws
    ]
    for source, owners in sources:
        assert np.allclose(sent(t, source, owners), sent_by_maps(protocol, t, source, owners), atol=1e-12)


def test_the_same_module_by_train_takes_the_same_rounds() -> None:
    ring = gossip(graphs.metropolis_weights("ring:n=4"), rounds=6)
    words: dict[str, Any] = {"noise_multiplier": 2.0, "step": 0.1, "seed": 3}
    found = train_module(cnn(), CROSS, images(4), ring, shard_size=12, test=images(1)[0], **words)
    task = module_task(cnn(), CROSS, images(4), shard_size=12, test=images(1)[0])
    other = train(task, ring, **words)
    assert np.array_equal(found.run.state.registers, other.state.registers)
    assert found.run.accuracy == other.accuracy is not None
    assert found.run.loss == other.loss
    assert found.run.seeded
    assert repr(found) == repr(other)


def test_nodes_that_a_sum_cannot_tell_apart_hide_each_other() -> None:
    hidden = train_module(cnn(), CROSS, images(5), "complete:n=5", view="secure-sum", **WORDS)
    assert (hidden.account.assumption, hidden.unconditional.assumption) == ("none", "none")
    assert hidden.account.epsilon().upper == pytest.approx(gaussian.epsilon(math.sqrt(6 / 4) / 2, 1e-5))
    assert hidden.unconditional.epsilon().upper == pytest.approx(gaussian.epsilon(math.sqrt(6) / 2, 1e-5))
    assert (
        repr(hidden) == "Run(Sequential, 6 of 6 rounds, ε ≤ 2.502 (secure-sum, none), ε ≤ 5.545 (local DP))"
    )
    bare = train_module(cnn(), CROSS, images(5), "ring:n=5", view="secure-sum", **WORDS)
    assert bare.account.epsilon().upper == bare.unconditional.epsilon().upper
    assert bare.account.assumption == "none"


def test_a_run_has_models_history_and_account() -> None:
    moments: list[Any] = []
    words = WORDS | {"noise_multiplier": None, "target_epsilon": 50.0, "rounds": 30, "step": 1.0}
    run = train_module(
        cnn(), CROSS, images(3, 12), "complete:n=3", view="secure-sum", progress=moments.append, **words
    )
    assert len(run.models) == 3
    assert run.epsilon.upper == 50
    assert run.history.rounds.tolist() == [moment.round for moment in moments] == list(range(1, 31))
    assert run.history.epsilon[-1] == 50
    assert run.history.loss.tolist() == [moment.loss for moment in moments]
    # The models are those of the run, and learn.
    with torch.no_grad():
        made = [float(CROSS(run.models[0](x), y)) for x, y in (each.tensors for each in images(3, 12))]
    assert run.run.loss == pytest.approx(np.mean(made), abs=0.05)
    assert run.run.loss is not None
    assert run.run.loss < run.history.loss[0] - 0.1


def test_what_is_frozen_stays_and_buffers_are_kept() -> None:
    module = frozen()
    module.register_buffer("scale", torch.tensor([2.0]))
    run = train_module(module, squared, tables(3), "ring:n=3", **WORDS | {"shard_size": 6})
    for made in run.models:
        assert torch.equal(made[0].weight, module[0].weight)
        assert not torch.equal(made[2].weight, module[2].weight)
        assert float(made.scale) == 2


def test_the_accountant_knows_the_rounds_so_far() -> None:
    training = begin(cnn(), CROSS, images(4), "complete:n=4", view="secure-sum", **WORDS)
    assert training.accountant.epsilon(1e-5) == 0
    for t in range(1, 7):
        info = training.step()
        assert info.round == training.round == t
        assert info.loss is not None
        for delta in (1e-5, 1e-3) if t in {1, 3, 6} else ():
            found = training.accountant.epsilon(delta)
            exact = gaussian.epsilon(math.sqrt(t / 3) / 2, delta)
            assert exact <= found <= exact * (1 + 1e-6)
            everyone = gaussian.epsilon(math.sqrt(t) / 2, delta)
            assert training.accountant.unconditional_epsilon(delta) == pytest.approx(everyone)
    assert training.accountant.epsilon() == training.run.account.epsilon().upper
    assert len(training.models) == 4
    assert training.result().run.finished
    with pytest.raises(InputError, match="has 6 rounds, and all of them are done"):
        training.step()


def test_a_result_is_that_of_all_rounds() -> None:
    training = begin(cnn(), CROSS, images(4), "ring:n=4", **WORDS)
    training.step()
    with pytest.raises(InputError, match="when all of its 6 rounds are done; 1 are"):
        training.result()


def test_batches_of_loaders_are_dealt_and_accounted_for() -> None:
    loaders = [DataLoader(site, batch_size=5, shuffle=True) for site in images(4)]
    training = begin(cnn(), CROSS, loaders, "complete:n=4", view="secure-sum", **WORDS)
    assert training.plan.recipe.batches == 3
    assert training.plan.account.participation == "epochs:3"
    # Two epochs cost two participations.
    assert training.plan.unconditional.sensitivity_squared.upper == 2  # type: ignore[union-attr]
    assert training.plan.noise_std == pytest.approx(2.0 * 1.0 * 3 / 12)
    by_coins = begin(cnn(), CROSS, loaders, "complete:n=4", view="secure-sum", sampling="poisson", **WORDS)
    assert by_coins.plan.recipe.batch_fraction == 5 / 12
    assert by_coins.plan.account.participation == f"poisson:{5 / 12!r}"
    # Coins that are told cost less than taking part in every round, and fewer rounds less than all.
    by_coins.step()
    spent = by_coins.accountant.epsilon(), by_coins.plan.account.epsilon().upper
    assert 0 < spent[0] < spent[1] < gaussian.epsilon(math.sqrt(6 / 3) / 2, 1e-5)
    whole = begin(cnn(), CROSS, [DataLoader(site, batch_size=99) for site in images(4)], "ring:n=4", **WORDS)
    assert whole.plan.recipe.batches == 1
    chosen = begin(cnn(), CROSS, images(4), "ring:n=4", batches=2, **WORDS)
    assert chosen.plan.recipe.batches == 2


def test_every_record_takes_part_once_an_epoch() -> None:
    fetched: list[int] = []

    class Watched(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 10

        def __getitem__(self, place: int) -> Any:
            fetched.append(place)
            return torch.full((3,), 0.1 * place), torch.tensor(1.0)

    training = begin(
        nn.Linear(3, 1),
        squared,
        [DataLoader(Watched(), batch_size=4), DataLoader(tables(1)[0], batch_size=4)],
        "path:n=2",
        **WORDS | {"shard_size": 11},
    )
    assert training.plan.recipe.batches == 3
    orders = []
    for _ in range(2):
        fetched.clear()
        for _ in range(3):
            training.step()
        assert sorted(fetched) == list(range(10))
        orders.append(list(fetched))
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"shard_size": None},
            r"shard_size must be given.*\(the most of any site is 12, if that may be known\)",
        ),
        (
            {"shard_size": 11},
            "no site may train on more records than the public shard size; site 0 has 12, and the",
        ),
        ({"rounds": None}, "rounds must be given with a graph"),
        ({"sampling": "poisson"}, "sampling is about batches of loaders; got 'poisson' with data sets"),
        ({"step": None}, "step must be given for the loss Sequential"),
        ({"device": "abacus"}, "device must be one that PyTorch knows, and that has float64; got 'abacus'"),
        ({"chunk": 0}, "chunk must be a whole number of at least 1"),
    ],
)
def test_words_that_make_no_run_are_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        begin(cnn(), CROSS, images(4), "ring:n=4", **WORDS | words)


def test_loaders_and_words_about_batches_are_one_too_many() -> None:
    loaders = [DataLoader(site, batch_size=5) for site in images(4)]
    with pytest.raises(InputError, match=r"follow from the loaders' batch_size, 5; got batches beside it"):
        begin(cnn(), CROSS, loaders, "ring:n=4", batches=2, **WORDS)
    with pytest.raises(InputError, match="sampling must be one of epochs, poisson; got 'often'"):
        begin(cnn(), CROSS, loaders, "ring:n=4", sampling="often", **WORDS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there must be one shard for each node; got 4 shards and 5 nodes"):
        begin(cnn(), CROSS, images(4), "ring:n=5", **WORDS)
    ring = gossip(graphs.metropolis_weights("ring:n=4"), rounds=6)
    with pytest.raises(InputError, match="rounds are those of the protocol; got 6 beside it"):
        begin(cnn(), CROSS, images(4), ring, **WORDS)


def test_a_run_that_loses_its_way_is_stopped() -> None:
    words = WORDS | {"step": 1e30, "clip": 1e30, "shard_size": 6}
    with pytest.raises(InputError, match=r"gradients of a round is finite|training diverged"):
        train_module(frozen(), squared, tables(3), "ring:n=3", **words)


def test_programs_and_scenarios_are_run_too() -> None:
    ring = momentum(graphs.metropolis_weights("ring:n=4"), rounds=4, beta=0.5)
    asked = Scenario(protocol=ring, view="everyone", relation="replace-one")
    run = train_module(cnn(), CROSS, images(4), asked, shard_size=12, noise_multiplier=4.0, step=0.1)
    assert run.account.relation == "replace-one"
    assert run.run.settings["protocol"] == "momentum"
