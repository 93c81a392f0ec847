"""Moving a store in Redis into another, and another into it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from digestif.core.capacity import Cursor, age_order
from digestif.core.damage import Damage
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter
from digestif.core.times import Millis, to_millis
from digestif.core.transfer import INCOMING, OUTGOING
from digestif.errors import Busy
from digestif.stores.damage import Unreadable, unreadable_note
from digestif.stores.redis import encoding
from digestif.stores.redis.calls import DAMAGED, Call, Scripts, every
from digestif.stores.redis.client.commands import Command, Packed, Refused, joined, pack
from digestif.stores.transfer import PAST, ExportedRecord, Fence, ImportPage, ImportProgress, Parcel, TransferStore

LETTER_PARTS = 2  # while it is not whole, and then


class RedisMoving(TransferStore):
    """What a store in Redis does on the move."""

    page_records = 250  # up to 5 ms of the server
    _scripts: Any  # a Scripts

    # ExportSource

    def begin_export(self, timelines: Sequence[str], *, token: str, now: Millis | None) -> list[Parcel | None]:
        scripts: Scripts = self._scripts
        shares = _shares(scripts, timelines)
        calls = []
        for partition, places in shares.items():
            keys = joined(scripts.keys.home(timelines[place]).whole for place in places)
            tokens = [f"{OUTGOING}{token}-{place}" for place in places]
            calls.append(Call(partition, keys, pack((encoding.encode({"tokens": tokens}),))))
        parcels: list[Parcel | None] = [None] * len(timelines)
        replies = every(scripts.write("begin_export", calls, now=now))
        for places, reply in zip(shares.values(), replies, strict=True):
            for place, slot in zip(places, encoding.decode(reply), strict=True):
                parcels[place] = Parcel.of(timelines[place], msgspec.convert(slot, Slot)) if slot else None
        return parcels

    def read_export(
        self, requests: Sequence[tuple[Parcel, Cursor | None]], *, limit: int
    ) -> list[list[ExportedRecord]]:
        scripts: Scripts = self._scripts
        pages: list[list[ExportedRecord]] = []
        for parcel, after in requests:
            size = min(limit, parcel.records)
            page = _cargo(scripts, parcel, after, limit=size) if size else []
            limit -= len(page)
            pages.append(page)
        return pages

    def commit_export(self, parcels: Sequence[Parcel], *, now: Millis | None) -> list[bool]:
        scripts: Scripts = self._scripts
        shares = _shares(scripts, [parcel.timeline for parcel in parcels])
        calls = []
        for partition, places in shares.items():
            share = [parcels[place] for place in places]
            keys = joined(key for parcel in share for key in _keys(scripts, partition, parcel, parts=1))
            tokens = [parcel.id if parcel.letter is None else False for parcel in share]
            calls.append(Call(partition, keys, pack((encoding.encode({"parcels": tokens}),))))
        return _flags_in_place(len(parcels), shares, every(scripts.write("commit_export", calls, now=now)))

    def abort_export(self, timelines: Sequence[str], *, now: Millis | None) -> list[bool]:
        scripts: Scripts = self._scripts
        shares = _shares(scripts, timelines)
        calls = []
        for partition, places in shares.items():
            keys = joined(scripts.keys.home(timelines[place]).whole for place in places)
            calls.append(Call(partition, keys, pack((encoding.encode({"count": len(places)}),))))
        return _flags_in_place(len(timelines), shares, every(scripts.write("abort_export", calls, now=now)))

    def export_counts(self, partition: int, name: str) -> Mapping[str, int]:
        return self._count_past(partition, {"name": name, "fates": PAST})

    # Arriving

    def import_pages(
        self, pages: Sequence[ImportPage], *, fence: Fence | None, now: Millis | None
    ) -> list[ImportProgress | None]:
        scripts: Scripts = self._scripts
        shares = _shares(scripts, [page.parcel.timeline for page in pages])
        calls = [
            _arrival(scripts, partition, [pages[place] for place in places], fence)
            for partition, places in shares.items()
        ]
        marks: list[ImportProgress | None] = [None] * len(pages)
        with _fenced():
            replies = every(scripts.write("import_pages", calls, now=now))
        for places, reply in zip(shares.values(), replies, strict=True):
            for place, told in zip(places, encoding.decode(reply), strict=True):
                marks[place] = _mark_after(pages[place], told) if told else None
        return marks

    def abort_import(self, parcels: Sequence[Parcel], *, now: Millis | None) -> None:
        scripts: Scripts = self._scripts
        calls = []
        for partition, places in _shares(scripts, [parcel.timeline for parcel in parcels]).items():
            share = [parcels[place] for place in places]
            keys = [
                key
                for parcel in share
                for key in (
                    scripts.keys.home(parcel.timeline).whole,
                    scripts.keys.letters(partition, [f"{INCOMING}{parcel.id}"]),
                )
            ]
            request = encoding.encode({"ids": [parcel.id for parcel in share]})
            calls.append(Call(partition, joined([*keys, pack((_notes(scripts, partition),))]), pack((request,))))
        every(scripts.write("abort_import", calls, now=now))

    def progress(self, parcels: Sequence[Parcel]) -> list[ImportProgress]:
        notes = self._scripts.get([self._note_command("HGET", parcel) for parcel in parcels])
        return [_mark_in(parcel, noted) for parcel, noted in zip(parcels, notes, strict=True)]

    def delete_progress(self, parcels: Sequence[Parcel]) -> None:
        every(self._scripts.change([self._note_command("HDEL", parcel) for parcel in parcels]))

    def delete_notes(self, prefix: str) -> None:
        scripts: Scripts = self._scripts
        partitions = range(scripts.keys.partitions)
        names = scripts.get([Command(each, ("HKEYS", _notes(scripts, each))) for each in partitions])
        commands = [
            Command(each, ("HDEL", _notes(scripts, each), *found))
            for each in partitions
            if (found := [name for name in names[each] if name.startswith(prefix.encode())])
        ]
        every(scripts.change(commands))

    def _note_command(self, command: str, parcel: Parcel) -> Command:
        partition = self._scripts.keys.partition_of(parcel.timeline)
        return Command(partition, (command, _notes(self._scripts, partition), parcel.id))

    def import_counts(self, name: str, past: Mapping[str, int], *, fence: Fence | None) -> None:
        with _fenced():
            self._count_past(0, {"name": name, "counts": past, "fence": _told_fence(fence)})

    def _count_past(self, partition: int, request: Mapping[str, Any]) -> dict[str, int]:
        call = Call(partition, pack((_notes(self._scripts, partition),)), pack((encoding.encode(request),)))
        counts: dict[str, int] = encoding.decode(self._scripts.write_one("export_counts", call, now=None))
        return counts

    # Notes

    def note(self, partition: int, name: str) -> bytes | None:
        [body] = self._scripts.get([Command(partition, ("HGET", _notes(self._scripts, partition), name))])
        return body if body is None else bytes(body)

    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        keys = pack((_notes(self._scripts, partition),))
        call = Call(partition, keys, pack((name.encode(), old or b"", new or b"")))
        return encoding.flags(self._scripts.write_one("swap_note", call, now=None))[0]


_mark = msgspec.msgpack.Decoder(ImportProgress).decode


def _mark_in(parcel: Parcel, noted: bytes | None) -> ImportProgress:
    try:
        return ImportProgress() if noted is None else _mark(noted)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise unreadable_note(parcel.id, error) from error


def _shares(scripts: Scripts, timelines: Iterable[str]) -> dict[int, list[int]]:
    """The places of timelines by partition."""
    shares: dict[int, list[int]] = {}
    for place, timeline in enumerate(timelines):
        shares.setdefault(scripts.keys.partition_of(timeline), []).append(place)
    return shares


def _flags_in_place(count: int, shares: Mapping[int, list[int]], replies: Sequence[bytes]) -> list[bool]:
    """The flags that partitions answered, in the order in which they were asked for."""
    flags = [False] * count
    for places, reply in zip(shares.values(), replies, strict=True):
        for place, flag in zip(places, encoding.flags(reply), strict=True):
            flags[place] = flag
    return flags


def _notes(scripts: Scripts, partition: int) -> bytes:
    return scripts.keys.key(partition, "notes")


def _keys(scripts: Scripts, partition: int, parcel: Parcel, *, parts: int) -> list[Packed]:
    """The keys of a parcel's timeline, and as many times those of its letter; of any, if it is none."""
    name = "" if parcel.letter is None else parcel.letter.id
    names = [f"{INCOMING}{parcel.id}", name][LETTER_PARTS - parts :]
    return [scripts.keys.home(parcel.timeline).whole, scripts.keys.letters(partition, names)]


