"""Vectors: due times and lapses worked out by hand, for every implementation of the machine to agree with.

A vector is plain numbers (milliseconds), so that it can be fed to code in any language. `check_adds`,
`check_completions`, `check_plans`, `check_requeues`, `check_refusals`, `check_openings` and `check_suspects` take the
implementation as a callable.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

Vector = TypeVar("Vector")
Answer = TypeVar("Answer")


class Calendar(NamedTuple):
    """The openings that a call knows, rising; later ones are not known to it."""

    numbers: tuple[int, ...]  # single times; of hours, start and end in turns
    hours: bool = False
    urgent: bool = False  # a record's own deadline does not wait for an opening


class OwnPolicy(NamedTuple):
    """The numbers of a policy that is stored for the timeline."""

    first_delay: int = 0
    increment: int | None = 30_000
    maximum: int = 1_800_000
    quiet: int | None = None
    max_records: int | None = None
    calendar: Calendar | None = None
    ttl: int | None = None
    cool_downs: tuple[int, ...] = (0,)  # by iteration; the last one holds for all later ones


class Placed(NamedTuple):
    """Where a timeline is afterwards."""

    state: str
    at: int | None  # due; None if it is idle
    by_delays: int | None  # due by the delays, before a window aligned it: the same time where none did
    passes: bool = False  # no window holds it back until its next digest has ended


class Add(NamedTuple):
    """A timeline, the numbers of an add, and where it must be afterwards; `pending` and `deadline` count the record."""

    name: str
    now: int
    state: str  # before: idle, waiting, ready, open
    expected: str  # the state after
    expected_at: int
    at: int = 0
    last: int | None = None
    first: int | None = None  # arrival of the first pending record
    unfinished: bool = False
    paused: bool = False
    moving: bool = False  # the store is being moved into another
    pending: int = 1
    deadline: int | None = None
    first_delay: int = 0
    increment: int | None = 30_000
    maximum: int = 1_800_000
    quiet: int | None = None
    max_records: int | None = None
    calendar: Calendar | None = None
    ttl: int | None = None
    given: tuple[str, ...] = ()  # first_delay, increment, maximum: those that the call gave itself
    own: OwnPolicy | None = None
    by_delays: int | None = None  # before: set if a window made `at` of it
    passes: bool = False  # before
    expected_by_delays: int | None = None  # None: as expected_at
    expected_pass: bool = False


class Complete(NamedTuple):
    """The end of a digest, and when the timeline is due afterwards; None: it is idle."""

    name: str
    now: int
    cool_down: int
    expected_at: int | None
    records: int = 1  # in the digest
    pending: int = 0
    deadline: int | None = None
    max_records: int | None = None
    calendar: Calendar | None = None
    given: bool = False  # the call gave the cool-down itself
    ttl: int | None = None
    own: OwnPolicy | None = None
    last: int | None = None  # before
    iteration: int = 0  # before
    passes: bool = False  # before
    expected_by_delays: int | None = None  # None: as expected_at
    expected_pass: bool = False


class Replan(NamedTuple):
    """Another policy for a timeline, and where it is afterwards."""

    name: str
    now: int
    expected: tuple[int, int] | None  # due afterwards, and due by the delays; None: it is idle
    calendar: Calendar | None = None  # of the new policy
    at: int = 9_000
    state: str = "waiting"
    last: int | None = None
    first: int | None = None  # arrival of the first pending record
    deadline: int | None = None
    pending: int = 1
    expires: int | None = None  # the first of its records
    unfinished: bool = False
    by_delays: int | None = None  # before
    passes: bool = False  # before
    first_delay: int = 0  # of the new policy
    cool_down: int = 0  # of the new policy
    max_records: int | None = None  # of the new policy
    expected_pass: bool = False


class Requeue(NamedTuple):
    """Records of a dead letter that are pending again, and where their timeline is; `pending` counts them."""

    name: str
    now: int
    expected: tuple[int, int]  # due afterwards, and due by the delays; an idle timeline waits then
    state: str = "idle"  # before
    at: int = 0
    by_delays: int | None = None  # before: set if a window made `at` of it
    passes: bool = False  # before and after
    paused: bool = False
    unfinished: bool = False
    pending: int = 1
    delay: int = 300  # the cool-down of the policy in the code
    max_records: int | None = None
    calendar: Calendar | None = None
    own: OwnPolicy | None = None


class Refuse(NamedTuple):
    """A timeline that could be delivered and may not before `until`; it waits afterwards."""

    name: str
    state: str  # before: ready, waiting, or open with a lease that lapsed
    at: int
    until: int
    expected_by_delays: int
    by_delays: int | None = None  # before
    unfinished: bool = False
    expected_lapses: int = 0
    expected_frozen: bool = False
    passes: bool = False  # before and after


class Opening(NamedTuple):
    """A timeline is opened: what is known of its digest's lapses before and after."""

    name: str
    state: str  # before: ready, waiting, or open with a lease that lapsed
    expected_lapses: int
    expected_alone: int  # of these, in a group of one
    noted: int  # the size of its group now; 0: none
    expected_largest: int = 0  # group in which it may be tried from now on; 0: any
    unfinished: bool = True
    records: int = 1  # in the unfinished digest
    lapses: int = 0
    lapses_alone: int = 0
    largest: int = 0  # before
    was_in: int = 0  # the size that was noted when it was opened before
    group: int = 0  # the size of the group that it is opened in


