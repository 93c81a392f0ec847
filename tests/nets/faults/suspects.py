"""Faults in how suspects are tried, and in how a digest is read by pages."""

from msgspec.structs import replace

from digestif.core.machine import _tried_in
from tests.nets.planting import fault


@fault(
    "a digest whose lease lapsed is claimed with others",
    of="stores.memory:MemoryRows.due",
    directed="test_what_lapsed_is_not_claimed_with_others",
)
def _(sound, self, now, *, limit):
    return [*sound(self, now, limit=limit), *self.suspects(now, skip=0, limit=limit)][:limit]


@fault(
    "suspects fill a claim, though it does not give them",
    of="stores.memory:MemoryRows.due",
    directed="test_many_suspects_hide_no_healthy_timeline",
)
def _(sound, self, now, *, limit):
    return sound(self, now, limit=limit)[: max(0, limit - len(self.suspects(now, skip=0, limit=limit)))]


@fault(
    "a digest that lapsed in a group is tried in as large a group again",
    of="core.machine:_largest_group",
    directed="test_a_group_that_lapsed_is_tried_in_halves",
    vectors=True,
)
def _(sound, lapsed):
    return _tried_in(lapsed) or sound(lapsed)


@fault(
    "suspects join a group that is too large for them",
    of="core.machine:may_join",
    directed="test_one_that_may_not_join_is_passed_over",
    vectors=True,
)
def _(sound, suspect, *, size):
    return True


@fault(
    "the first suspect does not decide",
    of="core.machine:group_size",
    directed="test_the_first_to_lapse_decides_the_size",
    vectors=True,
)
def _(sound, first, *, size):
    return size


@fault(
    "the size of its group is not noted with a lease",
    of="core.machine:after_open",
    directed="test_only_a_lapse_that_was_noted_alone_counts_as_such",
    vectors=True,
)
def _(sound, slot, *, group, **facts):
    return sound(slot, group=0, **facts)


@fault(
    "any lapse counts as one alone",
    of="core.machine:after_lapse",
    directed="test_only_a_group_of_one_counts",
    vectors=True,
)
def _(sound, slot):
    after = sound(slot)
    alone = None if after.digest is None else replace(after.digest, lapses_alone=slot.digest.lapses_alone + 1)
    return replace(after, digest=alone)


@fault(
    "a group is noted as if others ran beside it, or as small as it happens to be",
    of="stores.rows.leases:_open_all",
    directed="test_the_size_that_was_asked_for_is_noted",
    model=False,  # only now and then: it would need more lives than we have time for
)
def _(sound, rows, timelines, grant, *, asks):
    return sound(rows, timelines, grant._replace(group=grant.group and len(timelines)), asks=asks)


@fault(
    "workers let suspects wait, and so they are claimed with others",
    of="stores.memory:MemoryRows.lapsed_while_paused",
    directed="test_workers_leave_suspects_as_they_are",
)
def _(sound, self, now, *, limit):
    return self.lapsed(now, limit=limit)


@fault(
    "a digest whose page ends by its bytes is taken for complete",
    of="stores.rows.open_digests:_may_fill",
    directed="test_a_page_ends_with_the_record_that_fills_it",
    model=False,  # its records are small
)
def _(sound, records, room):
    return False
