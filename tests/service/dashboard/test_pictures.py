"""Curves and the picture of a timeline's life: numbers from samples, history and records."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from digestif import Outcome, Record
from digestif.core.records import HistoryEntry
from digestif.core.samples import Sample
from digestif.ids import fresh_key, time_of
from digestif.service.dashboard.life import life
from digestif.service.dashboard.rendering import environment, percent, prose, visible
from digestif.service.dashboard.series import POINTS, rates, series, totals

NOW = 1_800_000_000.0


def sample(
    at: float, accepted: int, digests: int = 0, pending: int = 0, late: float = 0, delivered: int = 0
) -> Sample:
    given = {
        "at": at, "accepted": accepted, "digests": digests, "pending": pending, "late": late, "delivered": delivered,
    }  # fmt: skip
    return Sample(**{**{field.name: 0 for field in fields(Sample)}, **given})  # type: ignore[arg-type]


def test_curves_are_rates_a_minute_between_samples() -> None:
    samples = [sample(NOW - 30, 100), sample(NOW - 20, 110, 1), sample(NOW - 10, 130, 2, pending=7, late=3)]

    curves = series(samples, now=NOW, length=3600)
    known = [(events, messages) for events, messages in zip(curves.events, curves.messages, strict=True) if events]

    assert len(curves.at) == POINTS
    assert known == [(90.0, 6.0)]
    assert [value for value in curves.pending if value] == [7]
    assert [value for value in curves.late if value] == [3]


def test_counters_that_were_set_back_count_from_there() -> None:
    samples = [
        sample(NOW - 30, 1000, 50, delivered=900),
        sample(NOW - 20, 5, 0, delivered=0),
        sample(NOW - 10, 25, 2, delivered=20),
    ]

    found = totals(samples, since=NOW - 60)

    assert (found.events, found.delivered, found.messages) == (20, 20, 2)
    assert found.removed == 0.9
    assert totals([], since=0).removed is None
    assert rates(samples, now=NOW).events == 60.0


def test_rates_say_over_how_many_minutes_they_are() -> None:
    day = [sample(NOW - 10 * number, 1000 - number) for number in range(8640, 0, -1)]

    assert (rates(day, now=NOW).events, rates(day, now=NOW).period) == (6.0, 10)
    assert rates(day[-20:], now=NOW).period == 3
    assert rates(day[-2:], now=NOW).period == 1
    assert rates(day[-1:], now=NOW).period == 0


def test_records_that_were_not_delivered_are_no_noise_removed() -> None:
    samples = [sample(NOW - 30, 0), sample(NOW - 10, 46, 16, delivered=32)]

    found = totals(samples, since=NOW - 60)

    assert found.removed == 0.5
    assert totals([sample(NOW - 30, 0), sample(NOW - 10, 46)], since=NOW - 60).removed is None


def entry(ended: float, *keys: str, records: int = 1, outcome: Outcome = Outcome.DELIVERED) -> HistoryEntry:
    return HistoryEntry(
        id="d", timeline="t", outcome=outcome, revision=0, attempts=1, records=records, dropped=0, opened=ended,
        ended=ended, keys=keys,
    )  # fmt: skip


def test_a_life_has_a_dot_for_each_arrival_a_bar_for_each_delivery_and_the_due_time_ahead() -> None:
    key = f"{int((NOW - 500) * 1000):012x}000000000000"
    explanation = SimpleNamespace(state="waiting", next=NOW + 300, latest=NOW + 900)

    picture = life(
        [Record("own key", 1, NOW - 60)],
        [entry(NOW - 100, "k", records=4), entry(NOW - 400, key)],
        explanation,  # type: ignore[arg-type]
        now=NOW,
    )

    assert [(dot.key, dot.is_pending) for dot in picture.dots] == [(key, False), ("own key", True)]
    assert [bar.records for bar in picture.bars] == [1, 4]
    assert [round(bar.height, 2) for bar in picture.bars] == [0.5, 1.0]
    assert picture.due is not None
    assert picture.latest is not None
    assert picture.dots[0].x < picture.bars[0].x < picture.dots[1].x < picture.now < picture.due < picture.latest <= 100


@pytest.mark.parametrize(("times", "words"), [(1, "1 arrival, 1 delivery"), (2, "2 arrivals, 2 deliveries")])
def test_the_label_of_a_picture_has_the_nouns_that_go_with_its_numbers(times: int, words: str) -> None:
    explanation: Any = SimpleNamespace(state="idle", next=None, latest=None)
    records = [Record(f"r{number}", 1, NOW - number) for number in range(times)]
    drawn = life(records, [entry(NOW - number) for number in range(times)], explanation, now=NOW)

    label = str(environment().get_template("life.html").module.picture(drawn, NOW))  # type: ignore[attr-defined]

    assert f'aria-label="Arrivals and deliveries of this timeline: {words}"' in label
    assert "1 record<" in label


def test_an_arrival_that_claims_to_be_years_old_does_not_squeeze_the_others() -> None:
    explanation: Any = SimpleNamespace(state="idle", next=None, latest=None)
    records = [Record("old", 1, 0.0), *(Record(f"r{number}", 1, NOW - 10 * number) for number in range(1, 9))]

    picture = life(records, [], explanation, now=NOW)

    assert len(picture.dots) == 8
    assert picture.dots[-1].x - picture.dots[0].x > 30


def test_fresh_keys_tell_when_they_were_made_and_others_do_not() -> None:
    at = time_of(fresh_key())

    assert at is not None
    assert at > NOW - 10 * 365 * 86_400
    assert time_of("order-4711") is None
    assert time_of("é" * 24) is None


def test_what_can_not_be_seen_is_shown_and_emoji_stay_whole() -> None:
    assert visible("a\u202eb\x00\u200b\n") == "a\\u202eb\\x00\\u200b\\n"
    assert visible("👩‍💻") == "👩‍💻"


def test_a_share_is_never_rounded_up_to_all() -> None:
    assert [percent(share) for share in (0.0, 0.5, 0.9999, 1.0, None)] == ["0 %", "50.0 %", "99.9 %", "100 %", "–"]


def test_sentences_carry_their_times_as_times() -> None:
    text = str(prose("due 2026-11-17T16:14:52.000Z; `flush` <b>"))

    assert '<time datetime="2026-11-17T16:14:52.000Z"' in text
    assert "<code>flush</code> &lt;b&gt;" in text


@pytest.mark.parametrize("time", ["2026-99-99T99:99:99Z", "2026-11-17T16:14:52+99:99", "0000-01-01T00:00:00Z"])
def test_what_only_looks_like_a_time_stays_as_it_is(time: str) -> None:
    assert str(prose(f"the server said {time}")) == f"the server said {time}"
