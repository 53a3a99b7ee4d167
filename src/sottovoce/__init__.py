# SPDX-License-Identifier: Apache-2.0
"""What each node of a gossip network can learn about each other node, and how much noise is enough.

Every name is loaded on first use, so that importing the package (and `sottovoce --help`) costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sottovoce._version import __version__

if TYPE_CHECKING:
    from sottovoce import gaussian, graphs, learning, protocols
    from sottovoce.accounting import Account, AccountTable, account, account_all, calibrate, compare
    from sottovoce.auditing import Audit, audit
    from sottovoce.certificates import Certificate
    from sottovoce.coalitions import CoalitionSearch, worst_coalition, worst_observer
    from sottovoce.errors import (
        FileError,
        GraphError,
        InputError,
        NotCertified,
        SottovoceError,
        ViewError,
    )
    from sottovoce.frontiers import Frontier, frontier
    from sottovoce.interval import Interval
    from sottovoce.learning import Run, train
    from sottovoce.participation import Participation
    from sottovoce.protocols import Combine, Draw, Exchange, Program, Protocol, gossip
    from sottovoce.rates import Rates, rate
    from sottovoce.scenarios import Effort, Scenario
    from sottovoce.sensitivities import Sensitivities, Sensitivity, certify, sensitivity
    from sottovoce.verification import Verification, verify
    from sottovoce.views import View

_HOMES = {
    "Account": "accounting",
    "AccountTable": "accounting",
    "Audit": "auditing",
    "Certificate": "certificates",
    "CoalitionSearch": "coalitions",
    "Combine": "protocols",
    "Draw": "protocols",
    "Effort": "scenarios",
    "Exchange": "protocols",
    "FileError": "errors",
    "Frontier": "frontiers",
    "GraphError": "errors",
    "InputError": "errors",
    "Interval": "interval",
    "NotCertified": "errors",
    "Participation": "participation",
    "Program": "protocols",
    "Protocol": "protocols",
    "Rates": "rates",
    "Run": "learning",
    "Scenario": "scenarios",
    "Sensitivities": "sensitivities",
    "Sensitivity": "sensitivities",
    "SottovoceError": "errors",
    "Verification": "verification",
    "View": "views",
    "ViewError": "errors",
    "account": "accounting",
    "account_all": "accounting",
    "audit": "auditing",
    "calibrate": "accounting",
    "certify": "sensitivities",
    "compare": "accounting",
    "frontier": "frontiers",
    "gossip": "protocols",
    "rate": "rates",
    "sensitivity": "sensitivities",
    "train": "learning",
    "verify": "verification",
    "worst_coalition": "coalitions",
    "worst_observer": "coalitions",
}
_ROOMS = {"gaussian", "graphs", "learning", "protocols"}

__all__ = [
    "Account",
    "AccountTable",
    "Audit",
    "Certificate",
    "CoalitionSearch",
    "Combine",
    "Draw",
    "Effort",
    "Exchange",
    "FileError",
    "Frontier",
    "GraphError",
    "InputError",
    "Interval",
    "NotCertified",
    "Participation",
    "Program",
    "Protocol",
    "Rates",
    "Run",
    "Scenario",
    "Sensitivities",
    "Sensitivity",
    "SottovoceError",
    "Verification",
    "View",
    "ViewError",
    "__version__",
    "account",
    "account_all",
    "audit",
    "calibrate",
    "certify",
    "compare",
    "frontier",
    "gaussian",
    "gossip",
    "graphs",
    "learning",
    "protocols",
    "rate",
    "sensitivity",
    "train",
    "verify",
    "worst_coalition",
    "worst_observer",
]


def __getattr__(name: str) -> object:
    """Load a public name from the room it lives in."""
    if name in _ROOMS:
        return importlib.import_module(f"sottovoce.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"sottovoce.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sottovoce' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
