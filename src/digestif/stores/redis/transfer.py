"""Moving a store in Redis into another, and another into it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from digestif.core import machine
from digestif.core.capacity import Cursor, age_order
from digestif.core.damage import Damage
from digestif.core.machine import LEAVING, Slot
from digestif.core.records import DeadLetter
from digestif.core.times import Millis, to_millis
from digestif.errors import Busy
from digestif.stores.damage import Unreadable, unreadable_note
from digestif.stores.redis import encoding
from digestif.stores.redis.calls import DAMAGED, Call, Dialogue, every
from digestif.stores.redis.client.commands import Command, Refused
from digestif.stores.redis.client.resp import Packed, joined, pack
from digestif.stores.transfer import PAST, Cargo, Fence, Mark, Movable, Page, Parcel

LETTER_PARTS = 2  # while it is not whole, and then


class RedisMoving(Movable):
    """What a store in Redis does on the move."""

    freight_records = 250  # up to 5 ms of the server
    _dialogue: Any  # a Dialogue

    # Leaving

    def depart(self, timelines: Sequence[str], *, token: str, now: Millis | None) -> list[Parcel | None]:
        dialogue: Dialogue = self._dialogue
        shares = _shares(dialogue, timelines)
        calls = []
        for partition, places in shares.items():
            keys = joined(dialogue.keys.home(timelines[place]).whole for place in places)
            tokens = [f"{LEAVING}{token}-{place}" for place in places]
            calls.append(Call(partition, keys, pack((encoding.encode({"tokens": tokens}),))))
        parcels: list[Parcel | None] = [None] * len(timelines)
        replies = every(dialogue.write("depart", calls, now=now))
        for places, reply in zip(shares.values(), replies, strict=True):
            for place, slot in zip(places, encoding.decode(reply), strict=True):
                parcels[place] = Parcel.of(timelines[place], msgspec.convert(slot, Slot)) if slot else None
        return parcels

    def cargo(self, requests: Sequence[tuple[Parcel, Cursor | None]], *, limit: int) -> list[list[Cargo]]:
        dialogue: Dialogue = self._dialogue
        pages: list[list[Cargo]] = []
        for parcel, after in requests:
            size = min(limit, parcel.records)
            page = _cargo(dialogue, parcel, after, limit=size) if size else []
            limit -= len(page)
            pages.append(page)
        return pages

    def let_go(self, parcels: Sequence[Parcel], *, now: Millis | None) -> list[bool]:
        dialogue: Dialogue = self._dialogue
        shares = _shares(dialogue, [parcel.timeline for parcel in parcels])
        calls = []
        for partition, places in shares.items():
            share = [parcels[place] for place in places]
            keys = joined(key for parcel in share for key in _keys(dialogue, partition, parcel, parts=1))
            tokens = [parcel.id if parcel.letter is None else False for parcel in share]
            calls.append(Call(partition, keys, pack((encoding.encode({"parcels": tokens}),))))
        return _flags_in_place(len(parcels), shares, every(dialogue.write("let_go", calls, now=now)))

    def stay(self, timelines: Sequence[str], *, now: Millis | None) -> list[bool]:
        dialogue: Dialogue = self._dialogue
        shares = _shares(dialogue, timelines)
        calls = []
        for partition, places in shares.items():
            keys = joined(dialogue.keys.home(timelines[place]).whole for place in places)
            calls.append(Call(partition, keys, pack((encoding.encode({"count": len(places)}),))))
        return _flags_in_place(len(timelines), shares, every(dialogue.write("stay", calls, now=now)))

    def past(self, partition: int, name: str) -> Mapping[str, int]:
        return self._count_past(partition, {"name": name, "fates": PAST})

    # Arriving

    def arrive(self, pages: Sequence[Page], *, fence: Fence | None, now: Millis | None) -> list[Mark | None]:
        dialogue: Dialogue = self._dialogue
        shares = _shares(dialogue, [page.parcel.timeline for page in pages])
        calls = [
            _arrival(dialogue, partition, [pages[place] for place in places], fence)
            for partition, places in shares.items()
        ]
        marks: list[Mark | None] = [None] * len(pages)
        with _fenced():
            replies = every(dialogue.write("arrive", calls, now=now))
        for places, reply in zip(shares.values(), replies, strict=True):
            for place, told in zip(places, encoding.decode(reply), strict=True):
                marks[place] = _mark_after(pages[place], told) if told else None
        return marks

    def drop_parts(self, parcels: Sequence[Parcel], *, now: Millis | None) -> None:
        dialogue: Dialogue = self._dialogue
        calls = []
        for partition, places in _shares(dialogue, [parcel.timeline for parcel in parcels]).items():
            share = [parcels[place] for place in places]
            keys = [
                key
                for parcel in share
                for key in (
                    dialogue.keys.home(parcel.timeline).whole,
                    dialogue.keys.letters(partition, [f"{machine.COMING}{parcel.id}"]),
                )
            ]
            request = encoding.encode({"ids": [parcel.id for parcel in share]})
            calls.append(Call(partition, joined([*keys, pack((_notes(dialogue, partition),))]), pack((request,))))
        every(dialogue.write("drop_parts", calls, now=now))

    def marks(self, parcels: Sequence[Parcel]) -> list[Mark]:
        notes = self._dialogue.get([self._note_command("HGET", parcel) for parcel in parcels])
        return [_mark_in(parcel, noted) for parcel, noted in zip(parcels, notes, strict=True)]

    def forget(self, parcels: Sequence[Parcel]) -> None:
        every(self._dialogue.change([self._note_command("HDEL", parcel) for parcel in parcels]))

    def forget_all(self, prefix: str) -> None:
        dialogue: Dialogue = self._dialogue
        partitions = range(dialogue.keys.partitions)
        names = dialogue.get([Command(each, ("HKEYS", _notes(dialogue, each))) for each in partitions])
        commands = [
            Command(each, ("HDEL", _notes(dialogue, each), *found))
            for each in partitions
            if (found := [name for name in names[each] if name.startswith(prefix.encode())])
        ]
        every(dialogue.change(commands))

    def _note_command(self, command: str, parcel: Parcel) -> Command:
        partition = self._dialogue.keys.partition_of(parcel.timeline)
        return Command(partition, (command, _notes(self._dialogue, partition), parcel.id))

    def take_in(self, name: str, past: Mapping[str, int], *, fence: Fence | None) -> None:
        with _fenced():
            self._count_past(0, {"name": name, "counts": past, "fence": _told_fence(fence)})

    def _count_past(self, partition: int, request: Mapping[str, Any]) -> dict[str, int]:
        call = Call(partition, pack((_notes(self._dialogue, partition),)), pack((encoding.encode(request),)))
        counts: dict[str, int] = encoding.decode(self._dialogue.write_one("past", call, now=None))
        return counts

    # Notes

    def note(self, partition: int, name: str) -> bytes | None:
        [body] = self._dialogue.get([Command(partition, ("HGET", _notes(self._dialogue, partition), name))])
        return body if body is None else bytes(body)

    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        keys = pack((_notes(self._dialogue, partition),))
        call = Call(partition, keys, pack((name.encode(), old or b"", new or b"")))
        return encoding.flags(self._dialogue.write_one("swap_note", call, now=None))[0]


_mark = msgspec.msgpack.Decoder(Mark).decode


def _mark_in(parcel: Parcel, noted: bytes | None) -> Mark:
    try:
        return Mark() if noted is None else _mark(noted)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise unreadable_note(parcel.id, error) from error


def _shares(dialogue: Dialogue, timelines: Iterable[str]) -> dict[int, list[int]]:
    """The places of timelines by partition."""
    shares: dict[int, list[int]] = {}
    for place, timeline in enumerate(timelines):
        shares.setdefault(dialogue.keys.partition_of(timeline), []).append(place)
    return shares


def _flags_in_place(count: int, shares: Mapping[int, list[int]], replies: Sequence[bytes]) -> list[bool]:
    """The flags that partitions answered, in the order in which they were asked for."""
    flags = [False] * count
    for places, reply in zip(shares.values(), replies, strict=True):
        for place, flag in zip(places, encoding.flags(reply), strict=True):
            flags[place] = flag
    return flags


def _notes(dialogue: Dialogue, partition: int) -> bytes:
    return dialogue.keys.key(partition, "notes")


def _keys(dialogue: Dialogue, partition: int, parcel: Parcel, *, parts: int) -> list[Packed]:
    """The keys of a parcel's timeline, and as many times those of its letter; of any, if it is none."""
    name = "" if parcel.letter is None else parcel.letter.id
    names = [f"{machine.COMING}{parcel.id}", name][LETTER_PARTS - parts :]
    return [dialogue.keys.home(parcel.timeline).whole, dialogue.keys.letters(partition, names)]


