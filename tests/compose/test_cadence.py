"""Cadences: how often messages come, in words that a reader understands and a wording can replace."""

from typing import Any

import pytest

from digestif import Exponential, Policy, Window
from digestif.compose.cadence import cadence_of
from digestif.compose.grouping import summarize
from digestif.compose.renderer import Renderer
from digestif.compose.times import Times
from digestif.compose.wording import wording_of
from digestif.core.records import Record

BERLIN = "Europe/Berlin"
DEFAULT_PAUSE = "at least 5 minutes and at most 30 minutes after the last message"
NINE = Window.daily("09:00", tz=BERLIN)


def words(policy: Policy, *, hours: Any = 24, **wording: Any) -> str:
    return cadence_of(policy, Times("UTC", hours, wording_of(wording)))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy.immediate(), "each event immediately"),
        (
            Policy(),
            f"the first event immediately, further ones together, {DEFAULT_PAUSE}",
        ),
        (Policy.hourly(), "the first event immediately, further ones together, 1 hour after the last message"),
        (
            Policy(first_delay=90),
            f"the first event after 1 minute 30 seconds, further ones together, {DEFAULT_PAUSE}",
        ),
        (
            Policy(first_delay=60, minimum_delay=0, increment_delay=0),
            "1 minute after the first event, with those that follow it",
        ),
        (Policy.debounce(120, 900), "after 2 minutes without a new event, at most 15 minutes after the first"),
        (
            Policy(backoff=Exponential(60, 8)),
            "the first event immediately, further ones together, after a pause",
        ),
        (Policy(window=NINE), "daily at 09:00 Europe/Berlin"),
        (Policy.daily("09:00", "17:30", tz="UTC"), "daily at 09:00, 17:30 UTC"),
        (Policy.weekly("mon-fri 08:30", tz=BERLIN), "weekly on Mon–Fri 08:30 Europe/Berlin"),
        (Policy(window=Window.monthly(1, "08:00", tz="UTC")), "monthly on day 1 at 08:00 UTC"),
        (Policy(window=Window.monthly(-1, "08:00", tz="UTC")), "monthly on the last day at 08:00 UTC"),
        (Policy(window=Window.cron("*/20 8-18 * * 1-5", tz="UTC")), "at set times"),
        (Policy.daily("09:00", tz=lambda _: "UTC"), "daily at 09:00"),
        (
            Policy(minimum_delay=0, increment_delay=0, window=Window.hours("mon-fri 08:00-18:00", tz="UTC")),
            "each event immediately, only Mon–Fri 08:00–18:00 UTC",
        ),
        (
            Policy(minimum_delay=0, increment_delay=0, window=Window.quiet("22:00-07:00", tz="UTC")),
            "each event immediately, not 22:00–07:00 UTC",
        ),
        (
            Policy(max_records=1000, window=NINE),
            "daily at 09:00 Europe/Berlin, or as soon as there are 1,000 events",
        ),
    ],
)
def test_a_policy_reads_as_a_sentence(policy: Policy, expected: str) -> None:
    assert words(policy) == expected


def test_times_are_written_on_the_clock_of_the_reader() -> None:
    open_late = Policy(minimum_delay=0, increment_delay=0, window=Window.hours("mon 08:00-24:00", tz="UTC"))

    assert words(Policy.daily("09:00", "17:30", tz="UTC"), hours=12) == "daily at 9:00 am, 5:30 pm UTC"
    assert words(open_late, hours=12) == "each event immediately, only Mon 8:00 am–12:00 am UTC"
    assert words(open_late) == "each event immediately, only Mon 08:00–00:00 UTC"


def test_every_phrase_can_be_said_in_another_language() -> None:
    german = {
        "record": ("Kommentar", "Kommentare"),
        "cadence_delays": "der erste {record} {first}, weitere gesammelt, {pause}",
        "cadence_immediately": "sofort",
        "cadence_between": "{minimum} bis {maximum} nach der letzten Nachricht",
        "in_minutes": lambda number: "Minute" if number == 1 else "Minuten",
    }

    assert words(Policy(), **german) == (
        "der erste Kommentar sofort, weitere gesammelt, 5 Minuten bis 30 Minuten nach der letzten Nachricht"
    )


def test_the_foot_says_why_and_how_often_in_each_format() -> None:
    summary = summarize([Record("1", {"title": "Tea"}, 0.0)])
    formats = ["text", "html", "markdown", "slack"]

    made = Renderer().render(summary, formats=formats, reason="You watch <tea>.", policy=Policy.immediate())

    assert made.text.endswith("\nYou watch <tea>. How often: each event immediately.\n")
    assert "You watch &lt;tea&gt;. How often: each event immediately." in made.html
    assert "You watch \\<tea\\>. How often: each event immediately" in made.markdown
    assert "You watch &lt;tea&gt;. How often: each event immediately." in made.blocks[-1]["elements"][0]["text"]


def test_the_foot_says_nothing_of_what_is_not_known_or_not_wanted() -> None:
    summary = summarize([Record("1", {"title": "Tea"}, 0.0)])

    unknown = Renderer().render(summary, formats=["text"]).text
    unwanted = Renderer(wording={"how_often": ""}).render(summary, formats=["text"], policy=Policy()).text

    assert unknown == unwanted
    assert "How often" not in unknown
