"""A policy that fails when it is asked: nothing is lost by it, and it does not go on for ever."""

import pytest

from digestif import ConfigError, Digests, Policy


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