class SuspectChoice(NamedTuple):
    """Digests whose lease lapsed, the first to lapse first, and which of them are tried beside each other."""

    name: str
    size: int  # the largest group that the worker tries
    largest: tuple[int, ...]  # group in which each may have been tried; 0: any
    expected_size: int
    expected: tuple[int, ...]  # places, from 0
    was_in: tuple[int, ...] = ()  # the group that each lapsed in just now, if that was noted


def _first(name: str, now: int, expected: tuple[int, int], calendar: Calendar | None = None, **facts: Any) -> Add:
    """An add to an idle timeline, which waits afterwards: due, and due by the delays."""
    at, by_delays = expected
    return Add(name, now, "idle", "waiting", at, calendar=calendar, expected_by_delays=by_delays, **facts)


def _waiting(
    name: str,
    now: int,
    before: tuple[int, int | None],
    expected: tuple[int, int],
    calendar: Calendar | None = None,
    **facts: Any,
) -> Add:
    """An add to a waiting timeline: due, and due by the delays, before and afterwards. A pass is kept."""
    (at, by_delays), (expected_at, expected_by_delays) = before, expected
    defaults = {"last": 0, "increment": 30, "expected_pass": facts.get("passes", False)}
    return Add(
        name,
        now,
        "waiting",
        "waiting",
        expected_at,
        at=at,
        by_delays=by_delays,
        calendar=calendar,
        expected_by_delays=expected_by_delays,
        **{**defaults, **facts},
    )


def _ended(
    name: str, now: int, cool_down: int, expected: tuple[int, int], calendar: Calendar | None = None, **facts: Any
) -> Complete:
    """The end of a digest, after which the timeline waits: due, and due by the delays."""
    at, by_delays = expected
    return Complete(name, now, cool_down, at, calendar=calendar, expected_by_delays=by_delays, **facts)


DELAY_ADDS = [
    Add("the first record goes at once", 5, "idle", "ready", 5),
    Add("…whatever its deadline", 5, "idle", "ready", 5, deadline=6),
    Add("a first delay waits", 5, "idle", "waiting", 1_005, first_delay=1_000),
    Add("a deadline cuts the first delay", 5, "idle", "waiting", 105, first_delay=1_000, deadline=105),
    Add("a deadline after it changes nothing", 5, "idle", "waiting", 1_005, first_delay=1_000, deadline=2_000),
    Add("one record is enough", 5, "idle", "waiting", 5, first_delay=1_000, max_records=1),
    Add("a paused idle timeline waits, due now", 5, "idle", "waiting", 5, paused=True),
    Add("a paused one keeps its first delay", 5, "idle", "waiting", 1_005, paused=True, first_delay=1_000),
    Add("in a store that is being moved it waits, due now", 5, "idle", "waiting", 5, moving=True),
    Add("…after its first delay", 5, "idle", "waiting", 1_005, moving=True, first_delay=1_000),
    Add("…and moves as anywhere else", 400, "waiting", "waiting", 330_000, moving=True, at=300_000, last=0),
    Add("…ready, it stays as it is", 900, "ready", "ready", 5, moving=True, at=5, last=0),
    Add("ready stays as it is", 900, "ready", "ready", 5, at=5, last=0, deadline=901),
    Add("open stays as it is", 900, "open", "open", 5, at=5, last=0, max_records=1),
    Add("an increment moves it", 400, "waiting", "waiting", 330_000, at=300_000, last=0),
    Add("…even when it is due already", 310_000, "waiting", "waiting", 330_000, at=300_000, last=0),
    Add("the cap stops it", 400, "waiting", "waiting", 1_800_000, at=1_790_000, last=0),
    Add("the cap, reached exactly", 400, "waiting", "waiting", 1_800_000, at=1_770_000, last=0),
    Add("the cap moves it earlier", 400, "waiting", "waiting", 500, at=300_000, last=0, maximum=500),
    Add(
        "maximum 0 makes it due at the last delivery",
        2_000,
        "waiting",
        "waiting",
        1_000,
        at=2_000,
        last=1_000,
        maximum=0,
    ),
    Add("increment 0 leaves it", 400, "waiting", "waiting", 300_000, at=300_000, last=0, increment=0),
    Add(
        "no increment: not even the cap",
        400,
        "waiting",
        "waiting",
        300_000,
        at=300_000,
        last=0,
        increment=None,
        maximum=5,
    ),
    Add("never delivered: it stays", 100_000, "waiting", "waiting", 5, at=5),
    Add("never delivered, but urgent", 100, "waiting", "waiting", 150, at=5_000, deadline=150),
    Add("a retry is not put off", 400, "waiting", "waiting", 900, at=900, last=0, unfinished=True),
    Add(
        "…nor pulled forward",
        400,
        "waiting",
        "waiting",
        900,
        at=900,
        last=0,
        unfinished=True,
        deadline=500,
        max_records=1,
    ),
    Add("a deadline pulls it forward", 400, "waiting", "waiting", 10_400, at=300_000, last=0, deadline=10_400),
    Add(
        "an ordinary record does not put that off",
        900,
        "waiting",
        "waiting",
        10_400,
        at=10_400,
        last=0,
        deadline=10_400,
    ),
    Add(
        "a deadline beyond the rule is not used",
        400,
        "waiting",
        "waiting",
        330_000,
        at=300_000,
        last=0,
        deadline=400_000,
    ),
    Add("a deadline in the past holds", 900, "waiting", "waiting", 100, at=300_000, last=0, deadline=100),
    Add("enough records make it due now", 400, "waiting", "waiting", 400, at=300_000, last=0, pending=3, max_records=3),
    Add("one less does not", 400, "waiting", "waiting", 330_000, at=300_000, last=0, pending=2, max_records=3),
    Add(
        "due before now stays before now",
        400,
        "waiting",
        "waiting",
        310,
        at=280,
        last=0,
        increment=30,
        pending=3,
        max_records=3,
    ),
    Add("silence: at least quiet from now", 90_000, "waiting", "waiting", 150_000, at=60_000, first=0, quiet=60_000),
    Add(
        "silence never shortens the wait",
        1_000,
        "waiting",
        "waiting",
        300_000,
        at=300_000,
        last=0,
        first=1_000,
        quiet=60_000,
    ),
    Add(
        "silence has its cap",
        590_000,
        "waiting",
        "waiting",
        600_000,
        at=600_000,
        first=0,
        quiet=60_000,
        maximum=600_000,
    ),
    Add(
        "…counted from the first pending",
        900_000,
        "waiting",
        "waiting",
        950_000,
        at=960_000,
        last=0,
        first=350_000,
        quiet=60_000,
        maximum=600_000,
    ),
    Add(
        "silence, but urgent", 90_000, "waiting", "waiting", 100_000, at=60_000, first=0, quiet=60_000, deadline=100_000
    ),
    Add("times before 1970", -400, "waiting", "waiting", -270_000, at=-300_000, last=-600_000),
]

