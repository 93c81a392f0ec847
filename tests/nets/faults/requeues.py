"""Faults in what becomes of dead letters."""

from dataclasses import replace as changed

from msgspec.structs import replace

from tests.nets.planting import fault, keeping, uncounted


@fault(
    "a version that moves replaces a later one",
    of="stores.memory:MemoryRows._move",
    directed="test_a_later_version_that_is_pending_stays",
)
def _(sound, self, page, source, target):
    replaced = [entry for entry in page if self._pop(target, entry.stored.key)]
    return sound(self, page, source, target) + len(replaced)


@fault(
    "what may have gone out is requeued",
    of="core.machine:refuse_requeue",
    directed="test_what_may_have_gone_out_is_refused_unless_forced",
)
def _(sound, slot, letter, *, force):
    return sound(slot, changed(letter, unknown=False, lapses=0), force=force)


@fault(
    "what was requeued leaves at once, each letter on its own",
    of="core.machine:after_requeue",
    directed="test_three_dead_letters_of_a_timeline_leave_as_one_digest",
    vectors=True,
)
def _(sound, slot, *, delay, **facts):
    own = slot.override and replace(slot.override, cool_downs=(0,))
    return keeping(sound(replace(slot, override=own), delay=0, **facts), slot, "override")


@fault(
    "what was requeued never expires",
    of="stores.rows.operations:requeue",
    directed="test_their_ttl_counts_from_the_requeue",
)
def _(sound, rows, request, **facts):
    return sound(rows, request._replace(terms=replace(request.terms, ttl=None)), **facts)


@fault(
    "a requeue fills a timeline beyond its capacity",
    of="stores.rows.operations:requeue",
    directed="test_capacity_keeps_the_newest",
)
def _(sound, rows, request, **facts):
    capacity = request.terms.capacity and request.terms.capacity + 1
    return sound(rows, request._replace(terms=replace(request.terms, capacity=capacity)), **facts)


@fault(
    "what a requeue pushes out is not in the ledger",
    of="stores.rows.operations:requeue",
    directed="test_capacity_keeps_the_newest",
)
def _(sound, rows, request, **facts):
    with uncounted(rows, "dropped"):
        return sound(rows, request, **facts)


@fault(
    "the rest of a letter comes under the key of the whole",
    of="stores.rows.operations:_shrink",
    directed="test_what_an_interrupted_requeue_left_is_a_dead_letter_as_any",
)
def _(sound, rows, letter, batch, gone):
    return sound(rows, changed(letter, revision=letter.revision - 1), batch, gone)
