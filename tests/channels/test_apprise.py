"""Apprise: title and body reach a service, and addresses can be restricted."""

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web
from apprise.manager_plugins import NotificationManager

from digestif import ConfigError
from digestif.channels.apprise_channel import BODY_CHARACTERS, AppriseChannel, file_arguments, from_dsn
from digestif.channels.base import Message, Receipt
from digestif.core.verdicts import DeliveryFailed
from digestif.dsn import Dsn
from digestif.testing.channels import COUNTED, UNAVAILABLE, UNKNOWN, Expected, a_message, huge
from digestif.testing.processes import becomes_true
from tests.channels.receiver import Receiver, never_answer, running

# Of what Apprise imports.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running() as receiver:
        yield receiver


def deliver(channel: AppriseChannel, message: Message | None = None) -> Receipt:
    return asyncio.run(channel.deliver(message or a_message()))


def test_a_message_arrives_with_its_title_and_markdown(receiver: Receiver) -> None:
    receipt = deliver(AppriseChannel(f"json://127.0.0.1:{receiver.port}/hook"))

    [request] = receiver.requests
    assert request.path.startswith("/hook")
    assert request.json["title"] == a_message().subject
    assert "Build 7" in request.json["message"]
    assert receipt == Receipt(channel="apprise", detail="JSON")


@pytest.mark.parametrize(
    "message", [a_message(markdown=""), a_message(markdown="", text="", subject="Build 7 failed")], ids=["text", "none"]
)
def test_without_markdown_the_text_goes_and_without_text_the_subject(receiver: Receiver, message: Message) -> None:
    deliver(AppriseChannel(f"json://127.0.0.1:{receiver.port}"), message)

    assert receiver.requests[0].json["message"].startswith("Build 7 failed")


BOTH = a_message(markdown="**Build 7** failed", text="Build 7 failed")


@pytest.mark.parametrize(
    ("url", "field", "body"),
    [
        ("gotify://127.0.0.1:{port}/token0123456789", "message", "Build 7 failed"),  # shows text alone
        ("json://127.0.0.1:{port}", "message", "**Build 7** failed"),  # shows both
        ("json://127.0.0.1:{port}?format=text", "message", "Build 7 failed"),
        ("mmost://127.0.0.1:{port}/token0123456789", "text", "Build 7 failed"),
    ],
)
def test_markdown_goes_only_where_it_is_shown(receiver: Receiver, url: str, field: str, body: str) -> None:
    deliver(AppriseChannel(url.format(port=receiver.port)), BOTH)

    assert receiver.requests[0].json[field].removeprefix(f"{BOTH.subject}\r\n").strip() == body


def test_markdown_without_a_text_goes_to_every_service(receiver: Receiver) -> None:
    deliver(AppriseChannel(f"json://127.0.0.1:{receiver.port}"), a_message(markdown="**Build 7** failed", text=""))

    assert receiver.requests[0].json["message"] == "**Build 7** failed"


def test_a_huge_message_is_cut(receiver: Receiver) -> None:
    deliver(AppriseChannel(f"json://127.0.0.1:{receiver.port}"), huge(a_message(subject="s" * 9999)))

    assert len(receiver.requests[0].body) < BODY_CHARACTERS + 1000


@pytest.mark.parametrize("status", [400, 410, 429, 503])  # Apprise does not say which
def test_what_a_service_does_not_take_counts_as_an_attempt(receiver: Receiver, status: int) -> None:
    receiver.answer(status)

    with pytest.raises(DeliveryFailed, match="JSON did not take it") as failed:
        deliver(AppriseChannel(f"json://127.0.0.1:{receiver.port}"))

    assert Expected.of(failed.value) == COUNTED


def test_a_service_that_does_not_end_is_not_waited_for(receiver: Receiver) -> None:
    receiver.behave(never_answer)
    channel = AppriseChannel(f"json://127.0.0.1:{receiver.port}?rto=1", timeout=0.2)

    with pytest.raises(DeliveryFailed, match=r"JSON did not end within 0\.2 s") as failed:
        deliver(channel)

    assert Expected.of(failed.value) == UNKNOWN


