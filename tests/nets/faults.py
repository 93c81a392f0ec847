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
        rows.tally["digests"] += 1
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
        old="kept, now=now, terms",
        new="kept, now=round(arrival.timestamp * 1000), terms",
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
        says="a timeline does not notice that a large value arrived",
        file="stores/rows/arrivals.py",
        old="kept = replace(kept, heavy=True)",
        new="pass",
        directed="test_a_digest_holds_the_newest_of_the_largest_values",
        model=False,
    ),
    Fault(
        says="a digest forgets that a merge brought large values",
        file="core/machine.py",
        old="heavy=digest.heavy or slot.heavy,",
        new="heavy=digest.heavy,",
        directed="test_large_values_are_weighed_after_a_merge",
        model=False,
        vectors=False,
    ),
    Fault(
        says="large values of a dead letter are forgotten at its requeue",
        file="core/machine.py",
        old="first=first, heavy=True)",
        new="first=first)",
        directed="test_large_values_are_weighed_after_a_requeue",
        model=False,
    ),
    Fault(
        says="an urgent record is forgotten at the completion",
        file="core/machine.py",
        old="""\
    plan = plan_in_force(plan, slot)
    return move(
""",
        new="""\
    plan = plan_in_force(plan, slot)
    slot = replace(slot, deadline=None)
    return move(
""",
        directed="test_it_is_urgent_after_a_digest_that_was_open_when_it_came",
        vectors=True,
    ),
    Fault(
        says="a record puts off the retry of a failed digest",
        file="core/machine.py",
        old="if slot.state is not State.WAITING or slot.digest is not None or _has_come(",
        new="if slot.state is not State.WAITING or _has_come(",
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
        directed="test_the_revision_rises_with_what_joined_after_a_reported_failure",
    ),
    Fault(
        says="a digest that nothing joined gets another key",
        file="core/machine.py",
        old="if not merge or not (slot.pending or slot.dropped):",
        new="if not merge:",
        directed="test_a_digest_that_nothing_joined_keeps_its_key",
    ),
    Fault(
        says="a digest that was put off counts as one that no attempt has read",
        file="core/machine.py",
        old="fresh = digest.fresh and not read",
        new="fresh = digest.fresh",
        directed="test_under_a_lower_capacity_a_digest_that_was_read_stays_whole",
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
        old="if slot.placed > began or",
        new="if began < 0 or",
        directed="test_what_is_due_again_meanwhile_is_not_given_again",
        model=False,  # it does not deliver while a call of schedule is under way
    ),
    Fault(
        says="a paused timeline is scheduled and claimed",
        file="stores/rows/view.py",
        old="Marks(None if slot.paused else slot.at, None, None, None, paused, expires)",
        new="Marks(slot.at, None, None, None, paused, expires)",
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
    Fault(
        says="an attempt that lost its lease deletes the timeline that another one has opened",
        file="stores/rows/operations.py",
        old="    if token is not None and not machine.is_held(slot, token, now=now):\n",
        new="    if token is not None and slot.token is None:\n",
        directed="test_a_lost_lease_deletes_nothing",
    ),
]

