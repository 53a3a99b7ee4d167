# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as torch files: whole or not at all, and a claim until all of it was checked."""

from __future__ import annotations

import stat
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from tests.learning.sites.samples import cnn, images
from torch import nn

from sottovoce.errors import FileError, InputError
from sottovoce.learning import descent
from sottovoce.learning.sites import begin, read_checkpoint, train_module

CROSS = nn.functional.cross_entropy
WORDS: dict[str, Any] = {"shard_size": 12, "rounds": 6, "noise_multiplier": 2.0, "step": 0.1, "batches": 4}


def begun(tmp_path: Path, done: int = 3, **words: Any) -> tuple[Any, Path]:
    """A run of which some rounds are done, and its checkpoint."""
    training = begin(cnn(), CROSS, images(4), "ring:n=4", **WORDS | words)
    for _ in range(done):
        training.step()
    return training, training.save(tmp_path / "run.pt")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A checkpoint of a run of which three rounds are done; a file of one's own, and the same run each time."""
    file = tmp_path / "run.pt"
    file.write_bytes(three_rounds())
    return file


@cache
def three_rounds() -> bytes:
    with TemporaryDirectory() as folder:
        return begun(Path(folder))[1].read_bytes()


@pytest.mark.parametrize("seed", [None, 5])
def test_a_run_goes_on_bit_for_bit(tmp_path: Path, seed: int | None) -> None:
    words = WORDS | {"rounds": 4}
    training, _ = begun(tmp_path, 0, rounds=4, seed=seed)
    files = {}
    while training.round < training.rounds:
        files[training.round] = training.save(tmp_path / f"{training.round}.pt")
        training.step()
    one = training.result().run
    for done in (0, 2, 3):
        again = begin(cnn(), CROSS, images(4), "ring:n=4", resume=files[done], **words)
        assert (again.round, again.rounds) == (done, 4)
        while again.round < again.rounds:
            again.step()
        two = again.result().run
        assert np.array_equal(one.state.registers, two.state.registers)
        assert one.history.loss.tolist() == two.history.loss.tolist()
        assert one.account == two.account
        assert one.seeded == two.seeded == (seed is not None)


def test_models_are_state_dicts(tmp_path: Path) -> None:
    training, file = begun(tmp_path)
    found = torch.load(file, weights_only=True)
    assert (found["round"], found["rounds"], len(found["models"])) == (3, 6, 4)
    module = cnn()
    module.load_state_dict(found["models"][2])
    assert all(
        torch.equal(one, two)
        for one, two in zip(module.parameters(), training.models[2].parameters(), strict=True)
    )
    assert found["account"]["epsilon"] == training.run.account.epsilon().upper
    assert found["account"]["assumption"] == "none"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_train_module_keeps_a_checkpoint_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, plain, place = tmp_path / "run.pt", descent.step, "sottovoce.learning.sites.training.step"

    def interrupted(rounds: Any, state: Any) -> Any:
        if state.round == 3:
            raise KeyboardInterrupt
        return plain(rounds, state)

    whole = train_module(cnn(), CROSS, images(4), "ring:n=4", seed=2, **WORDS)
    monkeypatch.setattr(place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_module(cnn(), CROSS, images(4), "ring:n=4", seed=2, checkpoint=file, **WORDS)
    monkeypatch.setattr(place, plain)
    assert read_checkpoint(file).state.round == 3
    with pytest.raises(InputError, match="an unfinished run lies there, 3 of 6 rounds done"):
        train_module(cnn(), CROSS, images(4), "ring:n=4", checkpoint=file, **WORDS)
    run = train_module(cnn(), CROSS, images(4), "ring:n=4", checkpoint=file, resume=True, **WORDS)
    assert np.array_equal(run.run.state.registers, whole.run.state.registers)
    done = read_checkpoint(file)
    assert (done.keys, done.before, done.state.round) == (None, None, 6)
    with pytest.raises(InputError, match="the run is finished: all of its 6 rounds are done"):
        train_module(cnn(), CROSS, images(4), "ring:n=4", checkpoint=file, resume=True, **WORDS)
    with pytest.raises(InputError, match="a finished run lies there, of 6 rounds"):
        train_module(cnn(), CROSS, images(4), "ring:n=4", checkpoint=file, **WORDS)
    with pytest.raises(InputError, match="resume needs the file to go on from"):
        train_module(cnn(), CROSS, images(4), "ring:n=4", resume=True, **WORDS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"module": cnn(3)}, "called 'Sequential' too, but its code, parameters or state are others"),
        ({"sites": images(4, seed=2)}, "called 'Sequential' too, but its code"),
        ({"graph": "complete:n=4"}, "with the protocol it began with; its hash is"),
        ({"rounds": 7}, "with the protocol it began with"),
        ({"step": 0.2}, r"its step is '0\.1', and '0\.2' was asked for"),
        ({"noise_multiplier": 3.0}, r"its noise_multiplier is 2\.0"),
        ({"batches": 2}, "its batches is 4, and 2 was asked for"),
        ({"seed": 4}, "seed must be that of the run to resume"),
    ],
)
def test_a_run_goes_on_with_what_it_began_with(kept: Path, change: dict[str, Any], words: str) -> None:
    module, sites = change.pop("module", cnn()), change.pop("sites", images(4))
    with pytest.raises(InputError, match=words):
        begin(module, CROSS, sites, change.pop("graph", "ring:n=4"), resume=kept, **WORDS | change)