def test_a_delivery_that_had_to_wait_for_others_and_was_not_begun_is_not_sent_later(receiver: Receiver) -> None:
    answering = asyncio.Event()

    async def hang(_: Receiver, __: web.Request) -> web.StreamResponse:
        await answering.wait()
        return web.Response()

    receiver.behave(hang)
    channel = AppriseChannel(f"json://127.0.0.1:{receiver.port}?rto=30", timeout=1)

    async def deliver_all() -> list[object]:
        return await asyncio.gather(*(channel.deliver(a_message()) for _ in range(9)), return_exceptions=True)

    failed = [Expected.of(each) for each in asyncio.run(deliver_all()) if isinstance(each, DeliveryFailed)]
    receiver.loop.call_soon_threadsafe(answering.set)
    deliver(channel)

    assert failed == [UNKNOWN] * 8 + [UNAVAILABLE]
    assert becomes_true(lambda: len(receiver.requests) >= 8 + 1)  # one that had begun may be on its way
    assert len(receiver.requests) == 8 + 1


@pytest.mark.parametrize(
    "dsn",
    [
        "apprise+json://ada:p%40ss%2Fword@127.0.0.1:{port}/a%20b",
        "apprise://?url=json%3A%2F%2Fada%3Ap%2540ss%252Fword%40127.0.0.1%3A{port}%2Fa%2520b",
    ],
)
def test_both_forms_of_a_dsn_keep_a_password_with_special_characters(receiver: Receiver, dsn: str) -> None:
    deliver(from_dsn(Dsn.parse(dsn.format(port=receiver.port))))

    [request] = receiver.requests
    assert request.headers["Authorization"] == "Basic YWRhOnBAc3Mvd29yZA=="
    assert request.path.startswith("/a%20b")


