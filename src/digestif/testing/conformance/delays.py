"""Delays that a call gives itself: no record may expire before it is due because of them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from digestif import ConfigError, Digest, Digests, Ledger, Policy, Window
from digestif.core.terms import FIRST_DELAY, Override
from digestif.stores.base import PAGE_TIMELINES, Store
from digestif.testing.conformance.actions import DAY, Boom, T, deliver, keys, let_wait, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.port import NOW, arrive_everywhere

TOO_LONG = 3.5 * DAY + 0.001  # for the default ttl of a week
Call = Callable[[Digests, float], object]


def add_two(digests: Digests, delay: float) -> object:
    return digests.add_many([("t", "a"), ("u", "b")], first_delay=delay, now=T)


# The delay that is too long, and a call with it.
CALLS: dict[str, tuple[str, Call]] = {
    "add, first": ("first_delay", lambda digests, delay: digests.add("t", "a", first_delay=delay, now=T)),
    "add, increment": ("increment_delay", lambda digests, delay: digests.add("t", "a", increment_delay=delay, now=T)),
    "add, maximum": ("maximum_delay", lambda digests, delay: digests.add("t", "a", maximum_delay=delay, now=T)),
    "add_many": ("first_delay", add_two),
    "accept": ("first_delay", lambda digests, delay: digests.accept("t", "a", first_delay=delay, now=T)),
    "notify": ("maximum_delay", lambda digests, delay: digests.notify("t", "a", maximum_delay=delay, now=T)),
    "notify, minimum": ("minimum_delay", lambda digests, delay: digests.notify("t", "a", minimum_delay=delay, now=T)),
    "digest": ("minimum_delay", lambda digests, delay: deliver(digests, "t", delay)),
    "deliver": ("minimum_delay", lambda digests, delay: digests.deliver("t", delay, now=T)),
}
every_call = pytest.mark.parametrize(("name", "call"), CALLS.values(), ids=CALLS)


def ready(digests: Digests) -> list[Digest]:
    """Let a timeline be ready and have a handler; the digests that it gets."""
    sent: list[Digest] = []
    digests.handler("*")(sent.append)
    digests.add("t", "before", now=T)
    return sent


def between(store: Store, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let another process change a policy right after the next call has read what is stored."""
    read = store.overrides

    def overrides(timelines: Sequence[str]) -> list[Override | None]:
        found = read(timelines)
        monkeypatch.setattr(store, "overrides", read)
        change()
        return found

    monkeypatch.setattr(store, "overrides", overrides)


def expired(digests: Digests, *, now: float) -> int:
    """How many records have expired when maintenance runs at a time."""
    digests.maintenance(now=now)
    return digests.ledger().expired


