# SPDX-License-Identifier: Apache-2.0
"""`sottovoce completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from sottovoce.cli.printing import write_result

__all__ = ["EXAMPLE", "USAGE", "completion"]

EXAMPLE = "sottovoce completion fish > ~/.config/fish/completions/sottovoce.fish"
USAGE = "sottovoce completion bash|zsh|fish"


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")], /) -> int:
    """Print the script that completes commands and options in a shell."""
    from sottovoce.cli.application import app

    write_result(app.generate_completion(shell=shell))
    return 0
