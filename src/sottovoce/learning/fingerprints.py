# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of losses: of parameters, code, what functions close over, and the state of modules.

Two losses of one name are two losses. A run goes on only with the one that it began with, so that everything that
shapes a message has to be told apart: numbers and arrays by their bytes; functions and classes of one's own by their
code, with all that they refer to; those of an installed library by name and version; objects by the state that they
would be pickled with. What none of this reaches is refused by name.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from sottovoce._version import __version__
from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sottovoce.learning.losses import Loss

__all__ = ["fingerprint", "loss_fingerprint", "made_with"]

_PLAIN = (bool, int, float, complex, str, bytes, range, slice, type(None), type(...), type(NotImplemented))
# What Python keeps in a class for itself.
_BOOKKEEPING = {
    "__abstractmethods__",
    "__annotations__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__dict__",
    "__doc__",
    "__module__",
    "__orig_bases__",
    "__parameters__",
    "__weakref__",
    "_abc_impl",
}


def made_with() -> str:
    """The versions that decide the last bit of a number."""
    python = platform.python_version()
    return (
        f"sottovoce {__version__}, Python {python}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"{platform.machine()}"
    )


def loss_fingerprint(loss: Loss) -> str:
    """What tells a loss from others of its name: its `version` if its author gave it one, else all that it is made of.

    >>> from sottovoce.learning.losses import quadratic
    >>> one, same, other = (loss_fingerprint(quadratic(3, h)) for h in (1.0, 1.0, 2.0))
    >>> one == same, one == other
    (True, False)
    """
    version = getattr(loss, "version", None)
    if version is not None:
        return fingerprint((type(loss).__qualname__, loss.name, loss.dimension, loss.start, str(version)))
    try:
        return fingerprint(loss)
    except InputError as error:
        raise InputError(
            f"the loss {loss.name!r} cannot be told from another of its name, so a run with it could go on with "
            f"another one: {error} (give GradientLoss a version of its own, as in version='1', and a new one whenever "
            "it changes; or train without checkpoints)"
        ) from None


def fingerprint(value: object) -> str:
    """SHA-256 of what a value is made of; a value that cannot be told from others is refused.

    Guarantee: equal values of the kinds that the module names have equal fingerprints within one installation. Unequal
    ones differ, unless code reaches out to what no name in it shows (a file, the clock, a C library's state).

    >>> step = 2.0
    >>> fingerprint(lambda x: x * step) == fingerprint(lambda x: x * step), fingerprint(1) == fingerprint(1.0)
    (True, False)
    """
    reader = _Reader()
    reader.read(value, "it")
    return reader.digest.hexdigest()


