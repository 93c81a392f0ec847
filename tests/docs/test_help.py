"""`help` names every option with its default and a line about it: docstring and declaration agree."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

import pytest

from digestif import AsyncDigests, Digests, Policy, Retry
from digestif.routes.route import Route, RouteOptions

LINE = re.compile(r"^- (\w+)=(.+?): (\S.*)$", re.MULTILINE)
UNSET: Mapping[str, Any] = {"Retry": Retry}


def options_in(documented: object) -> dict[str, Any]:
    """The options that a docstring lists, with their defaults."""
    found = LINE.findall(inspect.getdoc(documented) or "")
    return {name: eval(default, dict(UNSET)) for name, default, _ in found}


def default_of(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def test_help_of_a_policy_shows_every_option_with_its_default() -> None:
    assert [*options_in(Policy).items()] == [(field.name, default_of(field)) for field in fields(Policy)]


@pytest.mark.parametrize("route", [Digests.route, AsyncDigests.route])
def test_help_of_route_shows_every_option_with_its_default(route: Callable[..., Any]) -> None:
    declared = {field.name: default_of(field) for field in fields(Route) if field.name not in ("pattern", "channel")}

    assert options_in(route) == declared, "each option of Route needs its line in the docstring of Digests.route"
    assert [*options_in(route)] == [*RouteOptions.__annotations__]


@pytest.mark.parametrize("handler", [Digests.handler, AsyncDigests.handler])
def test_help_of_handler_shows_every_option_with_its_default(handler: Callable[..., Any]) -> None:
    declared = [each for each in inspect.signature(handler).parameters.values() if each.default is not each.empty]

    assert options_in(handler) == {each.name: each.default for each in declared}
