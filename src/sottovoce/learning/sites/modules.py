# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules as flat vectors, and which of them have gradients of single records."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from sottovoce.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Layout", "check_module", "filled", "layout_of", "state_of"]

# Groups of channels that GroupNorm is usually given.
_GROUPS = 32


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where each trained parameter of a module stands in a flat vector, and what it is there: name, shape and type."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[torch.dtype, ...]

    @property
    def sizes(self) -> list[int]:
        """How many numbers each parameter has."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @property
    def dimension(self) -> int:
        """How many numbers there are in all."""
        return sum(self.sizes)

    def parameters(self, flat: Array, device: torch.device) -> dict[str, torch.Tensor]:
        """The parameters that a vector holds, each in its own type."""
        parts = torch.from_numpy(np.ascontiguousarray(flat)).split(self.sizes)
        return {
            name: part.reshape(shape).to(device=device, dtype=kind)
            for name, shape, kind, part in zip(self.names, self.shapes, self.types, parts, strict=True)
        }

    def flat(self, module: nn.Module) -> Array:
        """The vector of a module's parameters."""
        held = dict(module.named_parameters())
        parts = [held[name].detach().cpu().double().reshape(-1) for name in self.names]
        return np.asarray(torch.cat(parts).numpy())


def layout_of(module: nn.Module) -> Layout:
    """The layout of all parameters that require a gradient; a module without any, or of odd numbers, is refused."""
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    if not trained:
        raise InputError(
            f"a module needs a parameter to train; none of {type(module).__name__} requires a gradient "
            "(set requires_grad=True on those to be learnt)"
        )
    for name, value in trained.items():
        if not value.is_floating_point():
            raise InputError(
                f"parameters must be real floating-point numbers; {name!r} of {type(module).__name__} is of "
                f"{value.dtype} (train a module of float32, or set requires_grad=False on it)"
            )
    return Layout(
        names=tuple(trained),
        shapes=tuple(tuple(value.shape) for value in trained.values()),
        types=tuple(value.dtype for value in trained.values()),
    )


def state_of(module: nn.Module, layout: Layout, flat: Array) -> dict[str, torch.Tensor]:
    """The state dict of a module with the parameters of a vector; what is not trained, buffers too, is as it is there.

    A parameter that several layers share is there under all of its names.
    """
    first = {id(value): name for name, value in module.named_parameters()}
    trained = layout.parameters(flat, torch.device("cpu"))
    state = {name: value.cpu() for name, value in module.state_dict().items()}
    for name, value in module.named_parameters(remove_duplicate=False):
        if first[id(value)] in trained:
            state[name] = trained[first[id(value)]]
    return state


def filled(module: nn.Module, layout: Layout, flat: Array) -> nn.Module:
    """A copy of a module with the parameters of a vector."""
    made = copy.deepcopy(module)
    made.load_state_dict(state_of(module, layout, flat))
    return made


def check_module(module: object) -> nn.Module:
    """Refuse what has no gradients of single records, by the name of the layer and with what to put in its place."""
    if not isinstance(module, nn.Module):
        raise InputError(f"module must be a torch.nn.Module; got {type(module).__name__}")
    for name, value in module.named_parameters():
        if is_lazy(value):
            raise InputError(
                f"the module must know its shapes, as all nodes start from the same parameters; {name!r} has none yet "
                "(run the module on one record first)"
            )
    for name, layer in module.named_modules():
        reason = _unfit(layer)
        if reason is not None:
            where = f"layer {name!r} ({type(layer).__name__})" if name else type(layer).__name__
            raise InputError(f"{where} cannot be trained record by record: {reason}")
    return module


def _unfit(layer: nn.Module) -> str | None:
    """Why a layer has no gradients of single records, and what has; None if nothing is known against it."""
    if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
        channels = layer.num_features
        return (
            "it normalises by statistics of the whole batch, so that each output depends on every record in it (put "
            f"torch.nn.GroupNorm({gcd(channels, _GROUPS)}, {channels}) in its place; or call eval() on it, if its "
            "statistics were made on public data)"
        )
    if isinstance(layer, _InstanceNorm) and layer.training and layer.running_mean is not None:
        return (
            "it keeps running statistics of all records, without noise (give it track_running_stats=False, or put "
            f"torch.nn.GroupNorm({layer.num_features}, {layer.num_features}) in its place)"
        )
    if isinstance(layer, _DropoutNd) and layer.training and layer.p > 0:
        return (
            f"it drops {layer.p:.3g} of its inputs by coins that no checkpoint keeps, so that a round would not come "
            "out the same if it had to be run again (call eval() on it, or give it p=0; the noise regularises already)"
        )
    return None
