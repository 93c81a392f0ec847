"""A small world: timelines of many kinds, a store, a clock, a wire between them that fails, and a trace of it all."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec

from digestif.attempts.leases import Running
from digestif.core.backoff import Retry
from digestif.core.capacity import Stored
from digestif.core.policy import Policy
from digestif.core.records import Digest
from digestif.core.times import Millis
from digestif.core.verdicts import DeliveryFailed, Discard, RetryLater
from digestif.errors import InvalidState, StoreUnavailable
from digestif.events import Claimed, Ended, Event, Events
from digestif.stores.base import Arrival, Lease, Store
from digestif.stores.codec import Sealer
from tests.chaos.book import Book, Violation, require
from tests.chaos.sources import Chances, Pages, Times, installed
from tests.chaos.stage import Crashed, Stage

SMALL = Pages(records=2, timelines=2, records_in_hand=6, suspects=2)
USUAL = Pages(records=1000, timelines=200, records_in_hand=20_000, suspects=8)
BEGINNING: Millis = 1_000_000_000


def _policy(**options: Any) -> Policy:
    plain: dict[str, Any] = {
        "minimum_delay": 1,
        "increment_delay": 0.2,
        "maximum_delay": 5,
        "capacity": None,
        "ttl": None,
        "attempts": 3,
        "retry": Retry(initial=0.5, factor=2, maximum=4, jitter=0.5),
    }
    return Policy(**{**plain, **options})


def _failing(iteration: int) -> float:
    if iteration == 2:
        raise ValueError("no delay for the second")
    return 1.0


POLICIES = {
    "merge": _policy(),
    "eager": _policy(minimum_delay=0, increment_delay=0, maximum_delay=0, attempts=6, lapses=2),
    "same": _policy(redelivery="same"),
    "short": _policy(capacity=3, max_records=4),
    "young": _policy(ttl=12),
    "once": _policy(minimum_delay=0),
    "quiet": _policy(first_delay=1, quiet=1, minimum_delay=0, lapses=1),
    "odd": _policy(backoff=_failing),
}


class OddCodec:
    """A codec that only some workers know."""

    name = "odd"

    def __init__(self) -> None:
        self.encode = msgspec.json.Encoder().encode
        self.decode = msgspec.json.Decoder().decode


PLAIN = Sealer("json")
LEARNED = Sealer(OddCodec())


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely things go wrong."""

    crash: float  # between two calls
    pause: float
    unavailable: float  # per call, half of them after it took effect
    late: float  # a heartbeat that does not come
    odd: float  # a record that not every worker can decode
    poison: float  # a record that ends its worker
    steps: float  # of the clock
    failure: float  # of a handler

    @classmethod
    def drawn(cls, chances: Chances) -> "Weather":
        def some(most: float) -> float:
            return most * chances.random() if chances.happens(0.7) else 0.0

        return cls(
            some(0.03),
            some(0.4),
            some(0.2),
            some(0.6),
            some(0.1),
            some(0.05),
            some(0.1),
            chances.choice([0.2, 0.5, 0.9]),
        )


Make = Callable[[Callable[[], float]], Store]  # with the clock of the world


class Actor(NamedTuple):
    """Somebody who calls the store."""

    name: str
    process: "Process"


