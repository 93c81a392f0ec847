"""A folder gets one file for each message: whole, named safely, and once."""

import asyncio
import email
import email.policy
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from digestif import ConfigError
from digestif.channels.base import Channel, DeliveryFailed, Message
from digestif.channels.files import FolderChannel, file_name
from digestif.channels.registry import open_channel
from digestif.testing.channels import COUNTED, UNAVAILABLE, ChannelConformance, Expected, Failing, Failure
from tests.channels.deliveries import message


def deliver(channel: Channel, *messages: Message) -> list[str]:
    async def deliver_all() -> list[str]:
        return [receipt.id for receipt in await asyncio.gather(*map(channel.deliver, messages))]

    return asyncio.run(deliver_all())


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


class TestSuite(ChannelConformance):
    supports = frozenset({Failure.TROUBLE})

    @pytest.fixture(params=["eml", "json"])
    def channel(self, tmp_path: Path, request: pytest.FixtureRequest) -> Channel:
        return open_channel(f"file://{tmp_path}/digests?as={request.param}")

    @pytest.fixture
    def failing(self) -> Failing:
        return lambda _: full_disk("fsync")


@contextmanager
def full_disk(step: str) -> Iterator[None]:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os if step == "fsync" else Path, step, fail)
        yield


# Contents


def test_a_mail_is_what_smtp_would_send(tmp_path: Path) -> None:
    deliver(open_channel(f"file://{tmp_path}?from=The%20Digests%20<d@example.org>"), message())

    mail = email.message_from_bytes(only_file(tmp_path).read_bytes(), policy=email.policy.default)
    assert (mail["From"], mail["To"], mail["Subject"]) == (
        "The Digests <d@example.org>",
        "ada@example.org",
        "Build 1 failed",
    )
    assert only_file(tmp_path).suffix == ".eml"


def test_a_recipient_without_an_address_gets_a_mail_without_to(tmp_path: Path) -> None:
    deliver(open_channel(f"file://{tmp_path}"), message(recipient="Ada"))

    assert email.message_from_bytes(only_file(tmp_path).read_bytes())["To"] is None


@pytest.mark.parametrize(
    ("kind", "content"),
    [("html", "<p>Build 1 failed.</p>\n"), ("txt", "Build 1 failed\n\nBuild 1 failed.\n")],
)
def test_html_and_text_are_written_as_they_are(tmp_path: Path, kind: str, content: str) -> None:
    deliver(open_channel(f"file://{tmp_path}?as={kind}"), message())

    assert only_file(tmp_path).read_text() == content
    assert only_file(tmp_path).suffix == f".{kind}"


def test_json_has_all_of_the_message(tmp_path: Path) -> None:
    deliver(open_channel(f"file://{tmp_path}?as=json"), message(data={"count": 3}, links={"open": "https://a.org"}))

    values = json.loads(only_file(tmp_path).read_text())
    assert (values["key"], values["data"], values["links"]) == (message().key, {"count": 3}, {"open": "https://a.org"})
    assert values["html"] == "<p>Build 1 failed.</p>\n"


# Names


def test_a_name_tells_time_and_timeline() -> None:
    assert re.fullmatch(r"20231114T221320Z-mail_ada-[0-9a-f]{32}", file_name(message()))


@given(one=st.tuples(st.text(), st.text()), other=st.tuples(st.text(), st.text()))
@example(one=("a", "b"), other=("ab", ""))
@example(one=("a:b", "c"), other=("a_b", "c"))
@example(one=("../../etc/passwd", "/"), other=("..", "."))
@example(one=("x" * 10_000, "x"), other=("x" * 10_001, "x"))
@example(one=("a:", ":b"), other=("a::", "b"))
@example(one=("a:\0", "b"), other=("a:", "\0b"))
@example(one=("a", "\ud800"), other=("a", "\\ud800"))
def test_different_messages_have_different_names_that_stay_in_the_folder(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    names = [file_name(message(timeline=timeline, key=key)) for timeline, key in (one, other)]

    assert (names[0] == names[1]) == (one == other)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9@_-]{1,150}", name) for name in names)


def test_the_same_message_replaces_itself_also_when_it_is_made_anew_later(tmp_path: Path) -> None:
    channel = open_channel(f"file://{tmp_path}?as=txt")
    deliver(channel, message(), message(2))
    deliver(channel, message(text="first again"))
    (name,) = deliver(channel, replace(message(), attempt=2, timestamp=1_700_000_999.0, text="second"))

    assert len(list(tmp_path.iterdir())) == 2
    assert (tmp_path / name).read_text().endswith("second")


