# SPDX-License-Identifier: Apache-2.0
"""Any PyTorch module as a loss: gradients of each record by `torch.func`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import InputError, needs
from sottovoce.learning.losses import GradientLoss

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["torch_loss"]


def torch_loss(
    module: Any,  # noqa: ANN401 - the package is optional
    loss: Callable[[Any, Any], Any],
    *,
    integer_labels: bool = False,
    smoothness: float | None = None,
    convex: bool = False,
) -> GradientLoss:
    """A loss from a module and `loss(output, label)`, both for one record (a batch of one); parameters are flattened.

    Every node starts from the parameters that the module has now, which are therefore public. Those with
    `requires_grad=False` stay as they are: they are no part of a model, so they are not trained, clipped, noised or
    mixed. The module is copied, in double precision; what happens to it later changes nothing here. `integer_labels`
    hands labels over as whole numbers. `smoothness` and `convex` declare what is publicly known of the loss of one
    record, as in `GradientLoss`; most networks have no smoothness that holds for all parameters, and then none is to be
    declared. Needs the extra `torch`.
    """
    try:
        import torch
        from torch.func import functional_call, grad, vmap
    except ImportError:
        raise needs("a torch loss", "torch", "torch") from None
    own = copy.deepcopy(module).double()
    trained = {name: value.detach() for name, value in own.named_parameters() if value.requires_grad}
    if not trained:
        raise InputError(
            f"a torch loss needs a parameter to train; none of {type(module).__name__} requires a gradient "
            "(set requires_grad=True on those to be learnt)"
        )
    shapes = {name: tuple(value.shape) for name, value in trained.items()}
    sizes = [value.numel() for value in trained.values()]
    start = np.concatenate([value.numpy().ravel() for value in trained.values()])

    def parameters(flat: Any) -> dict[str, Any]:  # noqa: ANN401
        parts = torch.split(flat, sizes)
        return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def one(flat: Any, row: Any, label: Any) -> Any:  # noqa: ANN401
        return loss(functional_call(own, parameters(flat), (row[None],)), label[None]).sum()

    def tensors(model: Any, features: Any, labels: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401
        kind = torch.int64 if integer_labels else torch.float64
        return (
            torch.as_tensor(np.asarray(model), dtype=torch.float64),
            torch.as_tensor(np.asarray(features), dtype=torch.float64),
            torch.as_tensor(np.asarray(labels)).to(kind),
        )

    def gradients(model: Any, features: Any, labels: Any) -> Any:  # noqa: ANN401
        found = vmap(grad(one), in_dims=(None, 0, 0))(*tensors(model, features, labels))
        return found.detach().numpy()

    def losses(model: Any, features: Any, labels: Any) -> Any:  # noqa: ANN401
        return vmap(one, in_dims=(None, 0, 0))(*tensors(model, features, labels)).detach().numpy()

    def predict(model: Any, features: Any) -> Any:  # noqa: ANN401
        flat, rows, _ = tensors(model, features, np.zeros(len(features)))
        with torch.no_grad():
            outputs = functional_call(own, parameters(flat), (rows,)).numpy()
        return outputs.argmax(axis=1) if integer_labels else outputs.reshape(len(features), -1)[:, 0]

    return GradientLoss(
        gradients=gradients,
        dimension=sum(sizes),
        losses=losses,
        predict=predict,
        start=start,
        name=type(module).__name__,
        smoothness=smoothness,
        convex=convex,
    )
