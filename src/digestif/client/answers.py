"""What the client gives beyond the values of the engine, and how answers become values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from digestif.client.problems import ProblemDocument
from digestif.core.backlog import Backlog
from digestif.core.cadences import PolicyInForce, Preference
from digestif.core.failures import FailedAttempt
from digestif.core.ledger import Ledger
from digestif.core.outages import ChannelOutage
from digestif.core.policy import Policy
from digestif.core.records import Acceptance, DeadLetter, HistoryEntry, Record, Sighting, Timeline, TimelinesPage
from digestif.core.workers import LiveWorker, PolicyConflict
from digestif.errors import ConfigError, InvalidRecord

T = TypeVar("T")
Read = Callable[[bytes], T]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """What a service says of its store, the workers of all processes, closed channels, backlog and ledger."""

    namespace: str
    enabled: bool  # False: the store accepts nothing
    durability: str  # what the store survives
    partitions: int
    versions: dict[str, str]
    moving_since: float | None  # seconds; None unless the store is being moved
    workers: tuple[LiveWorker, ...]
    policy_conflicts: tuple[PolicyConflict, ...] = ()  # of live workers, by pattern; older services send none
    outages: tuple[ChannelOutage, ...]
    failures: tuple[FailedAttempt, ...]  # of digests that are tried again, the latest first
    unhandled: tuple[str, ...] = ()  # timelines due first that no live worker handles; older services send none
    backlog: Backlog
    counted: float  # when the timelines of the backlog were counted, in seconds
    at_least: bool  # there may be more timelines than the backlog says
    ledger: Ledger


class ServiceEvent(NamedTuple):
    """Something that happened, as the service streams it.

    By `kind`, `data` is a HistoryEntry (digest), a Ledger (ledger), a Backlog (backlog), a tuple of ChannelOutages
    (channels) or a Timeline (timeline); of other kinds it is what JSON says.
    """

    kind: str
    data: Any
    id: str | None = None  # of a digest's end: events go on after it


EVENT_TYPES: Mapping[str, Any] = {
    "digest": HistoryEntry,
    "ledger": Ledger,
    "backlog": Backlog,
    "channels": tuple[ChannelOutage, ...],
    "timeline": Timeline,
}


def value_of(kind: type[T]) -> Read[T]:
    """Reads a body as a value of this type; fields that it does not have are left out."""
    return msgspec.json.Decoder(kind).decode


def field_of(name: str, kind: Any) -> Read[Any]:
    """Reads one field of a body."""
    decode = msgspec.json.Decoder(kind).decode

    def read(body: bytes) -> Any:
        found = _fields(body).get(name)
        if found is None:
            raise msgspec.ValidationError(f"there is no {name}")
        return decode(found)

    return read


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def timelines_of(body: bytes) -> TimelinesPage:
    return TimelinesPage(*_page("timelines", Timeline, body))


def letters_of(body: bytes) -> tuple[list[DeadLetter], str | None]:
    return _page("dead_letters", DeadLetter, body)


def _page(name: str, kind: type[T], body: bytes) -> tuple[list[T], str | None]:
    return field_of(name, list[kind])(body), field_of("after", str | None)(body)  # type: ignore[valid-type]


def records_of(body: bytes) -> list[Record]:
    return [Record(**each) for each in _rows("records", body)]


def contents_of(body: bytes) -> list[Record]:
    return [Record(**each) for each in _rows("contents", body)]


def sightings_of(body: bytes) -> list[Sighting]:
    """Read by name: another release of the service may send fewer fields, or more."""
    known = [[(name, each[name]) for name in Sighting._fields if name in each] for each in _rows("sightings", body)]
    return [msgspec.convert(tuple(Sighting(**dict(fields))), Sighting) for fields in known]


def _rows(name: str, body: bytes) -> Any:
    return field_of(name, list[dict[str, Any]])(body)


class Result(Struct, frozen=True):
    """The answer to one of many records."""

    key: str = ""
    ready: bool = False
    due: float | None = None
    problem: ProblemDocument | None = None

    def value(self) -> Acceptance | InvalidRecord:
        return Acceptance(self.key, self.ready, self.due) if self.problem is None else InvalidRecord(self.problem.text)


class Results(Struct, frozen=True):
    """The answers to many records."""

    accepted: int
    results: list[Result]


def results_of(body: bytes) -> list[Acceptance | InvalidRecord]:
    return [result.value() for result in msgspec.json.decode(body, type=Results).results]


class _Policy(Struct, frozen=True):
    """A policy in force, or a preference, with the policy as text."""

    policy: str | None
    source: str = ""
    off: bool = False
    cadence: str = ""
    zone: str | None = None


_policy = msgspec.json.Decoder(_Policy).decode


def policy_in_force(body: bytes) -> PolicyInForce:
    found = _policy(body)
    return PolicyInForce(policy=_parsed(found.policy or ""), source=found.source, off=found.off)


def preference_of(body: bytes) -> Preference:
    found = _policy(body)
    policy = None if found.policy is None else _parsed(found.policy)
    return Preference(cadence=found.cadence, zone=found.zone, policy=policy)


def _parsed(text: str) -> Policy:
    try:
        return Policy.parse(text)
    except ConfigError as error:
        raise ConfigError(f"the policy in force holds a function of the service's own code: {text}") from error
