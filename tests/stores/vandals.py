"""Random damage to what a store keeps, and lives of stores that suffer it: each from a seed."""

import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import psycopg
from redis import Redis

from digestif import Busy, Digests, InvalidState, Policy, Store, StoreError
from digestif.testing.conformance.actions import T

NAMES = ("a", "b", "c")
POLICY = Policy(attempts=2, minimum_delay=5, increment_delay=1, maximum_delay=20, ttl=200, capacity=320)


class Strike(NamedTuple):
    """Damage that was done."""

    says: str
    is_named: bool  # `verify` must name it


class Vandal(Protocol):
    """Damages what a store keeps, behind its back."""

    def strike(self, chance: random.Random) -> Strike | None:
        """Do some damage; None if there was nothing to damage."""


class Statement(NamedTuple):
    """A statement that damages a row."""

    table: str
    says: str
    is_named: bool = (
        True  # a timeline or letter that held no record is not missed; a letter may hold a valueless record
    )


class SQLiteVandal:
    """Changes rows of a file by a connection of its own."""

    STATEMENTS = (
        Statement("record", "UPDATE record SET payload = NULL WHERE arrival = ?", False),
        Statement("living", "UPDATE record SET payload = NULL WHERE arrival = ?"),
        Statement("record", "DELETE FROM record WHERE arrival = ?"),
        Statement("record", "DELETE FROM record WHERE batch = (SELECT batch FROM record WHERE arrival = ?)"),
        Statement("timeline", "DELETE FROM timeline WHERE id = ?", False),
        Statement("timeline", "UPDATE timeline SET slot = substr(slot, 1, 9) WHERE id = ?"),
        Statement("timeline", "UPDATE timeline SET slot = json_set(slot, '$.pending', 77) WHERE id = ?"),
        Statement("timeline", "UPDATE timeline SET slot = json_set(slot, '$.state', 'asleep') WHERE id = ?"),
        Statement("timeline", "UPDATE timeline SET slot = json_set(slot, '$.digest', 1) WHERE id = ?"),
        Statement("letter", "DELETE FROM letter WHERE number = ?"),
        Statement("letter", "UPDATE letter SET body = '{' WHERE number = ?"),
    )
    PLACES: ClassVar = {
        "record": "SELECT arrival FROM record WHERE batch NOT IN (SELECT batch FROM trash) ORDER BY arrival",
        "living": """SELECT arrival FROM record
            WHERE batch NOT IN (SELECT batch FROM trash UNION SELECT batch FROM letter) ORDER BY arrival""",
        "timeline": "SELECT id FROM timeline ORDER BY id",
        "letter": "SELECT number FROM letter ORDER BY number",
    }

    def __init__(self, path: Path) -> None:
        self._path = path

    def strike(self, chance: random.Random) -> Strike | None:
        table, says, is_named = chance.choice(self.STATEMENTS)
        with closing(sqlite3.connect(self._path, isolation_level=None)) as file:
            places = [place for (place,) in file.execute(self.PLACES[table])]
            if not places:
                return None
            place = chance.choice(places)
            with suppress(sqlite3.OperationalError):  # the slot is no JSON any more
                file.execute(says, (place,))
        return Strike(f"{says} [{place}]", is_named)


_OWN = "namespace = (SELECT id FROM namespace WHERE name = %(namespace)s)"
_NAME = f"DELETE FROM timeline_name WHERE key = %(place)s AND {_OWN}"
_SLOT = "UPDATE timeline SET slot = {} WHERE key = %(place)s"
_WITH = "convert_to((convert_from(slot, 'UTF8')::jsonb || '{}')::text, 'UTF8')"