def test_noise_that_does_not_reach_the_target_is_refused(tmp_path: Path) -> None:
    words: dict[str, Any] = {"noise_multiplier": None, "target_epsilon": 4.0}
    training, file = begun(tmp_path, **words)
    found = torch.load(file, weights_only=True)
    found["noise_multiplier"] = training.run.noise_multiplier / 2
    torch.save(found, file)
    with pytest.raises(
        InputError, match=r"the noise of the run to resume, .* does not reach target_epsilon 4"
    ):
        begin(cnn(), CROSS, images(4), "ring:n=4", resume=file, **WORDS | words)


def tampered(name: str, change: Any) -> Any:
    def forge(found: dict[str, Any]) -> None:
        found[name] = change(found[name])

    return forge


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (tampered("registers", lambda x: x * 1.5), "round 3 does not come out as it did"),
        (tampered("before", lambda x: x + 1e-9), "round 3 does not come out as it did"),
        (tampered("start", lambda x: x + 1), "the parameters that all nodes started from are others"),
        (tampered("registers", lambda x: x[:, :, :-1]), "do not fit each other"),
        (tampered("registers", lambda x: x.float()), "do not fit each other"),
        (tampered("keys", lambda x: x[:2]), "its keys are not two 64-bit numbers for each node"),
        (tampered("keys", lambda _: None), "its round and its keys do not fit each other"),
        (tampered("round", lambda _: 2.5), r"round must be a whole number; got 2\.5"),
        (tampered("round", lambda _: 10**400), "do not fit each other"),
        (tampered("rounds", lambda _: -1), "rounds must be a whole number of at least 0; got -1"),
        (tampered("seeded", lambda _: 1), "seeded must be true or false; got 1"),
        (tampered("noise_multiplier", lambda _: float("nan")), "noise_multiplier must be a number"),
        (tampered("noise_multiplier", lambda _: float("inf")), "noise_multiplier must be a number"),
        (tampered("noise_multiplier", lambda _: "2"), "noise_multiplier must be a number.*; got '2'"),
        (tampered("schema", lambda _: 9), "a checkpoint of schema 1 was expected"),
        (tampered("history", lambda _: {}), "not a checkpoint"),
        (tampered("settings", lambda _: "{"), "not a checkpoint"),
        (tampered("settings", lambda _: {}), "settings must be text; got a JSON object"),
        (tampered("settings", lambda _: '{"clip": NaN}'), "holds finite numbers only"),
        (tampered("settings", lambda _: '{"clip": 1, "clip": 1}'), "a field stands twice"),
        (tampered("settings", lambda _: "[" * 100_000), "this is not JSON"),
        (lambda found: found.pop("zeroed"), "the checkpoint lacks the field zeroed"),
    ],
)
def test_a_forged_checkpoint_is_refused(kept: Path, forge: Any, words: str) -> None:
    found = torch.load(kept, weights_only=True)
    forge(found)
    torch.save(found, kept)
    with pytest.raises(InputError, match=words):
        begin(cnn(), CROSS, images(4), "ring:n=4", resume=kept, **WORDS)


def test_a_file_that_is_none_is_refused(kept: Path, tmp_path: Path) -> None:
    file, whole = kept, kept.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=r"run\.pt: not a checkpoint"):
        read_checkpoint(file)
    torch.save({"kind": tmp_path}, file)
    with pytest.raises(FileError, match=r"run\.pt: not a checkpoint"):
        read_checkpoint(file)
    with pytest.raises(FileError, match="there is no such file"):
        read_checkpoint(tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"ends in \.pt or \.pth; got"):
        begin(cnn(), CROSS, images(4), "ring:n=4", **WORDS).save(tmp_path / "run.npz")
    with pytest.raises(FileError, match="there is no folder"):
        begin(cnn(), CROSS, images(4), "ring:n=4", **WORDS).save(tmp_path / "none" / "run.pt")


def test_any_damage_is_an_error_with_a_remedy(kept: Path) -> None:
    whole, rng = kept.read_bytes(), np.random.default_rng(3)
    damaged = [whole[:cut] for cut in np.linspace(0, len(whole) - 1, 50).astype(int)]
    damaged += [
        whole[:place] + bytes([whole[place] ^ int(rng.integers(1, 256))]) + whole[place + 1 :]
        for place in rng.integers(len(whole), size=200)
    ]
    said = []
    for content in damaged:
        kept.write_bytes(content)
        try:
            read_checkpoint(kept)
        except FileError as error:
            said.append(str(error))
    assert len(said) >= 50
    assert all("run.pt: not a checkpoint: " in each and each.endswith(" has written)") for each in said)
    assert not any("weights_only" in each for each in said)


def test_a_checkpoint_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training, file = begun(tmp_path)
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    training.step()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FileError, match=r"the checkpoint cannot be written: .*No space left"):
        training.save(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]