@pytest.mark.parametrize(
    ("dsn", "problem"),
    [
        ("apprise://", "url: apprise:// needs one"),
        ("apprise://host", "takes no path or host"),
        ("apprise://?link=x", "link: no such option"),
        ("apprise://?url=nonsense%3A%2F%2Fada%3Ahunter2%40host", "not the URL of one service"),
        ("apprise+tgram://hunter2", "not the URL of one service"),
        ("apprise+json://a:hunter2%2Cjson://b", "not the URL of one service"),
    ],
)
def test_a_wrong_dsn_says_what_is_wrong_and_shows_nothing(
    dsn: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    with pytest.raises(ConfigError, match=problem) as refused:
        from_dsn(Dsn.parse(dsn))

    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in caplog.text


def test_it_names_the_service_and_no_more() -> None:
    assert repr(AppriseChannel("json://ada:hunter2@host/token")) == "AppriseChannel(JSON)"


def test_its_name_tells_addresses_apart_and_shows_none() -> None:
    urls = ["json://ada:hunter2@host/token", "json://ada:hunter3@host/token", "json://ada:hunter2@host/token"]

    names = [AppriseChannel(url).name for url in urls]

    assert re.fullmatch("apprise JSON #[0-9a-f]{8}", names[0])
    assert names[0] == names[2] != names[1]


def test_others_who_use_apprise_keep_their_lines_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    AppriseChannel("json://host")

    logging.getLogger("apprise").debug("a line of theirs")

    assert caplog.messages == ["a line of theirs"]


# Addresses


GUARDED = ["json://{host}:{port}/hook", "mailto://ada:secret@mail.example:{port}?smtp={host}&mode=insecure"]


@pytest.mark.parametrize("url", GUARDED)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_guarded_it_does_not_connect_to_private_addresses(receiver: Receiver, url: str, host: str) -> None:
    """By name or by address, with each of the libraries that services use."""
    channel = AppriseChannel(url.format(host=host, port=receiver.port), allow_private=False)

    with pytest.raises(DeliveryFailed, match="is not a public address; allow_private=yes allows it") as failed:
        deliver(channel)

    assert Expected.of(failed.value) == UNAVAILABLE
    assert not receiver.requests
    assert not receiver.arrived.is_set()


def test_guarded_by_its_dsn(receiver: Receiver) -> None:
    url = f"json%3A%2F%2F127.0.0.1%3A{receiver.port}"

    with pytest.raises(DeliveryFailed, match="not a public address"):
        deliver(from_dsn(Dsn.parse(f"apprise://?url={url}&allow_private=false")))
    with pytest.raises(ConfigError, match="allow_private: 'perhaps' is neither yes nor no"):
        from_dsn(Dsn.parse(f"apprise://?url={url}&allow_private=perhaps"))
    assert not receiver.requests

    deliver(from_dsn(Dsn.parse(f"apprise://?url={url}&allow_private=yes")))
    assert len(receiver.requests) == 1


LOCAL = {"blink1", "dbus", "gio", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"}


def test_guarded_it_writes_nothing_on_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[object] = []
    monkeypatch.setattr("syslog.syslog", lambda *line: lines.append(line))

    for url in ("syslog://", "SYSLOG://local0?facility=kern"):
        with pytest.raises(ConfigError, match="Syslog is on this computer; allow_private=yes allows it"):
            AppriseChannel(url, allow_private=False)
    assert not lines

    deliver(AppriseChannel("syslog://", allow_private=True))
    assert lines


def test_the_services_on_this_computer_are_those_that_a_scheme_alone_names() -> None:
    plugins = NotificationManager().plugins()  # type: ignore[no-untyped-call]
    services = [service for service in plugins if "{schema}://" in service.templates]
    schemes = {scheme for service in services for scheme in as_texts(service.protocol)}

    assert schemes <= LOCAL, "Is each of them on this computer? Then add it here."
    assert "syslog" in schemes


def as_texts(protocol: str | Sequence[str]) -> Sequence[str]:
    return [protocol] if isinstance(protocol, str) else protocol


READING = [
    f"discord://{'1' * 18}/{'a' * 68}?template={{file}}",
    "fcm://project@device?keyfile={file}",
    "mailto://ada:secret@mail.example?pgppub={file}",
    "mailto://ada:secret@mail.example?pgpprv=file://{file}",
    "vapid://ada@example.org?keyfile={file}",
    "vapid://ada@example.org?subfile={file}",
    "vapid://ada@example.org?SUBFILE=file%3A%2F%2F{file}",
]


@pytest.mark.parametrize("url", READING)
def test_guarded_it_reads_no_file_of_this_computer(tmp_path: Path, url: str) -> None:
    file = tmp_path / "private.json"
    file.write_text("{}")
    url = url.format(file=file)

    with pytest.raises(ConfigError, match="names a file on this computer; allow_private=yes allows it"):
        AppriseChannel(url, allow_private=False)
    AppriseChannel(url, allow_private=True)


def test_guarded_it_may_still_fetch_what_a_service_needs_from_a_public_address() -> None:
    AppriseChannel("vapid://ada@example.org?keyfile=https%3A%2F%2Fkeys.example%2Fada", allow_private=False)
    AppriseChannel("ntfy://topic?filename=report.txt", allow_private=False)


FILES = {"keyfile", "pgpprv", "pgppub", "subfile", "template"}
NO_FILES = {  # that sound like files
    *("attach", "attach-as", "file_url", "filename", "fullpath", "path", "workflow_path"),
    *("pgp", "profile"),
}


def test_of_every_service_it_is_known_which_arguments_name_files() -> None:
    plugins = NotificationManager().plugins()  # type: ignore[no-untyped-call]
    found = {name for service in plugins for name, _ in file_arguments(service)}
    arguments = {name for each in plugins for name in (*each.template_tokens, *each.template_args)}
    sounding = {name for name in arguments if re.search("attach|cert|file|path|pem|pgp", name)}

    assert found == FILES, "Does each of them name a file, which the service reads? Then add it here."
    assert sounding - found <= NO_FILES, "Does one of them name a file? Then file_arguments has to know it."


@pytest.mark.parametrize(("allow_private", "followed"), [(True, 1), (False, 0)])
def test_redirects_are_followed_unless_it_is_guarded(
    receiver: Receiver, allow_private: bool, followed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("digestif.channels.addresses.is_public", lambda address: True)
    with running() as elsewhere:
        receiver.answer(307, Location=elsewhere.url)

        with suppress(DeliveryFailed):
            deliver(AppriseChannel(f"json://127.0.0.1:{receiver.port}", allow_private=allow_private))

        assert len(receiver.requests) == 1
        assert len(elsewhere.requests) == followed


def test_the_guard_of_one_delivery_does_not_keep_others_from_private_addresses(receiver: Receiver) -> None:
    url = f"json://127.0.0.1:{receiver.port}"

    async def both() -> list[object]:
        channels = [AppriseChannel(url, allow_private=allowed) for allowed in (False, True, False, True)]
        return await asyncio.gather(*(channel.deliver(a_message()) for channel in channels), return_exceptions=True)

    assert [isinstance(each, Receipt) for each in asyncio.run(both())] == [False, True, False, True]
    assert len(receiver.requests) == 2