# Times at 100, 200 and 300; hours from 100 to 200 and from 300 to 400.
TIMES = Calendar((100, 200, 300))
URGENT_TIMES = Calendar((100, 200, 300), urgent=True)
HOURS = Calendar((100, 200, 300, 400), hours=True)
URGENT_HOURS = Calendar((100, 200, 300, 400), hours=True, urgent=True)

CALENDAR_ADDS = [
    _first("a first record waits for the next time", 5, (100, 5), TIMES),
    Add("…which may be now", 100, "idle", "ready", 100, calendar=TIMES),
    _first("…and is another one a millisecond later", 101, (200, 101), TIMES),
    _first("a first delay, then the next time", 5, (200, 105), TIMES, first_delay=100),
    _first("a first delay that ends at a time", 5, (100, 100), TIMES, first_delay=95),
    _first("a paused idle timeline waits at a time too", 100, (100, 100), TIMES, paused=True),
    _first("enough records wait for the next time as well", 5, (100, 5), TIMES, first_delay=250, max_records=1),
    _waiting("an increment moves the time by the delays alone", 10, (100, 50), (100, 80), TIMES),
    _waiting("…exactly to the opening", 10, (100, 70), (100, 100), TIMES),
    _waiting("…and past it to the next one", 10, (100, 71), (200, 101), TIMES),
    _waiting("the cap holds for the time by the delays", 10, (300, 250), (200, 150), TIMES, maximum=150),
    _waiting("never at the time of the last delivery again", 150, (200, 100), (200, 100), TIMES, last=100, increment=0),
    _waiting("silence, then the next time", 10, (100, 60), (200, 105), TIMES, last=None, first=0, quiet=95),
    _waiting("never delivered: it stays, and so does its opening", 50, (100, 5), (100, 5), TIMES, last=None, first=5),
    _waiting("a wait without a window is aligned by an add that has one", 10, (50, None), (100, 80), TIMES),
    _waiting("an add without a window makes it due by the delays again", 10, (100, 50), (80, 80)),
    _waiting("a time that has come is not put off", 100, (100, 90), (100, 90), TIMES),
    _waiting(
        "…however late its worker is, and whatever is known by now",
        310,
        (100, 90),
        (100, 90),
        Calendar((400, 500)),
        increment=300,
        max_records=1,
    ),
    _waiting("a millisecond before it, it is", 99, (100, 90), (200, 120), TIMES),
    _waiting("without a window nothing has come", 100, (100, 90), (120, 120)),
    _waiting("due by the delays is not a time that has come", 100, (90, None), (200, 120), TIMES),
    _waiting("a deadline waits for the next time", 10, (300, 250), (100, 60), TIMES, deadline=60),
    _waiting("enough records wait for the next time", 110, (300, 250), (200, 110), TIMES, pending=3, max_records=3),
    _waiting("an urgent record does not wait", 10, (300, 250), (60, 60), URGENT_TIMES, deadline=60, expected_pass=True),
    _waiting("…unless the opening is not later", 10, (100, 50), (100, 80), URGENT_TIMES, deadline=100),
    _waiting(
        "…also where the delays alone would be in time",
        10,
        (100, 50),
        (99, 99),
        URGENT_TIMES,
        deadline=99,
        expected_pass=True,
    ),
    _waiting("with a pass nothing puts it off", 10, (60, None), (60, 60), URGENT_TIMES, deadline=60, passes=True),
    _waiting("…neither without a window", 10, (60, None), (60, 60), deadline=60, passes=True),
    _waiting(
        "…nor is it pulled forward by a count",
        10,
        (60, None),
        (60, 60),
        TIMES,
        pending=3,
        deadline=60,
        max_records=3,
        passes=True,
    ),
    _waiting("…but by an earlier deadline", 10, (60, None), (40, 40), TIMES, deadline=40, passes=True),
    _waiting("…not by a later one", 10, (60, None), (60, 60), deadline=61, passes=True),
    _waiting("openings that end too early: due by the delays", 210, (300, 271), (301, 301), TIMES),
    _first("…and a first record waits", 301, (301, 301), TIMES),
    _first("…also if none is known", 5, (5, 5), Calendar(())),
    _first("…or hours have ended", 400, (400, 400), HOURS),
    _first("the hours have not begun", 5, (100, 5), HOURS),
    Add("…now they have", 100, "idle", "ready", 100, calendar=HOURS),
    Add("inside the hours it goes at once", 150, "idle", "ready", 150, calendar=HOURS),
    Add("…until their last millisecond", 199, "idle", "ready", 199, calendar=HOURS),
    _first("…not at their end", 200, (300, 200), HOURS),
    _first("a paused one waits inside the hours", 150, (150, 150), HOURS, paused=True),
    _first("a first delay inside the hours", 110, (160, 160), HOURS, first_delay=50),
    _first("a first delay beyond the hours", 110, (300, 200), HOURS, first_delay=90),
    _waiting("an increment inside the hours", 110, (150, 150), (180, 180), HOURS),
    _waiting("an increment that leaves the hours", 110, (170, 170), (300, 200), HOURS),
    _waiting("hours that have come do not hold it: it is put off as ever", 310, (300, 300), (330, 330), HOURS),
    _waiting("hours may begin at the last delivery", 110, (110, 110), (110, 110), HOURS, last=110, increment=0),
    _waiting(
        "enough records inside quiet hours wait for their end",
        210,
        (350, 350),
        (300, 210),
        HOURS,
        pending=3,
        max_records=3,
    ),
    _waiting("a deadline inside quiet hours waits for their end", 210, (350, 350), (300, 220), HOURS, deadline=220),
    _waiting(
        "…and passes them if they let urgent records through",
        210,
        (350, 350),
        (220, 220),
        URGENT_HOURS,
        deadline=220,
        expected_pass=True,
    ),
    _first(
        "a first record that is urgent passes them", 210, (220, 220), URGENT_HOURS, deadline=220, expected_pass=True
    ),
    Add(
        "…at once, if it must leave now",
        210,
        "idle",
        "ready",
        210,
        deadline=210,
        calendar=URGENT_HOURS,
        expected_pass=True,
    ),
    Add("…and needs no pass inside the hours", 310, "idle", "ready", 310, deadline=320, calendar=URGENT_HOURS),
    _waiting(
        "a retry keeps its time, whatever the window",
        10,
        (90, None),
        (90, 90),
        URGENT_TIMES,
        unfinished=True,
        deadline=50,
        max_records=1,
    ),
    Add("ready stays as it is, whatever the window", 210, "ready", "ready", 5, at=5, last=0, calendar=HOURS),
    Add("open stays as it is, whatever the window", 210, "open", "open", 5, at=5, last=0, calendar=TIMES),
]

