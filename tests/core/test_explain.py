"""Explanations: policy and source, the sum of the delays, what the window makes of it, and what would change it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from digestif import Digest, Digests, Explanation, InvalidState, Policy, Unavailable, Window
from digestif.core.terms import Override, Terms
from digestif.core.workers import WorkerNote
from digestif.notes.workers import note_worker
from digestif.stores.base import Burial

MONDAY = 1_772_442_000  # 2026-03-02, 10:00 in Berlin
NIGHT = MONDAY + 12 * 3600 + 60  # 22:01
SEVEN = MONDAY + 21 * 3600  # 07:00 the next day


@pytest.fixture
def digests() -> Digests:
    return Digests("memory://")


def let_wait(digests: Digests, at: float, **options: Any) -> None:
    digests.add("t", 1, now=at)
    with digests.digest("t", now=at):
        pass
    digests.add("t", 2, now=at + 10, **options)


def test_a_wait_by_the_delays_alone(digests: Digests) -> None:
    let_wait(digests, MONDAY)

    why = digests.explain("t", now=MONDAY + 10)

    assert (why.policy, why.source, why.window, why.zone) == ("default", "engine", None, None)
    assert (why.by_delays, why.aligned, why.passes) == (MONDAY + 330, None, None)
    assert why.latest == MONDAY + 1800
    assert why.changes == (
        "`flush` makes it ready now",
        "a further record moves it by 30 s, at most to 2026-03-02T09:30:00.000Z",
        "a record with a deadline (`within`) pulls it forward",
        "`set_policy` or `prefer` reschedules it",
    )
    assert str(why) == (
        "t: waiting with 1 pending, due in 5 min 20 s. 2026-03-02T09:05:00.000Z + 30 s of increment_delay = due "
        "2026-03-02T09:05:30.000Z. Whatever is added, it is due 2026-03-02T09:30:00.000Z at the latest. Its policy is "
        "default, from the engine. `flush` makes it ready now; a further record moves it by 30 s, at most to "
        "2026-03-02T09:30:00.000Z; a record with a deadline (`within`) pulls it forward; `set_policy` or `prefer` "
        "reschedules it."
    )


def test_a_wait_for_the_end_of_quiet_hours_is_told_in_their_zone(digests: Digests) -> None:
    digests.set_policy("t", Policy.quiet_hours("22:00-07:00", tz="Europe/Berlin"), now=MONDAY)
    let_wait(digests, NIGHT - 120)

    why = digests.explain("t", now=NIGHT)

    assert (why.policy, why.source) == ("quiet@22:00-07:00 Europe/Berlin", "override")
    assert (why.window, why.zone) == ("quiet@22:00-07:00 Europe/Berlin", "Europe/Berlin")
    assert (why.by_delays, why.aligned, why.next, why.latest) == (NIGHT + 210, SEVEN, SEVEN, SEVEN)
    assert why.arithmetic == (
        "2026-03-02T22:04:00.000+01:00 + 30 s of increment_delay = due 2026-03-02T22:04:30.000+01:00, "
        "its window holds it back until 07:00 Europe/Berlin"
    )
    assert "`flush` makes it ready now, whatever its window says" in why.changes
    assert not any("within" in change for change in why.changes)
    assert "from `set_policy`" in str(why)


def test_a_due_time_far_away_is_told_in_hours_and_a_time_of_the_clock(digests: Digests) -> None:
    digests.set_policy("t", Policy.daily("17:30", tz="Europe/Berlin"), now=MONDAY)
    digests.add("t", 1, now=MONDAY)

    assert digests.explain("t", now=MONDAY).summary == "waiting with 1 pending, due in 7 h 30 min"
    with pytest.raises(InvalidState, match=r"due at 2026-03-02T16:30:00\.000Z"):
        digests.digest("t", now=MONDAY).__enter__()


def test_a_cool_down_without_records_says_so(digests: Digests) -> None:
    digests.add("t", 1, now=MONDAY)
    with digests.digest("t", now=MONDAY):
        pass

    assert (
        digests.explain("t", now=MONDAY + 7).summary == "cooling down until 2026-03-02T09:05:00.000Z, nothing pending"
    )
    assert (
        digests.explain("t", now=MONDAY + 301).summary == "cooled down since 2026-03-02T09:05:00.000Z, nothing pending"
    )


@pytest.mark.parametrize(
    ("since", "moved"),
    [
        (MONDAY, "a further record moves it by 30 s, at most to"),
        (NIGHT - 400, "further records move it to a later opening of its window, at most to"),
    ],
    ids=["inside the hours", "at their end"],
)
def test_what_a_further_record_does_depends_on_where_the_hours_end(digests: Digests, since: float, moved: str) -> None:
    digests.set_policy("t", Policy.quiet_hours("22:00-07:00", tz="Europe/Berlin"), now=MONDAY)
    let_wait(digests, since)

    changes = digests.explain("t", now=since + 10).changes

    assert any(change.startswith(moved) for change in changes), changes


def test_a_wait_for_a_time_of_the_calendar(digests: Digests) -> None:
    digests.prefer("t", "weekly", zone="Europe/Berlin", now=MONDAY)
    digests.add("t", 1, now=MONDAY)

    why = digests.explain("t", now=MONDAY)

    assert why.aligned == why.latest == MONDAY + 7 * 86_400 - 3600
    assert why.arithmetic.endswith(
        ", the next time of weekly@mon 09:00 Europe/Berlin is Mon 2026-03-09 09:00 Europe/Berlin"
    )
    assert why.source == "cadence weekly"
    assert "from the cadence weekly" in str(why)


def test_an_urgent_record_passes_a_window_that_lets_it(digests: Digests) -> None:
    digests.set_policy("t", Policy.quiet_hours("22:00-07:00", tz="UTC", urgent=True), now=MONDAY)
    night = MONDAY + 14 * 3600  # 23:00
    digests.add("t", 1, now=night)
    assert "a record with a deadline (`within`) passes its window" in digests.explain("t", now=night).changes

    digests.add("t", 2, within=60, now=night)
    why = digests.explain("t", now=night)

    assert (why.passes, why.latest) == ("the deadline of a record comes first", night + 60)
    assert "No window holds it back: the deadline of a record comes first." in str(why)


def test_an_urgent_record_bounds_the_wait_for_a_window_that_lets_it(digests: Digests) -> None:
    digests.set_policy("t", Policy.quiet_hours("22:00-07:00", tz="Europe/Berlin", urgent=True), now=MONDAY)
    evening = MONDAY + 12 * 3600 - 600  # 21:50
    let_wait(digests, evening, within=1200)

    why = digests.explain("t", now=evening + 10)

    assert (why.by_delays, why.passes, why.latest) == (evening + 330, None, evening + 1210)


def test_a_flush_gives_a_pass(digests: Digests) -> None:
    digests.set_policy("t", Policy.daily("09:00", tz="Europe/Berlin"), now=MONDAY)
    digests.add("t", 1, now=MONDAY)

    digests.flush("t", now=MONDAY + 60)

    why = digests.explain("t", now=MONDAY + 60)
    assert (why.passes, why.aligned, why.next) == ("it was flushed", None, MONDAY + 60)


def test_a_timeline_that_is_off_says_so(digests: Digests) -> None:
    digests.prefer("t", "off", now=MONDAY)

    why = digests.explain("t", now=MONDAY)

    assert (why.policy, why.source, why.next) == ("off", "cadence off", None)
    assert why.summary == "off: no record is accepted; idle: nothing is stored"
    assert why.changes == ("`prefer` or `clear_policy` switches it on again",)


def test_a_timeline_that_is_switched_off_while_it_cools_down_expects_nothing(digests: Digests) -> None:
    let_wait(digests, MONDAY)
    digests.prefer("t", "off", now=MONDAY + 20)

    why = digests.explain("t", now=MONDAY + 30)

    assert why.state == "waiting"
    assert str(why) == (
        "t: off: no record is accepted; nothing pending. Its policy is off, from the cadence off. "
        "`prefer` or `clear_policy` switches it on again."
    )


def test_a_paused_timeline_says_what_lets_it_go_on(digests: Digests) -> None:
    let_wait(digests, MONDAY)
    digests.pause("t")

    why = digests.explain("t", now=MONDAY + 10)

    assert why.summary == "paused; waiting with 1 pending, due in 5 min 20 s"
    assert (why.next, why.latest, why.changes) == (None, None, ("`resume` lets it go on",))


def test_silence_and_full_digests_are_among_what_changes_it() -> None:
    with Digests("memory://", policy=Policy.debounce(60, 600, max_records=5)) as digests:
        digests.add("t", 1, now=MONDAY)

        why = digests.explain("t", now=MONDAY)

    assert why.latest == MONDAY + 600
    assert "a further record moves it until there is silence, at most to 2026-03-02T09:10:00.000Z" in why.changes
    assert "5 pending records make it due at once" in why.changes


@pytest.mark.parametrize("pending", [2, 3])
def test_a_record_that_fills_a_digest_is_not_said_to_put_it_off(pending: int) -> None:
    digests = Digests("memory://", policy=Policy(max_records=3))
    let_wait(digests, MONDAY)
    for number in range(pending - 1):
        digests.add("t", number, now=MONDAY + 11)

    told = str(digests.explain("t", now=MONDAY + 12))

    assert "3 pending records make it due at once" in told
    assert "a further record moves it" not in told
    assert ("at the latest" in told) is (pending < 3)
    assert ("The number of max_records was pending at" in told) is (pending == 3)


def test_a_bound_that_has_passed_is_not_told(digests: Digests) -> None:
    let_wait(digests, MONDAY)

    told = str(digests.explain("t", now=MONDAY + 86_400))

    assert "waiting with 1 pending, due." in told
    assert "at the latest" not in told
    assert "a further record moves it" not in told


def test_without_a_window_a_flush_says_nothing_of_windows(digests: Digests) -> None:
    let_wait(digests, MONDAY)
    digests.flush("t", now=MONDAY + 20)

    assert "window" not in str(digests.explain("t", now=MONDAY + 21))


def test_an_opening_that_has_passed_is_told_with_its_date() -> None:
    digests = Digests("memory://", policy=Policy(window=Window.daily("09:00", tz="UTC")))
    let_wait(digests, MONDAY)
    digests.pause("t")

    told = digests.explain("t", now=MONDAY + 30 * 3600).arithmetic

    assert told.endswith("the next time of daily@09:00 UTC is Tue 2026-03-03 09:00 UTC")


def test_what_is_off_and_empty_waits_for_no_channel(digests: Digests) -> None:
    @digests.handler("t", channel="crm")
    def unreachable(digest: Digest) -> None:
        raise Unavailable("crm is away")

    digests.add("t", 1, now=MONDAY)
    digests.deliver("t", now=MONDAY)
    waiting = str(digests.explain("t", now=MONDAY + 1))
    digests.prefer("t", "off", now=MONDAY + 2)

    assert "Its channel crm is unavailable" in waiting
    assert "crm" not in str(digests.explain("t", now=MONDAY + 3))


def test_a_policy_that_holds_a_function_is_shown_as_in_the_code() -> None:
    window = Window.daily("09:00", tz=lambda timeline: "Europe/Berlin" if timeline == "t" else str(1 / 0))
    with Digests("memory://", policy=Policy(window=window)) as digests:
        digests.add("t", 1, now=MONDAY)
        digests.add("unknown", 1, now=MONDAY)

        why, unknown = digests.explain("t", now=MONDAY), digests.explain("unknown", now=MONDAY)

    assert why.policy.startswith("Policy(")
    assert why.zone == "Europe/Berlin"
    assert why.window is not None
    assert (unknown.zone, unknown.latest) == (None, None)


def unknown_zone(timeline: str) -> str:
    raise LookupError("no row")


def test_a_zone_that_cannot_be_told_is_named_with_its_reason() -> None:
    policy = Policy.quiet_hours("22:00-07:00", tz=unknown_zone)
    with Digests("memory://", policy=policy) as digests:
        digests.add("t", 1, now=MONDAY)
        assert list(digests.schedule(now=MONDAY)) == []

        why = digests.explain("t", now=MONDAY)

    reason = "tz: the callable fails for 't': LookupError: no row"
    again = f"it is asked again at {iso(why.facts['due'])}, and with the next record"
    assert why.failure == f"its time zone can't be told: {reason}; {again}"
    assert "holds it back" not in str(why)
    assert "Its time zone can't be told: tz:" in str(why)


def test_a_policy_that_cannot_be_told_is_named_with_its_reason() -> None:
    def fails(timeline: str) -> Policy:
        raise LookupError("no row")

    with Digests("memory://", policy=fails) as digests:
        digests.add("t", 1, now=MONDAY)

        why = digests.explain("t", now=MONDAY)

    assert why.failure == (
        "its policy can't be told: LookupError: no row; its last answer or else the default holds, and it is asked "
        "again after 5 s"
    )
    assert "Its policy can't be told: " in str(why)


def test_a_stored_policy_that_cannot_be_read_is_named(digests: Digests) -> None:
    digests.store.set_override("t", Override(text="lunar@full", since=0, terms=Terms()), now=MONDAY * 1000)

    why = digests.explain("t", now=MONDAY)

    assert why.failure is not None
    assert why.failure.startswith("its stored policy can't be read: ")
    assert why.failure.endswith("; that in the code holds")


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Workers


def test_what_is_due_says_that_no_worker_was_seen(digests: Digests) -> None:
    digests.add("t", 1, now=MONDAY)

    why = digests.explain("t", now=MONDAY)

    assert why.unattended
    assert "No worker was seen in the last minute: it waits, unless your program delivers by itself." in str(why)


def test_what_is_not_due_needs_no_worker_yet(digests: Digests) -> None:
    let_wait(digests, MONDAY)
    digests.add("paused", 1, now=MONDAY)
    digests.pause("paused", now=MONDAY)

    assert "No worker" not in str(digests.explain("t", now=MONDAY + 10))
    assert "No worker" in str(digests.explain("t", now=MONDAY + 1800))
    assert "No worker" not in str(digests.explain("paused", now=MONDAY))


def test_a_live_worker_attends_to_what_is_due(digests: Digests) -> None:
    digests.add("t", 1, now=MONDAY)
    note = WorkerNote("w", "host", 7, MONDAY * 1000, MONDAY * 1000, ("t",))
    note_worker(digests.store, "w", note, now=MONDAY * 1000)

    why = digests.explain("t", now=MONDAY)

    assert not why.unattended
    assert "No worker" not in str(why)


@pytest.mark.parametrize("policy", [Policy(), Policy.daily("09:00", tz="UTC"), Policy(backoff=lambda n: 60.0)])
def test_the_document_is_json_and_has_everything(policy: Policy) -> None:
    with Digests("memory://", policy=policy) as digests:
        digests.add("t", 1, now=MONDAY)
        why: Explanation = digests.explain("t", now=MONDAY)

    document = json.loads(json.dumps(why.to_dict()))

    assert document["facts"]["due"] == why.facts["due"]
    assert list(document) == [
        "timeline",
        "state",
        "facts",
        "rule",
        "arithmetic",
        "next",
        "summary",
        "policy",
        "source",
        "window",
        "zone",
        "by_delays",
        "aligned",
        "latest",
        "passes",
        "outage",
        "unhandled",
        "unattended",
        "failure",
        "failed",
        "changes",
        "given_up",
    ]


# Attempts that did not succeed


def attempt(digests: Digests, error: Exception, *, channel: str | None, now: float = MONDAY) -> Explanation:
    """Let a delivery of mail:ada end with an error, and ask why it waits."""

    @digests.handler("mail:*", channel=channel)
    def send(digest: Digest) -> None:
        raise error

    digests.notify("mail:ada", 1, now=now)
    return digests.explain("mail:ada", now=now)


def test_a_digest_whose_channel_is_down_waits_for_it_and_has_not_failed(digests: Digests) -> None:
    why = attempt(digests, Unavailable("refused"), channel="crm")

    assert why.outage is not None
    assert why.outage.next_probe is not None
    assert why.arithmetic.startswith("it waits for its channel; its next attempt is due 2026-03-02T09:00:")
    assert "from 2026-03-02T09:00:0" in str(why)  # the next probe
    assert "failed" not in str(why)


def test_a_digest_that_was_put_off_has_not_failed(digests: Digests) -> None:
    why = attempt(digests, Unavailable("busy", after=7), channel=None)

    assert why.outage is None
    assert why.arithmetic == (
        "an attempt was put off, which is not counted as a failure; the next one is due 2026-03-02T09:00:07.000Z"
    )


def test_a_digest_that_failed_before_its_channel_went_down_says_both(digests: Digests) -> None:
    errors = [KeyError("title"), Unavailable("refused")]

    @digests.handler("mail:*", channel="crm")
    def send(digest: Digest) -> None:
        raise errors.pop(0)

    digests.notify("mail:ada", 1, now=MONDAY)
    failed = digests.explain("mail:ada", now=MONDAY)
    digests.flush("mail:ada", now=MONDAY)
    digests.deliver("mail:ada", now=MONDAY)
    waits = digests.explain("mail:ada", now=MONDAY)

    assert failed.arithmetic.startswith("an attempt failed; the next one is due 2026-03-02T09:0")
    assert waits.arithmetic.startswith("it waits for its channel, after 1 failed attempt; its next attempt is due 2026")


def test_a_step_of_0_seconds_is_left_out_of_the_sum(digests: Digests) -> None:
    digests.set_policy("t", Policy.daily("08:00", tz="UTC"), now=MONDAY)
    digests.add("t", 1, now=MONDAY)
    digests.flush("t", now=MONDAY)
    with digests.digest("t", now=MONDAY):
        pass

    cooling = digests.explain("t", now=MONDAY).arithmetic
    digests.add("t", 2, now=MONDAY + 60)
    waiting = digests.explain("t", now=MONDAY + 60).arithmetic

    assert cooling.startswith("last delivery 2026-03-02T09:00:00.000Z: due 2026-03-02T09:00:00.000Z")
    assert waiting.startswith("due 2026-03-02T09:00:00.000Z, the next time of daily@08:00 UTC is ")


def bury(digests: Digests, reason: str, *, now: float) -> None:
    digests.add("t", reason, now=now)
    digests.flush("t", now=now)
    lease = digests.store.open("t", token=f"at {now}", lease=30_000, now=round(now * 1000))
    digests.store.bury([Burial(lease, reason, 0)], now=round(now * 1000))


def end_cool_down(digests: Digests, *, now: float) -> None:
    list(digests.schedule(now=now))
    with digests.digest("t", now=now) as digest:
        assert not digest.records


def test_a_digest_that_was_given_up_is_named_with_its_reason(digests: Digests) -> None:
    bury(digests, "recipient: 'ada' is not an address.", now=MONDAY)
    end_cool_down(digests, now=MONDAY + 400)

    why = digests.explain("t", now=MONDAY + 400)

    assert why.given_up == "1 digest was given up 6 min 40 s ago (recipient: 'ada' is not an address.)"
    assert "dead letters" in why.summary
    assert f"1{why.given_up[1:]}: `digestif dead list t`." in why.sentences()


def test_of_several_digests_that_were_given_up_the_latest_is_named(digests: Digests) -> None:
    assert digests.explain("t", now=MONDAY).given_up is None
    bury(digests, "first", now=MONDAY)
    bury(digests, "second", now=MONDAY + 5000)

    why = digests.explain("t", now=MONDAY + 5034)

    assert why.given_up == "2 digests were given up, the latest 34 s ago (second)"


def test_only_the_first_ten_digests_that_were_given_up_are_counted(digests: Digests) -> None:
    for number in range(12):
        bury(digests, f"number {number}", now=MONDAY + 5000 * number)

    why = digests.explain("t", now=MONDAY + 86_400)

    assert why.given_up == "at least 10 digests were given up, the first 1 d ago (number 0)"