class CallDelays(Suite):
    """Fact 76. No delay of a call is longer than half the ttl in force; nothing expires before it was due."""

    @every_call
    def test_a_delay_that_would_outlive_the_ttl_is_refused(self, digests: Digests, name: str, call: Call) -> None:
        """Fact 76. ConfigError that names the delay and the ttl; nothing is changed."""
        sent = ready(digests)

        with pytest.raises(ConfigError, match=f"{name}: .* ttl 604800 of 't' .engine."):
            call(digests, TOO_LONG)

        assert digests.ledger() == Ledger(accepted=1, pending=1)
        assert digests.timeline("t").state == "ready"
        assert sent == []

    @every_call
    def test_half_the_ttl_is_accepted(self, digests: Digests, name: str, call: Call) -> None:
        """Fact 76. As in a policy."""
        ready(digests)

        call(digests, 3.5 * DAY)

        assert digests.ledger().accepted + digests.ledger().delivered > 1

    @every_call
    def test_without_a_ttl_any_delay_is_accepted(self, digests_with: DigestsWith, name: str, call: Call) -> None:
        """Fact 76. Records never expire, so they can wait for ever."""
        digests = digests_with(ttl=None)
        ready(digests)

        call(digests, 1000 * DAY)

        assert digests.ledger().accepted + digests.ledger().delivered > 1

    @every_call
    def test_the_ttl_of_the_override_counts(self, digests: Digests, name: str, call: Call) -> None:
        """Fact 76. What is stored for the timeline comes before the policy in the code: a shorter or a longer ttl."""
        ready(digests)
        digests.set_policy("t", Policy(minimum_delay=60, maximum_delay=60, ttl=1000), now=T)

        with pytest.raises(ConfigError, match=f"{name}: 501 .* ttl 1000 of 't' .override."):
            call(digests, 501)

        digests.set_policy("t", Policy(ttl=1000 * DAY), now=T)
        digests.set_policy("u", Policy(ttl=1000 * DAY), now=T)
        call(digests, 500 * DAY)

    def test_the_wait_for_the_window_counts_too(self, digests_with: DigestsWith) -> None:
        """Fact 76. As in a policy: after the delay a record may have to wait for the next opening."""
        digests = digests_with(window=Window.weekly("mon 09:00", tz="UTC"), ttl=20 * DAY)

        with pytest.raises(ConfigError, match=r"first_delay: .*; give at most 259200,"):
            digests.add("t", "a", first_delay=3 * DAY + 1, now=T)
        digests.add("t", "a", first_delay=3 * DAY, now=T)

    def test_a_timeline_that_is_off_declines_whatever_the_delay(self, digests: Digests) -> None:
        """Fact 76. Nothing is accepted, so nothing can expire."""
        digests.prefer("t", "off", now=T)

        assert digests.add("t", "a", first_delay=TOO_LONG, now=T) is False
        assert digests.ledger().declined == 1

    def test_one_of_many_timelines_refuses_them_all(self, digests: Digests) -> None:
        """Fact 76. All are checked before any is written, over pages too."""
        items = [(f"t{number}", number) for number in range(PAGE_TIMELINES + 2)]
        digests.set_policy(items[-1][0], Policy(minimum_delay=60, maximum_delay=60, ttl=1000), now=T)

        with pytest.raises(ConfigError, match=items[-1][0]):
            digests.add_many(items, first_delay=501, now=T)

        assert digests.ledger().accepted == 0

    def test_the_overrides_of_many_timelines_are_read_by_pages(
        self, store: Store, digests: Digests, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fact 76. Each timeline once; and a call without delays reads nothing."""
        asked: list[int] = []
        read = store.overrides

        def overrides(timelines: Sequence[str]) -> list[Override | None]:
            asked.append(len(timelines))
            return read(timelines)

        monkeypatch.setattr(store, "overrides", overrides)
        items = [(f"t{number}", number) for number in range(PAGE_TIMELINES + 2)]

        digests.add_many([*items, *items], first_delay=1, now=T)
        digests.add_many(items, now=T)
        digests.add("t", "a", within=5, now=T)

        assert asked == [PAGE_TIMELINES, 2]

    def test_overrides_are_read_in_the_order_in_which_they_are_asked_for(self, store: Store, digests: Digests) -> None:
        """Fact 76. None for a timeline that has none, or that is not stored."""
        digests.add("plain", "a", now=T)
        for name in ("b", "a"):
            digests.set_policy(name, f"minimum=1m,capacity={ord(name)}", now=T)

        found = store.overrides(["b", "plain", "unknown", "a"])

        assert [None if each is None else each.terms.capacity for each in found] == [98, None, None, 97]


class ChangedMeanwhile(Suite):
    """Fact 76. A policy that changes between the check of a delay and the add wins."""

    @pytest.mark.parametrize(
        "delays", [{"first_delay": 3 * DAY}, {"increment_delay": 3 * DAY, "maximum_delay": 3 * DAY}], ids=str
    )
    def test_a_policy_set_in_between_places_the_record(
        self, store: Store, digests: Digests, delays: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fact 76. As if it had been set after the add: the record leaves by the new policy, before it expires."""
        if "first_delay" not in delays:
            let_wait(digests, "t", due=T + 60)
        short = Policy(first_delay=60, minimum_delay=60, increment_delay=0, maximum_delay=60, ttl=600)
        between(store, monkeypatch, lambda: digests.set_policy("t", short, now=T))

        digests.add("t", "a", key="a", now=T, **delays)

        assert digests.timeline("t").due == T + 60
        assert expired(digests, now=T + 60) == 0
        assert scheduled(digests, T + 60) == ["t"]
        assert keys(deliver(digests, "t", now=T + 60)) == ["a"]

    def test_a_policy_cleared_in_between_cuts_the_delay(
        self, store: Store, digests: Digests, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fact 76. To half the ttl that holds then."""
        digests.set_policy("t", Policy(ttl=100 * DAY), now=T)
        between(store, monkeypatch, lambda: digests.clear_policy("t", now=T))

        digests.add("t", "a", first_delay=50 * DAY, now=T)

        assert digests.timeline("t").due == T + 3.5 * DAY
        assert expired(digests, now=T + 3.5 * DAY) == 0

    @pytest.mark.parametrize("ends", ["completed", "buried"])
    def test_a_policy_set_during_a_delivery_gives_the_cool_down(self, digests_with: DigestsWith, ends: str) -> None:
        """Fact 76. A given cool-down that is too long for it no longer holds."""
        digests = digests_with(attempts=1)
        digests.add("t", "a", now=T)

        with suppress(Boom), digests.digest("t", 3 * DAY, now=T):
            digests.set_policy("t", Policy(minimum_delay=60, maximum_delay=60, ttl=600, attempts=1), now=T)
            if ends == "buried":
                raise Boom

        assert digests.timeline("t").due == T + 60

    def test_a_policy_cleared_during_a_delivery_cuts_the_cool_down(self, digests: Digests) -> None:
        """Fact 76. To half the ttl that holds then."""
        digests.set_policy("t", Policy(ttl=100 * DAY), now=T)
        digests.add("t", "a", now=T)

        with digests.digest("t", 50 * DAY, now=T):
            digests.clear_policy("t", now=T)

        assert digests.timeline("t").due == T + 3.5 * DAY

    def test_a_short_delay_holds_whatever_was_set_in_between(
        self, store: Store, digests: Digests, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fact 76. Delays of the call come first, where the new ttl allows them."""
        between(store, monkeypatch, lambda: digests.set_policy("t", Policy(first_delay=60, ttl=7200), now=T))

        digests.add("t", "a", first_delay=100, now=T)

        assert digests.timeline("t").due == T + 100

    def test_records_of_one_call_are_cut_each_by_its_own_ttl(self, store: Store, digests: Digests) -> None:
        """Fact 76. Of two timelines in one call only one has a ttl that allows the delay."""
        digests.set_policy("long", Policy(ttl=100 * DAY), now=NOW / 1000)

        arrive_everywhere(store, ["short", "long"], ttl=1_000, first_delay=600, given=FIRST_DELAY)

        assert [store.inspect(name).at - NOW for name in ("short", "long")] == [500, 600]
