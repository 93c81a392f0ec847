"""Makes due timelines ready: page by page for `schedule`, a single one for `notify`."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from digestif.attempts.admission import Admissions
from digestif.core.records import ScheduleEntry, State
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.engine import Engine
from digestif.errors import StoreError
from digestif.intake.arrivals import check_limit, check_time
from digestif.stores.base import PAGE_TIMELINES, Admission, Candidate, Due
from digestif.stores.partitions import visit

SCHEDULE_PAGE = 1000  # timelines


def schedule_pages(
    engine: Engine, deadline: float | None, page: int, *, now: float | None
) -> Iterator[list[ScheduleEntry]]:
    """Yield pages of entries, each committed before it is yielded."""
    check_limit("page", page)
    given = None if deadline is None else to_millis(check_time("deadline", deadline))
    at = engine.intake.millis(now)

    def pages(partition: int) -> Iterator[list[ScheduleEntry]]:
        after: tuple[int | str, ...] | None = None
        until = engine.time(partition, at) if given is None else given
        admissions = Admissions(engine.policies, engine.outages)
        asks = admissions.must_ask(at)
        while True:
            found = engine.store.schedule(
                partition, until, after=after, limit=min(page, SCHEDULE_PAGE), now=at, asks=asks
            )
            decided = admissions.decide(found.candidates, at=until)
            entries = sorted([*found.entries, *_admit(engine, decided, now=at)], key=_due_first)
            yield [ScheduleEntry(due.timeline, to_seconds(due.at)) for due in entries]
            after = found.after
            if after is None:
                return

    return visit(engine.store, "schedule", pages, engine.events)


def make_ready(engine: Engine, timeline: str, due: float | None, *, now: float | None) -> bool:
    """Make a waiting timeline ready if it is due. Return False if it is not due, or another process was quicker.

    Errors of the store are not raised, because the record was accepted: a worker, or the add of the next record, makes
    the timeline ready later.
    """
    if due is None:
        return False
    at = engine.intake.millis(now)
    with suppress(StoreError):
        time = engine.time(engine.store.partition_of(timeline), at)
        return due <= to_seconds(time) and _schedule_one(engine, timeline, time, now=at)
    return False


def _schedule_one(engine: Engine, timeline: str, time: Millis, *, now: Millis | None) -> bool:
    """Make a due timeline ready, as `schedule` does. Return False if it may not be delivered yet."""
    slot = engine.store.inspect(timeline)
    if slot.state is not State.WAITING or slot.at > time or not slot.pending:
        return False
    engine.outages.refresh(now)
    admissions = Admissions(engine.policies, engine.outages)
    return bool(_admit(engine, admissions.decide([Candidate(timeline, slot, time)]), now=now))


def _admit(engine: Engine, decided: Sequence[Admission], *, now: Millis | None) -> list[Due]:
    """Make the admitted candidates ready and return them. The others wait until the times that were decided."""
    pages = [decided[start : start + PAGE_TIMELINES] for start in range(0, len(decided), PAGE_TIMELINES)]
    return [due for some in pages for due in engine.store.admit(some, now=now).ready]


def _due_first(due: Due) -> Millis:
    return due.at
