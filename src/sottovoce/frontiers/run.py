# SPDX-License-Identifier: Apache-2.0
"""`frontier`: compute the parts that are missing, and put them together."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sottovoce._version import __version__
from sottovoce.crews import by_crew
from sottovoce.errors import FileError, InputError, at_least
from sottovoce.folders import WorkFolder
from sottovoce.forms import Form, canonical, json_text, read_form, strict_json
from sottovoce.frontiers.results import assembled
from sottovoce.frontiers.work import Noise, Runs, computed

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterable, Mapping

    from sottovoce.frontiers.questions import Part, Question
    from sottovoce.frontiers.results import Frontier

    Finished = Generator[tuple[int, bytes], None, None]

__all__ = ["frontier"]

SCHEMA: Literal[1] = 1

# What settings hold as hashes, which tell nobody what to give, and what to give.
_BY_HASH = {
    "records": "give the same data",
    "networks": "give the same graphs in the same order, with the same weights",
    "tune_on": "choose steps on the same data",
}


class FrontierManifest(Form, frozen=True, kw_only=True, tag_field="kind", tag="frontier"):
    """What a folder holds the frontier of."""

    schema: Literal[1]
    version: str
    settings: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """A short hash of the settings, which each part carries."""
        return hashlib.sha256(canonical(self)).hexdigest()[:16]


@dataclass(frozen=True)
class FrontierFolder(WorkFolder):
    """Where the parts of a frontier lie; part k is `part(k)`."""

    WORK: ClassVar[str] = "frontier"

    def part(self, number: int) -> Path:
        """The file of one part."""
        return self.path / f"part-{number:05d}.json"

    def found(self, number: int, kind: type[Noise | Runs], fingerprint: str) -> Noise | Runs | None:
        """The part that lies there; None if there is none, and one that is no such part is set aside."""
        file = self.part(number)
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileError(f"{file}: cannot be read: {error.strerror or error} (give the right)") from None
        except UnicodeDecodeError:
            self.set_aside(file)
            return None
        try:
            read = _part(text, kind)
        except InputError:
            self.set_aside(file)
            return None
        if read.fingerprint != fingerprint:
            self.set_aside(file)
            return None
        return read


def frontier(
    question: Question,
    *,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Frontier:
    """Accuracy against ε for every network, protocol and view of a question, beside a trusted server and no noise.

    Noise is chosen for each ε in the view of an arm, as `sottovoce.train` does it. Steps are given, or chosen on public
    or synthetic records alone. All runs are simulations: their noise comes from seeds.

    Args:
        question: what is compared.
        folder: where parts are kept, empty or not there yet; left out, what was done is lost with an interrupt.
        resume: go on with the frontier in the folder, which must be of the same question.
        workers: how many processes compute at the same time.
        progress: called with (parts done, parts in all).

    Guarantee: every ε holds in its view under the assumption that its point names, and `local_epsilon` without any.
    Accuracies are measured, without noise, on records that were held out: they are not private.

    >>> from sottovoce import graphs
    >>> from sottovoce.frontiers import Question, stand_in
    >>> records = stand_in(records=90, features=4, classes=2, seed=1)
    >>> ring = {"ring:n=3": graphs.metropolis_weights("ring:n=3")}
    >>> asked = Question(data=records, networks=ring, rounds=4, epsilons=(2, 8), repeats=2, step="1")
    >>> found = frontier(asked)
    >>> [(arm.view, [point.epsilon for point in arm.points]) for arm in found.arms]
    [('everyone', [2, 8]), ('secure-sum', [2, 8])]
    """
    at_least(1, workers=workers)
    if resume and folder is None:
        raise InputError("resume goes on with the frontier in a folder; got none (name it)")
    manifest = FrontierManifest(schema=SCHEMA, version=__version__, settings=question.settings)
    with ExitStack() as stack:
        place = FrontierFolder(Path(folder or stack.enter_context(tempfile.TemporaryDirectory())))
        place.prepare()
        stack.enter_context(place.claimed())
        if resume and not place.is_empty():
            _check_same(place, manifest)
        else:
            place.check_new()
        kept, noise = _phase(question, place, manifest, {}, workers, progress)
        more, runs = _phase(question, place, manifest, noise, workers, progress)
    kept += more
    return assembled(question, noise, runs, computed=len(question.parts) - kept, kept=kept)


def _manifest(text: str, where: str) -> FrontierManifest:
    """The manifest in a text."""
    return read_form(strict_json(text, where), FrontierManifest, where)


def _part(text: str, kind: type[Noise | Runs]) -> Noise | Runs:
    """The part in a text."""
    return read_form(strict_json(text, "a part"), kind, "a part")


def _check_same(place: FrontierFolder, wanted: FrontierManifest) -> None:
    """Refuse to go on with another question."""
    where = str(place.manifest_path)
    try:
        found = _manifest(place.manifest_text(), where)
    except InputError as error:
        raise FileError(f"{where}: not the manifest of a frontier: {error} (choose another folder)") from None
    if found.version != wanted.version:
        raise InputError(
            f"{place.path}: a frontier is continued with the version that began it, {found.version}; this is "
            f"{wanted.version} (choose another folder)"
        )
    # As the file holds them.
    asked = _manifest(_text(wanted).decode(), where).settings
    for name in dict.fromkeys((*asked, *found.settings)):
        value, there = asked.get(name), found.settings.get(name)
        if value != there and name in _BY_HASH:
            raise InputError(
                f"{place.path}: a frontier is continued with the {name} it began with, and others were given "
                f"({_BY_HASH[name]}, or choose another folder)"
            )
        if value != there:
            raise InputError(
                f"{place.path}: a frontier is continued with the settings it began with; its {name} is {there!r}, and "
                f"{value!r} was asked for (ask for {there!r}, or choose another folder)"
            )


def _phase(
    question: Question,
    place: FrontierFolder,
    manifest: FrontierManifest,
    noise: Mapping[Part, Noise],
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[int, dict[Part, Any]]:
    """The parts of noise, or those of runs once noise is there: how many were kept, and all of them."""
    kind: type[Noise | Runs] = Runs if noise else Noise
    numbers = [k for k, part in enumerate(question.parts) if (part.kind == "noise") == (kind is Noise)]
    found = {k: place.found(k, kind, manifest.fingerprint) for k in numbers}
    missing = [k for k, read in found.items() if read is None]
    total = len(question.parts)
    done = len(noise) + len(numbers) - len(missing)
    if progress is not None:
        progress(done, total)
    with closing(_contents(question, missing, noise, manifest.fingerprint, workers)) as contents:
        for number, content in contents:
            # Only now, so that what fails before the first part leaves the folder empty.
            if not place.manifest_path.exists():
                place.write(place.manifest_path, _text(manifest))
            place.write(place.part(number), content)
            found[number] = _part(content.decode(), kind)
            done += 1
            if progress is not None:
                progress(done, total)
    return len(numbers) - len(missing), {question.parts[k]: found[k] for k in numbers}


def _contents(
    question: Question, missing: list[int], noise: Mapping[Part, Noise], fingerprint: str, workers: int
) -> Finished:
    """Each missing part with its content, from this process or from several."""
    if workers == 1 or len(missing) < 2:
        return _own(question, missing, noise, fingerprint)
    return by_crew(missing, min(workers, len(missing)), _job, _begin, question, dict(noise), fingerprint)


def _own(
    question: Question, missing: Iterable[int], noise: Mapping[Part, Noise], fingerprint: str
) -> Finished:
    """The parts one after the other, in this process."""
    for number in missing:
        yield number, _text(computed(question, question.parts[number], noise, fingerprint))


_held: tuple[Question, dict[Part, Noise], str] | None = None


def _begin(question: Question, noise: dict[Part, Noise], fingerprint: str) -> None:
    """What a process keeps."""
    global _held
    _held = question, noise, fingerprint


def _job(number: int) -> bytes:
    """One part, in a process of its own."""
    assert _held is not None
    question, noise, fingerprint = _held
    return _text(computed(question, question.parts[number], noise, fingerprint))


def _text(value: object) -> bytes:
    return (json_text(value, indent=2, letters=True) + "\n").encode()
