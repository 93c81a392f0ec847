"""Cadences in words: how often messages come by a policy, as a reader understands it."""

import re

from digestif.compose.times import Times
from digestif.compose.wording import Wording
from digestif.core.policy import Policy
from digestif.core.windows import Window

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TIMES = ("daily", "weekly", "monthly")  # kinds of windows that read as words; cron does not
LAST_DAY = "last"
_DAY = re.compile(rf"\b({'|'.join(DAYS)})\b")
_TIME = re.compile(r"\b(\d\d):(\d\d)\b")


def cadence_of(policy: Policy, times: Times) -> str:
    """Return how often messages come, such as "daily at 09:00 Europe/Berlin"; nothing if there is no phrase for it."""
    words, window = times.wording, policy.window
    text = _delays(policy, words) if window is None or not window.has_times else _times(window, times)
    if not text:
        return ""
    if policy.max_records is not None:
        text = words.cadence_full.format(cadence=text, records=words.records(policy.max_records))
    return text if window is None else _within_hours(text, window, times)


def _delays(policy: Policy, words: Wording) -> str:
    record, span = words.form(words.record, 1), words.duration
    if policy.quiet is not None:
        quiet, maximum = span(policy.quiet), span(policy.maximum_delay)
        return words.cadence_quiet.format(record=record, quiet=quiet, maximum=maximum)
    first = (
        words.cadence_after.format(delay=span(policy.first_delay)) if policy.first_delay else words.cadence_immediately
    )
    if policy.backoff is not None:
        return words.cadence_delays.format(record=record, first=first, pause=words.cadence_pause)
    if not policy.minimum_delay and not policy.increment_delay:
        return (words.cadence_gathered if policy.first_delay else words.cadence_each).format(
            record=record, delay=span(policy.first_delay)
        )
    minimum, maximum = span(policy.minimum_delay), span(policy.maximum_delay)
    is_fixed = not policy.increment_delay or minimum == maximum
    pause = (words.cadence_fixed if is_fixed else words.cadence_between).format(minimum=minimum, maximum=maximum)
    return words.cadence_delays.format(record=record, first=first, pause=pause)


def _times(window: Window, times: Times) -> str:
    """Return the times of a window, if one rule that reads as words has them all."""
    words = times.wording
    rules = [rule for rule in window.rules if rule.kind not in ("hours", "quiet")]
    if len(rules) != 1 or rules[0].kind not in TIMES:
        return words.cadence_times
    [rule] = rules
    day, _, spec = rule.spec.partition(" ") if rule.kind == "monthly" else ("", "", rule.spec)
    phrase = {"daily": words.cadence_daily, "weekly": words.cadence_weekly, "monthly": words.cadence_monthly}[rule.kind]
    phrase = words.cadence_month_end if day == LAST_DAY else phrase
    return phrase.format(day=day, times=_localized(spec, times), zone=_zone(rule.tz)).strip()


def _within_hours(text: str, window: Window, times: Times) -> str:
    words = times.wording
    for rule in window.rules:
        if rule.kind in ("hours", "quiet"):
            phrase = words.cadence_hours if rule.kind == "hours" else words.cadence_not
            hours = phrase.format(cadence=text, hours=_localized(rule.spec, times), zone=_zone(rule.tz))
            text = hours.strip()
    return text


def _zone(tz: object) -> str:
    """Return the name of a zone; nothing for a function, which knows it only for a timeline."""
    return tz if isinstance(tz, str) else ""


def _localized(spec: str, times: Times) -> str:
    """Return days and times of day as the reader writes them."""
    text = spec.replace("+", ", ").replace("-", "–")
    text = _DAY.sub(lambda found: times.wording.days[DAYS.index(found[1])], text)
    return _TIME.sub(lambda found: times.time_of_day(int(found[1]), int(found[2])), text)
