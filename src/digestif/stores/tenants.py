"""The note with the named prefixes of a namespace, which every process reads again from time to time."""

from collections.abc import Iterable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

import msgspec

from digestif.clock import monotonic
from digestif.core.tenants import LEARNED_WITHIN, MOST_TENANTS, Tenants
from digestif.core.times import Millis, to_seconds
from digestif.errors import Overloaded, StoreUnavailable
from digestif.stores.damage import Unreadable
from digestif.stores.note import Note

if TYPE_CHECKING:
    from digestif.stores.base import Store

TENANTS_NOTE = "tenants"  # in partition 0: prefixes, and when each was named
AWAY = (StoreUnavailable, Overloaded, Unreadable)  # other errors, such as a raised schema, are for the caller

Named = dict[str, Millis]  # when each prefix was named


class TenantsNote:
    """What a process knows of the note, and the prefixes that it wants to be there."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._note = Note(store, TENANTS_NOTE, decode=msgspec.json.Decoder(Named).decode, empty=Named())
        self._wanted: tuple[str, ...] = ()
        self._known: Tenants | None = None
        self._good_until = -inf

    def tenants(self) -> Tenants:
        """Return the named prefixes; the note is read once in half of LEARNED_WITHIN.

        While the note can't be read, those known before stay in force.
        """
        known = self._known
        if known is None or monotonic() >= self._good_until:
            self._good_until = monotonic() + to_seconds(LEARNED_WITHIN) / 2
            try:
                known = self._with_wanted()
            except AWAY:
                known = known or Tenants()
            self._known = known
        return known

    def name(self, prefixes: Iterable[str]) -> None:
        """Want these prefixes from now on: the next call of `tenants` adds them to the note."""
        self._wanted = tuple(dict.fromkeys(prefix for prefix in prefixes if prefix))
        self._good_until = -inf

    def _with_wanted(self) -> Tenants:
        """Read the note, and add the wanted prefixes that it lacks, if it can be written. Those of others stay."""
        named = self._note.read()
        with suppress(*AWAY):
            if not named.keys() >= set(self._wanted):
                named = self._note.update(self._with_missing).after
        return Tenants(named)

    def _with_missing(self, named: Named) -> Named:
        room = max(0, MOST_TENANTS - len(named))
        missing = [prefix for prefix in self._wanted if prefix not in named][:room]
        return {**named, **dict.fromkeys(missing, self._time_of_naming())} if missing else named

    def _time_of_naming(self) -> Millis:
        """Return the time; 0 in a namespace that has accepted nothing, so that nothing was filed elsewhere before."""
        return self._store.time(0) if self._store.ledger().accepted else 0
