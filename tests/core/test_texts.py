"""Texts for people are short and valid, whatever they are made from."""

from digestif.core.texts import LONGEST_TEXT, reason_of, shortened


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def test_a_long_value_is_cut() -> None:
    assert shortened("x" * 100, 10) == "'xxxxxxxx…"
    assert shortened("short") == "'short'"


def test_a_value_that_can_not_be_shown_is_named_by_its_type() -> None:
    assert shortened(10**5000) == "<int>"
    assert shortened(Unspeakable()) == "<Unspeakable>"


def test_a_reason_is_valid_text_of_bounded_length() -> None:
    assert reason_of(ValueError("no")) == "ValueError: no"
    assert reason_of(Unspeakable()) == "Unspeakable"
    assert len(reason_of(ValueError("x" * 10_000))) == LONGEST_TEXT
    assert reason_of(OSError("b\udcff")).encode() == b"OSError: b?"