OVERRIDDEN_ADDS = [
    _first("a first delay of its own", 5, (1_005, 1_005), own=OwnPolicy(first_delay=1_000)),
    Add("no first delay of its own", 5, "idle", "ready", 5, first_delay=1_000, own=OwnPolicy()),
    _first(
        "a first delay that the call gives comes first",
        5,
        (25, 25),
        first_delay=20,
        given=("first_delay",),
        own=OwnPolicy(first_delay=1_000),
    ),
    Add("…and no delay is a delay", 5, "idle", "ready", 5, given=("first_delay",), own=OwnPolicy(first_delay=1_000)),
    _waiting("an increment of its own", 10, (50, None), (57, 57), own=OwnPolicy(increment=7)),
    _waiting(
        "an increment that the call gives", 10, (50, None), (80, 80), given=("increment",), own=OwnPolicy(increment=7)
    ),
    _waiting(
        "a cap of its own", 10, (50, None), (60, 60), increment=1, maximum=51, own=OwnPolicy(increment=30, maximum=60)
    ),
    _waiting(
        "a cap that the call gives, with its own increment",
        10,
        (50, None),
        (51, 51),
        increment=2,
        maximum=51,
        given=("maximum",),
        own=OwnPolicy(increment=30, maximum=60),
    ),
    _waiting(
        "a cap that the call gives, without an increment of its own",
        10,
        (50, None),
        (40, 40),
        maximum=40,
        given=("maximum",),
        own=OwnPolicy(increment=None),
    ),
    _waiting("silence of its own", 10, (50, None), (70, 70), first=0, increment=5, own=OwnPolicy(quiet=60)),
    _waiting("no silence of its own", 10, (50, None), (57, 57), first=0, quiet=60, own=OwnPolicy(increment=7)),
    _waiting("a count of its own", 10, (50, None), (10, 10), pending=2, max_records=5, own=OwnPolicy(max_records=2)),
    _waiting("no count of its own", 10, (50, None), (57, 57), pending=2, max_records=2, own=OwnPolicy(increment=7)),
    _first("a window of its own", 5, (100, 5), own=OwnPolicy(calendar=TIMES)),
    Add("no window of its own", 5, "idle", "ready", 5, calendar=TIMES, own=OwnPolicy()),
    _first(
        "its own window instead of the call's", 210, (300, 210), Calendar((210, 220)), own=OwnPolicy(calendar=HOURS)
    ),
    _first(
        "delays that the call gives, then its own window",
        5,
        (200, 105),
        first_delay=100,
        given=("first_delay",),
        own=OwnPolicy(calendar=TIMES),
    ),
    _waiting(
        "a time of its own that has come",
        150,
        (100, 90),
        (100, 90),
        increment=300,
        given=("increment",),
        own=OwnPolicy(calendar=TIMES),
    ),
    _first(
        "a first delay that the call gives, as long as its own ttl allows",
        5,
        (505, 505),
        first_delay=500,
        given=("first_delay",),
        own=OwnPolicy(first_delay=100, ttl=1_001),
    ),
    _first(
        "…and one that is too long for it",
        5,
        (105, 105),
        first_delay=501,
        given=("first_delay",),
        own=OwnPolicy(first_delay=100, ttl=1_001),
    ),
    _waiting(
        "an increment that the call gives and that is too long for its own ttl",
        10,
        (50, None),
        (57, 57),
        increment=501,
        given=("increment",),
        own=OwnPolicy(increment=7, ttl=1_000),
    ),
    _waiting(
        "a cap that the call gives and that is too long for its own ttl",
        10,
        (50, None),
        (55, 55),
        maximum=501,
        given=("maximum",),
        own=OwnPolicy(increment=30, maximum=55, ttl=1_000),
    ),
    _waiting(
        "…where it has no increments",
        10,
        (50, None),
        (50, 50),
        maximum=501,
        given=("maximum",),
        own=OwnPolicy(increment=None, ttl=1_000),
    ),
    _first(
        "its own ttl instead of the call's",
        5,
        (505, 505),
        first_delay=500,
        ttl=10,
        given=("first_delay",),
        own=OwnPolicy(ttl=1_000),
    ),
    _first(
        "a first delay that is too long for the ttl is cut",
        5,
        (505, 505),
        first_delay=501,
        ttl=1_001,
        given=("first_delay",),
    ),
    _first("…if the call gives it", 5, (506, 506), first_delay=501, ttl=1_001),
    _waiting(
        "an increment that is too long is cut",
        10,
        (50, None),
        (550, 550),
        increment=501,
        ttl=1_000,
        given=("increment",),
    ),
    _waiting(
        "a cap that is too long is cut",
        10,
        (450, None),
        (500, 500),
        increment=60,
        maximum=501,
        ttl=1_000,
        given=("maximum",),
    ),
    _first("openings of its own that have ended", 310, (310, 310), Calendar((310, 320)), own=OwnPolicy(calendar=TIMES)),
]


