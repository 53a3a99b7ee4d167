"""A PyTorch module as a loss, where torch is installed."""

import sys
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InputError
from sottovoce.learning import load_data, shards_of, split, torch_loss


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install '\.\[torch\]'"):
        torch_loss(None, lambda output, _: output)


def test_gradients_are_those_of_the_bundled_loss() -> None:
    torch: Any = pytest.importorskip("torch")
    from sottovoce.learning import softmax

    data = load_data("digits")
    whole = split(data, 3)
    shards = shards_of(
        [whole.features[i, :5] for i in range(3)], [whole.labels[i, :5] for i in range(3)], nominal=5
    )
    module = torch.nn.Linear(64, 10, bias=False).double()
    own = torch_loss(module, torch.nn.functional.cross_entropy, integer_labels=True)
    bundled = softmax(64, 10)
    models = np.random.default_rng(1).standard_normal((3, 640))
    # torch keeps one row a class, the bundled loss one column a class.
    turned = models.reshape(3, 10, 64).transpose(0, 2, 1).reshape(3, 640)
    weights = shards.present.astype(np.float64)
    sums, share = own.clipped_sums(models, shards, weights, 0.5)
    expected, expected_share = bundled.clipped_sums(turned, shards, weights, 0.5)
    assert np.allclose(sums.reshape(3, 10, 64).transpose(0, 2, 1).reshape(3, 640), expected)
    assert share == expected_share
    assert own.start is not None
    assert np.array_equal(own.start, module.weight.detach().numpy().ravel())
