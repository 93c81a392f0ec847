"""The verbs of the client: what each asks of the service, as values. Both clients are made from these.

Names and meanings are those of `Digests`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from digestif.channels.base import Message
from digestif.client.answers import (
    ServiceStatus,
    contents_of,
    field_of,
    letters_of,
    policy_in_force,
    preference_of,
    records_of,
    sightings_of,
    timelines_of,
    value_of,
)
from digestif.client.requests import Call, get, path_of
from digestif.core.backlog import Backlog
from digestif.core.cadences import PolicyInForce, Preference
from digestif.core.explain import Explanation
from digestif.core.ledger import Ledger, Verification
from digestif.core.outages import ChannelOutage
from digestif.core.policy import Policy
from digestif.core.records import (
    DeadLetter,
    HistoryEntry,
    Record,
    Sighting,
    State,
    Timeline,
    TimelinesPage,
    check_record_key,
    check_timeline,
)
from digestif.core.samples import Sample
from digestif.core.workers import LiveWorker
from digestif.intake.arrivals import check_text
from digestif.routes.archive import KeptMessage

T = TypeVar("T")
PAGE = 500  # timelines, dead letters or records that are read at once


class Pages(Struct, Generic[T], frozen=True):
    """Items that are read page by page."""

    page: Callable[[str | None], Call[Any]]  # its answer: the items, and where the next page begins


def _in(timeline: str, *parts: str) -> str:
    return path_of("timelines", check_timeline(timeline), *parts)


def _change(method: str, path: str, body: Any = None, otherwise: Mapping[int, Any] | None = None) -> Call[bool]:
    """A call that changes something. It is not made again if the service may have done it."""
    return Call(
        method=method,
        path=path,
        read=field_of("changed", bool),
        body=None if body is None else msgspec.json.encode(body),
        otherwise=otherwise or {},
        is_repeatable=False,
    )


# Timelines


def timelines_page(
    state: State | str | None = None, prefix: str = "", after: str | None = None, limit: int = 100
) -> Call[TimelinesPage]:
    """A page of timelines. It may be short, or empty, although more follow: they do unless `after` is None."""
    place = None if after is None else check_text("after", after)
    prefix = check_text("prefix", prefix)
    return get("/v1/timelines", timelines_of, state=state, prefix=prefix, after=place, limit=limit)


def timelines(state: State | str | None = None, prefix: str = "") -> Pages[Timeline]:
    """All timelines, or those of a state and a prefix. They are read page by page."""
    return Pages(lambda after: timelines_page(state, prefix, after, PAGE))


def timeline(key: str) -> Call[Timeline]:
    """What is known about a timeline; an unknown one is idle."""
    return get(_in(key), value_of(Timeline))


def peek(key: str, limit: int = PAGE) -> Call[list[Record]]:
    """The records that the next digest would carry, newest first; at most 500."""
    return get(_in(key, "records"), records_of, limit=limit)


def explain(key: str) -> Call[Explanation]:
    """Why a timeline is due when it is: policy, rule, arithmetic, window, and what would change it."""
    return get(_in(key, "explain"), value_of(Explanation))


def preview(timeline: str) -> Call[Message | None]:
    """The subject, text and HTML that the timeline's route would send now; None without route or records."""

    def read(body: bytes) -> Message:
        shown = msgspec.json.decode(body, type=dict[str, str])
        text, html = shown.get("text", ""), shown.get("html", "")
        return Message(key="", timeline=timeline, recipient="", subject=shown["subject"], text=text, html=html)

    return Call(method="GET", path=_in(timeline, "preview"), read=read, otherwise={404: None})


def trace(timeline: str, record_key: str) -> Call[list[Sighting]]:
    """Where the versions of a record are, or what became of them as far as history reaches; the latest first."""
    return get(_in(timeline, "trace", check_record_key(record_key)), sightings_of)


def flush(timeline: str) -> Call[bool]:
    """Make a waiting timeline ready now. False if it is not waiting.

    It takes the name of a timeline, not a pattern. True without any record only ends its cool-down.
    """
    return _change("POST", _in(timeline, "flush"))


def pause(timeline: str) -> Call[bool]:
    """Stop deliveries of a timeline, which goes on accepting records. False if it is paused already."""
    return _change("POST", _in(timeline, "pause"))


def resume(timeline: str) -> Call[bool]:
    """End the pause of a timeline. False if it is not paused."""
    return _change("POST", _in(timeline, "resume"))


def retract(timeline: str, record_key: str) -> Call[bool]:
    """Take back a pending record. False if there is none of this key."""
    return _change("DELETE", _in(timeline, "records", check_record_key(record_key)))


def delete(timeline: str) -> Call[bool]:
    """Delete a timeline with its records, dead letters, history and kept messages. False if there was nothing."""
    return _change("DELETE", _in(timeline))


# Policies


def policy_of(timeline: str) -> Call[PolicyInForce]:
    """The policy that is in force for a timeline, and where it comes from."""
    return get(_in(timeline, "policy"), policy_in_force)