class _Reader:
    """Feeds a value to a hash, part by part, each with its kind and length before it."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        # Values are kept, so that no two of them have the same id.
        self._met: dict[int, tuple[int, object]] = {}

    def word(self, kind: str, content: bytes | str = b"") -> None:
        """One part."""
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self.digest.update(f"{kind} {len(data)} ".encode())
        self.digest.update(data)

    def read(self, value: Any, path: str) -> None:  # noqa: ANN401 - anything at all
        """A value and all that belongs to it; `path` says where it was found."""
        # Whether values that cannot change are one or many is up to the compiler, so these are read again each time.
        if type(value) in _PLAIN:
            self.word(type(value).__name__, repr(value))
            return
        if type(value) in {tuple, frozenset, types.CodeType}:
            self._fixed(value, path)
            return
        if id(value) in self._met:
            self.word("again", str(self._met[id(value)][0]))
            return
        self._met[id(value)] = (len(self._met), value)
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            self.word("array", f"{value.dtype.str} {value.shape}")
            self.word("bytes", np.ascontiguousarray(value).tobytes())
        elif type(value) is list:
            self._row(value, path)
        elif type(value) is dict:
            self.word("dict", str(len(value)))
            for key, each in value.items():
                self.read(key, f"a key of {path}")
                self.read(each, f"{path}[{key!r}]")
        elif type(value) is set:
            self.word("set", " ".join(sorted(map(fingerprint, value))))
        elif isinstance(value, type):
            self._class(value, path)
        elif _is_tensor(value):
            kind = f"{value.dtype} {tuple(value.shape)} {value.requires_grad}"
            self.word("tensor", kind)
            flat = value.detach().cpu().contiguous().reshape(-1)
            self.word("bytes", flat.view(sys.modules["torch"].uint8).numpy().tobytes())
        else:
            self._callable(value, path)

    def _row(self, value: Sequence[Any], path: str) -> None:
        """Values one after the other."""
        self.word(type(value).__name__, str(len(value)))
        for k, each in enumerate(value):
            self.read(each, f"{path}[{k}]")

    def _fixed(self, value: Any, path: str) -> None:  # noqa: ANN401
        """Tuples, sets that do not change, and code."""
        if isinstance(value, types.CodeType):
            self.word("code", value.co_code)
            self.word("handlers", value.co_exceptiontable)
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            counts = (value.co_argcount, value.co_kwonlyargcount, value.co_posonlyargcount, value.co_flags)
            self._row((*names, *counts, value.co_consts), path)
        elif isinstance(value, frozenset):
            self.word("frozenset", " ".join(sorted(map(fingerprint, value))))
        else:
            self._row(value, path)

    def _callable(self, value: Any, path: str) -> None:  # noqa: ANN401
        """Functions, methods and modules; anything else is an object."""
        match value:
            case types.FunctionType():
                self._function(value, path)
            case types.MethodType():
                self.word("method")
                self.read((value.__func__, value.__self__), path)
            case types.BuiltinFunctionType():
                self.word("builtin", f"{value.__qualname__} {_library(value.__module__ or 'builtins')}")
                if not isinstance(value.__self__, types.ModuleType | type(None)):
                    self.read(value.__self__, path)
            case types.ModuleType():
                self.word("module", f"{value.__name__} {_library(value.__name__)}")
            case property():
                self.read((value.fget, value.fset, value.fdel), path)
            case staticmethod() | classmethod():
                self.word(type(value).__name__)
                self.read(value.__func__, path)
            case functools.cached_property():
                self.read(value.func, path)
            case types.MemberDescriptorType():
                self.word("slot", value.__name__)
            case _:
                self._object(value, path)

    def _function(self, value: types.FunctionType, path: str) -> None:
        """A library's by name and version, one's own by code and the globals that it names; both by what they hold."""
        self.word("function", value.__qualname__)
        library = _library(value.__module__)
        if library is not None:
            self.word("library", f"{value.__module__} {library}")
        else:
            self.read(value.__code__, path)
            names = sorted(set(_names(value.__code__)))
            for name in names:
                if name in value.__globals__:
                    self.word("global", name)
                    self._global(value.__globals__[name], names, f"{name} in {value.__qualname__}")
        self.read((value.__defaults__, value.__kwdefaults__, dict(value.__dict__)), path)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self.word("cell", name)
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            self.read(held, f"{name} in {value.__qualname__}")

    def _global(self, value: Any, names: list[str], path: str) -> None:  # noqa: ANN401
        """A global; of a module of one's own, what the code may take from it."""
        self.read(value, path)
        if isinstance(value, types.ModuleType) and _library(value.__name__) is None:
            for name in names:
                if hasattr(value, name):
                    self.word("global", name)
                    self._global(getattr(value, name), [], f"{value.__name__}.{name}")

    def _class(self, value: type, path: str) -> None:
        """A library's class by name and version, one's own by its bases and members."""
        library = _library(value.__module__)
        self.word("class", f"{value.__module__} {value.__qualname__} {library}")
        if library is None:
            self.read(value.__bases__, path)
            for name, member in sorted(vars(value).items()):
                if name not in _BOOKKEEPING:
                    self.word("member", name)
                    self.read(member, f"{value.__qualname__}.{name}")

    def _object(self, value: Any, path: str) -> None:  # noqa: ANN401
        """An object by what it would be pickled with, without what it has only remembered."""
        try:
            found = value.__reduce_ex__(4)
        except Exception:
            name, library = getattr(value, "__qualname__", None), _library(getattr(value, "__module__", None))
            if name is None or library is None:
                raise InputError(
                    f"{path} is a {type(value).__qualname__}, whose state cannot be read"
                ) from None
            self.word("library", f"{value.__module__} {name} {library}")
            return
        self.word("object", f"{type(value).__module__} {type(value).__qualname__}")
        if isinstance(found, str):
            self.word("name", f"{found} {_library(type(value).__module__)}")
            return
        made, arguments, state, items, pairs = (*found, None, None, None)[:5]
        if type(state) is dict:
            remembered = {name for name in state if _is_remembered(type(value), name)}
            state = {name: each for name, each in state.items() if name not in remembered}
        self.read(made, path)
        self.read(arguments, path)
        self.read(state, path)
        self.read([list(items or ()), list(pairs or ())], path)


def _names(code: types.CodeType) -> Iterator[str]:
    """All names that code, and code within it, may look up."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)


def _library(module: str | None) -> str | None:
    """Name and version of the installed library that a module belongs to; None for code of one's own, and for ours."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "builtins":
        return f"Python {platform.python_version()}"
    found = sys.modules.get(top)
    version, file = getattr(found, "__version__", None), getattr(found, "__file__", None)
    if not isinstance(version, str) or file is None:
        return None
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return f"{top} {version}" if installed and top != "sottovoce" else None


def _is_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch, which need not be installed."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_remembered(kind: type, name: str) -> bool:
    """Whether an attribute is what a cached property has put there."""
    return any(isinstance(vars(each).get(name), functools.cached_property) for each in kind.__mro__)
