"""Names in braces, such as {timeline}, in texts that people configure.

A text either has names that are filled in, and then `{{` and `}}` stand for braces; or it has none, and then a name in
braces is refused, because readers would see it as it was written.
"""

import re
from string import Formatter

from digestif.core.texts import did_you_mean, shortened

_NAME = re.compile(r"{[A-Za-z_]\w*}")


def placeholder_fault(text: str, *known: str) -> str:
    """What is wrong with the braces of a text whose known names are filled in; empty if nothing is."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        return f"{shortened(text)}: {error}; write {{{{ or }}}} for a brace"
    for _, found, form, conversion in parts:
        if found is not None and (found not in known or form or conversion):
            hint = did_you_mean(found, list(known)) if found not in known else "; write the name alone"
            return f"{shortened(text)}: {{{found}}} is not filled in{hint}"
    return ""


def filled(text: str, **values: str) -> str:
    """A text without a fault, with its names replaced. What stands in for a name is not read again."""
    return text.format(**values)


def unfilled_fault(text: str) -> str:
    """What is wrong with the braces of a text in which nothing is filled in; empty if nothing is."""
    found = _NAME.search(text)
    return f"{found[0]} is not filled in here" if found else ""
