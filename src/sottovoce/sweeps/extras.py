# SPDX-License-Identifier: Apache-2.0
"""The optional packages, loaded when they are first needed."""

from __future__ import annotations

from typing import Any

from sottovoce.errors import needs

__all__ = ["distributed", "pyarrow"]


def pyarrow() -> Any:  # noqa: ANN401 - the package carries no types
    """The package pyarrow, with its Parquet and IPC parts."""
    try:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise needs("a sweep", "pyarrow", "parquet") from None
    return pa


def distributed() -> Any:  # noqa: ANN401 - the package carries no types
    """The package distributed of Dask."""
    try:
        import distributed as found
    except ImportError:
        raise needs("a sweep on a cluster", "distributed", "cluster") from None
    return found
