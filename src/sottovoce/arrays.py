# SPDX-License-Identifier: Apache-2.0
"""The one reader of numpy's files that others may have written: plain arrays, of a size that is known beforehand."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sottovoce.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["MOST_BYTES", "check_declared", "read_npy", "read_npz"]

MOST_BYTES = 4_000_000_000
"""So much may be in the arrays of one file, unpacked."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(source: Path | bytes, name: str, remedy: str) -> dict[str, NDArray[Any]]:
    """The arrays in an .npz file, or in its content, by their names; `remedy` says how to write it again.

    What is torn, was changed, announces more than can be, or holds Python objects is refused with a sentence that
    begins with `name`. Sizes are compared before anything is unpacked, and no code in a file is run.
    """
    try:
        with _opened(source) as stream, zipfile.ZipFile(stream) as archive:
            _check_total(archive, name)
            return {
                member.filename.removesuffix(".npy"): _array(archive.read(member), name)
                for member in archive.infolist()
                if member.filename.endswith(".npy")
            }
    except (FileError, MemoryError):
        raise
    except FileNotFoundError:
        raise FileError(f"{name}: there is no such file (check the path)") from None
    except OSError as error:
        raise FileError(
            f"{name}: cannot be read: {error.strerror or error} (check the path and its rights)"
        ) from None
    # Each way to pack and each header goes wrong in a way of its own.
    except Exception as error:
        raise _damaged(name, ".npz", error, remedy) from None


def read_npy(content: bytes, name: str, remedy: str) -> NDArray[Any]:
    """The array in the content of an .npy file, which is refused like that of an .npz file."""
    try:
        return _array(content, name)
    except (FileError, MemoryError):
        raise
    # As above.
    except Exception as error:
        raise _damaged(name, ".npy", error, remedy) from None


def check_declared(file: Path) -> None:
    """Refuse an archive that announces more than `MOST_BYTES`; what is no archive is left to its reader."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_total(archive, str(file))
    except FileError:
        raise
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile):
        return


def _opened(source: Path | bytes) -> BinaryIO:
    return source.open("rb") if isinstance(source, Path) else io.BytesIO(source)


def _check_total(archive: zipfile.ZipFile, name: str) -> None:
    """Compare what all members announce with what may be; none yields more than it announces."""
    total = sum(member.file_size for member in archive.infolist())
    if total > MOST_BYTES:
        raise FileError(
            f"{name}: its arrays must hold at most {MOST_BYTES} bytes together; they announce {total} (write fewer "
            "records, or smaller numbers)"
        )


def _array(content: bytes, name: str) -> NDArray[Any]:
    """An array whose bytes are exactly those that its header asks for."""
    if not content.startswith(b"\x93NUMPY"):
        raise ValueError("an array of numpy begins otherwise")
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format is not known")
    shape, in_columns, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise FileError(
            f"{name}: an array of plain numbers or texts was expected; found Python objects, which are never opened "
            "(convert the array with astype, and save it again)"
        )
    needed, held = math.prod(shape) * dtype.itemsize, len(content) - stream.tell()
    if needed != held:
        raise ValueError(f"an array of {needed} bytes was announced, and {held} are there")
    if not needed:
        return np.zeros(shape, dtype)
    flat = np.frombuffer(content, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if in_columns else "C").copy()


def _damaged(name: str, kind: str, error: Exception, remedy: str) -> FileError:
    """What is said of a file that cannot be decoded."""
    said: Iterator[str] = iter(str(error).strip().splitlines())
    reason = next(said, type(error).__name__).rstrip(".")
    return FileError(f"{name}: not a whole {kind} file: {reason} ({remedy})")
