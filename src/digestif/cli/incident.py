"""The events of the demo: a bad deploy and its consequences. The same seed gives the same events."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

EVENTS = 320
AUDIENCES = {  # timelines, and which events they get, how often
    "chat:#checkout": {"comment": 3, "build": 2, "deploy": 1, "alert": 4},
    "mail:ada": {"alert": 4, "build": 3, "comment": 3},
    "mail:grace": {"comment": 3, "deploy": 2, "build": 1},
    "pager:payments": {"alert": 1},
}
SHARES = (10, 6, 3, 4)  # of all events, in this order
ACTS = ((0.15, 1.0), (0.70, 4.0), (1.0, 1.2))  # until this part of the time, so many events: calm, flood, recovery

SERVICES = ("checkout-api", "payments", "orders", "search", "web", "gateway")
REGIONS = ("eu-west", "eu-north", "us-east", "ap-south")
PEOPLE = ("Amir", "Chen", "Dana", "Elif", "Hugo", "Ines", "Noor", "Omar", "Priya", "Zoe")
SYMPTOMS = {
    "latency": "p99 latency at {:.1f} s, limit 0.8 s",
    "errors": "{:.1f} % of requests fail, limit 1 %",
    "queue": "{:.1f} thousand jobs are waiting, limit 2",
}
TESTS = ("test_refund_rounding", "test_retry_after_timeout", "test_two_buyers_one_item", "test_expired_token")
REMARKS = (
    ("Anyone else sees the new banner?", "Release notes are ready for review.", "Lunch at one?"),
    (
        "Checkout is timing out for customers.",
        "Looking into it.",
        "Started right after the deploy.",
        "Payments see it too.",
        "Queue is growing in eu-west.",
        "Rolling back.",
        "Status page is updated.",
    ),
    ("Error rate is going down.", "Rollback is complete.", "Let's write this up tomorrow."),
)


class IncidentEvent(NamedTuple):
    """One event of the incident."""

    at: float  # seconds since the beginning
    timeline: str
    key: str
    value: dict[str, Any]


class SeededRandom:
    """Random numbers that are the same for a seed on every machine."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._throws = 0

    def number(self) -> float:
        """From 0 up to 1, without 1."""
        self._throws += 1
        drawn = blake2b(f"{self._seed}/{self._throws}".encode(), digest_size=6).digest()
        return int.from_bytes(drawn, "big") / 2**48

    def one_of(self, choices: Sequence[T], weights: Sequence[float] | None = None) -> T:
        wanted = self.number() * sum(weights or [1] * len(choices))
        for choice, weight in zip(choices, weights or [1] * len(choices), strict=True):
            wanted -= weight
            if wanted < 0:
                return choice
        return choices[-1]


def incident(seconds: float, *, seed: int) -> Iterator[IncidentEvent]:
    """All events of an incident of so many seconds, in order."""
    chance = SeededRandom(seed)
    timelines = list(AUDIENCES)
    for number, place in enumerate(sorted(_place(chance) for _ in range(EVENTS))):
        timeline = timelines[number] if number < len(timelines) else chance.one_of(timelines, SHARES)
        mix = AUDIENCES[timeline]
        kind = chance.one_of(list(mix), list(mix.values()))
        key, title = _event(chance, kind, act=_act(place), number=1000 + number)
        yield IncidentEvent(place * seconds, timeline, key, {"kind": kind, "title": title})


def _place(chance: SeededRandom) -> float:
    """A moment from 0 to 1, more often in an act with more events."""
    bounds = [0.0, *(until for until, _ in ACTS)]
    spans = list(pairwise(bounds))
    weights = [(end - begin) * rate for (begin, end), (_, rate) in zip(spans, ACTS, strict=True)]
    begin, end = chance.one_of(spans, weights)
    return begin + chance.number() * (end - begin)


def _act(place: float) -> int:
    return next(act for act, (until, _) in enumerate(ACTS) if place <= until)


def _event(chance: SeededRandom, kind: str, *, act: int, number: int) -> tuple[str, str]:
    """Key and title of an event. Alerts repeat under one key: the latest reading replaces the one before."""
    service = chance.one_of(SERVICES)
    match kind:
        case "alert":
            symptom = chance.one_of(list(SYMPTOMS))
            reading = (1.2, 2.5, 1.1)[act] + chance.number() * (1, 7, 2)[act]
            return f"{service}-{symptom}", f"{service}: {SYMPTOMS[symptom].format(reading)}"
        case "build":
            return f"build-{number}", f"{service} #{number} failed: {chance.one_of(TESTS)}"
        case "deploy":
            fate = chance.one_of(("is live in", "was rolled back in"), ((1, 0), (1, 2), (1, 1))[act])
            version = f"{int(chance.number() * 8) + 1}.{int(chance.number() * 30)}"
            return f"deploy-{number}", f"{service} {version} {fate} {chance.one_of(REGIONS)}"
        case _:
            return f"comment-{number}", f"{chance.one_of(PEOPLE)}: {chance.one_of(REMARKS[act])}"
