# SPDX-License-Identifier: Apache-2.0
"""One record through a module before anything is sent: what goes wrong is said in words, with the layer it was in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.func import functional_call, grad_and_value, vmap

from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from sottovoce.learning.sites.losses import ModuleLoss

__all__ = ["outputs_of"]

# How much of what torch says of an error is passed on.
_LETTERS = 200


def outputs_of(loss: ModuleLoss) -> int:
    """How many outputs a record has; a module, criterion or record that do not fit together are refused."""
    _check_type(loss)
    parameters = loss.layout.parameters(loss.start, loss.device)
    inputs, targets = (part.to(loss.device) for part in loss.records.fetch(0, [0]))
    kept = {name: value.clone() for name, value in loss.module.named_buffers()}
    with _followed(loss.module) as inside:
        output = _output(loss, parameters, inputs, inside)
        _check_value(loss, output, targets)
        _check_gradients(loss, parameters, inputs, targets, inside)
    for name, value in loss.module.named_buffers():
        if not torch.equal(value, kept[name]):
            layer, _, buffer = name.rpartition(".")
            raise InputError(
                f"layer {layer!r} cannot be trained record by record: it changes its buffer {buffer!r} as it runs, "
                "which would tell of records without noise (call eval() on it, or put a layer without such a buffer "
                "in its place)"
            )
    _check_losses(loss)
    return int(output.numel())


def _check_type(loss: ModuleLoss) -> None:
    """Refuse numbers of another type than the module's."""
    given, own = loss.records.form.input_type, {value.dtype for value in loss.module.parameters()}
    if given.is_floating_point and given not in own:
        names = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in own))
        raise InputError(
            f"inputs must be of the module's own type, {names}; got {str(given).removeprefix('torch.')} (convert them "
            f"in the data set, as by .to({next(iter(own))}), or the module by .to({given}))"
        )


def _output(
    loss: ModuleLoss, parameters: dict[str, torch.Tensor], inputs: torch.Tensor, inside: list[str]
) -> torch.Tensor:
    """What the module makes of a batch of one."""
    try:
        with torch.no_grad():
            output = functional_call(loss.module, parameters, (inputs,))
    except Exception as error:
        raise InputError(
            f"{_where(loss, inside)} does not take a record of this form, a batch of one of shape "
            f"{tuple(inputs.shape)}: {_said(error)} (mend the module, or the records)"
        ) from None
    if not isinstance(output, torch.Tensor):
        raise InputError(
            f"the module must return one tensor; got a {type(output).__name__} (return the tensor that the criterion "
            "takes)"
        )
    return output


def _check_value(loss: ModuleLoss, output: torch.Tensor, targets: torch.Tensor) -> None:
    """Refuse a criterion that makes no number of an output and a target."""
    try:
        value = loss.criterion(output, targets)
    except Exception as error:
        raise InputError(
            f"the criterion does not take an output of shape {tuple(output.shape)}, {output.dtype}, with a target of "
            f"shape {tuple(targets.shape)}, {targets.dtype}: {_said(error)} (mend the targets, or the criterion)"
        ) from None
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        found = (
            f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        )
        raise InputError(
            f"the criterion must return one number for a batch of one record; got {found} (take its mean or its sum)"
        )


def _check_gradients(
    loss: ModuleLoss,
    parameters: dict[str, torch.Tensor],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    inside: list[str],
) -> None:
    """Refuse a module whose gradients of single records torch cannot compute together."""
    inside.clear()
    both = torch.cat([inputs, inputs]), torch.cat([targets, targets])
    try:
        vmap(grad_and_value(loss.one), in_dims=(None, 0, 0))(parameters, *both)
    except Exception as error:
        raise InputError(
            f"{_where(loss, inside)} has no gradients of single records: {_said(error)} (put a layer in its place that "
            "torch.func.vmap can go through)"
        ) from None


def _check_losses(loss: ModuleLoss) -> None:
    """Refuse a criterion that is no number for the first record of any site: then it is not for a record's sake."""
    sites = torch.arange(len(loss.records.counts)).double()
    first = torch.stack([sites, torch.zeros_like(sites)], dim=1).numpy()
    values = loss.values(loss.start, first, first[:, 0])
    if not any(abs(float(value)) < float("inf") for value in values):
        raise InputError(
            f"the loss of the first record of every site is {values[0]} with the parameters that the module has (mend "
            "the module, its parameters or the criterion)"
        )


@contextmanager
def _followed(module: nn.Module) -> Iterator[list[str]]:
    """The layers that have been entered and not left, outermost first."""
    inside: list[str] = []

    def entering(name: str) -> Any:  # noqa: ANN401 - a hook
        def enter(layer: nn.Module, _: object) -> None:
            inside.append(f"layer {name!r} ({type(layer).__name__})" if name else type(layer).__name__)

        return enter

    def leave(_: nn.Module, __: object, ___: object) -> None:
        inside.pop()

    hooks = []
    for name, layer in module.named_modules():
        hooks += [layer.register_forward_pre_hook(entering(name)), layer.register_forward_hook(leave)]
    try:
        yield inside
    finally:
        for hook in hooks:
            hook.remove()


def _where(loss: ModuleLoss, inside: list[str]) -> str:
    """The innermost layer that was entered and not left, or all of the module."""
    return inside[-1] if inside else loss.name


def _said(error: Exception) -> str:
    """The first line of what torch says."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return first if len(first) <= _LETTERS else f"{first[:_LETTERS].rstrip()}…"
