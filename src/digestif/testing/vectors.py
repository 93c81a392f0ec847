"""Vectors: due times and lapses worked out by hand, for every implementation of the machine to agree with.

A vector is plain numbers (milliseconds), so that it can be fed to code in any language. `check_adds`,
`check_completions`, `check_openings` and `check_suspects` take the implementation as a callable.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple


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
    pending: int = 1
    deadline: int | None = None
    first_delay: int = 0
    increment: int | None = 30_000
    maximum: int = 1_800_000
    quiet: int | None = None
    max_records: int | None = None


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


class Opening(NamedTuple):
    """A timeline is opened: what is known of its digest's lapses before and after."""

    name: str
    state: str  # before: ready, waiting, or open with a lease that lapsed
    expected_lapses: int
    expected_alone: int  # of these, while nothing else ran beside it
    noted: bool  # that nothing else runs beside it now
    unfinished: bool = True
    records: int = 1  # in the unfinished digest
    lapses: int = 0
    lapses_alone: int = 0
    was_alone: bool = False  # noted when it was opened before
    alone: bool = False  # nothing else runs beside it


class SuspectChoice(NamedTuple):
    """Digests whose lease lapsed, the first to lapse first, and which of them are tried beside each other."""

    name: str
    lapses: tuple[int, ...]  # of each, before this one
    expected: tuple[int, ...]  # places, from 0


ADDS = [
    Add("the first record goes at once", 5, "idle", "ready", 5),
    Add("…whatever its deadline", 5, "idle", "ready", 5, deadline=6),
    Add("a first delay waits", 5, "idle", "waiting", 1_005, first_delay=1_000),
    Add("a deadline cuts the first delay", 5, "idle", "waiting", 105, first_delay=1_000, deadline=105),
    Add("a deadline after it changes nothing", 5, "idle", "waiting", 1_005, first_delay=1_000, deadline=2_000),
    Add("one record is enough", 5, "idle", "waiting", 5, first_delay=1_000, max_records=1),
    Add("a paused idle timeline waits, due now", 5, "idle", "waiting", 5, paused=True),
    Add("a paused one keeps its first delay", 5, "idle", "waiting", 1_005, paused=True, first_delay=1_000),
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
]

OPENINGS = [
    Opening("a first digest never lapsed", "ready", 0, 0, False, unfinished=False, alone=True),
    Opening("a failure is no lapse", "ready", 0, 0, False, alone=True),
    Opening("a lapse beside others", "open", 1, 0, False),
    Opening("…after which it is alone", "open", 1, 0, True, alone=True),
    Opening("a lapse that was alone counts among both", "open", 2, 1, False, lapses=1, was_alone=True),
    Opening("…and again", "open", 3, 2, True, lapses=2, lapses_alone=1, was_alone=True, alone=True),
    Opening("a later lapse beside others", "open", 3, 1, True, lapses=2, lapses_alone=1, alone=True),
    Opening("alone after a lapse and a failure", "ready", 1, 0, True, lapses=1, alone=True),
    Opening("alone after maintenance ended the lease", "waiting", 1, 0, True, lapses=1, alone=True),
    Opening("beside others after lapses", "ready", 2, 1, False, lapses=2, lapses_alone=1),
    Opening("an empty digest is forgotten with its lapses", "open", 0, 0, False, records=0, lapses=1, was_alone=True),
    Opening("…and what is opened instead never lapsed", "open", 0, 0, False, records=0, lapses=1, alone=True),
]

SUSPECTS = [
    SuspectChoice("none", (), ()),
    SuspectChoice("one that never lapsed before", (0,), (0,)),
    SuspectChoice("one that did", (1,), (0,)),
    SuspectChoice("first lapses go together", (0, 0, 0), (0, 1, 2)),
    SuspectChoice("…without those that lapsed before", (0, 2, 0, 1), (0, 2)),
    SuspectChoice("the first decides: it goes alone", (1, 0, 0), (0,)),
    SuspectChoice("…also before others like it", (3, 1), (0,)),
]


def check_adds(place: Callable[[Add], tuple[str, int]]) -> None:
    """Every vector of an add; `place` gives the state and the due time afterwards."""
    wrong = {v.name: found for v in ADDS if (found := place(v)) != (v.expected, v.expected_at)}
    assert not wrong, wrong


def check_completions(place: Callable[[Complete], int | None]) -> None:
    """Every vector of a completion; `place` gives the due time afterwards, None for idle."""
    wrong = {v.name: found for v in COMPLETIONS if (found := place(v)) != v.expected_at}
    assert not wrong, wrong


def check_openings(count: Callable[[Opening], tuple[int, int, bool]]) -> None:
    """Every vector of an opening; `count` gives the lapses, those alone, and whether it is noted to be alone now."""
    expected = {v.name: (v.expected_lapses, v.expected_alone, v.noted) for v in OPENINGS}
    wrong = {v.name: found for v in OPENINGS if (found := count(v)) != expected[v.name]}
    assert not wrong, wrong


def check_suspects(choose: Callable[[SuspectChoice], Sequence[int]]) -> None:
    """Every vector of suspects; `choose` gives the places of those that are tried beside each other."""
    wrong = {v.name: found for v in SUSPECTS if (found := tuple(choose(v))) != v.expected}
    assert not wrong, wrong
