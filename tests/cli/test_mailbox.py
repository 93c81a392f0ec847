"""`digestif mailbox`: the program itself, with a real client and with our own channel."""

import asyncio
import fcntl
import json
import os
import pty
import signal
import smtplib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from digestif.channels import DeliveryFailed, Message, open_channel
from digestif.testing.servers import free_port
from tests.cli.runner import PROGRAM, Run, is_one_line, start

pytestmark = pytest.mark.long

ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e"


class Mailbox:
    """A mailbox that runs, and its lines as JSON."""

    def __init__(self, program: "subprocess.Popen[bytes]") -> None:
        self.program = program
        self.port: int = self.next()["port"]

    def next(self) -> Any:
        assert self.program.stdout is not None
        return json.loads(self.program.stdout.readline())

    @property
    def dsn(self) -> str:
        return f"smtp://localhost:{self.port}?from=digests@example.org"

    def send(self, mail: str, to: str = "ada@example.org") -> None:
        with smtplib.SMTP("127.0.0.1", self.port, timeout=20) as client:
            client.sendmail("me@example.org", to, mail.replace("\n", "\r\n").encode())


@contextmanager
def mailbox(*options: str) -> Iterator[Mailbox]:
    with start("mailbox", "--port", str(free_port()), "--json", *options, stdout=subprocess.PIPE) as program:
        yield Mailbox(program)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _utc: None) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DIGESTIF_MAILBOX", raising=False)
    return tmp_path / "home"


def deliver(dsn: str, to: str = "ada@example.org") -> None:
    async def send() -> None:
        channel = open_channel(dsn)
        try:
            await channel.deliver(
                Message(
                    key="01.1",
                    timeline="mail:ada",
                    recipient=to,
                    subject="Build 7 failed",
                    text="Build 7 failed, and 3 others.",
                    html="<p>Build 7 failed, and 3 others.</p>",
                    timestamp=1_700_000_000,
                )
            )
        finally:
            await channel.close()

    asyncio.run(send())


def test_a_mail_of_ours_is_told_kept_listed_and_shown(run: Run, home: Path) -> None:
    with mailbox() as server:
        deliver(server.dsn)
        told = server.next()

    assert told["event"] == "mail"
    assert (told["number"], told["to"], told["subject"]) == (1, ["ada@example.org"], "Build 7 failed")
    assert [file.name for file in (home / ".local/share/digestif/mailbox").iterdir()] == ["000001.eml"]
    listed = run("mailbox", "list").out.splitlines()
    assert listed[0].split() == ["mail", "received", "(UTC)", "to", "subject"]
    assert listed[1].split()[0::2] == ["1", "ada@example.org", "7"]
    shown = run("mailbox", "show")
    assert shown.code == 0
    assert "  subject  Build 7 failed\n\nBuild 7 failed, and 3 others.\n" in shown.out
    assert "from     digests@example.org" in shown.out
    assert "<p>Build 7 failed" in run("mailbox", "show", "1", "--html").out
    assert run("mailbox", "show", "latest", "--raw").out.startswith("From: digests@example.org")


def test_everything_is_there_as_json(run: Run) -> None:
    with mailbox() as server:
        server.send("Subject: one\n\nFirst.\n")
        server.send("Subject: two\n\nSecond.\n", to="bob@example.org")

    assert [mail["subject"] for mail in run("--json", "mailbox", "list").lines] == ["one", "two"]
    assert run("mailbox", "--json", "list").lines[0]["to"] == ["ada@example.org"]
    second = run("mailbox", "show", "--json").json
    assert (second["number"], second["text"], second["html"]) == (2, "Second.\r\n", None)
    assert run("mailbox", "show", "1", "--raw", "--json").json["raw"] == "Subject: one\r\n\r\nFirst.\r\n"


