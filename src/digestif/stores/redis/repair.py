"""Repair of a partition: scripts quarantine or correct each damage that a survey found, after checking it again."""

from itertools import count

from digestif.core.damage import LOST_AND_FOUND, Damage, legible
from digestif.core.texts import LONGEST_TEXT
from digestif.core.times import Millis
from digestif.errors import StoreUnavailable
from digestif.ids import derived_id
from digestif.stores.damage import Unreadable
from digestif.stores.redis import encoding
from digestif.stores.redis.calls import NO_KEYS, Call, Scripts
from digestif.stores.redis.client.commands import Packed, joined, pack
from digestif.stores.redis.keys import as_bytes
from digestif.stores.redis.survey import PartitionFlaw, PartitionSurvey, missing_keys, short_keys, survey

ROUNDS = 5  # of surveys and repairs, before it gives up
QUARANTINED = 100  # records that a call quarantines
BATCHES = 3  # of a timeline


class Repair:
    """One repair of one partition."""

    def __init__(self, scripts: Scripts, partition: int, *, ring: int, token: str, now: Millis | None) -> None:
        self._scripts = scripts
        self._keys = scripts.keys
        self._partition = partition
        self._ring = ring
        self._now = now
        self._ids = (derived_id(token, str(number)) for number in count())  # of dead letters

    def run(self, *, dry_run: bool) -> list[Damage]:
        """Repair and survey in turn until nothing is found. Returns what the first survey found."""
        found = self._survey()
        damages = [flaw.damage for flaw in found.flaws] + _ledger(found)
        for _ in range(ROUNDS):
            if dry_run or not (found.flaws or found.differences()):
                return damages
            for flaw in found.flaws:
                self._repair(flaw)
            if not found.flaws and found.moved == 0:
                self._correct(found)
            found = self._survey()
        raise StoreUnavailable(
            f"repair: others kept changing partition {self._partition}; stop producers and workers, and try again"
        )

    def _survey(self) -> PartitionSurvey:
        return survey(self._scripts, self._partition, ring=self._ring)

    def _repair(self, flaw: PartitionFlaw) -> None:
        match flaw.damage.part:
            case "slot":
                self._quarantine_timeline(flaw)
            case "record":
                self._quarantine_short(flaw)
            case "letter":
                self._repair_letter(flaw)
            case "history" | "note":
                self._remove(flaw)
            case "count":
                self._quarantine_short(flaw)
                self._agree(flaw, anew=True)
            case _:
                self._agree(flaw, anew=False)

    def _agree(self, flaw: PartitionFlaw, *, anew: bool) -> None:
        self._write("agree", self._keys.packed_in(self._partition, flaw.name), anew)

    def _write(self, script: str, keys: Packed, request: object) -> None:
        self._scripts.write_one(script, Call.of(self._partition, request, keys), now=self._now)

    def _quarantine_timeline(self, flaw: PartitionFlaw) -> None:
        ids = [next(self._ids) for _ in range(BATCHES)]
        reason = flaw.damage.problem
        letters = [
            (ids[0], f"these records were pending: {reason}"[:LONGEST_TEXT], 0),
            (ids[1], f"these records were in a digest: {reason}"[:LONGEST_TEXT], 1),  # they may have gone out
            (ids[2], f"these records were to join a digest: {reason}"[:LONGEST_TEXT], 0),
        ]
        owner = self._owner(flaw.name)
        keys = (
            self._keys.packed_in(self._partition, flaw.name),
            self._letters_of(owner),
            self._keys.letters(self._partition, ids),
        )
        self._write(
            "quarantine_timeline",
            joined(keys),
            {"stored": encoding.text(flaw.stored), "name": owner, "letters": letters, "keeps": flaw.keeps_choices},
        )

    def _owner(self, name: str | None) -> str:
        """The timeline for a dead letter: the given one, or if that is unusable, a lost-and-found of this partition."""
        if name and legible(name) == name and self._keys.partition_of(name) == self._partition:
            return name
        names = (f"{LOST_AND_FOUND}-{number}" if number else LOST_AND_FOUND for number in count())
        return next(name for name in names if self._keys.partition_of(name) == self._partition)

    def _quarantine_short(self, flaw: PartitionFlaw) -> None:
        keys = self._keys.keys_in(self._partition, flaw.name)
        for batch, (records_key, ages, _) in enumerate((keys[:3], keys[3:6])):
            short = short_keys(self._scripts, self._partition, records_key)
            short += missing_keys(self._scripts, self._partition, (records_key, ages))
            for start in range(0, len(short), QUARANTINED):
                records = [
                    (encoding.text(name), next(self._ids), "the stored value is missing")
                    for name in short[start:][:QUARANTINED]
                ]
                letters = self._keys.letters(self._partition, [letter_id for _, letter_id, _ in records])
                whole = self._keys.packed_in(self._partition, flaw.name)
                self._write("quarantine_short", joined((whole, letters)), {"batch": batch, "records": records})

    def _repair_letter(self, flaw: PartitionFlaw) -> None:
        number, old_id = flaw.name[:16], flaw.name[16:]
        letter_id = old_id if legible(old_id) == old_id else next(self._ids)
        owner = self._owner(flaw.damage.timeline)
        at = self._scripts.time(self._partition) if self._now is None else self._now
        # One lapse: it may have gone out.
        unknown = {"revision": 1, "attempts": 1, "lapses": 1, "dropped": 0, "opened": at, "buried": at}
        names = {"id": letter_id, "timeline": owner, "number": int(number) if number.isdecimal() else 0}
        reason = {"reason": flaw.damage.problem[:LONGEST_TEXT]}
        letter = {**unknown, **reason, **_readable(old_id, flaw.stored), **names}
        keys = (self._keys.letters(self._partition, [old_id, letter_id]), self._letters_of(owner))
        request = {"stored": encoding.text(flaw.stored), "member": encoding.key_text(flaw.name), "letter": letter}
        self._write("repair_letter", joined(keys), request)

    def _letters_of(self, timeline: str) -> Packed:
        return pack((self._keys.key(self._partition, "d", timeline),))

    def _remove(self, flaw: PartitionFlaw) -> None:
        kind = "history" if flaw.damage.part == "history" else "notes"
        key = self._keys.key(self._partition, kind)
        self._scripts.remove("HDEL", [(self._partition, key, [as_bytes(flaw.name)])])

    def _correct(self, found: PartitionSurvey) -> None:
        moved, accepted = found.raw[0] or b"", found.raw[2] or b""
        self._write(
            "correct",
            NO_KEYS,
            {"seen": (encoding.text(moved), encoding.text(accepted)), "counts": found.corrections()},
        )


def _readable(letter_id: str, stored: bytes) -> dict[str, object]:
    """The readable fields of a dead letter, of which only the number of records is wrong."""
    try:
        letter = encoding.letter(letter_id, stored)
    except Unreadable:
        return {}
    return {
        name: getattr(letter, name)
        for name in ("revision", "attempts", "lapses", "dropped", "opened", "buried", "reason", "served")
        if name != "served" or letter.served
    }


def _ledger(found: PartitionSurvey) -> list[Damage]:
    wrong = found.differences()
    if not wrong:
        return []
    problem = f"the ledger does not agree with the data: {'; '.join(wrong)}"
    return [Damage(timeline=None, part="ledger", problem=problem)]
