"""Transfers: timelines and dead letters leave for another store, and arrive from one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import msgspec

from digestif.core.capacity import Cursor, age_order
from digestif.core.damage import Damage
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter
from digestif.core.times import Millis, to_millis
from digestif.core.transfer import INCOMING, OUTGOING
from digestif.errors import Busy
from digestif.stores.damage import Unreadable, decoded_note
from digestif.stores.redis import encoding
from digestif.stores.redis.calls import DAMAGED, NO_KEYS, Call
from digestif.stores.redis.client.commands import Command, Packed, ScriptRefused, joined, pack
from digestif.stores.redis.client.link import all_required, required
from digestif.stores.redis.keys import as_text
from digestif.stores.redis.verbs import RedisVerbs, read_slots, shares_of
from digestif.stores.transfer import PAST, ExportedRecord, Fence, ImportPage, ImportProgress, Parcel, TransferStore

LETTER_PARTS = 2  # the names of a dead letter: during its import, and after


class RedisTransfer(RedisVerbs, TransferStore):
    """The verbs of the store that export and import."""

    page_records = 250  # up to 5 ms of the server

    # The move

    def due(self, *, limit: int, now: Millis | None) -> list[tuple[str, Slot]]:
        partitions = range(self._scripts.keys.partitions)
        calls = [Call(each, NO_KEYS, pack((limit, 1))) for each in partitions]
        replies = all_required(self._scripts.query("claimable", calls, now=now))
        found = [
            self._without_strays(each, list(map(as_text, names)))
            for each, (_, *names) in zip(partitions, replies, strict=True)
        ]
        names = [name for row in zip_longest(*found) for name in row if name is not None][:limit]
        slots = zip(names, read_slots(self._scripts, names) if names else [], strict=True)
        return [(name, slot) for name, slot in slots if isinstance(slot, Slot)]

    def begin_move(self, partition: int, move_id: str, *, now: Millis | None) -> None:
        self._scripts.write_one("mark_move", Call.of(partition, {"id": move_id, "begins": True}), now=now)

    def end_move(self, partition: int, move_id: str | None) -> None:
        request = {"id": move_id or False, "begins": False}
        self._scripts.write_one("mark_move", Call.of(partition, request), now=None)

    # Exports

    def begin_export(self, timelines: Sequence[str], *, token: str, now: Millis | None) -> list[Parcel | None]:
        shares = shares_of(self._scripts.keys, timelines)
        calls = []
        for partition, positions in shares.items():
            tokens = [f"{OUTGOING}{token}-{position}" for position in positions]
            calls.append(self._call(partition, [timelines[position] for position in positions], {"tokens": tokens}))
        parcels: list[Parcel | None] = [None] * len(timelines)
        replies = all_required(self._scripts.write("begin_export", calls, now=now))
        for positions, reply in zip(shares.values(), replies, strict=True):
            slots, losses = encoding.decode(reply)
            self._report_losses(losses)
            for position, slot in zip(positions, slots, strict=True):
                parcels[position] = Parcel.of(timelines[position], msgspec.convert(slot, Slot)) if slot else None
        return parcels

    def read_export(
        self, requests: Sequence[tuple[Parcel, Cursor | None]], *, limit: int
    ) -> list[list[ExportedRecord]]:
        pages: list[list[ExportedRecord]] = []
        for parcel, after in requests:
            size = min(limit, parcel.records)
            page = self._exported_page(parcel, after, limit=size) if size else []
            limit -= len(page)
            pages.append(page)
        return pages

    def _exported_page(self, parcel: Parcel, after: Cursor | None, *, limit: int) -> list[ExportedRecord]:
        own, letter = self._scripts.keys.of(parcel.timeline), parcel.letter
        keys = own.keys[3:6] if letter is None else self._scripts.keys.letter(own.partition, letter.id)
        start = encoding.encode(after) if after else b""
        flat = self._scripts.read("read_export", own.partition, keys, limit, start)
        triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        return [encoding.read_export(key.decode(), stored, deadline) for key, stored, deadline in triples]

    def commit_export(self, parcels: Sequence[Parcel], *, now: Millis | None) -> list[bool]:
        def call(partition: int, share: list[Parcel]) -> Call:
            keys = joined(key for parcel in share for key in self._keys_of(partition, parcel, parts=1))
            held = [(parcel.id, parcel.slot) if parcel.letter is None else False for parcel in share]
            return Call.of(partition, {"parcels": held}, keys)

        return self._write_shares("commit_export", parcels, lambda parcel: parcel.timeline, call, now=now)

    def abort_export(self, timelines: Sequence[str], *, now: Millis | None) -> list[bool]:
        def call(partition: int, share: list[str]) -> Call:
            return self._call(partition, share, {"count": len(share)})

        return self._write_shares("abort_export", timelines, lambda timeline: timeline, call, now=now)

    def export_counts(self, partition: int, name: str) -> Mapping[str, int]:
        return self._count_past(partition, {"name": name, "fates": PAST})

    # Imports

    def import_pages(
        self, pages: Sequence[ImportPage], *, fence: Fence | None, now: Millis | None
    ) -> list[ImportProgress | None]:
        shares = shares_of(self._scripts.keys, [page.parcel.timeline for page in pages])
        calls = [
            self._import_call(partition, [pages[position] for position in positions], fence)
            for partition, positions in shares.items()
        ]
        progress: list[ImportProgress | None] = [None] * len(pages)
        with _fenced():
            replies = all_required(self._scripts.write("import_pages", calls, now=now))
        for positions, reply in zip(shares.values(), replies, strict=True):
            for position, state in zip(positions, encoding.decode(reply), strict=True):
                progress[position] = _progress_after(pages[position], *state) if state else None
        return progress

    def _import_call(self, partition: int, pages: Sequence[ImportPage], fence: Fence | None) -> Call:
        keys = [key for page in pages for key in self._keys_of(partition, page.parcel, parts=LETTER_PARTS)]
        records = [item.record for page in pages for item in page.records]
        nameless = encoding.are_json(record.payload for record in records)
        pieces = [
            piece for each in records for piece in encoding.body(each.key, each.timestamp, each.payload, nameless)
        ]
        request = {"pages": list(map(_page, pages)), "fence": _fence(fence), "nameless": nameless}
        head = pack((encoding.encode(request),))
        arguments = Packed(head.parts + 2 * len(records), b"".join((head.body, *pieces)))
        return Call(partition, joined([*keys, self._packed_notes(partition)]), arguments)

    def _keys_of(self, partition: int, parcel: Parcel, *, parts: int) -> list[Packed]:
        """The keys of a parcel's timeline, then those of its dead letter, by its last names.

        Without a dead letter they are placeholders, so that scripts find the keys of each parcel at equal distances.
        """
        name = "" if parcel.letter is None else parcel.letter.id
        names = [f"{INCOMING}{parcel.id}", name][LETTER_PARTS - parts :]
        return [self._scripts.keys.of(parcel.timeline).whole, self._scripts.keys.letters(partition, names)]

    def abort_import(self, parcels: Sequence[Parcel], *, now: Millis | None) -> None:
        calls = []
        for partition, positions in shares_of(self._scripts.keys, [parcel.timeline for parcel in parcels]).items():
            share = [parcels[position] for position in positions]
            keys: list[Packed] = []
            for parcel in share:
                keys.append(self._scripts.keys.of(parcel.timeline).whole)
                keys.append(self._scripts.keys.letters(partition, [f"{INCOMING}{parcel.id}"]))
            request = {"parcels": [(parcel.id, parcel.slot) for parcel in share]}
            calls.append(Call.of(partition, request, joined([*keys, self._packed_notes(partition)])))
        all_required(self._scripts.write("abort_import", calls, now=now))

    def progress(self, parcels: Sequence[Parcel]) -> list[ImportProgress]:
        notes = self._scripts.get([self._note_command("HGET", parcel) for parcel in parcels])
        return [_progress_in(parcel, noted) for parcel, noted in zip(parcels, notes, strict=True)]

    def delete_progress(self, parcels: Sequence[Parcel]) -> None:
        by_partition: dict[int, list[bytes]] = {}
        for parcel in parcels:
            by_partition.setdefault(self._scripts.keys.partition_of(parcel.timeline), []).append(parcel.id.encode())
        self._scripts.remove("HDEL", [(each, self._notes(each), names) for each, names in by_partition.items()])

    def delete_notes(self, prefix: str) -> None:
        partitions = range(self._scripts.keys.partitions)
        names = self._scripts.get([Command(each, ("HKEYS", self._notes(each))) for each in partitions])
        found = {each: [name for name in names[each] if name.startswith(prefix.encode())] for each in partitions}
        self._scripts.remove("HDEL", [(each, self._notes(each), found[each]) for each in partitions])

    def _note_command(self, command: str, parcel: Parcel) -> Command:
        partition = self._scripts.keys.partition_of(parcel.timeline)
        return Command(partition, (command, self._notes(partition), parcel.id))

    def import_counts(self, name: str, past: Mapping[str, int], *, fence: Fence | None) -> None:
        with _fenced():
            self._count_past(0, {"name": name, "counts": past, "fence": _fence(fence)})

    def _count_past(self, partition: int, request: Mapping[str, Any]) -> dict[str, int]:
        call = Call.of(partition, request, self._packed_notes(partition))
        counts: dict[str, int] = encoding.decode(self._scripts.write_one("export_counts", call, now=None))
        return counts

    # Notes

    def note(self, partition: int, name: str) -> bytes | None:
        command = Command(partition, ("HGET", self._notes(partition), name))
        body = required(self._scripts.ask([command], fail_fast=True)[0])  # claims read notes, too
        return body if body is None else bytes(body)

    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        call = Call(partition, self._packed_notes(partition), pack((name.encode(), old or b"", new or b"")))
        return encoding.flags(self._scripts.write_one("swap_note", call, now=None))[0]

    def _notes(self, partition: int) -> bytes:
        return self._scripts.keys.key(partition, "notes")

    def _packed_notes(self, partition: int) -> Packed:
        return pack((self._notes(partition),))


_decode_progress = msgspec.msgpack.Decoder(ImportProgress).decode


def _progress_in(parcel: Parcel, noted: bytes | None) -> ImportProgress:
    return ImportProgress() if noted is None else decoded_note(parcel.id, noted, _decode_progress)


def _fence(fence: Fence | None) -> tuple[str, str] | bool:
    return fence is not None and (fence.name, fence.holder.decode())


@contextmanager
def _fenced() -> Iterator[None]:
    """Translate the refusal of a script that found another holder, or damage."""
    try:
        yield
    except ScriptRefused as error:
        if error.word == DAMAGED:
            problem = "a timeline that something is to be moved into, or a note about it, can't be read"
            raise Unreadable(Damage(timeline=None, part="slot", problem=problem)) from None
        raise Busy("move: this process was away for too long, and another one went on with the move") from None


def _page(page: ImportPage) -> list[Any]:
    parcel, records = page.parcel, page.records
    after = age_order(records[-1].record) if records else False
    times = [(False if d is None else d, False if e is None else e) for _, d, e in records]
    letter = False if parcel.letter is None else _letter(parcel.letter)
    return [parcel.id, parcel.kind, parcel.records, page.done, after, parcel.slot, letter, times]


def _letter(letter: DeadLetter) -> dict[str, Any]:
    times = {"opened": to_millis(letter.opened), "buried": to_millis(letter.buried)}
    return {**msgspec.to_builtins(letter), **times}


def _progress_after(page: ImportPage, done: int, whole: bool) -> ImportProgress:
    arrived = page.done + len(page.records)
    after = age_order(page.records[-1].record) if page.records and done == arrived else None
    return ImportProgress(done=done, after=after, whole=whole)
