# SPDX-License-Identifier: Apache-2.0
"""`reproduce`: run studies, have them drawn, and keep pictures, tables and a page of results in a folder."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce._version import __version__
from sottovoce.documents import HEAD, write_bytes, write_whole
from sottovoce.documents.studies import (
    StudyRecord,
    read_study_record,
    settings_of,
    write_study_record,
    write_study_table,
)
from sottovoce.errors import FileError, needs
from sottovoce.report import results_page
from sottovoce.studies import STUDIES, studies_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from sottovoce.studies import Study

__all__ = ["PAGE", "Reproduction", "reproduce"]

PAGE = "index.html"
# The folder of records also tells that a folder is one of reproductions.
RECORDS = "records"
SHARE = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction:
    """A folder with a page of results; `records` are those asked for, `kept` names those found finished."""

    folder: Path
    records: tuple[StudyRecord, ...]
    kept: tuple[str, ...]

    @property
    def page(self) -> Path:
        """The page of results."""
        return self.folder / PAGE


def reproduce(
    folder: str | os.PathLike[str],
    part: str = "all",
    *,
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Reproduction:
    """Run the studies of `part` and write each one's picture (SVG, PNG), table (CSV) and findings to `folder`.

    A study that is finished there with the same settings and version is kept, so an interrupted run goes on where it
    was. The page of results is written anew after every study.

    Args:
        folder: where to write; not there yet, empty, or written by an earlier run.
        part: a part of the paper such as "figure-1" or "errata", or "all".
        quick: whether to run the small size of every study.
        progress: called with (steps done, steps in all); a study counts 100 steps.
    """
    chosen = studies_of(part)
    if importlib.util.find_spec("matplotlib") is None:
        raise needs("drawing", "matplotlib", "plot")
    place = _prepared(Path(folder))
    records, kept = [], []
    for number, study in enumerate(chosen):
        record = _finished(place, study, quick=quick)
        if record is None:
            record = _run(place, study, quick=quick, progress=_within(progress, number, len(chosen)))
        else:
            kept.append(study.name)
        records.append(record)
        _write_page(place)
        if progress is not None:
            progress(SHARE * (number + 1), SHARE * len(chosen))
    return Reproduction(folder=place, records=tuple(records), kept=tuple(kept))


def _prepared(folder: Path) -> Path:
    """The folder, made if it is not there; one that holds something else is refused."""
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / RECORDS).is_dir():
            raise FileError(f"{folder}: something else lies there (choose a new or an empty folder)")
        (folder / RECORDS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{folder}: cannot be used: {error.strerror or error} (choose another folder)"
        ) from None
    return folder


def _finished(place: Path, study: Study, *, quick: bool) -> StudyRecord | None:
    """The record of a study that was finished with the same settings, all its files being there."""
    record = read_study_record(place / RECORDS / f"{study.name}.json")
    if record is None or record.settings != settings_of(study.quick if quick else study.full):
        return None
    whole = all((place / name).is_file() for name in record.files)
    return record if whole and record.version == __version__ else None


def _run(
    place: Path, study: Study, *, quick: bool, progress: Callable[[int, int], None] | None
) -> StudyRecord:
    """Run and draw one study; its record is written last, so that it vouches for the files."""
    from sottovoce.report.figures import drawn, figure_bytes

    config = study.quick if quick else study.full
    result = study.run(config, progress)
    figure = drawn(study.name, result)
    for form in ("svg", "png"):
        write_bytes(figure_bytes(figure, form), place / f"{study.name}.{form}", "the picture")
    write_study_table(result.table, place / f"{study.name}.csv")
    record = StudyRecord(
        **HEAD,
        study=study.name,
        title=study.title,
        settings=settings_of(config),
        findings=result.findings,
        files=tuple(f"{study.name}.{ending}" for ending in ("svg", "png", "csv")),
        quick=quick,
    )
    write_study_record(record, place / RECORDS / f"{study.name}.json")
    return record


def _within(
    progress: Callable[[int, int], None] | None, number: int, count: int
) -> Callable[[int, int], None] | None:
    """The progress of one study as a part of all of them."""
    if progress is None:
        return None
    return lambda done, total: progress(SHARE * number + SHARE * done // total, SHARE * count)


def _write_page(place: Path) -> None:
    """The page of all studies that the folder holds, in the order of the catalogue."""
    found = [read_study_record(place / RECORDS / f"{study.name}.json") for study in STUDIES]
    records = [record for record in found if record is not None]
    records = [record for record in records if all((place / name).is_file() for name in record.files)]
    write_whole([results_page(records, place)], place, lambda _: PAGE)
