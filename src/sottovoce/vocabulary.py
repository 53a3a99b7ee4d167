# SPDX-License-Identifier: Apache-2.0
"""The words of a question, each in one place: values, options and requests have the same choices.

There is nothing else in here, so that a command line can offer them before anything is loaded.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["Contribution", "Depth", "Engine", "Losses", "OwnNoise", "Relation", "ViewName"]

ViewName = Literal[
    "everyone", "neighbourhood", "secure-sum", "single-node", "coalition-sums", "coalition-messages"
]
OwnNoise = Literal["known", "hidden"]
Contribution = Literal["vector", "scalar", "energy"]
Relation = Literal["add-remove", "replace-one", "zero-out"]
Losses = Literal["convex", "clipped", "smooth"]
Engine = Literal["auto", "filter", "reduced"]
Depth = Literal["auto", "fine", "bulk"]