class PostgresVandal:
    """Changes rows of a database by a connection of its own."""

    STATEMENTS = (
        Statement("record", "UPDATE record SET payload = NULL WHERE arrival = %(place)s", False),
        Statement("living", "UPDATE record SET payload = NULL WHERE arrival = %(place)s"),
        Statement("record", "DELETE FROM record WHERE arrival = %(place)s"),
        Statement("record", "DELETE FROM record WHERE batch = (SELECT batch FROM record WHERE arrival = %(place)s)"),
        Statement("timeline", f"WITH name AS ({_NAME}) DELETE FROM timeline WHERE key = %(place)s", False),
        Statement("timeline", _SLOT.format("substr(slot, 1, 9)")),
        Statement("timeline", _SLOT.format(_WITH.format('{"pending": 77}'))),
        Statement("timeline", _SLOT.format(_WITH.format('{"state": "asleep"}'))),
        Statement("timeline", _SLOT.format(_WITH.format('{"digest": 1}'))),
        Statement("letter", "DELETE FROM letter WHERE number = %(place)s"),
        Statement("letter", "UPDATE letter SET body = '{' WHERE number = %(place)s"),
    )
    PLACES: ClassVar = {
        "record": f"""SELECT arrival FROM record
            WHERE batch NOT IN (SELECT batch FROM trash) AND {_OWN} ORDER BY arrival""",
        "living": f"""SELECT arrival FROM record
            WHERE batch NOT IN (SELECT batch FROM trash UNION SELECT batch FROM letter) AND {_OWN} ORDER BY arrival""",
        "timeline": f"SELECT key FROM timeline WHERE {_OWN} ORDER BY key",
        "letter": f"SELECT number FROM letter WHERE {_OWN} ORDER BY number",
    }

    def __init__(self, url: str, namespace: str) -> None:
        self._url = url
        self._namespace = namespace

    def strike(self, chance: random.Random) -> Strike | None:
        table, says, is_named = chance.choice(self.STATEMENTS)
        given: dict[str, Any] = {"namespace": self._namespace}
        with psycopg.connect(self._url, autocommit=True, options="-c search_path=digestif") as connection:
            places = [place for (place,) in connection.execute(self.PLACES[table].encode(), given)]
            if not places:
                return None
            given["place"] = chance.choice(places)
            with suppress(psycopg.DataError):  # the slot is no JSON any more
                connection.execute(f"{says} AND {_OWN}".encode(), given)
        return Strike(f"{says} [{given['place']}]", is_named)


