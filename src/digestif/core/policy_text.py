"""Policies as one line of text, for people and for stores: "daily@09:00 Europe/Berlin,capacity=50".

A head (default, immediate, hourly, debounce:2m/15m, or a window such as daily@…) and fields that differ from it.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from digestif.core.backoff import Exponential, Intervals, Retry
from digestif.core.durations import read_duration, written_duration
from digestif.core.texts import did_you_mean, shortened
from digestif.core.times import Duration
from digestif.core.windows import KINDS, Window
from digestif.errors import ConfigError

if TYPE_CHECKING:
    from digestif.core.policy import Policy

Options = dict[str, Any]

IMMEDIATE: Options = {"minimum_delay": 0, "increment_delay": 0, "maximum_delay": 0}
HOURLY: Options = {"minimum_delay": 3600, "increment_delay": 0, "maximum_delay": 3600}

PLAIN_HEADS: dict[str, Options] = {"default": {}, "immediate": IMMEDIATE, "hourly": HOURLY}
WRITTEN_AS_HEAD = ("daily", "weekly", "quiet")  # the windows of presets; others are written as a field

MOST_DIGITS = 19  # of a count: more than any field of a policy may have

_TOLD_BY_HEAD = ("first_delay", "minimum_delay", "increment_delay", "maximum_delay", "quiet", "backoff", "window")

_FIELD_BEGINS = re.compile(r",(?=\s*[a-z_]+\s*=)")  # so that commas in lists of days or of cron stay where they are
_FIELD = re.compile(r"\s*([a-z_]+)\s*=(.*)", re.DOTALL)


def debounce(quiet: Duration, maximum: Duration) -> Options:
    """After so much silence, at the latest so long after the first record."""
    return {**IMMEDIATE, "first_delay": quiet, "maximum_delay": maximum, "quiet": quiet}


# Reading


def read_options(text: object) -> Options:
    """The options of the policy that a text describes."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"policy: {shortened(text)} is not the text of a policy, such as daily@09:00 Europe/Berlin")
    head, *rest = _FIELD_BEGINS.split(text)
    if _FIELD.fullmatch(head):
        return _read_fields([head, *rest])
    return {**_read_head(head.strip()), **_read_fields(rest)}


def _read_head(head: str) -> Options:
    if head in PLAIN_HEADS:
        return PLAIN_HEADS[head]
    if head.startswith("debounce:"):
        quiet, slash, maximum = head.removeprefix("debounce:").partition("/")
        if not slash:
            raise ConfigError(f"policy: {shortened(head)} lacks the longest wait: debounce:2m/15m")
        return debounce(read_duration("debounce", quiet), read_duration("debounce", maximum))
    kind, at, _ = head.partition("@")
    if at and kind in KINDS:
        return _calendar(Window.parse(head))
    name, at, _ = head.casefold().partition(" ")[0].partition("@")
    known = [*PLAIN_HEADS, "debounce:2m/15m", *(f"{kind}@…" for kind in KINDS), "minimum=5m"]
    raise ConfigError(f"policy: {shortened(head)} is unknown{did_you_mean(f'{name}@…' if at else name, known)}")


def _calendar(window: Window) -> Options:
    """Times take the place of the delays, hours come beside the default ones."""
    return {**(IMMEDIATE if window.has_times else {}), "window": window}


def _read_fields(texts: list[str]) -> Options:
    options: Options = {}
    for text in texts:
        found = _FIELD.fullmatch(text)
        assert found is not None  # it was split there
        name, value = found[1], found[2].strip()
        field = next((field for field, form in _FORMS.items() if name in (field, form.name)), None)
        if field is None:
            known = [form.name for form in _FORMS.values()]
            raise ConfigError(f"{name}: no such part of a policy{did_you_mean(name, known)}")
        if field in options:
            raise ConfigError(f"{name}: given twice")
        options[field] = _FORMS[field].read(name, value)
    return options


def _read_count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise ConfigError(f"{name}: {shortened(text)} is not a whole number ≥ 1")
    return int(text)


def _read_number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name}: {shortened(text)} is not a number") from None


def _read_text(name: str, text: str) -> str:  # noqa: ARG001  # one of the readers
    return text


def _read_window(name: str, text: str) -> Window:  # noqa: ARG001
    return Window.parse(text)


def _read_backoff(name: str, text: str) -> Exponential | Intervals:
    words = text.split()
    if words[:1] == ["exponential"] and len(words) == 3:
        return Exponential(read_duration(name, words[1]), _read_count(name, words[2]))
    if words[:1] == ["intervals"] and words[-2:-1] == ["else"]:
        steps = {}
        for word in words[1:-2]:
            iteration, _, delay = word.partition(":")
            steps[_read_count(name, iteration)] = read_duration(name, delay)
        return Intervals(steps, read_duration(name, words[-1]))
    raise ConfigError(f"{name}: {shortened(text)} is neither exponential 5m 2 nor intervals 0:30s 1:5m else 15m")


