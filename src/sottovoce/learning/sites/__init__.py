# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules trained on the records of many sites, by the rounds and the accounts of `sottovoce.learning`.

`train_module` makes a whole run; `begin` returns a `Training`, which is one round at a time. Both make a task of the
module and the sites' data sets (`module_task`), of which everything else knows no more than a loss on flat vectors.
Needs the extra `torch`, which nothing else in the package loads.
"""

from sottovoce.errors import needs

try:
    import torch as _torch  # noqa: F401 - asked for here, so that a missing one is named with its extra
except ImportError:
    raise needs("training of modules", "torch", "torch") from None

from sottovoce.learning.sites.accountants import Accountant
from sottovoce.learning.sites.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from sottovoce.learning.sites.losses import ModuleLoss
from sottovoce.learning.sites.modules import check_module, filled, layout_of
from sottovoce.learning.sites.tasks import module_task
from sottovoce.learning.sites.training import ModuleRun, Training
from sottovoce.learning.sites.verbs import ModuleWords, begin, train_module

__all__ = [
    "Accountant",
    "Checkpoint",
    "ModuleLoss",
    "ModuleRun",
    "ModuleWords",
    "Training",
    "begin",
    "check_module",
    "filled",
    "layout_of",
    "module_task",
    "read_checkpoint",
    "train_module",
    "write_checkpoint",
]