ADDS = [*DELAY_ADDS, *CALENDAR_ADDS, *OVERRIDDEN_ADDS]

COMPLETIONS = [
    Complete("cool-down from now", 1_000, 300_000, 301_000),
    Complete("cool-down 0 is due at once", 1_000, 0, 1_000),
    Complete("an urgent record that came meanwhile", 1_000, 300_000, 9_000, pending=1, deadline=9_000),
    Complete("…whose deadline has passed", 1_000, 300_000, 400, pending=1, deadline=400),
    Complete("a deadline after the cool-down", 1_000, 300, 1_300, pending=1, deadline=9_000),
    Complete("enough came meanwhile", 1_000, 300_000, 1_000, pending=5, max_records=5),
    Complete("not enough came meanwhile", 1_000, 300_000, 301_000, pending=4, max_records=5),
    Complete("an empty digest ends idle", 1_000, 300_000, None, records=0),
    Complete("an empty digest with something pending waits", 1_000, 300_000, 301_000, records=0, pending=1),
    _ended("the next time after the cool-down", 110, 50, (200, 160), TIMES),
    _ended("…at which it may end", 110, 90, (200, 200), TIMES),
    _ended("ended at a time: the next one is another", 100, 0, (200, 100), TIMES),
    _ended("…also for records that would be enough", 100, 50, (200, 100), TIMES, pending=3, max_records=3),
    _ended("an empty digest delivered nothing: the time may be now", 100, 0, (100, 100), TIMES, records=0, pending=1),
    _ended(
        "…unless something was delivered at that time before", 100, 0, (200, 100), TIMES, records=0, pending=1, last=100
    ),
    _ended("times that end too early", 300, 10, (310, 310), TIMES),
    _ended("a cool-down that ends inside the hours", 110, 89, (199, 199), HOURS),
    _ended("…or with them", 110, 90, (300, 200), HOURS),
    _ended("hours need not be later than the delivery", 110, 0, (110, 110), HOURS),
    _ended("enough came during a digest that outlasted the hours", 210, 0, (300, 210), HOURS, pending=3, max_records=3),
    _ended("hours that end too early", 390, 10, (400, 400), HOURS),
    _ended("a deadline waits for the next time too", 110, 500, (200, 120), TIMES, pending=1, deadline=120),
    _ended("…unless it passes", 110, 500, (120, 120), URGENT_TIMES, pending=1, deadline=120, expected_pass=True),
    _ended(
        "…which needs no pass if the opening is not later", 110, 500, (200, 200), URGENT_TIMES, pending=1, deadline=200
    ),
    _ended("a pass ends with its digest", 110, 50, (200, 160), TIMES, passes=True),
    _ended("…also without a window", 110, 50, (160, 160), passes=True),
    _ended(
        "a cool-down of its own, of the next iteration",
        1_000,
        7,
        (1_020, 1_020),
        own=OwnPolicy(cool_downs=(10, 20, 30)),
    ),
    _ended(
        "…the last one for all later ones",
        1_000,
        7,
        (1_030, 1_030),
        own=OwnPolicy(cool_downs=(10, 20, 30)),
        iteration=6,
    ),
    _ended(
        "…the first one after an empty digest",
        1_000,
        7,
        (1_010, 1_010),
        records=0,
        pending=1,
        own=OwnPolicy(cool_downs=(10, 20, 30)),
        iteration=6,
    ),
    _ended(
        "a cool-down that the call gives", 1_000, 7, (1_007, 1_007), given=True, own=OwnPolicy(cool_downs=(10, 20, 30))
    ),
    _ended(
        "a window of its own, after a given cool-down", 110, 50, (200, 160), given=True, own=OwnPolicy(calendar=TIMES)
    ),
    _ended(
        "a cool-down that the call gives, as long as its own ttl allows",
        1_000,
        500,
        (1_500, 1_500),
        given=True,
        own=OwnPolicy(cool_downs=(10, 20), ttl=1_001),
    ),
    _ended(
        "…and one that is too long for it",
        1_000,
        501,
        (1_020, 1_020),
        given=True,
        own=OwnPolicy(cool_downs=(10, 20), ttl=1_001),
    ),
    _ended("a given cool-down that is too long for the ttl is cut", 1_000, 501, (1_500, 1_500), given=True, ttl=1_001),
    _ended("…if the call gives it", 1_000, 501, (1_501, 1_501), ttl=1_001),
    _ended("no window of its own", 110, 50, (115, 115), TIMES, own=OwnPolicy(cool_downs=(5,))),
    _ended("a count of its own", 110, 50, (110, 110), pending=2, own=OwnPolicy(max_records=2, cool_downs=(50,))),
    _ended("no count of its own", 110, 50, (160, 160), pending=2, max_records=2, own=OwnPolicy(cool_downs=(50,))),
]

