# SPDX-License-Identifier: Apache-2.0
"""`sottovoce completion`: words at the cursor of a shell, which the shell asks this program for."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from cyclopts import Parameter

from sottovoce.cli.printing import write_result

__all__ = ["EXAMPLE", "USAGE", "completion"]

EXAMPLE = "sottovoce completion fish > ~/.config/fish/completions/sottovoce.fish"
USAGE = "sottovoce completion bash|zsh|fish [LINE]"

BASH = r"""# Completion of sottovoce for bash: source this file, or put it into the folder of completions.
_sottovoce() {
    local line="${COMP_LINE:0:COMP_POINT}" breaks="${COMP_WORDBREAKS//[^:=]/}" found kept=""
    local word="${line##*[[:space:]]}"
    # bash itself ends words at : and =, and takes what comes after the last of them.
    [[ -n $breaks ]] && kept="${word%"${word##*[$breaks]}"}"
    COMPREPLY=()
    while IFS= read -r found; do
        COMPREPLY+=("${found#"$kept"}")
    done < <("${COMP_WORDS[0]}" completion bash "$line" 2>/dev/null)
}
complete -o nospace -F _sottovoce sottovoce
"""
ZSH = r"""#compdef sottovoce
# Completion of sottovoce for zsh: put it as _sottovoce into a folder of $fpath, or source it after compinit.
_sottovoce() {
    local -a whole open whole_shown open_shown
    local word about shown
    while IFS=$'\t' read -r word about; do
        shown="$word${about:+  -- $about}"
        if [[ $word == *[:=,/] ]]; then
            open+=("$word") open_shown+=("$shown")
        else
            whole+=("$word") whole_shown+=("$shown")
        fi
    done < <("${(Q)words[1]}" completion zsh "${words[1,CURRENT-1]} $PREFIX" 2>/dev/null)
    compadd -l -d whole_shown -a whole
    compadd -S '' -l -d open_shown -a open
}
if [[ ${funcstack[1]} == _sottovoce ]]; then _sottovoce "$@"; else compdef _sottovoce sottovoce; fi
"""
FISH = r"""# Completion of sottovoce for fish.
complete -c sottovoce -f -a '(sottovoce completion fish (commandline -cp | string collect) 2>/dev/null)'
"""


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")],
    line: Annotated[
        str | None,
        Parameter(
            help="A command up to the cursor: what may stand there, a word a line, which is what the script asks for.",
            show_default=False,
        ),
    ] = None,
    /,
) -> int:
    """Print the script that completes commands, options and their values in a shell."""
    if line is None:
        write_result({"bash": BASH, "zsh": ZSH, "fish": FISH}[shell])
        return 0
    from sottovoce.cli.candidates import candidates, words_of
    from sottovoce.cli.values import OPEN

    for word, about in candidates(words_of(line)):
        if shell == "bash":
            # The others quote by themselves, and know by themselves when a word goes on.
            quoted = re.sub(r"([^\w@%+=:,./~-])", r"\\\1", word)
            write_result(f"{quoted}{'' if word.endswith(OPEN) else ' '}\n")
        else:
            write_result(f"{word}\t{about}\n")
    return 0