# Failures


def test_a_folder_that_is_in_the_way_of_nothing_is_made(tmp_path: Path) -> None:
    deliver(open_channel(f"file://{tmp_path}/a%20b/c"), message())

    assert len(list((tmp_path / "a b" / "c").iterdir())) == 1


@pytest.mark.parametrize(
    ("option", "file", "folder"), [("", 0o600, 0o700), ("?mode=640", 0o640, 0o750), ("?mode=0644", 0o644, 0o755)]
)
def test_what_is_written_is_its_owners_alone_unless_it_is_opened_to_others(
    tmp_path: Path, option: str, file: int, folder: int
) -> None:
    before = os.umask(0)
    deliver(open_channel(f"file://{tmp_path}/spool{option}"), message())
    os.umask(before)

    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == folder
    assert stat.S_IMODE(only_file(tmp_path / "spool").stat().st_mode) == file


def test_a_file_in_the_place_of_the_folder_stops_all_messages(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")

    with pytest.raises(DeliveryFailed, match="can't be written: File exists") as failed:
        deliver(open_channel(f"file://{tmp_path}/taken"), message())
    assert Expected.of(failed.value) == UNAVAILABLE


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_stops_all_messages_and_leaves_nothing_half(tmp_path: Path, step: str) -> None:
    channel = open_channel(f"file://{tmp_path}?as=txt")
    deliver(channel, message())
    before = only_file(tmp_path).read_bytes()

    with full_disk(step), pytest.raises(DeliveryFailed, match="No space left") as failed:
        deliver(channel, message(text="newer"))

    assert Expected.of(failed.value) == UNAVAILABLE
    assert only_file(tmp_path).read_bytes() == before


def test_a_folder_with_the_name_of_the_file_stops_this_message_only(tmp_path: Path) -> None:
    (tmp_path / f"{file_name(message())}.eml").mkdir()

    with pytest.raises(DeliveryFailed, match="can't be written: Is a directory") as failed:
        deliver(open_channel(f"file://{tmp_path}"), message())

    assert Expected.of(failed.value) == COUNTED
    assert deliver(open_channel(f"file://{tmp_path}"), message(2))


@pytest.mark.parametrize(("place", "verdict"), [("spool", COUNTED), (f"{'x' * 300}/spool", UNAVAILABLE)])
def test_a_name_that_is_too_long_concerns_the_file_or_the_folder(
    tmp_path: Path, place: str, verdict: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("digestif.channels.files.file_name", lambda _: "x" * 300)

    with pytest.raises(DeliveryFailed, match="File name too long") as failed:
        deliver(open_channel(f"file://{tmp_path}/{place}"), message())

    assert Expected.of(failed.value) == verdict


def test_a_message_that_is_larger_than_files_may_be_stops_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(_: int) -> None:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr(os, "fsync", too_large)

    with pytest.raises(DeliveryFailed, match="File too large") as failed:
        deliver(open_channel(f"file://{tmp_path}"), message())

    assert Expected.of(failed.value) == COUNTED


def test_its_name_is_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert open_channel("file:///var/spool/digests?as=txt").name == "file:///var/spool/digests"
    assert open_channel("file://./digests").name == f"file://{tmp_path}/digests"


# DSNs


@pytest.mark.parametrize(
    ("dsn", "complaint"),
    [
        ("file://", "write file:///folder"),
        ("file://digests", "write file:///folder"),
        ("file:///digests?as=pdf", "as: 'pdf' is no kind of file"),
        ("file:///digests?as=htm", "did you mean html"),
        ("file:///digests?to=x", "to: no such option"),
        ("file:///digests?from=x", "from: 'x' is not an address"),
        ("file:///digests?mode=rw", "mode: 'rw' is not a mode of files"),
        ("file:///digests?mode=700", "mode: '700' is not a mode of files"),
        ("file:///digests%00", "write file:///folder"),
    ],
)
def test_a_wrong_dsn_is_a_config_error_that_names_the_field(dsn: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_channel(dsn)


@pytest.mark.parametrize(("dsn", "folder"), [("file:///a/b", "/a/b"), ("file://./a", "a"), ("file://../a", "../a")])
def test_a_folder_is_absolute_with_three_slashes_and_relative_with_a_dot(dsn: str, folder: str) -> None:
    channel = open_channel(dsn)

    assert isinstance(channel, FolderChannel)
    assert channel.folder == Path(folder)
