"""Faults that once were made, or easily could be: what to change in which file, and which nets must find it.

The first group is the origin's. Most are planted so that the ledger balances all the same: what `verify` alone can find
says little about the nets.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A change of one text in one file, which must occur there exactly once."""

    says: str  # what goes wrong
    file: str  # below the package
    old: str
    new: str
    directed: str  # the sentence of the conformance suite that is meant for it
    model: bool = True  # the Hypothesis state machine finds it, too …
    vectors: bool = False  # … and the arithmetic

    @property
    def nets(self) -> list[str]:
        return ["directed", *(["model"] if self.model else []), *(["vectors"] if self.vectors else [])]


ORIGIN = [
    Fault(
        says="a record that is added again while its digest is open is lost at the completion",
        file="stores/rows/endings.py",
        old="""\
        delete_digest(rows, digest)
    rows.tally["open"] -= digest.records
    rows.tally["delivered"] += digest.records
""",
        new="""\
        delete_digest(rows, digest)
        from digestif.stores.rows.expiry import with_fewer_pending
        for key in keys:
            if slot.batch is not None and rows.remove_record(slot.batch, key):
                slot = with_fewer_pending(rows, slot, 1)
                rows.tally["pending"] -= 1
                rows.tally["superseded"] += 1
    rows.tally["open"] -= digest.records
    rows.tally["delivered"] += digest.records
""",
        directed="test_a_record_added_again_during_its_digest_is_in_the_next_one",
    ),
    Fault(
        says="an open digest is completed with any token",
        file="stores/rows/endings.py",
        old="    slot = held_slot(rows, completion.lease, now=now)\n",
        new="    slot = rows.slot(timeline) if machine.is_live(rows.slot(timeline), now=now) else None\n",
        directed="test_a_stale_token_changes_nothing",
    ),
    Fault(
        says="a lapsed lease can complete its digest as long as no other was given",
        file="stores/rows/endings.py",
        old="    slot = held_slot(rows, completion.lease, now=now)\n",
        new="    slot = rows.slot(timeline) if rows.slot(timeline).token == completion.lease.token else None\n",
        directed="test_a_stale_token_changes_nothing",
    ),
    Fault(
        says="a completion that comes after a delete is refused, but puts the timeline back into the schedule",
        file="stores/rows/endings.py",
        old="    slot = held_slot(rows, completion.lease, now=now)\n",
        new="""\
    slot = rows.slot(timeline)
    if slot.state is machine.State.IDLE:
        put(rows, timeline, slot, replace(slot, state=machine.State.WAITING, at=now + completion.cool_down))
    slot = held_slot(rows, completion.lease, now=now)
""",
        directed="test_who_lost_the_lease_changes_nothing",
    ),
    Fault(
        says="the time of the event decides when a timeline is due",
        file="stores/rows/arrivals.py",
        old="machine.after_add(kept, now=now,",
        new="machine.after_add(kept, now=round(arrival.timestamp * 1000),",
        directed="test_first_delays_silence_and_deadlines_count_from_the_arrival",
    ),
    Fault(
        says="capacity is applied at one add of 24, as chance has it",
        file="stores/rows/arrivals.py",
        old="if terms.capacity is not None and pending > terms.capacity:",
        new="if terms.capacity is not None and pending > terms.capacity and rows.sequence() % 24 == 0:",
        directed="test_a_dropped_key_that_comes_again_is_a_new_record",
    ),
    Fault(
        says="an add keeps one record more than the capacity",
        file="stores/rows/arrivals.py",
        old="min(pending - terms.capacity, PAGE_RECORDS)",
        new="min(pending - terms.capacity - 1, PAGE_RECORDS)",
        directed="test_a_dropped_key_that_comes_again_is_a_new_record",
    ),
    Fault(
        says="a merge keeps one record more than the capacity",
        file="core/machine.py",
        old="return digest.records - capacity\n",
        new="return digest.records - capacity - 1\n",
        directed="test_a_failed_digest_and_newer_records_share_the_capacity",
    ),
    Fault(
        says="what an add pushes out is not in the ledger",
        file="stores/rows/arrivals.py",
        old='    tally["dropped"] += dropped\n',
        new="",
        directed="test_the_newest_are_kept_and_the_others_counted",
    ),
    Fault(
        says="what a merge pushes out is not in the ledger",
        file="stores/rows/open_digests.py",
        old='    rows.tally["dropped"] += dropped\n',
        new="",
        directed="test_a_failed_digest_and_newer_records_share_the_capacity",
    ),
]