def _read_retry(name: str, text: str) -> Retry:
    found = re.fullmatch(r"(.+)\*(.+)\.\.(.+)~(.+)", text)
    if found is None:
        raise ConfigError(
            f"{name}: {shortened(text)} is not a ladder such as 5s*2..1h~0.2: initial*factor..maximum~jitter"
        )
    initial, factor, maximum, jitter = found.groups()
    return Retry(
        initial=read_duration(name, initial),
        factor=_read_number(name, factor),
        maximum=read_duration(name, maximum),
        jitter=_read_number(name, jitter),
    )


# Writing


def written(policy: "Policy") -> str:
    """The text of a policy. ConfigError, with the field's name, if it holds a callable."""
    for field in ("backoff", "window"):  # first, because a head may leave them out
        _FORMS[field].write(getattr(policy, field))
    head, base = next(_heads(policy))
    texts = [head] if head else []
    for field, form in _FORMS.items():
        value = getattr(policy, field)
        if value != (policy.default_ttl if field == "ttl" else getattr(base, field)):
            texts.append(f"{form.name}={form.write(value)}")
    return ",".join(texts) or "default"


def _heads(policy: "Policy") -> Iterator[tuple[str, "Policy"]]:
    """The heads that fit, each with the policy that it stands for; at last an empty one."""
    for text, options in _possible_heads(policy):
        base = type(policy)(**options, ttl=None)
        if all(getattr(base, field) == getattr(policy, field) for field in _TOLD_BY_HEAD if field in options):
            yield text, base
    yield "", type(policy)()


def _possible_heads(policy: "Policy") -> Iterator[tuple[str, Options]]:
    window = policy.window
    if window is not None and len(window.rules) == 1 and window.rules[0].kind in WRITTEN_AS_HEAD:
        yield str(window), _calendar(window)
    if policy.quiet is not None and policy.quiet <= policy.maximum_delay:
        text = f"debounce:{written_duration(policy.quiet)}/{written_duration(policy.maximum_delay)}"
        yield text, debounce(policy.quiet, policy.maximum_delay)
    yield "immediate", IMMEDIATE
    yield "hourly", HOURLY


def _write_backoff(backoff: object) -> str:
    if type(backoff) is Exponential:
        return f"exponential {written_duration(backoff.base)} {backoff.limit}"
    if type(backoff) is Intervals:
        if (last := max(backoff.steps, default=0)) >= 10**MOST_DIGITS:
            raise ConfigError(f"backoff: iteration {shortened(last)} has too many digits and can't be written as text")
        steps = [f"{iteration}:{written_duration(delay)}" for iteration, delay in sorted(backoff.steps.items())]
        return " ".join(["intervals", *steps, "else", written_duration(backoff.default)])
    raise ConfigError(
        f"backoff: {shortened(backoff)} is a callable, which can't be written as text; use Exponential or Intervals"
    )


def _write_retry(retry: Retry) -> str:
    if type(retry) is not Retry:
        raise ConfigError(f"retry: {shortened(retry)} can't be written as text; use a Retry")
    waits = f"{written_duration(retry.initial)}*{_write_number(retry.factor)}..{written_duration(retry.maximum)}"
    return f"{waits}~{_write_number(retry.jitter)}"


def _write_number(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))


class _Form(NamedTuple):
    """How a field of a policy is named, read and written."""

    name: str
    read: Callable[[str, str], Any]
    write: Callable[[Any], str]


def _optional(form: _Form) -> _Form:
    return _Form(
        form.name,
        lambda name, text: None if text == "none" else form.read(name, text),
        lambda value: "none" if value is None else form.write(value),
    )


def name_of(field: str) -> str:
    """The name of a policy's field in a text."""
    return _FORMS[field].name


_FORMS = {
    "first_delay": _Form("first", read_duration, written_duration),
    "minimum_delay": _Form("minimum", read_duration, written_duration),
    "increment_delay": _Form("increment", read_duration, written_duration),
    "maximum_delay": _Form("maximum", read_duration, written_duration),
    "quiet": _optional(_Form("quiet", read_duration, written_duration)),
    "backoff": _optional(_Form("backoff", _read_backoff, _write_backoff)),
    "max_records": _optional(_Form("max_records", _read_count, str)),
    "capacity": _optional(_Form("capacity", _read_count, str)),
    "max_bytes": _optional(_Form("max_bytes", _read_count, str)),
    "ttl": _optional(_Form("ttl", read_duration, written_duration)),
    "attempts": _Form("attempts", _read_count, str),
    "retry": _Form("retry", _read_retry, _write_retry),
    "lapses": _Form("lapses", _read_count, str),
    "give_up_after": _optional(_Form("give_up_after", read_duration, written_duration)),
    "redelivery": _Form("redelivery", _read_text, str.__str__),
    "window": _optional(_Form("window", _read_window, str)),
}
