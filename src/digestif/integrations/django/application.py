"""The project's engine under a name, for the command line: `digestif.integrations.django.application:digests`."""

from typing import Any

from digestif.integrations.django import engine


def __getattr__(name: str) -> Any:
    if name == "digests":
        return engine.digests()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
