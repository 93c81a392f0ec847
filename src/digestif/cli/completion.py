"""Completion in shells. bash breaks words at colons, as in `mail:ada`: it sends us the line, and we find its words."""

import os
import re
import shlex
from typing import Any

from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

BREAKS = ":=@"  # at which bash may break a word that nothing quotes
_SPECIAL = re.compile(r"([^\w@%+=:,./#-]|^#)")

_SOURCE = r"""_digestif_completion() {
    local line kind value
    COMPREPLY=()
    while read -r line; do
        kind=${line%%,*} value=${line#*,}
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
        _DIGESTIF_COMPLETE=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F _digestif_completion digestif
"""


class LineComplete(BashComplete):
    """Completion for bash that gives back only what follows the last break: that is all that bash replaces."""

    name = "bash"

    def source(self) -> str:
        return _SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        words = split_arg_string(_told("COMP_LINE"))
        begins_new = len(split_arg_string(_told("COMP_LINE") + "x")) > len(words)
        return (words[1:], "") if begins_new or len(words) < 2 else (words[1:-1], words[-1])

    def get_completions(self, args: list[str], incomplete: str) -> "list[CompletionItem[Any]]":
        """Without names that would do something when they are typed: others may have chosen them."""
        is_safe = _is_safe_in_quotes if _is_in_quotes(_told("COMP_LINE")) else str.isprintable
        return [item for item in super().get_completions(args, incomplete) if is_safe(str(item.value))]

    def format_completion(self, item: "CompletionItem[Any]") -> str:
        value = str(item.value)
        if _is_in_quotes(_told("COMP_LINE")):
            return f"{item.type},{value}"
        _, typed = self.get_completion_args()
        typed = typed.partition("=")[2] if typed.startswith("-") and "=" in typed else typed
        breaks = [place + 1 for place, sign in enumerate(typed) if sign in BREAKS and sign in _told("COMP_WORDBREAKS")]
        return f"{item.type},{_escaped(value[max(breaks, default=0) :])}"


def _told(name: str) -> str:
    return os.environ.get(name, "")  # noqa: TID251  # the way in which a shell asks


def _is_in_quotes(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError:
        return True
    return False


def _is_safe_in_quotes(text: str) -> bool:
    """True if a shell takes the text as it is, between quotes of either kind."""
    return text.isprintable() and not set(text) & set("$`\\\"'!")


def _escaped(text: str) -> str:
    """As it has to be typed."""
    return _SPECIAL.sub(r"\\\1", text)


def script(shell: str, program: Any) -> str:
    """What a shell has to evaluate."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click knows all three
    return kind(program, {}, "digestif", "_DIGESTIF_COMPLETE").source()


add_completion_class(LineComplete)