def test_the_folder_may_be_named_by_an_option_or_the_environment(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mailbox("--keep", "mine") as server:
        server.send("Subject: here\n\n")

    assert (folder / "mine" / "000001.eml").exists()
    assert run("mailbox", "list", "--keep", "mine").code == 0
    assert run("mailbox", "--keep", "mine", "list").code == 0
    monkeypatch.setenv("DIGESTIF_MAILBOX", "mine")
    assert "here" in run("mailbox", "show").out
    assert run("mailbox", "list", "--keep", "other").code == 1


def test_it_says_where_it_listens_and_what_came_in_plain_lines() -> None:
    port = free_port()
    with start("mailbox", "--port", str(port), "--keep", "mails", stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        head = [program.stdout.readline().decode() for _ in range(4)]
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as client:
            client.sendmail("", "ada@example.org", "Subject: Hello\n\n")
        line = program.stdout.readline().decode()
        program.send_signal(signal.SIGINT)
        rest = program.stdout.read().decode()
        code = program.wait(20)

    assert head == [
        f"  listens  smtp://localhost:{port}?from=digests@example.org\n",
        "  keeps    mails, 0 mails so far\n",
        "  times    in UTC\n",
        "  stops    with Ctrl-C\n",
    ]
    assert line.split()[1:] == ["1", "ada@example.org", "Hello"]
    assert (code, rest) == (0, "stopped; it took 1 mail\n")


def test_it_ends_well_when_it_is_told_to_while_a_client_is_connected() -> None:
    with mailbox() as server, smtplib.SMTP("127.0.0.1", server.port, timeout=20):
        server.program.send_signal(signal.SIGTERM)

        assert server.next() == {"event": "stopped", "mails": 0}
        assert server.program.wait(20) == 0


def fill(server: Mailbox) -> list[str]:
    """Send more than the pipe holds that nothing reads from. The answer is the subjects."""
    assert server.program.stdout is not None
    fcntl.fcntl(server.program.stdout, fcntl.F_SETPIPE_SZ, 4096)
    subjects = [f"{number} {'long ' * 40}".strip() for number in range(40)]
    with smtplib.SMTP("127.0.0.1", server.port, timeout=20) as client:
        for subject in subjects:
            client.sendmail("me@example.org", "ada@example.org", f"Subject: {subject}\r\n\r\nHello\r\n")
        assert client.noop()[0] == 250
    return subjects


def test_output_that_is_not_read_keeps_no_mail_out_and_is_there_when_it_is_read() -> None:
    with mailbox("--refuse", "bob@example.org") as server:
        subjects = fill(server)
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            server.send("Subject: x\n\nHello", to="bob@example.org")

        told = [server.next() for _ in range(41)]

    assert [each["subject"] for each in told[:-1]] == subjects
    assert told[-1]["event"] == "refused"


def test_it_ends_when_it_is_told_to_though_its_output_is_not_read() -> None:
    with mailbox() as server:
        fill(server)
        server.program.send_signal(signal.SIGTERM)

        assert server.program.wait(timeout=20) == 0


def test_it_ends_well_when_the_reader_of_its_output_has_ended() -> None:
    with start("mailbox", "--port", str(free_port()), "--json", stdout=PIPE, stderr=PIPE) as program:
        server = Mailbox(program)
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        server.send("Subject: x\n\nHello")

        assert program.wait(timeout=20) == 141
        assert program.stderr.read() == b""


def test_a_recipient_can_be_refused_for_practice() -> None:
    with mailbox("--refuse", "bob@example.org") as server:
        with pytest.raises(DeliveryFailed, match=r"refuses the recipient: 550 .*<bob@example.org>") as failed:
            deliver(server.dsn, "bob@example.org")
        refused = server.next()
        deliver(server.dsn)

        assert server.next()["to"] == ["ada@example.org"]
    assert not failed.value.retry
    assert (refused["event"], refused["to"]) == ("refused", "bob@example.org")


def test_a_log_in_of_ours_is_accepted() -> None:
    with mailbox() as server:
        deliver(server.dsn.replace("localhost", "ada:secret@localhost"))

        assert server.next()["event"] == "mail"


# Errors


def test_a_port_that_is_in_use_names_the_option_that_helps(run: Run) -> None:
    with mailbox() as server:
        code, out, err = run("mailbox", "--port", str(server.port))

    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert f"port {server.port} is in use" in err
    assert "--port" in err


def test_a_folder_that_cannot_be_made_names_the_option_that_helps(run: Run, folder: Path) -> None:
    (folder / "file").touch()

    code, _, err = run("mailbox", "--keep", "file/mails", "--port", str(free_port()))

    assert code == 2
    assert is_one_line(err)
    assert "name another folder with --keep" in err


def test_a_mail_that_is_not_there_is_a_negative_answer(run: Run) -> None:
    assert run("mailbox", "list").code == 1
    assert "no mails in" in run("mailbox", "list").out
    assert run("mailbox", "list", "--json").out == ""
    for which in ([], ["7"], ["99999999999999"]):
        code, out, err = run("mailbox", "show", *which)
        assert (code, out) == (1, "")
        assert is_one_line(err)


def test_wrong_usage_is_refused(run: Run) -> None:
    assert run("mailbox", "show", "first").code == 2
    assert run("mailbox", "show", "--html", "--raw").code == 2
    assert run("mailbox", "--port", "0").code == 2
    assert "it keeps mails in a folder of its own" in run("--store", "sqlite:///x.db", "mailbox", "list").err


def test_a_mail_without_text_or_html_says_so(run: Run) -> None:
    with mailbox() as server:
        server.send("Subject: page\nContent-Type: text/html\n\n<p>Hello</p>\n")
        server.send("Subject: plain\n\nHello\n")

    assert (run("mailbox", "show", "1").code, run("mailbox", "show", "2", "--html").code) == (1, 1)
    assert "digestif mailbox show 1 --html" in run("mailbox", "show", "1").err


# Hostile mails


def test_no_mail_can_steer_the_terminal(run: Run) -> None:
    with mailbox() as server:
        server.send(f"Subject: {ESCAPES}\nFrom: {ESCAPES}\nContent-Type: text/plain; charset=utf-8\n\n{ESCAPES}\n")
        assert server.next()["subject"]

    for call in (["list"], ["show"], ["show", "--json"], ["list", "--json"], ["show", "--raw", "--json"]):
        out = run("mailbox", *call).out
        assert not set(ESCAPES) & set("\x1b\x07\u202e") & set(out), call


@pytest.mark.parametrize("option", ["--html", "--raw"])
def test_what_is_printed_as_it_is_steers_no_terminal_either(option: str) -> None:
    with mailbox() as server:
        server.send(f"Subject: x\nContent-Type: text/html; charset=utf-8\n\n<p>{ESCAPES}</p>\n")

    assert "\x1b" not in printed_in_terminal("mailbox", "show", option)
    piped = subprocess.run([*PROGRAM, "mailbox", "show", option], capture_output=True, check=True).stdout
    assert ESCAPES.encode() in piped


def printed_in_terminal(*args: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen([*PROGRAM, *args], stdout=theirs) as program:
        os.close(theirs)
        printed = b""
        try:
            while piece := os.read(ours, 1 << 16):
                printed += piece
        except OSError:  # Linux says so at the end
            pass
        assert program.wait(20) == 0
    os.close(ours)
    return printed.decode()
