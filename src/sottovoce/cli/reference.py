# SPDX-License-Identifier: Apache-2.0
"""The reference, written from the application: `python -m sottovoce.cli.reference docs/cli.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from sottovoce.cli.application import app, commands

__all__ = ["reference", "write_reference"]


def reference() -> str:
    """The reference in Markdown."""
    parts = ["# The command line", app.help]
    for words, command in commands():
        level = 1 + len(words)
        if level == 3 and f"## {words[0]}" not in parts:
            parts += [f"## {words[0]}", app[words[0]].help]
        parts.append(command.generate_docs(output_format="markdown", heading_level=level).strip())
        example = str(command.help_epilogue).removeprefix("Example:").strip()
        parts.append(f"**Example**:\n\n```console\n$ {example}\n```")
    return "\n\n".join(parts) + "\n"


def write_reference(path: Path) -> None:
    """Write the reference to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m sottovoce.cli.reference docs/cli.md")
    write_reference(Path(sys.argv[1]))
