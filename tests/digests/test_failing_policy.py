"""A policy that fails when it is asked: nothing is lost by it, and it does not go on for ever."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from digestif import ConfigError, Digests, Failed, Policy
from tests.worker.workers import Ear, once

Deliver = Callable[[Digests, str], object]


def fails(iteration: int) -> float:
    raise ZeroDivisionError(f"at {iteration}")


def test_a_digest_whose_policy_fails_at_every_attempt_becomes_a_dead_letter() -> None:
    digests = Digests("memory://", policy=Policy(backoff=fails, attempts=3))
    digests.add("t", 1)

    for _ in range(3):
        with pytest.raises(ConfigError, match="at 1"), digests.digest("t"):
            raise AssertionError("nothing is delivered")

    [letter] = digests.dead_letters()
    assert (letter.attempts, letter.records) == (3, 1)
    assert "ZeroDivisionError" in letter.reason
    assert digests.verify()


@pytest.mark.parametrize("deliver", [Digests.deliver, lambda digests, _: once(digests)], ids=["deliver", "worker"])
def test_a_policy_that_fails_before_a_delivery_counts_as_a_failure_of_the_handler(deliver: Deliver) -> None:
    with Digests("memory://", policy=Policy(backoff=fails)) as digests:
        ear = Ear(digests)
        digests.handler("t")(lambda _: None)
        digests.add("t", 1)

        with suppress(ConfigError):
            deliver(digests, "t")

        [failed] = ear.of(Failed)
        assert "ZeroDivisionError" in failed.reason
        assert failed.retry_in
