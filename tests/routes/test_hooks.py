"""Functions of a route: how many arguments each is given, and what is refused when the route is made."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any
from unittest.mock import MagicMock

import pytest

from digestif import ConfigError, Digests, Policy, Record
from tests.routes.recorder import Recording, T, add
from tests.worker.workers import once

# By option: what its function is given.
FORMS = {
    "policy": "(timeline)",
    "to": "(timeline)",
    "weight": "(subjects)",
    "keep": "(records) or (records, timeline)",
    "prepare": "(records) or (records, timeline)",
    "split": "(digest)",
    "zone": "(recipient) or (recipient, timeline)",
    "wording": "(recipient) or (recipient, timeline)",
    "links": "(timeline, recipient)",
    "group_by": "(record)",
    "distinct": "(record)",
}


def as_option(name: str, hook: Any) -> dict[str, Any]:
    return {name: [hook] if name == "group_by" else {"number": hook} if name == "distinct" else hook}


def none() -> None: ...


def three(a: object, b: object, c: object) -> None: ...


def keyword(*arguments: object, db: object) -> None: ...


async def three_later(a: object, b: object, c: object) -> None: ...


class Service:
    def three(self, a: object, b: object, c: object) -> None: ...

    def __call__(self) -> None: ...


@wraps(none)
def around(a: object, b: object, c: object) -> None: ...


WRONG: dict[str, Callable[..., Any]] = {
    "none": none,
    "three": three,
    "a keyword": keyword,
    "a keyword alone": lambda *, a: a,
    "a method": Service().three,
    "an object": Service(),
    "a partial": partial(three),
    "a decorator": around,
}


@pytest.mark.parametrize("hook", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("name", FORMS)
def test_a_function_that_takes_other_arguments_is_refused_when_the_route_is_made(
    digests: Digests, name: str, hook: Any
) -> None:
    with pytest.raises(ConfigError) as refused:
        digests.route("t", channel="terminal://", **as_option(name, hook))

    assert str(refused.value).startswith(name)
    assert str(refused.value).endswith(f"can't be called with {FORMS[name]}")


def test_the_refusal_says_what_the_function_takes(digests: Digests) -> None:
    complaint = r"keep: three_later\(a, b, c\) can't be called with \(records\) or \(records, timeline\)"
    with pytest.raises(ConfigError, match=complaint):
        digests.route("t", channel="terminal://", keep=three_later)  # type: ignore[arg-type]


def with_defaults(*arguments: object, a: int = 1, **others: object) -> None: ...


RIGHT: dict[str, Callable[..., Any]] = {
    "a default": lambda a, b=None: a,
    "a keyword with a default": lambda a, b=None, *, c=None: a,
    "any": with_defaults,
    "a mock": MagicMock(),
    "a partial": partial(with_defaults, 1),
    "in C": {}.get,
}


@pytest.mark.parametrize("hook", RIGHT.values(), ids=RIGHT)
@pytest.mark.parametrize("name", FORMS)
def test_a_function_that_can_be_called_is_accepted(digests: Digests, name: str, hook: Any) -> None:
    digests.route("t", channel="terminal://", **as_option(name, hook))


@pytest.mark.parametrize("name", ["keep", "prepare"])
def test_a_function_whose_parameters_are_unknown_is_accepted(digests: Digests, name: Any) -> None:
    digests.route("t", channel="terminal://", **as_option(name, dict))


def logged(hook: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(hook)
    def call(*arguments: Any, **named: Any) -> Any:
        return hook(*arguments, **named)

    return call


def with_database(hook: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(hook)
    def call(records: list[Record]) -> Any:
        return hook(records, "database")

    return call


class Keeper:
    """Hooks that note their arguments."""

    def __init__(self) -> None:
        self.given: list[tuple[str, ...]] = []

    def alone(self, records: list[Record]) -> list[Record]:
        self.given.append(())
        return records

    def both(self, records: list[Record], timeline: str) -> list[Record]:
        self.given.append((timeline,))
        return records

    async def later(self, records: list[Record], timeline: str) -> list[Record]:
        return self.both(records, timeline)

    def perhaps(self, records: list[Record], timeline: str = "default") -> list[Record]:
        return self.both(records, timeline)

    def any(self, records: list[Record], *others: str) -> list[Record]:
        self.given.append(others)
        return records

    __call__ = both


KEEPERS: dict[str, tuple[Callable[[Keeper], Any], tuple[str, ...]]] = {
    "one": (lambda keeper: keeper.alone, ()),
    "two": (lambda keeper: keeper.both, ("mail:ada",)),
    "a coroutine": (lambda keeper: keeper.later, ("mail:ada",)),
    "an object": (lambda keeper: keeper, ("mail:ada",)),
    "a partial": (lambda keeper: partial(Keeper.both, keeper), ("mail:ada",)),
    "a default": (lambda keeper: keeper.perhaps, ("default",)),
    "any number": (lambda keeper: keeper.any, ()),
    "a decorator of one": (lambda keeper: logged(keeper.alone), ()),
    "a decorator of two": (lambda keeper: logged(keeper.both), ("mail:ada",)),
    "a decorator that gives the second": (lambda keeper: with_database(keeper.both), ("database",)),
}


@pytest.mark.parametrize(("hook", "given"), KEEPERS.values(), ids=KEEPERS)
@pytest.mark.parametrize("name", ["keep", "prepare"])
def test_a_function_of_records_that_has_two_parameters_gets_the_timeline(
    digests: Digests, channel: Recording, name: str, hook: Any, given: tuple[str, ...]
) -> None:
    keeper = Keeper()
    digests.route("mail:*", channel=channel, policy=Policy(attempts=1), **as_option(name, hook(keeper)))
    add(digests, "mail:ada", "a")

    once(digests, now=T)

    assert keeper.given == [given]
    assert channel.records() == ["a"]
    assert digests.dead_letters() == []


def test_the_policy_of_an_engine_or_a_handler_is_a_function_of_the_timeline() -> None:
    with pytest.raises(ConfigError, match=r"policy: none\(\) can't be called with \(timeline\)"):
        Digests("memory://", policy=none)  # type: ignore[arg-type]
    with Digests("memory://") as digests, pytest.raises(ConfigError, match=r"policy: three\(a, b, c\) can't be called"):
        digests.handler("t", policy=three)  # type: ignore[arg-type]
