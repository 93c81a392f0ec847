"""What holds for every window, compared with the oracle. The tests ask for some examples, torture for many."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from digestif.core.machine import Slot, Unfinished
from digestif.core.records import State
from digestif.core.windows import Window, admission
from tests.core.calendar_oracle import DAY, Oracle, Spans, around, combined, instants, rules

FEWEST, MOST = 4, 32
JUDGED = round(datetime(2028, 1, 1, tzinfo=UTC).timestamp() * 1000)
reaches = st.sampled_from([0, 1_800_000, 3 * DAY])
names = st.text(min_size=1, max_size=8)


@dataclass
class Life:
    """A window, what the oracle says about it, and some instants in no order, each with a slot."""

    window: Window | None
    oracle: Oracle
    moments: list[tuple[int, Slot]]
    reach: int


@st.composite
def slots(draw: st.DrawFn, at: int) -> Slot:
    due = at + draw(st.integers(-2 * DAY, DAY))
    return Slot(
        State.READY,
        at=due,
        by_delays=draw(st.none() | st.integers(-DAY, 0).map(lambda earlier: due + earlier)),
        last=draw(st.none() | st.integers(-3 * DAY, 0).map(lambda before: at + before)),
        pending=1,
        passes=draw(st.sampled_from([False, False, False, True])),
        digest=draw(st.none() | st.just(Unfinished(id="d", batch=0, records=1, opened=0))),
    )


@st.composite
def lives(draw: st.DrawFn, counts: tuple[int, int]) -> Life:
    chosen = draw(rules(counts))
    at = draw(instants(chosen[0].zone))
    spread = (75 if any(rule.make in (Window.monthly, Window.cron) for rule in chosen) else 18) * DAY
    oracle = Oracle(chosen, draw(names), at - spread, at + spread)
    moments = [at, *(at + draw(st.integers(-3 * DAY, 3 * DAY)) for _ in range(2))]
    edges = [*oracle.times, *(number for span in oracle.spans for number in span)]
    near = [edge for edge in edges if abs(edge - at) < 3 * DAY]
    if near:
        edge = draw(st.sampled_from(near))
        moments += [edge - 1, edge]
    return Life(combined(chosen), oracle, [(now, draw(slots(now))) for now in moments], draw(reaches))


def examples(count: int) -> settings:
    """So many of them, however long each takes."""
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


def check(life: Life) -> None:
    """Everything at once: it takes longer to make an oracle than to ask it."""
    if life.window is None:
        check_never_opens(life.oracle)
        return
    for now, slot in life.moments:
        check_first(life.window, life.oracle, now)
        check_openings(life.window, life.oracle, now, reach=life.reach)
        check_admission(life.window, life.oracle, slot, now=now)


def check_never_opens(oracle: Oracle) -> None:
    """From today's rules for clocks: in the past, zones may have had an hour in common."""
    if oracle.since > JUDGED and not any(rule.jitter for rule in oracle.rules):
        assert not (oracle.times if oracle.has_times else oracle.spans)


def check_first(window: Window, oracle: Oracle, at: int) -> None:
    """Nothing inside quiet hours, nothing skipped, nothing later than the rule allows, nothing twice."""
    same(window.next_hours(oracle.timeline, at), oracle.next_hours(at), oracle)
    same(window.first(oracle.timeline, at, None), oracle.first(at, None), oracle)
    last = oracle.first(at, None)
    if last is not None:
        same(window.first(oracle.timeline, at, last), oracle.first(at, last), oracle)


def same(found: int | None, expected: int | None, oracle: Oracle) -> None:
    if expected is None:
        assert found is None or found >= oracle.until
    else:
        assert found == expected


def check_openings(window: Window, oracle: Oracle, now: int, *, reach: int) -> None:
    """The numbers are those of the calendar, in turn, and reach far enough."""
    openings = window.openings(oracle.timeline, now, reach=reach)

    assert openings.hours is not oracle.has_times
    assert openings.urgent is all(rule.urgent for rule in oracle.rules)
    if openings.hours:
        spans = list(zip(openings.numbers[::2], openings.numbers[1::2], strict=True))
        check_spans(spans, oracle, now)
        known = spans[-1][1] if spans else now
        assert len(spans) == MOST or (len(spans) >= FEWEST and known > now + reach) or is_over(window, oracle, known)
    else:
        check_times(openings.numbers, oracle, now)
        count, known = len(openings.numbers), max([now, *openings.numbers])
        assert count == MOST or (count >= FEWEST and known >= now + reach) or is_over(window, oracle, known + 1)
        for number, later in pairwise(openings.numbers[:4]):
            assert window.first(oracle.timeline, number, number) == later


def is_over(window: Window, oracle: Oracle, at: int) -> bool:
    """Two zones that had an hour in common may have lost it when one of them changed its offset for good."""
    return window.first(oracle.timeline, at, None) is None


def check_times(numbers: tuple[int, ...], oracle: Oracle, now: int) -> None:
    known = [number for number in numbers if oracle.since <= number < oracle.until]
    expected = around(oracle.times, now)
    if not expected or expected[0] > now:  # the last one lies before all that the oracle looked at
        known = [number for number in known if number > now]
    assert known == expected[: len(known)]
    assert len(known) == len(expected) or numbers[-1] == known[-1]


def check_spans(spans: Spans, oracle: Oracle, now: int) -> None:
    """Spans that touch each other count as one."""
    joined = _joined(spans)
    expected = [span for span in _joined(oracle.spans) if span[1] > now]
    for (start, end), (begins, ends) in zip(joined, expected, strict=False):
        assert start == begins or begins < start <= now
        assert end == ends or (end < ends and (start, end) == joined[-1]) or ends > oracle.until


def _joined(spans: Spans) -> Spans:
    joined: Spans = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def check_admission(window: Window, oracle: Oracle, slot: Slot, *, now: int) -> None:
    """It waits for the times unless it is a retry, always for the hours, and never for the past."""
    expected: int | None = None
    if not slot.passes:
        due = slot.at if slot.by_delays is None else slot.by_delays
        if oracle.has_times and slot.digest is None:
            expected = oracle.first(due, slot.last)
            if expected is None:
                return  # it lies beyond what the oracle looked at
        if expected is None or expected <= now:
            expected = oracle.next_hours(now)
            if expected is None:
                return
    until = admission(slot, window, oracle.timeline, now=now)

    assert until == (expected if expected is not None and expected > now else None)
