"""Faults after a clock was set back: times that lie too far ahead."""

from math import inf

from tests.nets.planting import fault


@fault(
    "a channel stays closed for as long as the clock was set back",
    of="core.outages:Outage.is_ahead",
    directed="test_a_clock_that_is_set_back_during_an_outage_keeps_no_channel_closed",
    model=False,
)
def _(sound, self, now):
    return False


@fault(
    "timelines wait for a channel by a clock that was set back since",
    of="notes.channels:ChannelNotes._recall",
    directed="test_a_clock_that_is_set_back_while_digests_are_put_off_delays_none_of_them",
    model=False,
)
def _(sound, self, name, outage, *, now):
    return None


@fault(
    "a change of one channel drops the note by which timelines of another are recalled",
    of="notes.channels:_changed",
    directed="test_an_attempt_that_ends_after_the_clock_was_set_back_delays_no_digest_that_was_put_off",
    model=False,
)
def _(sound, found, name, change, *, now):
    kept = {other: each for other, each in found.items() if other == name or not each.is_ahead(now)}
    return sound(kept, name, change, now=now)


@fault(
    "one message closes a channel that answered before the clock was set back",
    of="attempts.outages:_Answers.last",
    directed="test_a_channel_that_answered_just_before_the_clock_was_set_back_is_not_closed_by_one_message",
    model=False,
)
def _(sound, self, name, now):
    return 0 if self._last.get(name, 0) > now else sound(self, name, now)


@fault(
    "an answer is refused because the outage seems to have begun later",
    of="core.outages:after_answer",
    directed="test_an_answer_counts_although_the_outage_began_later_than_now",
    model=False,
)
def _(sound, outage, *, began, now):
    return outage if outage.is_closed and began < outage.since else sound(outage, began=began, now=now)


@fault(
    "a lease that was renewed since it was seen is ended",
    of="core.machine:is_leased_until",
    directed="test_a_lease_ends_early_only_if_its_end_is_the_one_that_was_seen",
    model=False,
)
def _(sound, slot, until):
    return sound(slot, slot.until)


@fault(
    "a lease that is far ahead ends when it is seen for the second time",
    of="attempts.lease_watch:LeaseWatch.look",
    directed="test_the_leases_of_an_engine_that_has_longer_ones_are_not_ended_earlier",
    model=False,
)
def _(sound, self, now):
    self._seen = dict.fromkeys(self._seen, -inf)
    return sound(self, now)


@fault(
    "what a clock that was set back left a day ahead is planned a day ahead again",
    of="core.machine:_not_after",
    directed="test_after_a_clock_was_set_back_what_waits_is_planned_by_now",
    model=False,
    vectors=True,
)
def _(sound, time, now):
    return time


@fault(
    "openings that the calendar no longer has stay with an override until few are left",
    of="core.terms:agree",
    directed="test_openings_of_an_override_that_the_calendar_no_longer_has_are_replaced",
    model=False,
)
def _(sound, stored, fresh, *, after):
    return True
