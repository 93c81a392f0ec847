"""Faults in what is remembered and counted: traces of records, documents, losses, rings of tenants."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace as changed
from itertools import count

from msgspec.structs import replace

from digestif.core.removals import Removals
from digestif.core.tenants import REST
from digestif.stores.rows.view import held_slot
from tests.nets.planting import fault, keeping


@fault(
    "a record that was retracted looks as if it had never come",
    of="core.removals:after_retraction",
    directed="test_a_record_that_never_came_is_told_from_one_that_was_retracted",
    model=False,
)
def _(sound, removals, key, *, now):
    return removals


@fault(
    "all retracted keys are kept for ever",
    of="core.removals:after_retraction",
    directed="test_the_latest_retracted_keys_of_a_timeline_are_known",
    model=False,
)
def _(sound, removals, key, *, now):
    return replace(removals, retracted=(*removals.retracted, (key, now)))


@fault(
    "only the last call that expired records is remembered",
    of="core.removals:after_expiry",
    directed="test_a_record_may_have_expired",
    model=False,
)
def _(sound, removals, count, *, now):
    return sound(replace(removals, expired=0, first_expired=None), count, now=now)


@fault(
    "what was left out of a digest is forgotten when its next attempt leaves out more",
    of="stores.rows.endings:remove",
    directed="test_what_a_hook_left_out_is_known_over_failed_attempts",
    model=False,
)
def _(sound, rows, lease, keys, *, now):
    slot = held_slot(rows, lease, now=now)
    if slot is not None and slot.digest is not None:
        rows.put_slot(lease.timeline, replace(slot, digest=replace(slot.digest, left_out=())))
    return sound(rows, lease, keys, now=now)


@fault(
    "retracted keys outlive the timeline that was deleted",
    of="stores.rows.operations:delete",
    directed="test_a_deleted_timeline_was_never_seen",
    model=False,
)
def _(sound, rows, timeline, *, token, now):
    removals = rows.removals(timeline)
    is_deleted = sound(rows, timeline, token=token, now=now)
    if removals != Removals():
        rows.put_removals(timeline, removals)
    return is_deleted


@fault(
    "a document replaces any other that is there, whatever it was compared with",
    of="stores.rows.documents:_may_keep",
    directed="test_a_document_is_replaced_by_comparison_only_where_its_body_is_there",
    model=False,
)
def _(sound, there, replace):
    return there is not None if isinstance(replace, bytes) else sound(there, replace)


@fault(
    "a document is forgotten whatever it was compared with",
    of="stores.rows.documents:forget",
    directed="test_a_document_is_forgotten_by_comparison_only_where_its_body_is_there",
    model=False,
)
def _(sound, rows, collection, key, *, body):
    return sound(rows, collection, key, body=None)


@fault(
    "a record that is gone is counted as delivered",
    of="stores.rows.open_digests:_lacks_records",
    directed="test_a_record_that_is_gone_with_its_key_is_lost",
    model=False,
)
def _(sound, rows, request, answer):
    return request.after is not None and sound(rows, request, answer)


@fault(
    "a digest that lost a record comes again under the same key",
    of="stores.rows.losses:recounted",
    directed="test_what_vanished_from_a_digest_that_comes_again_is_lost",
    model=False,
)
def _(sound, rows, slot):
    after, gone = sound(rows, slot)
    return (replace(after, digest=keeping(after.digest, slot.digest, "revision")), gone) if gone else (after, gone)


@fault(
    "a digest is trimmed by the number of records that it had",
    of="stores.rows.open_digests:_count_before_trim",
    directed="test_a_digest_that_lost_more_than_its_excess_is_still_read",
    model=False,
)
def _(sound, rows, slot, request):
    return slot, 0


@fault(
    "a repair lowers the number of accepted records",
    of="core.ledger:corrected",
    directed="test_a_repair_counts_what_is_gone_as_lost",
    model=False,
)
def _(sound, ledger, found):
    after = sound(ledger, found)
    return changed(after, lost=0, accepted=after.accounted - after.lost)


@fault(
    "a timeline that is idle with records is not named",
    of="stores.rows.survey:_is_idle_with_records",
    directed="test_a_timeline_that_is_idle_with_records_is_named_and_repaired",
    model=False,
)
def _(sound, slot, sizes):
    return False


@fault(
    "a dead letter without a value is replayed",
    of="core.machine:refuse_without_value",
    directed="test_a_dead_letter_without_a_value_can_only_be_discarded",
    model=False,
)
def _(sound, letter, *, is_missing):
    return None


@fault(
    "of nested prefixes the shortest counts",
    of="core.tenants:Tenants.of",
    directed="test_of_nested_prefixes_the_longest_counts",
    model=False,
)
def _(sound, self, timeline):
    return min((prefix for prefix in self.named if timeline.startswith(prefix)), key=len, default=REST)


@fault(
    "a full ring of documents pushes out the oldest of all rings",
    of="stores.memory:MemoryRows.oldest_document",
    directed="test_documents_of_a_ring_push_out_only_each_other",
    model=False,
)
def _(sound, self, collection, ring):
    return sound(self, collection, None)


@fault(
    "documents that are too old stay until their own ring is written again",
    of="stores.rows.documents:_evictable",
    directed="test_documents_that_are_too_old_leave_every_ring",
    model=False,
)
def _(sound, rows, collection, ring, *, is_full, now):
    oldest = sound(rows, collection, ring, is_full=True, now=now)
    return oldest if oldest is not None and (is_full or oldest.expires <= now) else None


NUMBERS: defaultdict[str, Iterator[int]] = defaultdict(count)  # by the token that a claim has together


@fault(
    "ids of digests count the others of their claim",
    of="ids:derived_id",
    directed="test_the_id_of_a_digest_does_not_depend_on_others_in_its_claim",
    model=False,
)
def _(sound, together, name):
    return f"{together}-{next(NUMBERS[together])}"


@fault(
    "a process that has read the named prefixes once never learns of others",
    of="stores.tenants:TenantsNote.tenants",
    directed="test_a_process_learns_the_prefixes_that_another_one_has_named",
    model=False,
)
def _(sound, self):
    return sound(self) if self._known is None or self._good_until < 0 else self._known