def _cargo(scripts: Scripts, parcel: Parcel, after: Cursor | None, *, limit: int) -> list[ExportedRecord]:
    home = scripts.keys.home(parcel.timeline)
    keys = home.keys[3:6] if parcel.letter is None else scripts.keys.letter(home.partition, parcel.letter.id)
    flat = scripts.read("read_export", home.partition, keys, limit, encoding.encode(after) if after else b"")
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return [encoding.read_export(key.decode(), stored, deadline) for key, stored, deadline in triples]


def _told_fence(fence: Fence | None) -> tuple[str, str] | bool:
    return fence is not None and (fence.name, fence.holder.decode())


@contextmanager
def _fenced() -> Iterator[None]:
    try:
        yield
    except Refused as error:
        if error.word == DAMAGED:
            problem = "a timeline that something is to be moved into, or a note about it, can't be read"
            raise Unreadable(Damage(timeline=None, part="slot", problem=problem)) from None
        raise Busy("move: this process was away for too long, and another one went on with the move") from None


def _arrival(scripts: Scripts, partition: int, pages: Sequence[ImportPage], fence: Fence | None) -> Call:
    keys = [key for page in pages for key in _keys(scripts, partition, page.parcel, parts=LETTER_PARTS)]
    told = [_told(page) for page in pages]
    bodies = [
        encoding.body(item.record.key, item.record.timestamp, item.record.payload)
        for page in pages
        for item in page.records
    ]
    head = pack((encoding.encode({"pages": told, "fence": _told_fence(fence)}),))
    arguments = Packed(head.parts + 2 * len(bodies), b"".join((head.body, *bodies)))
    return Call(partition, joined([*keys, pack((_notes(scripts, partition),))]), arguments)


def _told(page: ImportPage) -> list[Any]:
    parcel, cargo = page.parcel, page.records
    after = age_order(cargo[-1].record) if cargo else False
    times = [(False if d is None else d, False if e is None else e) for _, d, e in cargo]
    letter = False if parcel.letter is None else _letter(parcel.letter)
    return [parcel.id, parcel.kind, parcel.records, page.done, after, parcel.slot, letter, times]


def _letter(letter: DeadLetter) -> dict[str, Any]:
    times = {"opened": to_millis(letter.opened), "buried": to_millis(letter.buried)}
    told: dict[str, Any] = {**msgspec.to_builtins(letter), **times}
    return told


def _mark_after(page: ImportPage, told: Sequence[Any]) -> ImportProgress:
    done, whole = told
    arrived = page.done + len(page.records)
    after = age_order(page.records[-1].record) if page.records and done == arrived else None
    return ImportProgress(done=done, after=after, whole=whole)
