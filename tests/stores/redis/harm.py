"""Damages what a server holds, for tests of repairs."""

from typing import Any

from digestif import Store
from digestif.stores.redis import encoding
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.keys import SCHEDULE
from digestif.stores.redis.store import RedisStore
from digestif.testing.conformance.base import Harm


def harm_in(store: Store, how: Harm, timeline: str) -> None:
    """Damage what the server holds of a timeline, behind the store's back."""
    assert isinstance(store, RedisStore)
    keys = store._scripts.keys
    partition, own, in_digest = keys.of(timeline).partition, keys.of(timeline).keys[0], keys.of(timeline).keys[3]

    def run(*command: bytes | int | str) -> Any:
        [answer] = store._scripts.get([Command(partition, command)])
        return answer

    match how:
        case Harm.GARBLED:
            run("HSET", own, b"", b"garbled")
        case Harm.IMPOSSIBLE:
            slot = encoding.decode(run("HGET", own, b"")[8:])
            slot.pop("token", None)
            run("HSET", own, b"", b" " * 8 + encoding.encode(slot | {"state": "open"}))
        case Harm.IDLE:
            stored = run("HGET", own, b"")
            slot = encoding.decode(stored[encoding.head_size(stored) :])
            run("HSET", own, b"", b" " * 8 + encoding.encode(slot | {"state": "idle"}))
        case Harm.MISPLACED:
            for order in SCHEDULE:
                run("ZREM", keys.key(partition, order), timeline)
        case Harm.VALUE:
            run("HSET", own, max(run("HKEYS", own)), b"short")
        case Harm.RECORD:
            run("HDEL", own, max(run("HKEYS", own)))
        case Harm.DIGEST_VALUE:
            run("HSET", in_digest, max(run("HKEYS", in_digest)), b"short")
        case Harm.DIGEST_RECORD:
            run("HDEL", in_digest, max(run("HKEYS", in_digest)))
        case Harm.LETTER_RECORD:
            [letter] = store.letters(timeline, after=None, limit=2)
            in_letter = keys.letter(partition, letter.id)[0]
            run("HDEL", in_letter, max(run("HKEYS", in_letter)))
        case Harm.LETTER:
            for letter in store.letters(timeline, after=None, limit=100):
                run("HSET", keys.letter(partition, letter.id)[0], b"", _damaged(timeline))
        case Harm.HISTORY:
            history = keys.key(partition, "history")
            flat = run("HGETALL", history)
            for place, body in zip(flat[::2], flat[1::2], strict=True):
                if encoding.decode(body)["timeline"] == timeline:
                    run("HSET", history, place, _damaged(timeline))


def _damaged(timeline: str) -> bytes:
    """A damaged dead letter or entry of the history, in which only the timeline can be read."""
    return encoding.encode({"timeline": timeline, "records": "many"})