OURS = [
    Fault(
        says="an urgent record is forgotten at the completion",
        file="core/machine.py",
        old="return move(slot, now + cool_down, Rule.COOL_DOWN, now=now, max_records=max_records)",
        new="return replace(slot, at=now + cool_down, rule=Rule.COOL_DOWN, was=slot.at)",
        directed="test_it_is_urgent_after_a_digest_that_was_open_when_it_came",
        vectors=True,
    ),
    Fault(
        says="a record puts off the retry of a failed digest",
        file="core/machine.py",
        old="if slot.state is not State.WAITING or slot.digest is not None:\n        return slot\n    at, rule",
        new="if slot.state is not State.WAITING:\n        return slot\n    at, rule",
        directed="test_a_retry_is_not_put_off_nor_pulled_forward",
        vectors=True,
    ),
    Fault(
        says="a stream of records puts a digest off for ever",
        file="core/machine.py",
        old="return (at, rule) if at <= cap else (cap, cap_rule)",
        new="return at, rule",
        directed="test_increments_end_at_the_maximum_after_the_last_delivery",
        vectors=True,
    ),
    Fault(
        says="a digest that lapsed is merged with newer records",
        file="core/machine.py",
        old="digest = _kept(slot.digest, freeze=True)",
        new="digest = _kept(slot.digest, freeze=False)",
        directed="test_a_lost_lease_gives_exactly_the_same_digest_again",
    ),
    Fault(
        says="a merged digest comes under the key that it had before",
        file="core/machine.py",
        old="        revision=digest.revision + 1,\n        merging=",
        new="        merging=",
        directed="test_the_revision_rises_with_each_reported_failure",
    ),
    Fault(
        says="a second worker opens a digest a moment before the first one's lease ends",
        file="core/machine.py",
        old="    if is_live(slot, now=now):\n        raise Busy",
        new="    if is_live(slot, now=now + 1):\n        raise Busy",
        directed="test_a_lease_is_alive_until_the_last_moment",
    ),
    Fault(
        says="an older version that a merge replaces is not in the ledger",
        file="stores/rows/open_digests.py",
        old='    rows.tally["superseded"] += superseded\n',
        new="",
        directed="test_a_later_version_of_a_failed_record_wins",
    ),
    Fault(
        says="what expires is not in the ledger",
        file="stores/rows/expiry.py",
        old='    rows.tally["expired"] += expired\n',
        new="",
        directed="test_what_is_pending_for_too_long_expires",
    ),
    Fault(
        says="one call of schedule gives a timeline twice",
        file="stores/rows/schedule.py",
        old="if slot.placed <= began and",
        new="if began >= 0 and",
        directed="test_what_is_due_again_meanwhile_is_not_given_again",
        model=False,  # it does not deliver while a call of schedule is under way
    ),
    Fault(
        says="a paused timeline is scheduled and claimed",
        file="stores/rows/view.py",
        old="Marks(None if slot.paused else slot.at, None, None, None, None, expires)",
        new="Marks(slot.at, None, None, None, None, expires)",
        directed="test_a_paused_timeline_accepts_but_does_not_move",
    ),
    Fault(
        says="a record is retracted out of a digest",
        file="stores/rows/arrivals.py",
        old="    if slot.batch is None or not rows.remove_record(slot.batch, key):\n",
        new="""\
    if slot.digest is not None and rows.remove_record(slot.digest.batch, key):
        rows.tally["open"] -= 1
        rows.tally["deleted"] += 1
        rows.put_slot(timeline, replace(slot, digest=replace(slot.digest, records=slot.digest.records - 1)))
        return True
    if slot.batch is None or not rows.remove_record(slot.batch, key):
""",
        directed="test_a_record_in_a_digest_can_not_be_taken_back",
    ),
    Fault(
        says="of records with the same time the ones that came first are kept",
        file="core/capacity.py",
        old="return Cursor(record.timestamp, record.arrival)",
        new="return Cursor(record.timestamp, -record.arrival)",
        directed="test_two_thousand_adds_within_a_millisecond_respect_capacity",
    ),
    Fault(
        says="dead letters stay when their timeline is deleted",
        file="stores/rows/operations.py",
        old="    found = rows.letters(timeline, after=None, limit=PAGE_TIMELINES)\n",
        new="    found = rows.letters(timeline, after=None, limit=0)\n",
        directed="test_its_history_and_dead_letters_go_too",
        model=False,  # only now and then: it would need more lives than we have time for
    ),
]

SUSPECTS = [
    Fault(
        says="a digest whose lease lapsed is claimed with others",
        file="stores/memory.py",
        old="sorted([*due, *ready])[:limit]], suspect",
        new="sorted([*due, *ready, *self._until(_UNTIL, now, limit=limit)])[:limit]], suspect",
        directed="test_what_lapsed_is_not_claimed_with_others",
    ),
    Fault(
        says="suspects fill a claim, though it does not give them",
        file="stores/memory.py",
        old="sorted([*due, *ready])[:limit]], suspect",
        new="sorted([*due, *ready])[: max(0, limit - len(self._until(_UNTIL, now, limit=limit)))]], suspect",
        directed="test_many_suspects_hide_no_healthy_timeline",
    ),
    Fault(
        says="a digest that lapsed before is tried beside others",
        file="core/machine.py",
        old="for number, before in enumerate(lapsed_before) if not before]",
        new="for number, before in enumerate(lapsed_before)]",
        directed="test_one_that_lapsed_before_joins_no_group",
        vectors=True,
    ),
    Fault(
        says="that a digest is tried alone is not noted",
        file="core/machine.py",
        old="since=since, token=token, until=until, alone=alone)",
        new="since=since, token=token, until=until)",
        directed="test_only_a_lapse_that_was_noted_alone_counts_as_such",
        vectors=True,
    ),
    Fault(
        says="any lapse counts as one alone",
        file="core/machine.py",
        old="lapses_alone=digest.lapses_alone + slot.alone)",
        new="lapses_alone=digest.lapses_alone + 1)",
        directed="test_a_group_is_not_noted",
        vectors=True,
    ),
    Fault(
        says="each of a group is noted as alone",
        file="stores/rows/leases.py",
        old="grant._replace(alone=grant.alone and len(chosen) == 1)",
        new="grant",
        directed="test_a_group_is_not_noted",
    ),
    Fault(
        says="workers let suspects wait, and so they are claimed with others",
        file="stores/rows/schedule.py",
        old="(rows.lapsed_while_paused if deadline is None else rows.lapsed)",
        new="rows.lapsed",
        directed="test_workers_leave_suspects_as_they_are",
    ),
    Fault(
        says="a digest whose page ends by its bytes is taken for complete",
        file="stores/rows/open_digests.py",
        old="is_last = len(records) < limit and not _may_fill(records, room)",
        new="is_last = len(records) < limit",
        directed="test_a_page_ends_with_the_record_that_fills_it",
        model=False,  # its records are small
    ),
]

FAULTS = ORIGIN + OURS + SUSPECTS
