"""Reading a sweep: with this package, with pandas and with polars; and only a finished one."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sottovoce.accounting import AccountTable
from sottovoce.errors import FileError, InputError
from sottovoce.protocols import Protocol
from sottovoce.sweeps import extras, read_sweep, sweep


def test_pandas_and_polars_read_the_parts(protocol: Protocol, table: AccountTable, tmp_path: Path) -> None:
    sweep(protocol, "secure-sum", tmp_path, tile=4)
    by_pandas = pd.read_parquet(sorted(tmp_path.glob("part-*.parquet")))
    by_polars = pl.scan_parquet(tmp_path / "part-*.parquet").collect()
    for frame in (by_pandas, by_polars):
        assert np.array_equal(frame["squared_upper"].to_numpy(), table.squared_upper)
        assert frame["method"].to_list() == table.method.tolist()
    assert [str(kind) for kind in by_pandas.dtypes] == ["int32", "int32", "float64", "float64", "category"]
    assert by_polars.schema["method"] == pl.Categorical
    whole = read_sweep(tmp_path)
    assert len(whole) == 210
    assert whole.to_arrow().to_pandas().equals(by_pandas)


def test_a_sweep_that_is_not_finished_is_refused(protocol: Protocol, tmp_path: Path) -> None:
    parts = sweep(protocol, "secure-sum", tmp_path, tile=4).parts
    parts[3].unlink()
    with pytest.raises(FileError, match=r"not finished; 3 of its 4 parts are there \(finish it with resume"):
        read_sweep(tmp_path)
    parts[3].write_text("broken")
    with pytest.raises(FileError, match=r"part-00003.parquet: the part cannot be read"):
        read_sweep(tmp_path)
    parts[3].write_bytes(parts[0].read_bytes())
    with pytest.raises(FileError, match="the part must have 42 rows; it has 56"):
        read_sweep(tmp_path)
    with pytest.raises(FileError, match="there is no sweep"):
        read_sweep(tmp_path / "elsewhere")


def test_a_part_damaged_inside_is_noticed(protocol: Protocol, tmp_path: Path) -> None:
    (part,) = sweep(protocol, "secure-sum", tmp_path, tile=15).parts
    content = bytearray(part.read_bytes())
    content[len(content) // 4] ^= 1
    part.write_bytes(content)
    with pytest.raises(FileError, match=r"the part cannot be read: .* \(compute it again with resume=True\)"):
        read_sweep(tmp_path).to_arrow()


@pytest.mark.parametrize("extra", ["parquet", "cluster"])
def test_a_package_that_is_missing_is_named(
    extra: str, protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"parquet": "pyarrow", "cluster": "distributed"}[extra]
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(
        InputError,
        match=rf"{name}, which is not installed \(in a clone of Sottovoce: pip install '\.\[{extra}\]'\)",
    ):
        getattr(extras, name)()
    with pytest.raises(InputError, match="pip install"):
        sweep(protocol, "secure-sum", tmp_path / "pairs", cluster="local")
    assert not list(tmp_path.glob("pairs/*"))