PLANS = [
    Replan("last delivery + cool-down", 1_200, (1_500, 1_500), last=1_000, cool_down=500),
    Replan("…earlier or later than before", 1_200, (11_000, 11_000), last=1_000, cool_down=10_000),
    Replan("…never before now", 1_600, (1_600, 1_600), last=1_000, cool_down=500),
    Replan("…which is now", 1_500, (1_500, 1_500), last=1_000, cool_down=500),
    Replan(
        "a delivery by a clock that was set back: as if it were now", 1_200, (1_700, 1_700), last=9_000, cool_down=500
    ),
    Replan("…an arrival likewise", 1_200, (1_500, 1_500), first=9_000, first_delay=300, cool_down=9),
    Replan("first arrival + first delay", 1_100, (1_300, 1_300), first=1_000, first_delay=300, cool_down=9),
    Replan("…never before now", 1_400, (1_400, 1_400), first=1_000, first_delay=300, cool_down=9),
    Replan("no first delay: now", 1_100, (1_100, 1_100), first=1_000, cool_down=9),
    Replan(
        "a delivery counts, not the first arrival",
        1_100,
        (1_500, 1_500),
        last=1_000,
        first=1_050,
        first_delay=9,
        cool_down=500,
    ),
    Replan("neither: it stays", 1_100, (9_000, 9_000), pending=0, first_delay=9, cool_down=9),
    Replan("…not before now", 9_100, (9_100, 9_100), pending=0, first_delay=9, cool_down=9),
    Replan("…due by the delays, if its window is gone", 1_100, (3_000, 3_000), pending=0, by_delays=3_000),
    Replan("a deadline pulls it", 1_200, (1_300, 1_300), last=1_000, deadline=1_300, cool_down=500),
    Replan("…not before now", 1_400, (1_400, 1_400), last=1_000, deadline=1_300, cool_down=500),
    Replan("enough records: now", 1_200, (1_200, 1_200), last=1_000, pending=3, cool_down=500, max_records=3),
    Replan("the next time", 110, (200, 150), TIMES, last=50, cool_down=100),
    Replan("…from now on", 210, (300, 210), TIMES, last=50, cool_down=100),
    Replan("…which may be now", 200, (200, 200), TIMES, last=50, cool_down=100),
    Replan("…but not the time of the last delivery", 200, (300, 200), TIMES, last=200),
    Replan(
        "enough records wait for the next time",
        110,
        (200, 110),
        TIMES,
        last=50,
        pending=3,
        cool_down=200,
        max_records=3,
    ),
    Replan("a deadline waits for the next time", 110, (200, 120), TIMES, last=50, deadline=120, cool_down=200),
    Replan(
        "…unless it passes", 110, (120, 120), URGENT_TIMES, last=50, deadline=120, cool_down=200, expected_pass=True
    ),
    Replan(
        "…then not before now", 130, (130, 130), URGENT_TIMES, last=50, deadline=120, cool_down=200, expected_pass=True
    ),
    Replan("times that end too early: due by the delays", 310, (310, 310), TIMES, last=50, cool_down=100),
    Replan("inside the hours", 110, (150, 150), HOURS, last=50, cool_down=100),
    Replan("…when they begin", 210, (300, 210), HOURS, last=50, cool_down=100),
    Replan("…may be now", 310, (310, 310), HOURS, last=50, cool_down=100),
    Replan("neither, with a window: the first opening after it was due", 110, (200, 160), TIMES, at=160, pending=0),
    Replan("…counted from the delays, not from another window", 110, (200, 160), TIMES, pending=0, by_delays=160),
    Replan(
        "records that expire at the opening leave at the one before",
        80,
        (100, 100),
        TIMES,
        last=50,
        expires=200,
        cool_down=100,
    ),
    Replan("…not if they expire later", 80, (200, 150), TIMES, last=50, expires=201, cool_down=100),
    Replan("…at the last one before they expire", 80, (200, 200), TIMES, last=50, expires=250, cool_down=200),
    Replan("…which may be now", 100, (100, 100), TIMES, last=50, expires=200, cool_down=100),
    Replan("…or now with a pass", 101, (101, 101), TIMES, last=50, expires=200, cool_down=100, expected_pass=True),
    Replan(
        "…also if they should have expired",
        210,
        (210, 210),
        TIMES,
        last=50,
        expires=200,
        cool_down=100,
        expected_pass=True,
    ),
    Replan(
        "hours that open too late: when they opened last before that",
        80,
        (100, 100),
        HOURS,
        last=50,
        expires=290,
        cool_down=200,
    ),
    Replan("…now, if they are open", 150, (150, 150), HOURS, last=50, expires=290, cool_down=200),
    Replan("…or now with a pass", 210, (210, 210), HOURS, last=50, expires=290, cool_down=200, expected_pass=True),
    Replan("an unfinished digest is not moved", 110, (9_000, 9_000), TIMES, last=50, unfinished=True, cool_down=100),
    Replan(
        "what passes is not moved", 110, (9_000, 9_000), TIMES, last=50, passes=True, cool_down=100, expected_pass=True
    ),
    Replan("what is ready is not moved", 110, (90, 90), TIMES, at=90, state="ready", last=50, cool_down=100),
    Replan("what is open is not moved", 110, (90, 90), TIMES, at=90, state="open", last=50, cool_down=100),
    Replan("what is idle is not moved", 110, None, TIMES, at=0, state="idle", pending=0, cool_down=100),
]