SUSPECTS = [
    Fault(
        says="a digest whose lease lapsed is claimed with others",
        file="stores/memory.py",
        old="sorted([*waiting, *ready])[:limit]]",
        new="sorted([*waiting, *ready, *self._until(_UNTIL, now, limit=limit)])[:limit]]",
        directed="test_what_lapsed_is_not_claimed_with_others",
    ),
    Fault(
        says="suspects fill a claim, though it does not give them",
        file="stores/memory.py",
        old="sorted([*waiting, *ready])[:limit]]",
        new="sorted([*waiting, *ready])[: max(0, limit - len(self._until(_UNTIL, now, limit=limit)))]]",
        directed="test_many_suspects_hide_no_healthy_timeline",
    ),
    Fault(
        says="a digest that lapsed in a group is tried in as large a group again",
        file="core/machine.py",
        old="return max(1, group // 2)",
        new="return group",
        directed="test_a_group_that_lapsed_is_tried_in_halves",
        vectors=True,
    ),
    Fault(
        says="suspects join a group that is too large for them",
        file="core/machine.py",
        old="    return group_size(suspect, size=size) == size\n",
        new="    return True\n",
        directed="test_one_that_may_not_join_is_passed_over",
        vectors=True,
    ),
    Fault(
        says="the first suspect does not decide",
        file="core/machine.py",
        old="return min(size, _largest_group(first) or size)",
        new="return size",
        directed="test_the_first_to_lapse_decides_the_size",
        vectors=True,
    ),
    Fault(
        says="the size of its group is not noted with a lease",
        file="core/machine.py",
        old="since=since, token=token, until=until, group=group, alone=False)",
        new="since=since, token=token, until=until, alone=False)",
        directed="test_only_a_lapse_that_was_noted_alone_counts_as_such",
        vectors=True,
    ),
    Fault(
        says="any lapse counts as one alone",
        file="core/machine.py",
        old="alone = digest.lapses_alone + (_tried_in(slot) == 1)",
        new="alone = digest.lapses_alone + 1",
        directed="test_only_a_group_of_one_counts",
        vectors=True,
    ),
    Fault(
        says="a group is noted as if others ran beside it, or as small as it happens to be",
        file="stores/rows/leases.py",
        old="grant._replace(group=size if group.alone else 0)",
        new="grant._replace(group=len(chosen) if group.alone else 0)",
        directed="test_the_size_that_was_asked_for_is_noted",
        model=False,  # only now and then: it would need more lives than we have time for
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

CALENDAR = [
    Fault(
        says="a time of the calendar comes twice: at the end of its own delivery",
        file="core/machine.py",
        old="place = bisect_left(numbers, at if last is None else max(at, last + 1))",
        new="place = bisect_left(numbers, at)",
        directed="test_closed_at_exactly_that_time_the_next_is_tomorrows",
        vectors=True,
    ),
    Fault(
        says="a record puts off a digest whose time has come",
        file="core/machine.py",
        old="return openings is not None and not openings.hours and slot.by_delays is not None and slot.at <= now",
        new="return False",
        directed="test_a_time_that_has_come_is_not_put_off",
        vectors=True,
    ),
    Fault(
        says="increments count from the time that the window made",
        file="core/machine.py",
        old="return slot.at if slot.by_delays is None else slot.by_delays",
        new="return slot.at",
        directed="test_increments_move_the_time_by_the_delays_alone",
        vectors=True,
    ),
    Fault(
        says="an urgent record waits although the window lets it pass",
        file="core/machine.py",
        old="at, rule, passes = deadline, Rule.DEADLINE, True",
        new="at, by_delays = at if opening is None else opening, at",
        directed="test_an_urgent_record_passes_where_the_window_lets_it",
        vectors=True,
    ),
    Fault(
        says="every urgent record passes, whatever the window says",
        file="core/machine.py",
        old="if openings.urgent and deadline is not None",
        new="if deadline is not None",
        directed="test_an_urgent_record_waits_where_the_window_does_not_let_it",
        vectors=True,
    ),
    Fault(
        says="a pass outlasts its digest",
        file="core/machine.py",
        old="slot = replace(slot, digest=None, token=None, until=None, group=0, passes=False)",
        new="slot = replace(slot, digest=None, token=None, until=None, group=0)",
        directed="test_a_pass_ends_with_its_digest",
        vectors=True,
    ),
    Fault(
        says="what was flushed is held back by its window",
        file="core/windows/admission.py",
        old="if window is None or slot.passes:",
        new="if window is None:",
        directed="test_what_is_flushed_leaves_at_once",
    ),
    Fault(
        says="hours do not bind retries",
        file="core/windows/admission.py",
        old="if window is None or slot.passes:",
        new="if window is None or slot.passes or slot.digest is not None:",
        directed="test_an_unfinished_digest_of_a_worker_that_died_waits_for_the_hours",
    ),
    Fault(
        says="a retry waits for the next time of the calendar",
        file="core/windows/admission.py",
        old="if window.has_times and slot.digest is None:",
        new="if window.has_times:",
        directed="test_a_failed_attempt_is_retried_by_its_ladder",
        model=False,  # it asks the calendar itself
    ),
    Fault(
        says="a timeline with a stored window is claimed without being asked for",
        file="core/machine.py",
        old="return (asks or has_window) and not is_empty(slot)",
        new="return asks and not is_empty(slot)",
        directed="test_a_stored_window_makes_a_candidate_of_its_timeline_alone",
    ),
    Fault(
        says="what has changed since it was seen is opened all the same",
        file="stores/rows/leases.py",
        old="if machine.seen(slot) != seen or not machine.may_be_admitted(slot, now=now):",
        new="if not machine.may_be_admitted(slot, now=now):",
        directed="test_what_changed_meanwhile_is_left_alone",
        model=False,  # nothing happens there between a claim and its admission
    ),
    Fault(
        says="what is held back loses its time by the delays",
        file="core/machine.py",
        old="return replace(slot, state=State.WAITING, at=until, by_delays=due_by_delays(slot))",
        new="return replace(slot, state=State.WAITING, at=until, by_delays=None)",
        directed="test_what_is_kept_twice_remembers_its_time_by_the_delays",
        vectors=True,
    ),
]

OVERRIDES = [
    Fault(
        says="an override wins over the delays of a call",
        file="core/terms.py",
        old="return replace(override.terms, **given)",
        new="return override.terms",
        directed="test_the_delays_of_a_call_come_first_in_an_add",
        vectors=True,
    ),
    Fault(
        says="a digest ends by the policy of the code, not by the stored one",
        file="core/machine.py",
        old="    if override is None:\n        if not plan.given",
        new="    if override is None or not plan.given:\n        if not plan.given",
        directed="test_replaced_during_a_delivery_the_later_one_decides",
        vectors=True,
    ),
    Fault(
        says="a delay of a call may outlive the ttl",
        file="intake/policies.py",
        old="if not found.off and not found.policy.allows(delay):",
        new="if not found.off and not found.policy.allows(delay) and delay < 0:",
        directed="test_a_delay_that_would_outlive_the_ttl_is_refused",
    ),
    Fault(
        says="a delay of a call wins over a policy that was set since it was checked",
        file="core/terms.py",
        old="given = {name: delay for name, delay in given.items() if allows(override.terms.ttl, delay)}",
        new="given = dict(given)",
        directed="test_a_policy_set_in_between_places_the_record",
        model=False,  # nothing happens there between the check and the add
        vectors=True,
    ),
    Fault(
        says="a cool-down of a call wins over a policy that was set since it was checked",
        file="core/machine.py",
        old="is_given = plan.given and allows(override.terms.ttl, plan.cool_down)",
        new="is_given = plan.given",
        directed="test_a_policy_set_during_a_delivery_gives_the_cool_down",
        model=False,  # few of its deliveries meet a new policy
        vectors=True,
    ),
    Fault(
        says="an override is forgotten when its timeline is idle",
        file="core/machine.py",
        old="return Slot(paused=slot.paused, override=slot.override)",
        new="return Slot(paused=slot.paused)",
        directed="test_an_override_survives_idle_but_not_delete",
    ),
    Fault(
        says="another policy leaves what waits where it was",
        file="stores/rows/overrides.py",
        old="after = planned_by(rows, slot, override, now=now)",
        new="after = slot",
        directed="test_from_daily_to_instant_it_is_due_now_and_back_at_the_next_time",
    ),
    Fault(
        says="another policy moves a digest that waits for its retry",
        file="core/machine.py",
        old="if slot.state is not State.WAITING or slot.digest is not None or slot.passes:",
        new="if slot.state is not State.WAITING or slot.passes:",
        directed="test_an_unfinished_digest_keeps_its_time",
        vectors=True,
    ),
    Fault(
        says="records expire while they wait for the first opening of a new policy",
        file="core/machine.py",
        old="if terms.openings is None or slot.expires is None or planned.at < slot.expires:",
        new="if planned.at >= now:",
        directed="test_records_do_not_expire_while_they_wait_for_an_opening",
        vectors=True,
    ),
    Fault(
        says="the capacity of an override does not hold",
        file="stores/rows/arrivals.py",
        old="terms = in_force(arrival.terms, before.override)",
        new="terms = arrival.terms",
        directed="test_capacity_and_ttl_of_an_override_hold",
    ),
    Fault(
        says="records for a timeline that is off are accepted",
        file="stores/rows/arrivals.py",
        old="if before.override is not None and before.override.off:",
        new="if False:",
        directed="test_nothing_is_accepted_and_that_is_counted",
    ),
    Fault(
        says="what is deleted by switching a timeline off is not counted",
        file="stores/rows/overrides.py",
        old='    rows.tally["deleted"] += pending + open_\n',
        new='    rows.tally["accepted"] -= pending + open_\n',
        directed="test_what_waits_is_deleted_and_counted",
    ),
]

OUTAGES = [
    Fault(
        says="an attempt that met an outage counts against its digest",
        file="core/verdicts.py",
        old="        case Unavailable():\n            return _outage(error)\n",
        new="",
        directed="test_records_of_kept_timelines_stay_pending",
        model=False,
    ),
    Fault(
        says="any number of digests probe a closed channel at once",
        file="core/outages.py",
        old="        return now >= outage.probe_until\n",
        new="        return True\n",
        directed="test_a_closed_channel_is_probed_by_one_digest_at_a_time_each_of_another_timeline",
        model=False,
    ),
    Fault(
        says="the same timeline probes again and again",
        file="core/outages.py",
        old="        return max(next_probe + part + SHORTEST_WAIT, unended)\n",
        new="        return next_probe\n",
        directed="test_a_closed_channel_is_probed_by_one_digest_at_a_time_each_of_another_timeline",
        model=False,
    ),
    Fault(
        says="all digests leave at once when the channel is back",
        file="core/outages.py",
        old="    limit = 2 ** _doublings(outage, now)\n",
        new="    limit = 2**20\n",
        directed="test_when_it_answers_digests_return_one_then_two_then_four_in_a_second",
        model=False,
    ),
    Fault(
        says="what may have gone out is merged with newer records",
        file="attempts/submission.py",
        old='    freeze = verdict.unknown or (counted and attempt.policy.redelivery == "same")\n',
        new='    freeze = counted and attempt.policy.redelivery == "same"\n',
        directed="test_what_may_have_gone_out_comes_again_as_it_was_and_the_rest_after_the_cool_down",
        model=False,
    ),
    Fault(
        says="the lost answer of one digest closes the channel for all",
        file="core/outages.py",
        old="UNKNOWN_WITNESSES = 2 ",
        new="UNKNOWN_WITNESSES = 1 ",
        directed="test_a_lost_answer_closes_the_channel_once_a_second_timeline_met_it",
        model=False,
    ),
    Fault(
        says="a flush passes a closed channel",
        file="attempts/admission.py",
        old="        if until is None:\n            until = self._outages.admit",
        new="        if until is None and not slot.passes:\n            until = self._outages.admit",
        directed="test_nothing_passes_a_closed_channel",
        model=False,
    ),
    Fault(
        says="an outage uses up the patience with a digest",
        file="attempts/submission.py",
        old="    if isinstance(verdict.error, Unavailable) and not verdict.unknown:\n        return None\n",
        new="",
        directed="test_an_outage_does_not_use_up_patience",
        model=False,
    ),
    Fault(
        says="a channel of which a part is away makes patience endless",
        file="attempts/submission.py",
        old="verdict.error is None or verdict.is_alone:",
        new="verdict.error is None:",
        directed="test_patience_ends_although_a_part_of_the_channel_is_away",
        model=False,
    ),
    Fault(
        says="one message that is refused closes a channel that answers others",
        file="core/outages.py",
        old="    if not outage.answered or now - outage.answered > LONGEST_INTERVAL:\n",
        new="    if True:\n",
        directed="test_a_channel_that_just_answered_is_closed_by_three_timelines_and_five_seconds_without_an_answer",
        model=False,
    ),
    Fault(
        says="an outage of a channel that answered loses digests that are delivered at most once",
        file="core/outages.py",
        old="        is_closed = at_most_once or ",
        new="        is_closed = ",
        directed="test_an_outage_closes_the_channel_of_a_digest_that_is_delivered_at_most_once_immediately",
        model=False,
    ),
    Fault(
        says="many messages may go out before a channel that answered is closed",
        file="core/outages.py",
        old="    if _is_unanswered(met):\n",
        new="    if _is_unanswered(met) and _is_proven(met, now=now):\n",
        directed="test_two_timelines_without_an_answer_close_a_channel_that_just_answered",
        model=False,
    ),
    Fault(
        says="two timelines close a channel that answered",
        file="core/outages.py",
        old="WITNESSES = 3 ",
        new="WITNESSES = 2 ",
        directed="test_two_timelines_do_not_close_a_channel_that_just_answered",
        model=False,
    ),
    Fault(
        says="a moment without an answer closes a channel",
        file="core/outages.py",
        old="SILENCE: Millis = 5_000 ",
        new="SILENCE: Millis = 0 ",
        directed="test_a_channel_that_just_answered_is_closed_by_three_timelines_and_five_seconds_without_an_answer",
        model=False,
    ),
    Fault(
        says="answers do not clear a suspicion that other workers noted",
        file="core/outages.py",
        old="        return replace(outage, met=(), met_since=0, answered=now)\n",
        new="        return outage\n",
        directed="test_an_answer_through_another_worker_keeps_the_channel_open",
        model=False,
    ),
    Fault(
        says="every answer is noted while a suspicion is noted",
        file="attempts/outages.py",
        old=" and self._answers.may_store(name, now)",
        new="",
        directed="test_deliveries_through_a_channel_that_works_write_no_note",
        model=False,
    ),
    Fault(
        says="a digest that meets an open channel is tried every two seconds",
        file="core/outages.py",
        old="min(SHORTEST_PUT_OFF + failing, LONGEST_PUT_OFF)",
        new="SHORTEST_PUT_OFF",
        directed="test_a_digest_that_meets_an_open_channel_is_put_off_by_itself_for_longer_each_time",
        model=False,
    ),
    Fault(
        says="after a relapse the return begins with one digest per second",
        file="core/outages.py",
        old="    pace = max(0, _doublings(outage, now) - 1) if outage.phase is Phase.RETURNING else 0\n",
        new="    pace = 0\n",
        directed="test_after_a_relapse_a_return_begins_with_half_the_rate_that_it_reached",
        model=False,
    ),
    Fault(
        says="a channel stays closed for as long as the clock was set back",
        file="core/outages.py",
        old="        return latest > now + FURTHEST_AHEAD\n",
        new="        return False\n",
        directed="test_a_clock_that_is_set_back_during_an_outage_keeps_no_channel_closed",
        model=False,
    ),
    Fault(
        says="timelines wait for a channel by a clock that was set back since",
        file="attempts/outages.py",
        old="                self._recall(name, it, now=now)\n",
        new="                pass\n",
        directed="test_a_clock_that_is_set_back_while_digests_are_put_off_delays_none_of_them",
        model=False,
    ),
    Fault(
        says="a change of one channel drops the note by which timelines of another are recalled",
        file="attempts/channel_notes.py",
        old="(each.is_ahead(now) or not each.is_over(now))",
        new="not each.is_over(now)",
        directed="test_an_attempt_that_ends_after_the_clock_was_set_back_delays_no_digest_that_was_put_off",
        model=False,
    ),
    Fault(
        says="one message closes a channel that answered before the clock was set back",
        file="attempts/outages.py",
        old="            self._last[name] = last = now\n",
        new="            last = 0\n",
        directed="test_a_channel_that_answered_just_before_the_clock_was_set_back_is_not_closed_by_one_message",
        model=False,
    ),
    Fault(
        says="an answer is refused because the outage seems to have begun later",
        file="core/outages.py",
        old="        if began < outage.since <= now:\n",
        new="        if began < outage.since:\n",
        directed="test_an_answer_counts_although_the_outage_began_later_than_now",
        model=False,
    ),
    Fault(
        says="a digest whose worker was killed while it probed is the next to probe",
        file="core/outages.py",
        old="    return is_ready or now >= outage.probe_until + outage.interval\n",
        new="    return True\n",
        directed="test_after_a_probe_whose_worker_was_killed_another_timeline_probes",
        model=False,
    ),
    Fault(
        says="what is put off is never given up",
        file="core/verdicts.py",
        old="        case _ if _is_spent(failing, policy):\n            return bury(error)\n",
        new="",
        directed="test_patience_ends",
        model=False,
    ),
]

REQUEUES = [
    Fault(
        says="a version that moves replaces a later one",
        file="stores/memory.py",
        old="if known is None or known.stored.arrival < entry.stored.arrival:",
        new="if known is None or known is not None:",
        directed="test_a_later_version_that_is_pending_stays",
    ),
    Fault(
        says="what may have gone out is requeued",
        file="core/machine.py",
        old="    if may_have_gone_out(letter):\n",
        new="    if letter.id == '':\n",
        directed="test_what_may_have_gone_out_is_refused_unless_forced",
    ),
    Fault(
        says="what was requeued leaves at once, each letter on its own",
        file="core/machine.py",
        old="        at = now + (delay if own is None else own.cool_down(slot.iteration))\n",
        new="        at = now\n",
        directed="test_three_dead_letters_of_a_timeline_leave_as_one_digest",
        vectors=True,
    ),
    Fault(
        says="what was requeued never expires",
        file="stores/rows/operations.py",
        old="expires = NEVER if terms.ttl is None else now + terms.ttl",
        new="expires = NEVER",
        directed="test_their_ttl_counts_from_the_requeue",
    ),
    Fault(
        says="a requeue fills a timeline beyond its capacity",
        file="stores/rows/operations.py",
        old="min(pending - terms.capacity, PAGE_RECORDS)",
        new="min(pending - terms.capacity - 1, PAGE_RECORDS)",
        directed="test_capacity_keeps_the_newest",
    ),
    Fault(
        says="what a requeue pushes out is not in the ledger",
        file="stores/rows/operations.py",
        old='    rows.tally["dropped"] += dropped\n',
        new="",
        directed="test_capacity_keeps_the_newest",
    ),
    Fault(
        says="the rest of a letter comes under the key of the whole",
        file="stores/rows/operations.py",
        old="dropped=0, revision=letter.revision + 1)",
        new="dropped=0)",
        directed="test_what_an_interrupted_requeue_left_is_a_dead_letter_as_any",
    ),
]

MOVING = [
    Fault(
        says="a store that is being moved delivers the first record of an idle timeline",
        file="core/machine.py",
        old="held=slot.paused or moving",
        new="held=slot.paused",
        directed="test_an_idle_timeline_waits_when_a_record_arrives",
        model=False,
        vectors=True,
    ),
    Fault(
        says="a store that is being moved is claimed from",
        file="stores/rows/leases.py",
        old="""\
    found, suspect = rows.claimable(grant.now, limit=limit)
    if rows.is_moving():
""",
        new="""\
    found, suspect = rows.claimable(grant.now, limit=limit)
    if False:
""",
        directed="test_nothing_is_claimed",
        model=False,
    ),
    Fault(
        says="a move that goes on does not stop deliveries again",
        file="transfer/lock.py",
        old="        self._stop_deliveries(now=now)\n",
        new="",
        directed="test_a_move_that_is_given_up_leaves_a_store_that_delivers",
        model=False,
    ),
    Fault(
        says="records that follow do not put their digest off",
        file="core/transfer.py",
        old="        slot = _pulled_by_deadline(machine.after_push(slot, exported.push))\n",
        new="        slot = _pulled_by_deadline(slot)\n",
        directed="test_as_many_digests_go_out_as_without_a_move",
        model=False,
    ),
    Fault(
        says="off that arrives leaves what is pending",
        file="stores/rows/transfer.py",
        old="        put(rows, timeline, before, emptied(rows, slot))\n",
        new="        put(rows, timeline, before, machine.after_switched_off(slot))\n",
        directed="test_off_that_arrives_empties_the_timeline",
        model=False,
    ),
    Fault(
        says="a digest that arrives is tried again though its timeline is off",
        file="stores/rows/transfer.py",
        old="    if machine.is_off(slot):  # the choice",
        new="    if False:  # the choice",
        directed="test_a_digest_that_brings_off_along_is_deleted_with_what_waits",
        model=False,
    ),
    Fault(
        says="what was chosen during an export is lost",
        file="core/transfer.py",
        old="override=slot.override if is_new else None)",
        new="override=None)",
        directed="test_what_is_chosen_while_a_timeline_is_copied_follows",
        model=False,
    ),
    Fault(
        says="what was chosen between two runs of a move is lost",
        file="transfer/move.py",
        old="_without_choices(begun) if imported.done or imported.whole else begun",
        new="begun",
        directed="test_what_is_chosen_while_a_timeline_is_copied_follows",
        model=False,
    ),
    Fault(
        says="a policy that arrives does not move what waits",
        file="core/transfer.py",
        old="    return before.state is State.WAITING and _since(before.override) != _since(after.override)\n",
        new="    return False\n",
        directed="test_a_policy_that_arrives_moves_what_waits",
        model=False,
    ),
]

TRACES = [
    Fault(
        says="a record that was retracted looks as if it had never come",
        file="stores/rows/arrivals.py",
        old="    rows.put_removals(timeline, after_retraction(rows.removals(timeline), key, now=now))\n",
        new="",
        directed="test_a_record_that_never_came_is_told_from_one_that_was_retracted",
        model=False,
    ),
    Fault(
        says="all retracted keys are kept for ever",
        file="core/removals.py",
        old="(key, now))[-RETRACTED_KEYS:])",
        new="(key, now)))",
        directed="test_the_latest_retracted_keys_of_a_timeline_are_known",
        model=False,
    ),
    Fault(
        says="only the last call that expired records is remembered",
        file="core/removals.py",
        old="expired=removals.expired + count, first_expired=first",
        new="expired=count, first_expired=now",
        directed="test_a_record_may_have_expired",
        model=False,
    ),
    Fault(
        says="what was left out of a digest is forgotten when its next attempt leaves out more",
        file="stores/rows/endings.py",
        old="left_out=(*digest.left_out, *named)",
        new="left_out=tuple(named)",
        directed="test_what_a_hook_left_out_is_known_over_failed_attempts",
        model=False,
    ),
    Fault(
        says="retracted keys outlive the timeline that was deleted",
        file="stores/rows/operations.py",
        old="    rows.delete_removals(timeline)\n",
        new="",
        directed="test_a_deleted_timeline_was_never_seen",
        model=False,
    ),
]

LOSSES = [
    Fault(
        says="a document replaces any other that is there, whatever it was compared with",
        file="stores/rows/documents.py",
        old="        return there == replace\n",
        new="        return there is not None\n",
        directed="test_a_document_is_replaced_by_comparison_only_where_its_body_is_there",
        model=False,
    ),
    Fault(
        says="a document is forgotten whatever it was compared with",
        file="stores/rows/documents.py",
        old=" or (body is not None and found.document.body != body)",
        new="",
        directed="test_a_document_is_forgotten_by_comparison_only_where_its_body_is_there",
        model=False,
    ),
    Fault(
        says="a record that is gone is counted as delivered",
        file="stores/rows/open_digests.py",
        old="        return len(answer.records) != slot.digest.records\n",
        new="        return False\n",
        directed="test_a_record_that_is_gone_with_its_key_is_lost",
        model=False,
    ),
    Fault(
        says="a digest that lost a record comes again under the same key",
        file="stores/rows/losses.py",
        old="    left = machine.after_losing(digest, gone)\n",
        new="    left = replace(digest, records=digest.records - gone)\n",
        directed="test_what_vanished_from_a_digest_that_comes_again_is_lost",
        model=False,
    ),
    Fault(
        says="a digest is trimmed by the number of records that it had",
        file="stores/rows/open_digests.py",
        old="        slot, lost = recounted(rows, slot)\n",
        new="        pass\n",
        directed="test_a_digest_that_lost_more_than_its_excess_is_still_read",
        model=False,
    ),
    Fault(
        says="a repair lowers the number of accepted records",
        file="core/ledger.py",
        old='    counts["accepted"] = max(known["accepted"], others)\n',
        new='    counts["lost"], counts["accepted"] = 0, others\n',
        directed="test_a_repair_counts_what_is_gone_as_lost",
        model=False,
    ),
    Fault(
        says="a timeline that is idle with records is not named",
        file="stores/rows/survey.py",
        old="            if slot.state is State.IDLE and _total",
        new="            if False and _total",
        directed="test_a_timeline_that_is_idle_with_records_is_named_and_repaired",
        model=False,
    ),
    Fault(
        says="a dead letter without a value is replayed",
        file="core/machine.py",
        old="    if is_missing:\n",
        new="    if False:\n",
        directed="test_a_dead_letter_without_a_value_can_only_be_discarded",
        model=False,
    ),
]

CLOCKS = [
    Fault(
        says="a lease that was renewed since it was seen is ended",
        file="core/machine.py",
        old="    return slot.state is State.OPEN and slot.parked is None and slot.until == until\n",
        new="    return slot.state is State.OPEN and slot.parked is None\n",
        directed="test_a_lease_ends_early_only_if_its_end_is_the_one_that_was_seen",
        model=False,
    ),
    Fault(
        says="a lease that is far ahead ends when it is seen for the second time",
        file="attempts/lease_watch.py",
        old="if seconds - since >= to_seconds(longest)]",
        new="if seconds > since]",
        directed="test_the_leases_of_an_engine_that_has_longer_ones_are_not_ended_earlier",
        model=False,
    ),
    Fault(
        says="what a clock that was set back left a day ahead is planned a day ahead again",
        file="core/machine.py",
        old="    return None if time is None else min(time, now)\n",
        new="    return time\n",
        directed="test_after_a_clock_was_set_back_what_waits_is_planned_by_now",
        model=False,
        vectors=True,
    ),
    Fault(
        says="openings that the calendar no longer has stay with an override until few are left",
        file="attempts/attempts.py",
        old="        return near is not None and agree(stored, near, after=until)\n",
        new="        return True\n",
        directed="test_openings_of_an_override_that_the_calendar_no_longer_has_are_replaced",
        model=False,
    ),
]

TENANTS = [
    Fault(
        says="of nested prefixes the shortest counts",
        file="core/tenants.py",
        old="for prefix in self.named}, reverse=True)",
        new="for prefix in self.named})",
        directed="test_of_nested_prefixes_the_longest_counts",
        model=False,
    ),
    Fault(
        says="a full ring of documents pushes out the oldest of all rings",
        file="stores/memory.py",
        old="return next((row for row in found if ring in (None, row.document.ring)), None)",
        new="return next(found, None)",
        directed="test_documents_of_a_ring_push_out_only_each_other",
        model=False,
    ),
    Fault(
        says="documents that are too old stay until their own ring is written again",
        file="stores/rows/documents.py",
        old="ring if is_full else None)",
        new="ring)",
        directed="test_documents_that_are_too_old_leave_every_ring",
        model=False,
    ),
    Fault(
        says="ids of digests count the others of their claim",
        file="stores/rows/leases.py",
        old="slot, grant, fresh_id=derived_id(grant.token, timeline)",
        new='slot, grant, fresh_id=f"{grant.token}-{len(leases)}"',
        directed="test_the_id_of_a_digest_does_not_depend_on_others_in_its_claim",
        model=False,
    ),
    Fault(
        says="a process that has read the named prefixes once never learns of others",
        file="stores/tenants.py",
        old="if known is None or monotonic() >= self._good_until:",
        new="if known is None or self._good_until < 0:",
        directed="test_a_process_learns_the_prefixes_that_another_one_has_named",
        model=False,
    ),
]

ACCOUNTS = TRACES + LOSSES + TENANTS
FAULTS = CLOCKS + ORIGIN + OURS + SUSPECTS + CALENDAR + OVERRIDES + OUTAGES + REQUEUES + MOVING + ACCOUNTS
