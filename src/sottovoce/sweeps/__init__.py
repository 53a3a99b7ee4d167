# SPDX-License-Identifier: Apache-2.0
"""All pairs: every observer in turn, against every target, into a folder of Parquet parts.

A sweep is cut into tiles, each a range of observers and one part of the folder. Parts appear whole or not at
all, so that a sweep that was stopped, whatever the reason, goes on where it was:

    sweep(protocol, "secure-sum", "pairs")                    one process
    sweep(protocol, "secure-sum", "pairs", workers=8)         eight processes of this machine
    sweep(protocol, "secure-sum", "pairs", cluster="tcp://…") a Dask cluster

The parts hold Δ², which depends neither on the noise nor on δ; `summarise` adds both. They are ordinary
Parquet files with the columns observer, target (indices of nodes), squared_lower, squared_upper and method:

    pandas.read_parquet(sorted(Path("pairs").glob("part-*.parquet")))
    polars.scan_parquet("pairs/part-*.parquet")
    SELECT * FROM 'pairs/part-*.parquet'                      (DuckDB)

and manifest.json beside them says what was swept, with the names of the nodes in index order.
"""

from sottovoce.sweeps.manifest import Manifest
from sottovoce.sweeps.reading import SweepTable, read_sweep
from sottovoce.sweeps.run import SweepResult, sweep
from sottovoce.sweeps.summaries import Summary, summarise
from sottovoce.sweeps.tiles import VIEWS

__all__ = [
    "VIEWS",
    "Manifest",
    "Summary",
    "SweepResult",
    "SweepTable",
    "read_sweep",
    "summarise",
    "sweep",
]
