"""Cadences: the names under which people choose a policy, and what they chose."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from digestif.core.policy import Policy
from digestif.core.policy_shown import policy_text
from digestif.core.texts import did_you_mean, shortened
from digestif.core.windows import check_zone
from digestif.errors import ConfigError


class Off(Enum):
    """No digest at all."""

    OFF = "off"


Choice = Policy | Literal[Off.OFF]

_NAME = re.compile(r"\w[\w .:-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """The policy of a timeline, and where it comes from."""

    policy: Policy
    source: str  # override, cadence NAME, handler PATTERN, route PATTERN, engine
    failure: str | None = None  # why the policy can't be told for which this one stands in
    off: bool = False  # no record is accepted; the policy is that in the code, for a digest that is still open


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """What a person chose for a timeline."""

    cadence: str
    zone: str | None  # the time zone that was given
    policy: Policy | None  # None: off

    def __str__(self) -> str:
        zone = "" if self.zone is None else f" ({self.zone})"
        return f"{self.cadence}{zone}" + ("" if self.policy is None else f": {policy_text(self.policy)}")


class Cadences(Mapping[str, Choice]):
    """The cadences that people can choose from: names, each for a Policy or for `Cadences.OFF`.

    There are off, instant, hourly, daily (at 09:00) and weekly (Mondays at 09:00), the last two in UTC unless a person
    gives a time zone. Others are added, and these replaced, by keyword or by a mapping. A policy may also be given as
    its text.
    """

    OFF = Off.OFF

    def __init__(self, own: Mapping[str, Choice | str] | None = None, /, **more: Choice | str) -> None:
        if own is not None and not isinstance(own, Mapping):
            raise ConfigError(f"cadences: {shortened(own)} is not a mapping from names to policies")
        chosen = {name: _checked(name, choice) for name, choice in {**(own or {}), **more}.items()}
        self._choices: dict[str, Choice] = {**_defaults(), **chosen}

    def __getitem__(self, name: str) -> Choice:
        return self._choices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def __repr__(self) -> str:
        return f"Cadences({', '.join(self._choices)})"

    def choose(self, name: object, *, zone: str | None = None) -> Choice:
        """What a name stands for, its window in the given time zone. ConfigError if the name or the zone is unknown."""
        if isinstance(name, str) and "@" in name:
            raise ConfigError(
                f"cadence: {shortened(name)} has times, which a cadence has under a name; set_policy takes the text of "
                "a policy, such as daily@08:00 Europe/Berlin, or add a cadence: Cadences(early=…)"
            )
        if not isinstance(name, str) or name not in self._choices:
            raise ConfigError(f"cadence: {shortened(name)} is unknown{did_you_mean(str(name), list(self))}")
        if zone is not None:
            check_zone(zone)
        choice = self._choices[name]
        if zone is None or not isinstance(choice, Policy) or choice.window is None:
            return choice
        return choice.in_zone(zone)

    def texts(self) -> dict[str, str]:
        """The policies as text, by name."""
        return {name: text_of(choice) for name, choice in self._choices.items()}


def text_of(choice: Choice) -> str:
    """A choice as it is stored. ConfigError if the policy holds a function."""
    return str(choice) if isinstance(choice, Policy) else choice.value


def _checked(name: object, choice: object) -> Choice:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"cadences: {shortened(name)} is not a name of 1 to 64 letters, digits, blanks, _ . : or -, "
            "the first a letter, a digit or _"
        )
    if not isinstance(choice, str | Policy | Off):
        raise ConfigError(f"cadences: {name}: {shortened(choice)} is neither a Policy nor Cadences.OFF")
    try:
        found = Policy.parse(choice) if isinstance(choice, str) else choice
        text_of(found)
    except ConfigError as error:
        raise ConfigError(f"cadences: {name}: {error}") from None
    return found


def _defaults() -> dict[str, Choice]:
    return {
        "off": Off.OFF,
        "instant": Policy.immediate(),
        "hourly": Policy.hourly(),
        "daily": Policy.daily("09:00", tz="UTC"),
        "weekly": Policy.weekly("mon 09:00", tz="UTC"),
    }
