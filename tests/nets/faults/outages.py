"""Faults in what a channel that is away means, and in how digests come back."""

from dataclasses import replace as changed

from msgspec.structs import replace

from digestif.core.outages import _is_proven, _met
from digestif.core.verdicts import DeliveryFailed, Unavailable
from tests.nets.planting import fault, keeping, wrong_value

UNBOUNDED_PACE = 20  # doublings of the rate of a return


@fault(
    "an attempt that met an outage counts against its digest",
    of="core.verdicts:judge",
    directed="test_records_of_kept_timelines_stay_pending",
    model=False,
)
def _(sound, error, **facts):
    if not isinstance(error, Unavailable):
        return sound(error, **facts)
    failure = DeliveryFailed(str(error), after=error.after, unknown=error.unknown)
    return changed(sound(failure, **facts), error=error)


@fault(
    "any number of digests probe a closed channel at once",
    of="core.outages:may_probe",
    directed="test_a_closed_channel_is_probed_by_one_digest_at_a_time_each_of_another_timeline",
    model=False,
)
def _(sound, outage, timeline, **facts):
    is_other = outage.prober != timeline
    return sound(replace(outage, probe_until=0) if is_other else outage, timeline, **facts)


@fault(
    "the same timeline probes again and again",
    of="core.outages:kept_until",
    directed="test_a_closed_channel_is_probed_by_one_digest_at_a_time_each_of_another_timeline",
    model=False,
)
def _(sound, outage, timeline, *, chance, **facts):
    is_prober = outage.prober == timeline
    return sound(replace(outage, prober=""), timeline, chance=0 if is_prober else chance, **facts)


@fault(
    "all digests leave at once when the channel is back",
    of="core.outages:after_grant",
    directed="test_when_it_answers_digests_return_one_then_two_then_four_in_a_second",
    model=False,
)
def _(sound, outage, *, now):
    after, more = sound(replace(outage, pace=UNBOUNDED_PACE), now=now)
    return keeping(after, outage, "pace"), more


@fault(
    "what may have gone out is merged with newer records",
    of="core.machine:after_failure",
    directed="test_what_may_have_gone_out_comes_again_as_it_was_and_the_rest_after_the_cool_down",
    model=False,
)
def _(sound, slot, *, freeze, unknown, **facts):
    return sound(slot, freeze=freeze and not unknown, unknown=unknown, **facts)


wrong_value(
    "the lost answer of one digest closes the channel for all",
    of="core.outages:UNKNOWN_WITNESSES",
    value=1,
    directed="test_a_lost_answer_closes_the_channel_once_a_second_timeline_met_it",
    model=False,
)


@fault(
    "a flush passes a closed channel",
    of="attempts.admission:Admissions._decide",
    directed="test_nothing_passes_a_closed_channel",
    model=False,
)
def _(sound, self, candidate, at, *, limited):
    decided = sound(self, candidate, at, limited=limited)
    return decided._replace(until=None) if candidate.slot.passes else decided


@fault(
    "an outage uses up the patience with a digest",
    of="attempts.submission:_tried",
    directed="test_an_outage_does_not_use_up_patience",
    model=False,
)
def _(sound, judged, at):
    error = judged.verdict.error and DeliveryFailed("failed")
    return sound(replace(judged, verdict=changed(judged.verdict, error=error)), at)


@fault(
    "a channel of which a part is away makes patience endless",
    of="attempts.submission:_tried",
    directed="test_patience_ends_although_a_part_of_the_channel_is_away",
    model=False,
)
def _(sound, judged, at):
    return sound(replace(judged, verdict=changed(judged.verdict, is_alone=False)), at)


@fault(
    "one message that is refused closes a channel that answers others",
    of="core.outages:_is_proven",
    directed="test_a_channel_that_just_answered_is_closed_by_three_timelines_and_five_seconds_without_an_answer",
    model=False,
)
def _(sound, outage, *, now):
    return True


@fault(
    "an outage of a channel that answered loses digests that are delivered at most once",
    of="core.outages:after_unavailable",
    directed="test_an_outage_closes_the_channel_of_a_digest_that_is_delivered_at_most_once_immediately",
    model=False,
)
def _(sound, outage, timeline, reason, *, at_most_once, **facts):
    return sound(outage, timeline, reason, at_most_once=False, **facts)


@fault(
    "many messages may go out before a channel that answered is closed",
    of="core.outages:after_unknown",
    directed="test_two_timelines_without_an_answer_close_a_channel_that_just_answered",
    model=False,
)
def _(sound, outage, timeline, reason, *, now, answered, **facts):
    met = _met(outage, timeline, reason, now=now, answered=answered)
    is_closed = outage is not None and outage.is_closed
    if is_closed or _is_proven(met, now=now):
        return sound(outage, timeline, reason, now=now, answered=answered, **facts)
    return met


wrong_value(
    "two timelines close a channel that answered",
    of="core.outages:WITNESSES",
    value=2,
    directed="test_two_timelines_do_not_close_a_channel_that_just_answered",
    model=False,
)

wrong_value(
    "a moment without an answer closes a channel",
    of="core.outages:SILENCE",
    value=0,
    directed="test_a_channel_that_just_answered_is_closed_by_three_timelines_and_five_seconds_without_an_answer",
    model=False,
)


@fault(
    "answers do not clear a suspicion that other workers noted",
    of="core.outages:after_answer",
    directed="test_an_answer_through_another_worker_keeps_the_channel_open",
    model=False,
)
def _(sound, outage, **facts):
    return outage if outage.met and not outage.is_closed else sound(outage, **facts)


@fault(
    "every answer is noted while a suspicion is noted",
    of="attempts.outages:_Answers.may_store",
    directed="test_deliveries_through_a_channel_that_works_write_no_note",
    model=False,
)
def _(sound, self, name, now):
    return True


@fault(
    "a digest that meets an open channel is tried every two seconds",
    of="core.outages:put_off_delay",
    directed="test_a_digest_that_meets_an_open_channel_is_put_off_by_itself_for_longer_each_time",
    model=False,
)
def _(sound, since, *, now, after):
    return sound(now, now=now, after=after)


@fault(
    "after a relapse the return begins with one digest per second",
    of="core.outages:_closed",
    directed="test_after_a_relapse_a_return_begins_with_half_the_rate_that_it_reached",
    model=False,
)
def _(sound, outage, reason, **facts):
    return replace(sound(outage, reason, **facts), pace=0)


@fault(
    "a digest whose worker was killed while it probed is the next to probe",
    of="core.outages:may_probe",
    directed="test_after_a_probe_whose_worker_was_killed_another_timeline_probes",
    model=False,
)
def _(sound, outage, timeline, *, now, is_ready):
    return sound(outage, timeline, now=now, is_ready=True)


@fault(
    "what is put off is never given up",
    of="core.verdicts:_is_spent",
    directed="test_patience_ends",
    model=False,
)
def _(sound, failing, policy):
    return False
