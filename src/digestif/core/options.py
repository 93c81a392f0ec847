"""Options by name: one that does not exist is refused, with the one that may be meant."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from digestif.core.texts import did_you_mean
from digestif.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")

SYNONYMS = {"zone": "tz", "timezone": "tz", "time_zone": "tz"}


def check_names(options: Iterable[str], known: list[str], *, of: str) -> None:
    """Raises ConfigError for an option that is not known, with the one that may be meant."""
    for name in options:
        if name not in known:
            meant = SYNONYMS.get(name, name)
            raise ConfigError(f"{name}: no such option of {of}{did_you_mean(meant, known)}")


def refuse_misspelt(call: Callable[P, R]) -> Callable[P, R]:
    """Let a method answer an unknown option with a ConfigError, before Python names one that is missing.

    If it takes the options of its dataclass as well, these are known too.
    """
    _, *parameters = signature(call).parameters.values()
    own = [each.name for each in parameters if each.kind in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    is_open = any(each.kind is Parameter.VAR_KEYWORD for each in parameters)
    shown = call.__qualname__.removesuffix(".__init__")

    @wraps(call)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        cls: Any = args[0]
        known = [*own, *(field.name for field in fields(cls))] if is_open else own
        check_names(options, known, of=shown)
        return call(*args, **options)

    return checked
