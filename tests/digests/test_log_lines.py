"""How some events read in the log."""

import logging

import pytest

from digestif import ChannelUp, Digests, Policy


def unknown_zone(timeline: str) -> str:
    raise LookupError("no row")


def test_a_policy_that_fails_is_one_line_and_its_traceback_is_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "digestif")
    with Digests("memory://", policy=Policy.quiet_hours("22:00-07:00", tz=unknown_zone)) as digests:
        digests.add("t", 1)

    warning, trace = [each for each in caplog.records if "PolicyFailed" in each.getMessage()]

    assert warning.levelno == logging.WARNING
    assert warning.getMessage() == (
        "PolicyFailed t: source=engine, error=ConfigError: tz: the callable fails for 't': LookupError: no row"
    )
    assert trace.levelno == logging.DEBUG
    assert "in unknown_zone" in trace.getMessage()


def test_a_channel_that_is_back_names_its_reason_as_past() -> None:
    event = ChannelUp(channel="smtp mail.example", reason="Connection refused", down_for=12.3)

    assert str(event) == "ChannelUp: channel=smtp mail.example, down_for=12.3, was: Connection refused"
