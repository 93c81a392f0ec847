"""Functions that users give: how many arguments each takes, found out when it is given, not when it is first called."""

import sys
from collections.abc import Callable
from inspect import Signature, signature
from typing import Any

from digestif.core.texts import shortened_text
from digestif.errors import ConfigError

_OPTIONS: dict[str, Any] = {}
if sys.version_info >= (3, 14):  # annotations may name what is imported for type checkers only
    from annotationlib import Format

    _OPTIONS["annotation_format"] = Format.FORWARDREF


def check_hook(option: str, hook: Callable[..., Any], *forms: str) -> None:
    """Raise ConfigError unless a function takes the arguments of one of the forms, such as `records, timeline`.

    A function whose signature can't be read, such as some that are written in C, is believed to.
    """
    own = _signature(hook, follow_wrapped=False)
    if own is None or any(_takes(own, _count(form)) for form in forms):
        return
    name = getattr(hook, "__name__", type(hook).__name__)
    given = shortened_text(f"{name}({', '.join(own.parameters)})", 80)
    wanted = " or ".join(f"({form})" for form in forms)
    raise ConfigError(f"{option}: {given} can't be called with {wanted}")


def accepted(hook: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """The arguments that a function is called with: the first alone if that is enough for it, else all of them.

    A decorator may have made a function that takes any arguments. Then the decorated one decides.
    """
    own, inner = (_signature(hook, follow_wrapped=follow) for follow in (False, True))
    if own is None or inner is None or not _takes(own, len(arguments)):
        return arguments[:1]
    needs_all = not _takes(own, 1) or (not _takes(inner, 1) and _takes(inner, len(arguments)))
    return arguments if needs_all else arguments[:1]


def _signature(hook: Callable[..., Any], *, follow_wrapped: bool) -> Signature | None:
    try:
        return signature(hook, follow_wrapped=follow_wrapped, **_OPTIONS)
    except (TypeError, ValueError):  # of a function in C, say
        return None


def _takes(found: Signature, count: int) -> bool:
    try:
        found.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _count(form: str) -> int:
    return len(form.split(", "))