class RedisVandal:
    """Changes keys of a namespace by a client of its own."""

    HASHES = (":t:", ":o:", ":m:", ":l:")
    SCHEDULE = (":waiting", ":ready", ":leases", ":since")
    AGES = (":ta:", ":oa:", ":la:", ":tx:", ":ox:")
    ORDERS = (*AGES, ":expiring", *SCHEDULE)

    def __init__(self, client: "Redis", namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def strike(self, chance: random.Random) -> Strike | None:
        found: Any = self._client.keys(f"{{{self._namespace}:*")
        keys = sorted(key.decode() for key in found)
        hashes = [key for key in keys if any(kind in key for kind in self.HASHES)]
        orders = [key for key in keys if any(kind in key for kind in self.ORDERS)]
        strikes = [self._delete_field] * 4 + [self._garble_field] * 2 + [self._delete_key]
        if orders and chance.random() < 0.4:
            return chance.choice([self._delete_member, self._delete_member, self._delete_key])(orders, chance)
        return chance.choice(strikes)(hashes, chance) if hashes else None

    def _delete_field(self, keys: list[str], chance: random.Random) -> Strike | None:
        key, field = self._some_field(keys, chance)
        if field is None:
            return None
        self._client.hdel(key, field)
        return Strike(f"HDEL {key} {field!r}", field != b"" or ":t:" not in key)

    def _garble_field(self, keys: list[str], chance: random.Random) -> Strike | None:
        key, field = self._some_field(keys, chance)
        if field is None:
            return None
        self._client.hset(key, field, chance.choice([b"", b"x", b"garbled"]))
        return Strike(f"HSET {key} {field!r}", field == b"" or ":l:" not in key)

    def _some_field(self, keys: list[str], chance: random.Random) -> tuple[str, bytes | None]:
        key = chance.choice(keys)
        fields: Any = self._client.hkeys(key) if self._client.type(key) == b"hash" else []
        return key, chance.choice(sorted(fields)) if fields else None

    def _delete_member(self, keys: list[str], chance: random.Random) -> Strike | None:
        key = chance.choice(keys)
        members: Any = self._client.zrange(key, 0, -1) if self._client.type(key) == b"zset" else []
        if not members:
            return None
        member = chance.choice(sorted(members))
        self._client.zrem(key, member)
        return Strike(f"ZREM {key} {member!r}", any(kind in key for kind in self.SCHEDULE))

    def _delete_key(self, keys: list[str], chance: random.Random) -> Strike:
        """Delete a key. One that held records, or their order, may be a text afterwards."""
        key = chance.choice(keys)
        held_records = self._client.type(key) == b"hash" and self._client.hlen(key) > 1
        may_be_text = held_records or any(kind in key for kind in self.AGES)
        self._client.delete(key)
        if not may_be_text or chance.random() < 0.5:
            return Strike(f"DEL {key}", is_named=False)
        self._client.set(key, "text")
        return Strike(f"SET {key}", is_named=False)


class DamagedLife:
    """A store that is used, damaged, used again and repaired: `accepted` and the sum of all fates hold at each step."""

    def __init__(self, store: Store, vandal: Vandal, seed: str) -> None:
        self._store = store
        self._vandal = vandal
        self._chance = random.Random(seed)
        self._digests = Digests(store, policy=POLICY)
        self._now = T
        self._accepted = 0
        self.steps: list[str] = [f"seed {seed}"]  # what happened, for a failure

    def run(self) -> int:
        """Live; the answer is how often it was damaged. An error says what happened before."""
        try:
            return self._run()
        except Exception as error:
            error.add_note("\n  ".join(self.steps))
            raise

    def _run(self) -> int:
        self._populate()
        self._check()
        assert self._digests.verify()
        strikes = self._strike(self._chance.choice([1, 1, 1, 2, 4]))
        if strikes and self._chance.random() < 0.5:
            self._live(self._chance.randrange(4, 16))
            if self._chance.random() < 0.5:
                strikes += self._strike(1)
                self._live(self._chance.randrange(4, 12))
        self._digests.repair(now=self._now)
        self._check()
        assert self._digests.verify().problems == ()
        lost = self._digests.ledger().lost
        self._live(8)
        problems = self._digests.verify().problems  # a replay may bring back what a repair put into a dead letter
        assert all("have no value" in problem for problem in problems), problems
        assert self._digests.ledger().lost == lost  # nothing but damage raises it
        return strikes

    def _populate(self) -> None:
        many = self._chance.choice([3, 3, 3, 140, 300])
        self._digests.add_many([("a", number) for number in range(many)], now=self._now)
        self._accepted += many
        for _ in range(self._chance.randrange(2, 12)):
            self._step()

    def _strike(self, times: int) -> int:
        struck = [damage for damage in (self._vandal.strike(self._chance) for _ in range(times)) if damage]
        self.steps += [damage.says for damage in struck]
        self._check()
        if times == 1 and any(damage.is_named for damage in struck):  # of several, one may hide another
            assert not self._digests.verify()
        return len(struck)

    def _live(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    def _step(self) -> None:
        self._now += self._chance.choice([0, 1, 5, 5, 30, 120])
        steps = (self._add, self._add, self._deliver, self._deliver, self._fail, self._maintain, self._end_letter)
        act = self._chance.choice(steps)
        self.steps.append(act.__name__)
        try:
            act()
        except (InvalidState, Busy):
            pass
        except StoreError as error:
            if "digestif repair" not in str(error):
                raise
        self._check()

    def _add(self) -> None:
        name, key = self._chance.choice(NAMES), str(self._chance.randrange(40))
        within = self._chance.choice([None, None, None, 3])
        self._digests.add(name, self._chance.random(), key=key, within=within, now=self._now)
        self._accepted += 1

    def _due(self) -> str:
        with suppress(StoreError):
            self._digests.schedule(self._now, now=self._now)
        return self._chance.choice(NAMES)

    def _deliver(self) -> None:
        with self._digests.digest(self._due(), now=self._now):
            pass

    def _fail(self) -> None:
        with suppress(ZeroDivisionError), self._digests.digest(self._due(), now=self._now):
            raise ZeroDivisionError

    def _maintain(self) -> None:
        self._digests.maintenance(self._now - 60, now=self._now)

    def _end_letter(self) -> None:
        letters = self._digests.dead_letters()
        if letters:
            letter = self._chance.choice(letters)
            match self._chance.choice(["replay", "requeue", "discard"]):
                case "replay":
                    self._digests.replay(letter.id, now=self._now)
                case "requeue":
                    self._digests.requeue(letter.id, force=True, now=self._now)
                case _:
                    self._digests.discard(letter.id, now=self._now)

    def _check(self) -> None:
        ledger = self._digests.ledger()
        assert ledger.accepted == self._accepted, ledger
        assert ledger.accepted == ledger.accounted, ledger
