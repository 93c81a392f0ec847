"""Deliveries: claims and leases, the records of a digest, and how a delivery ends."""

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import msgspec

from digestif.core import machine
from digestif.core.capacity import Cursor, age_order
from digestif.core.machine import Slot
from digestif.core.times import Millis
from digestif.core.transfer import FOREVER
from digestif.errors import InvalidState, StoreError
from digestif.ids import shuffled
from digestif.stores.base import (
    PAGE_BYTES,
    PAGE_RECORDS,
    PAGE_TIMELINES,
    Admission,
    Admitted,
    Burial,
    Candidate,
    ClaimPage,
    Completion,
    Due,
    Lease,
    LeaseEnd,
    QuarantinedRecord,
    Release,
    SuspectGroup,
    Take,
    Taken,
    Unadmitted,
)
from digestif.stores.redis import encoding
from digestif.stores.redis.calls import NO_KEYS, Call
from digestif.stores.redis.client.commands import Packed, ScriptRefused, joined, pack
from digestif.stores.redis.client.link import all_required, required
from digestif.stores.redis.keys import as_text
from digestif.stores.redis.rings import RedisRings
from digestif.stores.redis.verbs import ACTED_TIMELINES, shares_of

MOVED_RECORDS = 250  # of a digest that a call merges or trims: about 2 ms of the server
READ_ALONG = 1024 * 1024  # bytes of records that a claim reads along, from many partitions together…
LEAST_ALONG = 64 * 1024  # …and from each of them at least
LEAST_SHARE = 8  # timelines that each of several partitions is asked for, so that most are done with one question
LOST_ROUNDS = 8  # of a claim, in which other workers were faster, before it ends
CROWD_LASTS = 16  # claims that choose at random after one that met other workers


class _Found(NamedTuple):
    """What a look into a partition found."""

    names: list[str]  # of timelines that are to be claimed
    token: str


class Crowd:
    """Whether other workers are likely to claim the same timelines at the same time: they did so lately."""

    def __init__(self) -> None:
        self._left = 0  # claims for which that holds

    @property
    def is_likely(self) -> bool:
        return self._left > 0

    def note(self, *, lost: bool) -> None:
        self._left = CROWD_LASTS if lost else max(0, self._left - 1)


