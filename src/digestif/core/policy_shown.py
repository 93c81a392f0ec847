"""Policies and windows as text for people, also if they hold functions, which can't be stored."""

import re
from dataclasses import fields

from digestif.core.policy import Policy
from digestif.errors import ConfigError

DEFAULT = Policy()
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def policy_text(policy: Policy) -> str:
    """A policy as text; if it holds a function, the fields that differ from the default as they look in the code."""
    try:
        return str(policy)
    except ConfigError:
        own = [(field.name, getattr(policy, field.name)) for field in fields(Policy)]
        shown = [f"{name}={value!r}" for name, value in own if value != getattr(DEFAULT, name)]
        return _ADDRESS.sub("", f"Policy({', '.join(shown)})")


def shown(written: object) -> str:
    try:
        return str(written)
    except ConfigError:
        return _ADDRESS.sub("", repr(written))
