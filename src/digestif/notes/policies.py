"""The note about the policies of programs that deliver from a store. It shows changes of the code and of zone data."""

import msgspec

from digestif.core.machine import Slot
from digestif.intake.patterns import Patterns
from digestif.stores.base import Store
from digestif.stores.note import Note


class Fingerprint(msgspec.Struct, frozen=True, omit_defaults=True, eq=False):
    """The policies in the code of programs, as text, and the version of the zone data by which their windows open."""

    policies: dict[str, str]  # by pattern, in the order in which they are tried
    cadences: dict[str, str]  # by name
    zones: str = ""  # the version, for stored policies; notes of older releases have none

    def __eq__(self, other: object) -> bool:
        """Compare the policies and their order."""
        return isinstance(other, Fingerprint) and msgspec.json.encode(self) == msgspec.json.encode(other)


def fingerprint_note(store: Store) -> Note[Fingerprint | None]:
    return Note(store, "policies", decode=msgspec.json.Decoder(Fingerprint).decode, empty=None)


class PolicyChange:
    """The difference between the noted policies and those of this program.

    Programs with other patterns may deliver from the same store: their part of the note, and their timelines, stay.
    """

    def __init__(self, before: Fingerprint, after: Fingerprint) -> None:
        self._are_zones_other = before.zones != after.zones
        self._before, self._after = _patterns(before.policies), _patterns(after.policies)
        others = {p: text for p, text in before.policies.items() if self._after.find(p) is None}
        self.together = Fingerprint({**others, **after.policies}, {**before.cadences, **after.cadences}, after.zones)
        changed = [name for name, text in after.policies.items() if before.policies.get(name) != text]
        changed += [name for name in before.policies if name not in self.together.policies]
        self._cadences = {name for name, text in after.cadences.items() if before.cadences.get(name) != text}
        is_for_all = bool(self._cadences) or self._are_zones_other
        self.pattern = "*" if self._are_zones_other else ", ".join(sorted(changed)) or "*"
        self.prefix = changed[0].partition("*")[0] if len(changed) == 1 and not is_for_all else ""

    def is_wanted(self, timeline: str, slot: Slot) -> bool:
        """Return True if the policy of the timeline may have changed."""
        if slot.override is not None:
            has_window = slot.override.terms.openings is not None
            return slot.override.cadence in self._cadences or (self._are_zones_other and has_window)
        text = self._after.find(timeline)
        return text is not None and text != self._before.find(timeline)


def _patterns(texts: dict[str, str]) -> Patterns[str]:
    patterns: Patterns[str] = Patterns()
    for pattern, text in texts.items():
        patterns.add(pattern, text)
    return patterns
