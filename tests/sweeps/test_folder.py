"""The folder: damaged parts are found, set aside and computed again, and two sweeps keep apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.errors import InputError
from sottovoce.protocols import Protocol
from sottovoce.sweeps import sweep
from sottovoce.sweeps.folder import Folder


def flip_a_bit(part: Path) -> None:
    content = bytearray(part.read_bytes())
    content[len(content) // 4] ^= 1
    part.write_bytes(content)


def rewrite(part: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(part)), part, write_page_checksum=True)


def turned_round(table: pa.Table) -> pa.Table:
    lower, upper = table.schema.field("squared_lower"), table.schema.field("squared_upper")
    swapped = table.set_column(2, lower, table["squared_upper"])
    return swapped.set_column(3, upper, pa.array([0.0] * len(table)))


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (lambda part: part.write_bytes(b""), "it cannot be read"),
    (lambda part: part.write_bytes(part.read_bytes()[:-20]), "it cannot be read"),
    (flip_a_bit, "it cannot be read"),
    (lambda part: part.write_bytes(part.with_name("part-00000.parquet").read_bytes()), "its pairs are not"),
    (lambda part: rewrite(part, lambda table: table.slice(1)), "it has 55 rows in place of 56"),
    (lambda part: rewrite(part, lambda table: table.drop(["method"])), "its columns are not those of a part"),
    (lambda part: rewrite(part, turned_round), "an interval in it is turned round"),
    (
        lambda part: rewrite(part, lambda t: t.replace_schema_metadata({"sottovoce.sweep": "other"})),
        "it belongs to another sweep",
    ),
]


@pytest.mark.parametrize(("damage", "fault"), DAMAGES)
def test_a_damaged_part_is_set_aside_and_computed_again(
    damage: Callable[[Path], object],
    fault: str,
    protocol: Protocol,
    pairs: Any,
    swept: Callable[[int, Path], None],
    tmp_path: Path,
) -> None:
    swept(4, tmp_path)
    part = tmp_path / "part-00001.parquet"
    damage(part)
    bad = part.read_bytes()
    done = sweep(protocol, "secure-sum", tmp_path, resume=True)
    ((aside, found),) = done.set_aside.items()
    assert aside == part.with_name("part-00001.parquet.broken")
    assert aside.read_bytes() == bad
    assert found.startswith(fault)
    assert (done.computed, done.kept) == ((1,), (0, 2, 3))
    assert pairs == tmp_path


def test_what_was_set_aside_before_is_not_lost(protocol: Protocol, tmp_path: Path) -> None:
    part = sweep(protocol, "secure-sum", tmp_path, tile=15).parts[0]
    for text in ("first", "second"):
        part.write_text(text)
        sweep(protocol, "secure-sum", tmp_path, resume=True)
    assert part.with_name("part-00000.parquet.broken").read_text() == "first"
    assert part.with_name("part-00000.parquet.2.broken").read_text() == "second"


def test_two_sweeps_do_not_share_a_folder(protocol: Protocol, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with (
        Folder(tmp_path).claimed(),
        pytest.raises(InputError, match=r"another sweep is writing there \(wait until it ends"),
    ):
        sweep(protocol, "secure-sum", tmp_path)
    assert len(sweep(protocol, "secure-sum", tmp_path, tile=15)) == 210


def test_drafts_of_a_sweep_that_was_killed_are_cleared(protocol: Protocol, tmp_path: Path) -> None:
    (tmp_path / ".draft-part-00003.parquet").write_text("half")
    sweep(protocol, "secure-sum", tmp_path, tile=15)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["manifest.json", "part-00000.parquet"]