REQUEUES = [
    Requeue("an idle timeline waits for the cool-down", 1_000, (1_300, 1_300)),
    Requeue("…which may be nothing", 1_000, (1_000, 1_000), delay=0),
    Requeue("…paused or not", 1_000, (1_300, 1_300), paused=True),
    Requeue("…unless enough records came back", 1_000, (1_000, 1_000), pending=2, max_records=2),
    Requeue("…one fewer is not enough", 1_000, (1_300, 1_300), pending=1, max_records=2),
    Requeue("…then for a time of the calendar", 50, (200, 110), delay=60, calendar=TIMES),
    Requeue("…which may be that very time", 40, (100, 100), delay=60, calendar=TIMES),
    Requeue("…or for the hours", 50, (300, 250), delay=200, calendar=HOURS),
    Requeue("…inside of which it does not wait longer", 50, (150, 150), delay=100, calendar=HOURS),
    Requeue("enough records wait for the calendar, too", 50, (100, 50), max_records=1, calendar=TIMES),
    Requeue("its own policy has another cool-down", 1_000, (1_700, 1_700), own=OwnPolicy(cool_downs=(700,))),
    Requeue("…that of no digest so far", 1_000, (1_700, 1_700), own=OwnPolicy(cool_downs=(700, 900))),
    Requeue("…and knows no max_records", 1_000, (1_700, 1_700), max_records=1, own=OwnPolicy(cool_downs=(700,))),
    Requeue("…or one of its own", 1_000, (1_000, 1_000), own=OwnPolicy(cool_downs=(700,), max_records=1)),
    Requeue("…and a calendar", 50, (200, 110), own=OwnPolicy(cool_downs=(60,), calendar=TIMES)),
    Requeue("…instead of the one in the code", 50, (110, 110), calendar=TIMES, own=OwnPolicy(cool_downs=(60,))),
    Requeue("a waiting timeline keeps its time", 1_000, (5_000, 5_000), state="waiting", at=5_000, pending=4),
    Requeue("…earlier than the cool-down, too", 1_000, (1_001, 1_001), state="waiting", at=1_001),
    Requeue("…or overdue", 1_000, (500, 500), state="waiting", at=500),
    Requeue("…unless it is full now", 1_000, (1_000, 1_000), state="waiting", at=5_000, pending=4, max_records=4),
    Requeue("…one fewer is not enough", 1_000, (5_000, 5_000), state="waiting", at=5_000, pending=3, max_records=4),
    Requeue("…being overdue, a full one does not move", 1_000, (500, 500), state="waiting", at=500, max_records=1),
    Requeue("…nor if a digest is tried again", 1_000, (5_000, 5_000), "waiting", 5_000, unfinished=True, max_records=1),
    Requeue("what waits for the calendar goes on to", 120, (200, 150), "waiting", 200, 150, calendar=TIMES),
    Requeue("…full as well", 120, (200, 120), "waiting", 200, 150, max_records=1, calendar=TIMES),
    Requeue("…at the next opening from now", 50, (100, 50), "waiting", 300, 250, max_records=1, calendar=TIMES),
    Requeue("…but one whose time has come stays", 310, (300, 250), "waiting", 300, 250, max_records=1, calendar=HOURS),
    Requeue("a pass keeps its time", 1_000, (5_000, 5_000), "waiting", 5_000, passes=True, max_records=1),
    Requeue("a ready timeline stays as it is", 1_000, (900, 900), state="ready", at=900, max_records=1),
    Requeue("…also one that is open", 1_000, (900, 900), state="open", at=900, max_records=1),
]

REFUSALS = [
    Refuse("due by the delays", "waiting", 100, 900, 100),
    Refuse("aligned, and late", "waiting", 100, 900, 40, by_delays=40),
    Refuse("ready", "ready", 100, 900, 100),
    Refuse("ready and aligned", "ready", 100, 900, 40, by_delays=40),
    Refuse("a retry keeps its digest", "waiting", 100, 900, 100, unfinished=True),
    Refuse("…not frozen by that", "ready", 100, 900, 100, unfinished=True),
    Refuse("what lapsed lapses first", "open", 100, 900, 100, unfinished=True, expected_lapses=1, expected_frozen=True),
    Refuse(
        "…with the time by the delays",
        "open",
        100,
        900,
        40,
        by_delays=40,
        unfinished=True,
        expected_lapses=1,
        expected_frozen=True,
    ),
    Refuse("a pass stays", "waiting", 100, 900, 100, unfinished=True, passes=True),
]