class RedisLeases(RedisRings):
    """The verbs of the store that give, use and end leases."""

    def __init__(self) -> None:
        self._crowds: dict[int, Crowd] = {}  # by partition

    # Claiming

    def claim(
        self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        leases: list[Lease] = []
        candidates: list[Candidate] = []
        pages: dict[str, Taken] = {}
        suspect: Millis | None = None
        rounds = retired = lost = 0  # lost: rounds in which other workers claimed some of the candidates first
        crowd = self._crowds.setdefault(partition, Crowd())
        while lost < LOST_ROUNDS:
            wanted = min(min(limit, PAGE_TIMELINES) - len(leases) - retired - len(candidates), ACTED_TIMELINES)
            if wanted < 1:
                break
            known = {each.timeline for each in candidates}
            names, suspect = self._claimable(partition, wanted, lost=lost + crowd.is_likely, known=known, now=now)
            if not names:
                break
            # A token for each round: a process that was frozen between two rounds may claim a timeline again whose
            # lease of the first round has lapsed, and that lease must not be valid again.
            own = f"{token}.{rounds}" if rounds else token
            terms = {"token": own, "lease": lease, "asks": asks}
            rounds += 1
            claimed = self._claim("claim", partition, names, terms, now=now)
            leases += claimed.leases
            candidates += claimed.candidates
            pages |= claimed.pages
            retired += claimed.retired
            if len(claimed.leases) + len(claimed.candidates) + claimed.retired < len(names):
                lost += 1
            elif len(names) < wanted:
                break
        crowd.note(lost=lost > 0)
        return ClaimPage(leases, retired, suspect, tuple(candidates), pages)

    def _claimable(
        self, partition: int, wanted: int, *, lost: int, known: Set[str], now: Millis | None
    ) -> tuple[list[str], Millis | None]:
        """The earliest ones that are not known yet, after lost rounds a random choice of more; and the first lapse."""
        choice = min(wanted * 4**lost, 4 * ACTED_TIMELINES) + len(known)
        found, suspect = self._found(partition, self._scripts.query_one("claimable", _look(partition, choice), now=now))
        names = [name for name in found if name not in known]
        ordered = shuffled(names) if lost else names
        return ordered[:wanted], suspect

    def _found(self, partition: int, reply: list[bytes | None]) -> tuple[list[str], Millis | None]:
        """The timelines that may be claimed, and when the first suspect lapsed."""
        suspect, *found = reply
        names = self._without_strays(partition, [as_text(name) for name in found if name is not None])
        return names, None if suspect is None else int(float(suspect))

    def claim_each(
        self,
        partitions: Sequence[int],
        limit: int,
        *,
        token: str,
        lease: Millis,
        now: Millis | None,
        asks: bool = False,
    ) -> list[ClaimPage | StoreError]:
        share, left = min(max(-(-limit // len(partitions)), LEAST_SHARE), ACTED_TIMELINES), limit
        replies = self._scripts.query_each("claimable", [_look(each, share) for each in partitions], now=now)
        claims: dict[int, _Found] = {}
        answers: dict[int, ClaimPage | StoreError] = {}
        for partition, reply in zip(partitions, replies, strict=True):
            if isinstance(reply, StoreError):
                answers[partition] = reply
                continue
            names, suspect = self._found(partition, required(reply))
            chosen = names[:left]
            answers[partition] = ClaimPage([], 0, suspect, more=len(names) >= share or len(chosen) < len(names))
            if chosen:
                claims[partition] = _Found(chosen, f"{token}.{partition}")
                left -= len(chosen)
        for partition, page in self._claim_found(claims, {"lease": lease, "asks": asks}, now=now).items():
            answers[partition] = _after_look(answers[partition], page)
        return [answers[partition] for partition in partitions]

    def _claim_found(
        self, claims: Mapping[int, "_Found"], terms: Mapping[str, Any], *, now: Millis | None
    ) -> dict[int, ClaimPage | StoreError]:
        room = max(READ_ALONG // max(len(claims), 1), LEAST_ALONG)
        calls = [
            self._call(partition, found.names, {**terms, "count": len(found.names), "token": found.token, "room": room})
            for partition, found in claims.items()
        ]
        answers: dict[int, ClaimPage | StoreError] = {}
        replies = self._scripts.write("claim", calls, now=now) if calls else []
        for (partition, found), reply in zip(claims.items(), replies, strict=True):
            if isinstance(reply, StoreError):
                answers[partition] = reply
                continue
            page = self._claimed(required(reply), found.names, found.token)
            others_were_faster = len(page.leases) + len(page.candidates) + page.retired < len(found.names)
            answers[partition] = page._replace(more=others_were_faster)
        return answers

    def _claim(
        self, script: str, partition: int, names: list[str], terms: Mapping[str, Any], *, now: Millis | None
    ) -> ClaimPage:
        """Open those of the candidates that may still be claimed."""
        call = self._call(partition, names, {"count": len(names), **terms})
        return self._claimed(self._scripts.write_one(script, call, now=now), names, terms["token"])

    def _claimed(self, reply: bytes | list[Any], names: list[str], token: str) -> ClaimPage:
        answer, *pages = [reply] if isinstance(reply, bytes) else reply
        emptied, opened, damaged, at, candidates, losses, *group = encoding.decode(answer)
        self._report_losses(losses)
        self._report_damaged([names[number - 1] for number in damaged])
        leases = [encoding.lease(each, token) for each in opened]
        return ClaimPage(
            leases,
            emptied + len(damaged),
            candidates=tuple([encoding.candidate(each, at) for each in candidates]),
            pages={lease.digest_id: _taken(page) for lease, page in zip(leases, pages, strict=False) if page},
            **dict(zip(("size", "passed_over"), group, strict=False)),
        )

    def claim_suspects(
        self, partition: int, group: SuspectGroup, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        wanted = min(group.limit, ACTED_TIMELINES)
        found = self._scripts.query_one("suspects", Call(partition, NO_KEYS, pack((group.skip, wanted))), now=now)
        names = self._without_strays(partition, list(map(as_text, found)))
        if not names:
            return ClaimPage([], 0, size=group.size)
        chosen = {"size": group.size, "is_decided": group.is_decided, "alone": group.alone}
        terms = {"token": token, "lease": lease, "asks": asks, **chosen}
        page = self._claim("claim_suspects", partition, names, terms, now=now)
        others_were_faster = not (page.leases or page.candidates or page.retired or page.passed_over)
        return page._replace(more=len(found) == wanted or others_were_faster)

    def admit(
        self,
        admissions: Sequence[Admission],
        *,
        token: str | None = None,
        lease: Millis = 0,
        now: Millis | None,
    ) -> Admitted:
        leases: list[Lease] = []
        ready: list[Due] = []
        kept = 0
        for start in range(0, len(admissions), ACTED_TIMELINES):
            page = admissions[start : start + ACTED_TIMELINES]
            own = f"{token}.{start}" if token and start else token
            request = {
                "token": own or False,
                "lease": lease,
                "admissions": [(*encoding.seen(each.seen), _or_false(each.until), each.group) for each in page],
            }
            names = [each.timeline for each in page]
            call = self._call(self._scripts.keys.of(names[0]).partition, names, request)
            reply = self._scripts.write_one("admit", call, now=now)
            opened, scheduled, waiting, damaged, *losses = encoding.decode(reply)
            self._report_losses(*losses)
            self._report_damaged([names[number - 1] for number in damaged])
            leases += [encoding.lease(each, own or "") for each in opened]
            ready += [Due(*each) for each in scheduled]
            kept += waiting
        return Admitted(leases, ready, kept)

    def open(
        self,
        timeline: str,
        *,
        token: str,
        lease: Millis,
        now: Millis | None,
        alone: bool = False,
        asks: bool = False,
    ) -> Lease:
        partition = self._scripts.keys.of(timeline).partition
        request = {"token": token, "lease": lease, "group": int(alone), "asks": asks}
        call = self._call(partition, [timeline], request)
        with self._naming_damage(timeline):
            reply = self._scripts.write_one("open", call, now=now)
        opened, *refusal = encoding.decode(reply)
        if opened:
            self._report_losses(*refusal)
            return encoding.lease(opened, token)
        at, slot, *pending = refusal
        if pending:
            raise Unadmitted(encoding.candidate((timeline, slot, *pending), at))
        machine.refuse_opening(msgspec.convert(slot, Slot), timeline, now=at)
        raise StoreError(f"{timeline!r}: the server refused to open it and does not say why")

    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None, alone: bool = True) -> list[bool]:
        def call(partition: int, share: list[Lease]) -> Call:
            request = {"lease": lease, "tokens": [held.token for held in share], "alone": alone}
            return self._call(partition, [held.timeline for held in share], request, declared="slot")

        return self._write_shares("extend", leases, lambda held: held.timeline, call, now=now)

    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]:
        share = max(1, limit // self.partitions)
        calls = [Call.of(each, {"time": time, "end": FOREVER, "limit": share}) for each in range(self.partitions)]
        found: list[LeaseEnd] = []
        for partition, reply in enumerate(self._scripts.query_each("leases_beyond", calls)):
            if not isinstance(reply, Exception):
                ends = dict(zip(map(as_text, reply[::2]), reply[1::2], strict=True))
                found += [LeaseEnd(name, int(float(ends[name]))) for name in self._without_strays(partition, [*ends])]
        return found

    def end_leases(self, leases: Sequence[LeaseEnd], *, now: Millis | None) -> list[bool]:
        def call(partition: int, share: list[LeaseEnd]) -> Call:
            request = {"ends": [lease.until for lease in share]}
            return self._call(partition, [lease.timeline for lease in share], request, declared="slot")

        return self._write_shares("end_leases", leases, lambda lease: lease.timeline, call, now=now)

    # Records

    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        answers, unprepared = self._take(requests, now=now)
        if unprepared:
            self._prepare([requests[position] for position in unprepared], now=now)
            answers, _ = self._take(requests, now=now)
        return answers

    def _take(self, requests: Sequence[Take], *, now: Millis | None) -> tuple[list[Taken | None], list[int]]:
        """The answers, and the positions of requests whose digests are not merged or trimmed yet."""
        shares = self._shares_of(requests)
        limits = {"limit": max(1, PAGE_RECORDS // max(1, len(shares))), "room": PAGE_BYTES // max(1, len(shares))}
        calls = []
        for partition, positions in shares.items():
            some = [requests[position] for position in positions]
            wanted = [(each.lease.token, each.capacity, each.after, each.max_bytes) for each in some]
            calls.append(self._call(partition, map(_timeline_of, some), {**limits, "requests": wanted}))
        replies = all_required(self._scripts.query("take", calls, now=now))
        answers: list[Taken | None] = [None] * len(requests)
        unprepared = []
        for positions, reply in zip(shares.values(), replies, strict=True):
            for position, taken in zip(positions, reply, strict=True):
                if taken is not None:
                    answers[position] = _taken(taken, requests[position].after)
                    if taken[3]:
                        unprepared.append(position)
        return answers, unprepared

    def _prepare(self, requests: Sequence[Take], *, now: Millis | None) -> None:
        shares = self._shares_of(requests)
        limit = max(1, MOVED_RECORDS // max(1, len(shares)))
        calls = []
        for partition, positions in shares.items():
            some = [requests[position] for position in positions]
            wanted = [(each.lease.token, each.capacity, each.merge, each.max_bytes) for each in some]
            calls.append(self._call(partition, map(_timeline_of, some), {"limit": limit, "requests": wanted}))
        for reply in all_required(self._scripts.write("prepare", calls, now=now)):
            self._report_losses(encoding.decode(reply))

    def _shares_of(self, requests: Sequence[Take]) -> dict[int, list[int]]:
        return shares_of(self._scripts.keys, map(_timeline_of, requests))

    def quarantine(self, lease: Lease, records: Sequence[QuarantinedRecord], *, now: Millis | None) -> bool:
        own = self._scripts.keys.of(lease.timeline)
        held, raised = True, False
        for start in range(0, len(records), MOVED_RECORDS):
            page = records[start : start + MOVED_RECORDS]
            letters = self._scripts.keys.letters(own.partition, [item.letter_id for item in page])
            named = [(encoding.key_text(key), letter_id, reason) for key, letter_id, reason in page]
            request = {"token": lease.token, "records": named, "raised": raised}
            call = Call.of(own.partition, request, joined((own.whole, letters)))
            held, raised = encoding.flags(self._scripts.write_one("quarantine", call, now=now))
            if not held:
                break
        return held

    def remove(self, lease: Lease, keys: Sequence[str], *, now: Millis | None) -> int | None:
        own = self._scripts.keys.of(lease.timeline)
        revision: int | None = None
        raised = False
        for start in range(0, max(1, len(keys)), MOVED_RECORDS):
            page = keys[start : start + MOVED_RECORDS]
            call = Call.of(own.partition, {"token": lease.token, "keys": page, "raised": raised}, own.whole)
            removed = encoding.decode(self._scripts.write_one("remove", call, now=now))
            if not removed:
                return None
            revision, raised = removed
        return revision

    def mark_served(self, lease: Lease, recipients: Sequence[str], *, now: Millis | None) -> bool:
        own = self._scripts.keys.of(lease.timeline)
        call = Call.of(own.partition, {"token": lease.token, "recipients": recipients}, own.slot)
        return encoding.flags(self._scripts.write_one("mark_served", call, now=now))[0]

    # Endings

    def complete(self, completions: Sequence[Completion], *, now: Millis | None) -> list[bool]:
        def call(partition: int, share: list[Completion]) -> Call:
            endings = [
                (each.lease.token, encoding.plan(each.plan), each.receipt, encoding.history_keys(each.keys))
                for each in share
            ]
            rings = self._rings_of(map(_timeline_of, share))
            return self._call(partition, map(_timeline_of, share), {**rings, "completions": endings})

        return self._write_shares("complete", completions, _timeline_of, call, now=now)

    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        def call(partition: int, share: list[Release]) -> Call:
            endings = [{**each._asdict(), "lease": each.lease.token} for each in share]
            return self._call(partition, map(_timeline_of, share), endings, declared="slot")

        return self._write_shares("release", releases, _timeline_of, call, now=now)

    def bury(self, burials: Sequence[Burial], *, now: Millis | None) -> list[bool]:
        def call(partition: int, share: list[Burial]) -> Call:
            keys: list[Packed] = []
            for burial in share:
                keys.append(self._scripts.keys.of(burial.lease.timeline).whole)
                keys.append(self._scripts.keys.letters(partition, [burial.lease.digest_id]))
            endings = [
                {
                    "token": each.lease.token,
                    "id": each.lease.digest_id,
                    "reason": each.reason,
                    "plan": encoding.plan(each.plan),
                    "traceback": each.traceback,
                    "unknown": each.unknown,
                }
                for each in share
            ]
            rings = self._rings_of(map(_timeline_of, share))
            return Call.of(partition, {**rings, "burials": endings}, joined(keys))

        def refusal(share: list[Burial], refused: ScriptRefused) -> InvalidState:
            timeline = share[int(refused.rest) - 1].lease.timeline
            return InvalidState(f"{timeline!r} is being merged: take it whole before burying it")

        return self._write_shares("bury", burials, _timeline_of, call, now=now, refusal=refusal)


def _look(partition: int, limit: int) -> Call:
    """The question for timelines that may be claimed."""
    return Call(partition, NO_KEYS, pack((limit, 0)))


def _after_look(seen: ClaimPage | StoreError, claimed: ClaimPage | StoreError) -> ClaimPage | StoreError:
    """What was claimed, with what the look before it has seen."""
    if isinstance(seen, StoreError) or isinstance(claimed, StoreError):
        return claimed
    return claimed._replace(suspect=seen.suspect, more=seen.more or claimed.more)


def _or_false(time: Millis | None) -> Millis | bool:
    return False if time is None else time


def _timeline_of(item: Take | Completion | Release | Burial) -> str:
    return item.lease.timeline


def _taken(reply: Sequence[Any], after: Cursor | None = None) -> Taken:
    revision, dropped, complete, _, *pages = reply
    records = encoding.records(pages[0]) if pages else []
    after = age_order(records[-1]) if records else after
    return Taken(revision, dropped, records, after, bool(complete))
