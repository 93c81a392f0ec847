"""Faults in the steps of an attempt: their order, and the one event of its end."""

from tests.nets.planting import fault


@fault(
    "at most once is delivered before it is completed",
    of="attempts.pipeline:Pipeline._complete_page",
    directed="test_wherever_a_process_is_killed_nothing_comes_twice_at_most_once",
    model=False,  # the model delivers at least once
)
def _(sound, self, page, begun):
    return page
    yield  # a generator of steps, as the sound one


@fault(
    "an attempt that failed after its completion is reported as coming again",
    of="attempts.reports:_ended_completed",
    directed="test_at_most_once_that_fails_is_told_as_never_coming_again",
    model=False,  # the model delivers at least once
)
def _(sound, judged):
    from digestif.attempts.reports import _ended

    return _ended(judged, judged.verdict.ending)


@fault(
    "the end of an attempt whose lease was lost is reported as if the store had changed something",
    of="attempts.submission:_answer",
    directed="test_a_lost_lease_is_told_once",
    model=False,  # the model asks the store itself
)
def _(sound, judged, done):
    return judged.verdict.ending