def _cargo(dialogue: Dialogue, parcel: Parcel, after: Cursor | None, *, limit: int) -> list[Cargo]:
    home = dialogue.keys.home(parcel.timeline)
    keys = home.keys[3:6] if parcel.letter is None else dialogue.keys.letter(home.partition, parcel.letter.id)
    flat = dialogue.read("cargo", home.partition, keys, limit, encoding.encode(after) if after else b"")
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return [encoding.cargo(key.decode(), stored, deadline) for key, stored, deadline in triples]


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


def _arrival(dialogue: Dialogue, partition: int, pages: Sequence[Page], fence: Fence | None) -> Call:
    keys = [key for page in pages for key in _keys(dialogue, partition, page.parcel, parts=LETTER_PARTS)]
    told = [_told(page) for page in pages]
    bodies = [
        encoding.body(item.record.key, item.record.timestamp, item.record.payload)
        for page in pages
        for item in page.cargo
    ]
    head = pack((encoding.encode({"pages": told, "fence": _told_fence(fence)}),))
    arguments = Packed(head.parts + 2 * len(bodies), b"".join((head.body, *bodies)))
    return Call(partition, joined([*keys, pack((_notes(dialogue, partition),))]), arguments)


def _told(page: Page) -> list[Any]:
    parcel, cargo = page.parcel, page.cargo
    after = age_order(cargo[-1].record) if cargo else False
    times = [(False if d is None else d, False if e is None else e) for _, d, e in cargo]
    letter = False if parcel.letter is None else _letter(parcel.letter)
    return [parcel.id, parcel.freight, parcel.records, page.done, after, parcel.slot, letter, times]


def _letter(letter: DeadLetter) -> dict[str, Any]:
    times = {"opened": to_millis(letter.opened), "buried": to_millis(letter.buried)}
    told: dict[str, Any] = {**msgspec.to_builtins(letter), **times}
    return told


def _mark_after(page: Page, told: Sequence[Any]) -> Mark:
    done, whole = told
    arrived = page.done + len(page.cargo)
    after = age_order(page.cargo[-1].record) if page.cargo and done == arrived else None
    return Mark(done=done, after=after, whole=whole)