class Process:
    """What crashes as a whole."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.running = Running()
        self.ears: list[Ear] = []

    @property
    def tries_nothing(self) -> bool:
        """True if all attempts that were begun here have ended, as events say."""
        return not any(ear.under_way for ear in self.ears)

    def hear(self, verb: str, args: tuple[Any, ...], answer: Any) -> None:
        """An answer of the store has come through."""


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, make: Make, stage: Stage, kinds: Sequence[str]) -> None:
        self.chances = Chances(seed)
        self.times = Times(BEGINNING)
        self.pages = SMALL if self.chances.happens(0.6) else USUAL
        self.weather = Weather.drawn(self.chances)
        self.is_calm = False
        self.lease: Millis = self.chances.choice([3_000, 6_000])
        names = self.chances.sample(kinds, min(len(kinds), self.chances.choice([2, 3, 4, 5])))
        self.policies = {name: POLICIES[name] for name in names}
        self.stage = stage
        self.trace: list[tuple[Any, ...]] = []
        self.actor: Actor  # who runs now
        self.poison: set[int] = set()  # versions
        self._make = make
        self._resumes: dict[Hashable, Millis] = {}  # when those who have paused may go on
        self._numbers = 0
        self._keys = self.chances.choice([3, 12, 50])

    def begin(self) -> AbstractContextManager[None]:
        """Let digestif live in this world while the block runs."""
        return installed(self.chances, self.times, self.pages, lambda: self.actor.process.running)

    def open(self) -> None:
        self.store = self._make(self.times.time)
        self.book = Book(self.store, self.policies, self.pages, self.poison)

    def note(self, *what: Any) -> None:
        self.trace.append((self.times.wall, self.actor.name, *what))

    # The wire

    def call(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Ask the store, if everything goes well."""
        if self.actor.process.is_dead:
            raise Crashed  # what is being cleaned up after a crash does not happen
        if kwargs.get("alone") or (verb == "claim_suspects" and args[1].alone):
            require(self.actor.process.tries_nothing, "{} {}: others are tried in this process", verb, args)
        answer = self._do(verb, args, kwargs) if self.is_calm else self._do_in_weather(verb, args, kwargs)
        self.actor.process.hear(verb, args, answer)
        return answer

    def _do_in_weather(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._gap(verb, "before")
        is_unavailable = self.chances.happens(self.weather.unavailable)
        if is_unavailable and self.chances.happens(0.5):
            self.note("unavailable:", verb, args)
            self.book.missed(verb, args, kwargs)
            raise StoreUnavailable("told to fail")
        answer = self._do(verb, args, kwargs)
        self._gap(verb, "after")
        if is_unavailable:
            self.note("reply lost:", verb)
            raise StoreUnavailable("told to lose the reply")
        return answer

    def _do(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        now = kwargs.get("now")
        at = self.times.wall if now is None else now
        try:
            expected = self.book.expect(verb, args, at)
            answer = getattr(self.store, verb)(*args, **kwargs)
            self.note(verb, args, kwargs, "→", answer)
            self.book.saw(verb, args, kwargs, answer, at, expected)
        except InvalidState as refusal:
            self.note(verb, args, kwargs, "refused:", refusal)
            raise
        except Exception as error:
            raise Violation(f"{verb} {args} failed: {error!r}") from error
        return answer

    def _gap(self, verb: str, place: str) -> None:
        """Between two calls anything may happen."""
        chance = self.chances.random()
        if chance < self.weather.crash:
            self.note("crashes", place, verb)
            self.actor.process.is_dead = True
            raise Crashed
        if chance > 1 - self.weather.pause:
            self._pause(place, verb)

    def _pause(self, place: str, verb: str) -> None:
        actor = self.actor
        self.note("pauses", place, verb)
        self._resumes[actor] = self.times.steady + self.chances.choice([0, self.lease + 1500])
        self.stage.pause(actor)
        self.actor = actor
        if actor.process.is_dead:
            raise Crashed
        self.note("goes on", place, verb)

    @property
    def resumable(self) -> list[Hashable]:
        """Who has paused for long enough."""
        parked = self.stage.parked
        return parked if self.is_calm else [who for who in parked if self._resumes[who] <= self.times.steady]

    @property
    def is_something_due(self) -> bool:
        return self.store.standing(now=self.times.wall).due > 0

    # Handlers

    def meet(self, digest: Digest) -> None:
        """A handler is called with a digest: a poisoned one ends the process, also when everything else is calm."""
        if any(record.value in self.poison for record in digest):
            self.note("is poisoned")
            self.actor.process.is_dead = True
            raise Crashed

    def failure(self) -> Exception | None:
        """How a handler ends."""
        if self.is_calm or not self.chances.happens(self.weather.failure):
            return None
        later = RetryLater(after=self.chances.choice([None, 0, 2]))
        patience = DeliveryFailed("not now", throttled=True, after=self.chances.choice([0, 2]))
        never = DeliveryFailed("never", retry=False)
        return self.chances.choice([ValueError("no"), ValueError("no"), later, later, Discard(), patience, never])

    # Records

    def key(self) -> str:
        return f"k{self.chances.randrange(self._keys)}"

    def arrival(self, timeline: str) -> Arrival:
        """A record whose value is its number."""
        chances, weather, number = self.chances, self.weather, self._numbers
        self._numbers += 1
        if chances.happens(weather.poison):
            self.poison.add(number)
        sealer = LEARNED if chances.happens(weather.odd) else PLAIN
        return Arrival(
            timeline,
            self.key(),
            sealer.seal(number),
            float(chances.randrange(100)),
            chances.choice([None, None, None, 1500]),
            self.policies[timeline].terms(),
        )


class Wire:
    """The store as an actor sees it."""

    partitions = 1
    enabled = True

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        return partial(self._world.call, verb)


class Ear(Events):
    """Notes events instead of logging them, and sees that each attempt ends with exactly one."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__()
        self._world = world
        self.under_way: Counter[tuple[str, str, int]] = Counter()  # the same number may be tried again
        process.ears.append(self)

    def wanted(self, kind: type[Event]) -> bool:  # whatever it is
        return True

    def emit(self, event: Event) -> None:
        self._world.note(event)
        if isinstance(event, Claimed):
            self.under_way[event.timeline, event.digest_id, event.attempt] += 1
        elif isinstance(event, Ended):
            self._end((event.timeline, event.digest_id, event.attempt), event)

    def _end(self, attempt: tuple[str, str, int], event: Event) -> None:
        require(self.under_way[attempt] > 0, "an attempt that was not under way has ended: {}", event)
        self.under_way[attempt] -= 1
        self.under_way = +self.under_way  # without those that are none

    def expect_silence(self) -> None:
        """All that was begun has ended."""
        require(not self.under_way, "attempts were begun, and no event says how they ended: {}", dict(self.under_way))


def told(trace: list[tuple[Any, ...]]) -> str:
    """A trace as text, one line for each thing that happened."""
    return "".join(
        f"{(at - BEGINNING) / 1000:9.3f} {who:9} {' '.join(_told(each) for each in what)}\n" for at, who, *what in trace
    )


def _told(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Lease):
        return f"{value.timeline}/{value.token}({value.digest_id} attempt {value.attempt})"
    if isinstance(value, Arrival):
        return f"{value.timeline}/{value.key}={value.payload!r}"
    if isinstance(value, Stored):
        return f"{value.key}={value.payload!r}"
    if isinstance(value, Digest):
        return f"{value.timeline}/{value.idempotency_key} attempt {value.attempt} {[each.value for each in value]}"
    if isinstance(value, list | tuple):
        name = type(value).__name__ if hasattr(value, "_fields") else ""
        return f"{name}[{', '.join(map(_told, value))}]"
    if isinstance(value, dict):
        return " ".join(f"{key}={_told(each)}" for key, each in value.items())
    return repr(value)
