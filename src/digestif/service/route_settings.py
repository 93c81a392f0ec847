"""Reads the routes of a file of settings."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from digestif.core.durations import read_duration
from digestif.core.policy import Policy
from digestif.core.secret import Secret
from digestif.core.texts import did_you_mean, shortened
from digestif.errors import ConfigError
from digestif.service import addresses
from digestif.service.problems import Problems
from digestif.service.settings import RouteSettings

# The options of `Digests.route` that are no functions, beside pattern and channel.
OPTIONS = (
    "policy",
    "redelivery",
    "group_by",
    "distinct",
    "top",
    "items",
    "details",
    "weight",
    "order",
    "template",
    "templates",
    "to",
    "budget",
    "zone",
    "hours",
    "wording",
    "links",
    "title",
    "brand",
    "reason",
    "digest",
)
NAMES = ("pattern", "channel", *OPTIONS)
_CHANNEL_NAME = re.compile(r"[\w.-]{1,40}")
_STAND_IN = "terminal://"  # a channel, to check the options alone


def read(
    given: Sequence[Mapping[str, Any]],
    problems: Problems,
    *,
    policies: Mapping[str, Policy],
    channels: Mapping[str, Any],
    folder: Path,
) -> tuple[RouteSettings, ...]:
    """The routes. What is wrong is added to the problems."""
    routes = []
    patterns: dict[str, int] = {}
    for index, one in enumerate(given):
        reader = _Reader(f"routes[{index}]", problems, policies, channels, folder)
        route = reader.read(one)
        if route is None:
            continue
        if route.pattern in patterns:
            problems.add(f"routes[{index}].pattern", f"{route.pattern!r} is that of routes[{patterns[route.pattern]}]")
        patterns.setdefault(route.pattern, index)
        routes.append(route)
    return tuple(routes)


def policy_of(value: object, policies: Mapping[str, Policy]) -> Policy:
    """A policy: the name of one in the file, or a text."""
    if isinstance(value, str) and value in policies:
        return policies[value]
    try:
        return Policy.parse(value)  # type: ignore[arg-type]  # it says what is wrong
    except ConfigError as error:
        hint = did_you_mean(str(value), list(policies), or_all=False) if policies else ""
        if hint:
            raise ConfigError(f"{shortened(value)} is neither a policy of the file nor the text of one{hint}") from None
        raise ConfigError(str(error).removeprefix("policy: ")) from None


class _Reader:
    """Reads one route."""

    def __init__(
        self, path: str, problems: Problems, policies: Mapping[str, Policy], channels: Mapping[str, Any], folder: Path
    ) -> None:
        self._path = path
        self._problems = problems
        self._policies = policies
        self._channels = channels
        self._folder = folder

    def read(self, given: Mapping[str, Any]) -> RouteSettings | None:
        """None if something is wrong."""
        for name in given:
            if name not in NAMES:
                self._problems.add(f"{self._path}.{name}", f"there is no such setting{did_you_mean(name, list(NAMES))}")
        pattern = given.get("pattern")
        if not isinstance(pattern, str):
            self._problems.add(f"{self._path}.pattern", 'is missing: which timelines, such as "mail:*"')
            pattern = "*"
        before = len(self._problems)
        channel = self._channel(given.get("channel"))
        options = self._options(given)
        is_good = self._stands(pattern, channel or _STAND_IN, options)
        if not is_good or channel is None or len(self._problems) > before:
            return None
        return RouteSettings(pattern=pattern, channel=Secret(channel), options=options)

    def _channel(self, value: object) -> str | None:
        """The DSN of a channel, which may be named. None if there is none, which is a problem."""
        path = f"{self._path}.channel"
        if not isinstance(value, str) or not value:
            self._problems.add(
                path, "is missing: the name of a channel of the file, or a DSN such as smtp://mail.example"
            )
            return None
        if "://" in value:
            return addresses.relative_to(self._folder, value)
        found = self._channels.get(value)
        if not isinstance(found, str):
            names = list(self._channels)
            hint = did_you_mean(value, names) if names else "; there is no table [channels]"
            shown = repr(value) if _CHANNEL_NAME.fullmatch(value) else "that"  # a mistyped DSN may hold a password
            self._problems.add(path, f"{shown} is neither a channel of the file nor a DSN{hint}")
            return None
        return addresses.relative_to(self._folder, found)

    def _options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options that can be read. What is wrong with the others is reported."""
        options: dict[str, Any] = {}
        for name in OPTIONS:
            if name in given:
                with self._problems.at(f"{self._path}.{name}"):
                    options[name] = self._option(name, given[name])
        return options

    def _option(self, name: str, value: Any) -> Any:
        if name == "policy":
            return policy_of(value, self._policies)
        if name == "budget":
            return _budget(value)
        if name == "templates" and isinstance(value, str):
            return str(self._folder / value)
        return value

    def _stands(self, pattern: str, channel: str, options: dict[str, Any]) -> bool:
        """True if a route can be made of it; otherwise each part is tried alone, to report all that is wrong."""
        try:
            _try(pattern, channel, options)
        except ConfigError as error:
            before = len(self._problems)
            self._try_parts(pattern, channel, options)
            if len(self._problems) == before:
                self._problems.add(self._path, str(error))
            return False
        return True

    def _try_parts(self, pattern: str, channel: str, options: dict[str, Any]) -> None:
        with self._problems.at(f"{self._path}.pattern"):
            _try(pattern, _STAND_IN, {})
        with self._problems.at(f"{self._path}.channel"):
            _try("*", channel, {})
        for name, value in options.items():
            with self._problems.at(f"{self._path}.{name}"):
                beside = {"templates": options["templates"]} if name == "template" and "templates" in options else {}
                _try("*", _STAND_IN, {**beside, name: value})


def _try(pattern: str, channel: str, options: Mapping[str, Any]) -> None:
    """Make a route on an engine that stores nothing."""
    from digestif.digests import Digests

    with Digests("off://") as digests:
        digests.route(pattern, channel=channel, **options)


def _budget(value: object) -> Any:
    """A budget such as { messages = 5, per = "1h" }."""
    from digestif.routes.budget import Budget

    if not isinstance(value, Mapping) or set(value) != {"messages", "per"}:
        raise ConfigError('is not written as { messages = 5, per = "1h" }')
    per = value["per"]
    return Budget(value["messages"], read_duration("per", per) if isinstance(per, str) else per)