def set_policy(timeline: str, policy: Policy | str) -> Call[None]:
    """Store a policy for a timeline: it holds in every process, at once, until it is replaced or cleared."""
    return _put(_in(timeline, "policy"), {"policy": str(policy)})


def clear_policy(timeline: str) -> Call[bool]:
    """Remove the policy or the cadence that is stored for a timeline. False if there is none."""
    return _change("DELETE", _in(timeline, "policy"))


def prefer(timeline: str, cadence: str, *, zone: str | None = None) -> Call[None]:
    """Store what a person chose: a cadence, and the time zone for its window."""
    return _put(_in(timeline, "preference"), {"cadence": cadence, "zone": zone})


def preference(timeline: str) -> Call[Preference | None]:
    """What a person chose for a timeline; None if nothing."""
    return Call(method="GET", path=_in(timeline, "preference"), read=preference_of, otherwise={404: None})


def _put(path: str, body: Mapping[str, Any]) -> Call[None]:
    return Call(method="PUT", path=path, body=msgspec.json.encode(body), read=lambda _: None)


# Digests and dead letters


def history(timeline: str | None = None, limit: int = 100) -> Call[list[HistoryEntry]]:
    """Digests that ended lately, the latest first; at most 500."""
    of = None if timeline is None else check_timeline(timeline)
    return get("/v1/digests", field_of("digests", list[HistoryEntry]), timeline=of, limit=limit)


def message(digest_id: str) -> Call[KeptMessage | None]:
    """The message of a digest, if it was kept."""
    path = path_of("digests", check_text("digest_id", digest_id), "message")
    return Call(method="GET", path=path, read=value_of(KeptMessage), otherwise={404: None})


def dead_letters(timeline: str | None = None) -> Pages[DeadLetter]:
    """Dead letters, the oldest first. They are read page by page."""
    of = None if timeline is None else check_timeline(timeline)

    def page(after: str | None) -> Call[tuple[list[DeadLetter], str | None]]:
        return get("/v1/dead-letters", letters_of, timeline=of, after=after, limit=PAGE)

    return Pages(page)


def dead_records(digest_id: str, limit: int = PAGE) -> Call[list[Record]]:
    """The records of a dead letter whose values can be read, newest first; at most 500."""
    return Call(method="GET", path=_letter(digest_id), read=contents_of, query={"limit": limit}, otherwise={404: []})


def replay(digest_id: str) -> Call[bool]:
    """Make a dead letter the next digest of its timeline. False if there is none; Busy if another is unfinished."""
    return _change("POST", _letter(digest_id, "replay"), otherwise={404: False})


def requeue(digest_id: str, *, force: bool = False) -> Call[bool]:
    """Make the records of a dead letter pending again: they go out with the next digest of their timeline.

    False if there is no such letter. InvalidState if it may have gone out, or has reached some recipients, unless
    `force` is given.
    """
    return _change("POST", _letter(digest_id, "requeue"), {"force": force}, {404: False})


def discard(digest_id: str) -> Call[bool]:
    """Discard a dead letter; its records count as deleted. False if there is none."""
    return _change("DELETE", _letter(digest_id), otherwise={404: False})


def _letter(digest_id: str, *parts: str) -> str:
    return path_of("dead-letters", check_text("digest_id", digest_id), *parts)


# The whole store


def ledger() -> Call[Ledger]:
    """How many records were accepted, and what became of them."""
    return get("/v1/ledger", value_of(Ledger))


def verify() -> Call[Verification]:
    """Recount the records in the store and compare with the ledger; true if they agree and nothing is damaged."""
    return Call(method="POST", path="/v1/verify", read=value_of(Verification))


def status() -> Call[ServiceStatus]:
    """The store, the workers of all processes, channels that are down, backlog and ledger."""
    return get("/v1/status", value_of(ServiceStatus))


def backlog() -> Call[Backlog]:
    """How many timelines are stored, how many are due, and how late the most overdue one is."""
    return get("/v1/status", field_of("backlog", Backlog))


def outages() -> Call[list[ChannelOutage]]:
    """The channels that are unavailable, or have just come back: why, since when, and when that is tried again."""
    return get("/v1/channels", field_of("outages", list[ChannelOutage]))


def workers() -> Call[list[LiveWorker]]:
    """The workers of all processes that were seen in the last minute, by name, and which timelines they serve."""
    return get("/v1/workers", field_of("workers", list[LiveWorker]))


def samples(since: float | None = None) -> Call[list[Sample]]:
    """What was counted every ten seconds of the last day, the oldest first; only later than `since`."""
    return get("/v1/samples", field_of("samples", list[Sample]), since=since)


def events(timeline: str | None = None, last: str | None = None) -> Call[bytes]:
    """What happens from now on, in all processes: digests that end, and ledger, backlog and channels as they change.

    With a timeline, its changes as well; with `last`, the id of an event, from there. It goes on until you stop, and
    over lost connections.
    """
    query = {} if timeline is None else {"timeline": check_timeline(timeline)}
    headers = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": last})}
    return Call(method="GET", path="/v1/events", read=bytes, query=query, headers=headers)
