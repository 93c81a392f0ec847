"""Digests that never get an answer, while others of their channel do: they are sent a few times, not for ever."""

from collections import Counter

from digestif import Digests, Policy
from digestif.testing.conformance.actions import T
from digestif.testing.conformance.outages import UNKNOWN, Receiver, add_to_all, work


def test_two_digests_with_trouble_of_their_own_are_given_up() -> None:
    """Each time they close the channel for a moment; that must not start their patience anew."""
    receiver = Receiver()
    with Digests("memory://", policy=Policy(give_up_after=1800, minimum_delay=60, increment_delay=0)) as digests:
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(UNKNOWN, "mail:ada", "mail:bob")
        add_to_all(digests, "r", now=T)
        for step in range(300):
            digests.add("mail:eve", step, now=T + 15 * step)
            work(digests, receiver, now=T + 15 * step)

        letters = [letter.timeline for letter in digests.dead_letters()]

    copies = Counter(message.timeline for message in receiver.messages)
    assert sorted(letters) == ["mail:ada", "mail:bob"]
    assert max(copies["mail:ada"], copies["mail:bob"]) <= 15