OPENINGS = [
    Opening("a first digest never lapsed", "ready", 0, 0, 0, unfinished=False, group=1),
    Opening("a failure is no lapse", "ready", 0, 0, 0, group=1),
    Opening("a lapse beside others", "open", 1, 0, 0),
    Opening("…after which it is alone", "open", 1, 0, 1, group=1),
    Opening("…or in a group", "open", 1, 0, 8, group=8),
    Opening("a lapse that was alone counts among both", "open", 2, 1, 0, 1, lapses=1, was_in=1),
    Opening("…and again", "open", 3, 2, 1, 1, lapses=2, lapses_alone=1, largest=1, was_in=1, group=1),
    Opening("a lapse in a group halves it", "open", 2, 0, 0, 4, lapses=1, was_in=8),
    Opening("…and is rounded down", "open", 2, 0, 3, 3, lapses=1, largest=9, was_in=7, group=3),
    Opening("…until it is the digest by itself", "open", 3, 0, 1, 1, lapses=2, largest=3, was_in=3, group=1),
    Opening("…also out of two", "open", 3, 0, 0, 1, lapses=2, largest=2, was_in=2),
    Opening("a later lapse beside others", "open", 3, 1, 1, 1, lapses=2, lapses_alone=1, largest=1, group=1),
    Opening("…changes no group", "open", 2, 0, 4, 6, lapses=1, largest=6, group=4),
    Opening("alone after a lapse and a failure", "ready", 1, 0, 1, lapses=1, group=1),
    Opening("alone after maintenance ended the lease", "waiting", 1, 0, 1, 2, lapses=1, largest=2, group=1),
    Opening("beside others after lapses", "ready", 2, 1, 0, 1, lapses=2, lapses_alone=1, largest=1),
    Opening("an empty digest is forgotten with its lapses", "open", 0, 0, 0, records=0, lapses=1, was_in=1),
    Opening("…and what is opened instead never lapsed", "open", 0, 0, 0, records=0, lapses=1, largest=2, group=2),
]

SUSPECTS = [
    SuspectChoice("none", 4, (), 4, ()),
    SuspectChoice("a group as large as the worker tries", 4, (0, 0, 0), 4, (0, 1, 2)),
    SuspectChoice("the first decides: it goes alone", 4, (1, 0, 0), 1, (0, 1, 2)),
    SuspectChoice("…or in a smaller group, which those join that may", 8, (3, 2, 0, 3, 1, 4), 3, (0, 2, 3, 5)),
    SuspectChoice("…but never in a larger one than the worker tries", 2, (8, 1, 2), 2, (0, 2)),
    SuspectChoice("one that may be tried in any leaves the others out", 4, (0, 3, 1, 0), 4, (0, 3)),
    SuspectChoice("a worker that has just begun tries any of them", 1, (0, 1, 5), 1, (0, 1, 2)),
    SuspectChoice("the group that it lapsed in just now is halved", 8, (0, 6, 0, 1), 3, (0, 1, 2), was_in=(6, 6, 0, 1)),
    SuspectChoice("…down to one", 8, (0, 2), 1, (0, 1), was_in=(2, 2)),
]


def check_adds(place: Callable[[Add], Placed]) -> None:
    """Every vector of an add; `place` says where the timeline is afterwards."""
    _check(ADDS, place, lambda v: _expected(v.expected, v))


def check_completions(place: Callable[[Complete], Placed]) -> None:
    """Every vector of a completion; `place` says where the timeline is afterwards."""
    _check(COMPLETIONS, place, lambda v: _expected("idle" if v.expected_at is None else "waiting", v))


def check_plans(place: Callable[[Replan], Placed]) -> None:
    """Every vector of another policy; `place` says where the timeline is afterwards."""

    def expected(v: Replan) -> Placed:
        at, by_delays = (None, None) if v.expected is None else v.expected
        return Placed(v.state, at, by_delays, v.expected_pass)

    _check(PLANS, place, expected)


def check_requeues(place: Callable[[Requeue], Placed]) -> None:
    """Every vector of a requeue; `place` says where the timeline is afterwards."""
    _check(REQUEUES, place, lambda v: Placed("waiting" if v.state == "idle" else v.state, *v.expected, v.passes))


def check_refusals(place: Callable[[Refuse], tuple[Placed, int, bool]]) -> None:
    """Every vector of a refusal; `place` gives also the lapses of the digest, and whether it is frozen."""

    def expected(v: Refuse) -> tuple[Placed, int, bool]:
        return Placed("waiting", v.until, v.expected_by_delays, v.passes), v.expected_lapses, v.expected_frozen

    _check(REFUSALS, place, expected)


def check_openings(count: Callable[[Opening], tuple[int, int, int, int]]) -> None:
    """Every vector of an opening; `count` gives the lapses, those alone, the largest group, and the size noted now."""
    _check(OPENINGS, count, lambda v: (v.expected_lapses, v.expected_alone, v.expected_largest, v.noted))


def check_suspects(choose: Callable[[SuspectChoice], tuple[int, Sequence[int]]]) -> None:
    """Every vector of suspects; `choose` gives the size of the group and the places of those that may join it."""

    def chosen(v: SuspectChoice) -> tuple[int, tuple[int, ...]]:
        size, places = choose(v)
        return size, tuple(places)

    _check(SUSPECTS, chosen, lambda v: (v.expected_size, v.expected))


def _check(vectors: Sequence[Vector], find: Callable[[Vector], Answer], expected: Callable[[Vector], Answer]) -> None:
    wrong = {number: (v, found) for number, v in enumerate(vectors) if (found := find(v)) != expected(v)}
    assert not wrong, wrong


def _expected(state: str, vector: Add | Complete) -> Placed:
    by_delays = vector.expected_at if vector.expected_by_delays is None else vector.expected_by_delays
    return Placed(state, vector.expected_at, by_delays, vector.expected_pass)
