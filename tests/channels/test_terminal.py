"""The terminal shows digests, and nothing in them steers it."""

import asyncio
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digestif import ConfigError
from digestif.channels.base import Channel, DeliveryFailed, Unavailable
from digestif.channels.registry import open_channel
from digestif.channels.terminal import TerminalChannel, page
from digestif.testing.channels import UNAVAILABLE, ChannelConformance, Expected, Failing, Failure
from tests.channels.deliveries import message


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Pipe(io.StringIO):
    """An output whose reader may be gone."""

    is_broken = False

    def write(self, text: str) -> int:
        if self.is_broken:
            raise BrokenPipeError("Broken pipe")
        return super().write(text)


class TestSuite(ChannelConformance):
    supports = frozenset({Failure.TROUBLE})

    @pytest.fixture
    def pipe(self) -> Pipe:
        return Pipe()

    @pytest.fixture
    def channel(self, pipe: Pipe) -> Channel:
        return TerminalChannel(pipe)

    @pytest.fixture
    def failing(self, pipe: Pipe) -> Failing:
        @contextmanager
        def failing(_: Failure) -> Iterator[None]:
            pipe.is_broken = True
            yield
            pipe.is_broken = False

        return failing


def shown(stream: TextIO) -> None:
    asyncio.run(TerminalChannel(stream).deliver(message()))


def test_subject_recipient_and_text_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(open_channel("terminal://").deliver(message()))

    assert capsys.readouterr().out == "Build 1 failed → ada@example.org\nBuild 1 failed.\n\n"


def test_there_is_no_colour_unless_it_is_a_terminal() -> None:
    file, terminal = io.StringIO(), Terminal()
    shown(file)
    shown(terminal)

    assert "\x1b" not in file.getvalue()
    assert terminal.getvalue().startswith("\x1b[1mBuild 1 failed")
    assert terminal.getvalue().count("\x1b[0m") == 1


@given(text=st.text(st.characters() | st.sampled_from("\x1b\x9b\r\n\t\u202e\u2066\x07\ud800")))
def test_nothing_in_a_message_steers_the_terminal(text: str) -> None:
    printed = page(message(subject=text, text=text, recipient=text), colour=False)

    assert not {
        letter for letter in printed if letter not in "\n\t" and not letter.isprintable() and ord(letter) < 0xA0
    }
    assert not set("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") & set(printed)
    assert printed.encode()
    assert "\n" not in printed.partition("\n")[0]


def test_the_subject_stays_on_one_line() -> None:
    printed = page(message(subject="a\nb", recipient="x\ny", text="c"), colour=False)

    assert printed == "a b → x y\nc\n\n"


def test_letters_that_the_terminal_does_not_have_are_replaced() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    shown(stream)

    assert raw.getvalue().startswith(b"Build 1 failed ? ada@example.org\n")


def test_an_output_that_is_closed_takes_nothing() -> None:
    stream = io.StringIO()
    stream.close()

    with pytest.raises(DeliveryFailed, match="standard output can't be written") as failed:
        shown(stream)
    assert Expected.of(failed.value) == UNAVAILABLE


def test_a_process_without_an_output_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    with pytest.raises(Unavailable, match="there is no standard output"):
        asyncio.run(open_channel("terminal://").deliver(message()))


def test_its_name_is_the_same_everywhere() -> None:
    assert open_channel("terminal://").name == "terminal"


@pytest.mark.parametrize("dsn", ["terminal://here", "terminal://?colour=yes"])
def test_it_takes_neither_a_place_nor_options(dsn: str) -> None:
    with pytest.raises(ConfigError):
        open_channel(dsn)
