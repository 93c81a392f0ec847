"""The DSN of a mail server, and the recipients of a mail."""

import pytest

from digestif import ConfigError
from digestif.channels.registry import open_channel
from digestif.channels.smtp import SmtpChannel
from tests.channels.deliveries import message
from tests.channels.mailserver import deliver_once, fail_once, mail_server, run

# Recipients


@pytest.mark.parametrize(
    "recipient",
    [
        "",
        "ada",
        "@example.org",
        "ada@",
        "ada@example.org, bob@example.org",
        "ada@example.org bob@example.org",
        "ada@example.org;bob@example.org",
        "Ada <ada@example.org>",
        "<ada@example.org>",
        "ada@example.org\r\nBcc: bob@example.org",
        "ada@example.org\n",
        "ada\0@example.org",
        "ada@exam\tple.org",
        "ada@example..org",
        "ada@example.org.",
        "a..da@example.org",
        '"ada bob"@example.org',
        "ada@-example.org",
        "ada@example.org> SIZE=1",
        "äda\x85@example.org",
        "äda\u2028Bcc: bob@example.org",
        "ä\u202eda@example.org",
        "ä da@example.org",
        "ä\xa0da@example.org",
        "ada＠evil.example@example.org",
        "ä＝？utf-8?q?x?=@example.org",
        f"{'ä' * 33}@example.org",
        "ada@[127.0.0.1]",
        "=?utf-8?q?ada=0a?=@example.org",
        f"{'a' * 65}@example.org",
        f"ada@{'a.' * 130}org",
        "ada@\ud800.org",
    ],
)
def test_a_recipient_that_is_not_exactly_one_address_is_refused_for_good(recipient: str) -> None:
    async def scene() -> None:
        failed = await fail_once("smtp://localhost:1?from=digests@example.org", message(recipient=recipient))

        assert not failed.retry
        assert "recipient: " in str(failed)

    run(scene)


@pytest.mark.parametrize(
    ("recipient", "sent_to"),
    [
        ("ada+digests@example.org", "ada+digests@example.org"),
        ("ada@localhost", "ada@localhost"),
        ("o'hara=x@example.org", "o'hara=x@example.org"),
        ("ada@bücher.example", "ada@xn--bcher-kva.example"),
    ],
)
def test_a_recipient_that_is_one_address_is_written_to(recipient: str, sent_to: str) -> None:
    async def scene() -> None:
        async with mail_server() as server:
            await deliver_once(server.dsn(), message(recipient=recipient))

        assert server.envelopes[0][1] == [sent_to]

    run(scene)


# DSNs


@pytest.mark.parametrize(
    ("dsn", "complaint"),
    [
        ("smtp://localhost", "from: smtp:// needs an address"),
        ("smtp://localhost?from=ada", "from: 'ada' is not an address"),
        ("smtp://localhost?from=a@b.c,d@e.f", "from: "),
        ("smtp://localhost?form=a@b.c", "form: no such option.*did you mean from"),
        ("smtp://localhost?from=a@b.c&reply_to=x", "reply_to: 'x'"),
        ("smtp://localhost?from=a@b.c&tls=maybe", "tls: 'maybe' is neither"),
        ("smtps://localhost?from=a@b.c&tls=none", "tls: smtps:// has TLS"),
        ("smtp://ada:pw@mail.example.org?from=a@b.c&tls=none", "tls: a password is not sent"),
        ("smtp://localhost?from=a@b.c&verify=no", "only for TLS"),
        ("smtps://localhost?from=a@b.c&verify=maybe", "verify: 'maybe'"),
        ("smtps://localhost?from=a@b.c&ca=nowhere.pem", "ca: there is no file"),
        ("smtp://localhost?from=a@b.c&timeout=0", "timeout: '0'"),
        ("smtp://localhost?from=a@b.c&timeout=soon", "timeout: 'soon'"),
        ("smtp://localhost?from=a@b.c&connections=0", "connections: '0'"),
        ("smtp://localhost?from=a@b.c&connections=many", "connections: 'many'"),
        ("smtp://localhost?from=a@b.c&unsubscribe=javascript:x", "unsubscribe: "),
        ("smtp://localhost?from=a@b.c&unsubscribe=https://x/{who}", "unsubscribe: .*: {who} is not filled in"),
        ("smtp://localhost?from={timeline}@b.c", "from: {timeline} is not filled in here"),
        ("smtp://localhost?from=a@b.c&reply_to={timeline}@b.c", "reply_to: {timeline} is not filled in here"),
        ("smtp://localhost?from=a@b.c&list_id=alerts", "list_id: 'alerts' is not the id of a list, such as alerts."),
        ("smtp://localhost?from=a@b.c&list_id=a..b", "list_id: 'a..b' is not the id of a list"),
        ("smtp://localhost?from=a@b.c&list_id=a@b.c", "list_id: 'a@b.c' is not the id of a list"),
        ("smtp://localhost?from=a@b.c&list_id={timelines}.b.c", "list_id: .*did you mean timeline?"),
        (f"smtp://localhost?from=a@b.c&list_id={'x.' * 104}{{timeline}}", "list_id: .* is not the id of a list"),
        (f"smtp://localhost?from=a@b.c&list_id={'x.' * 128}y", "list_id: .* is not the id of a list"),
        ("smtp://localhost:0?from=a@b.c", "a port is a number"),
        ("smtp://localhost:99999?from=a@b.c", "a port is a number"),
        ("smtp://?from=a@b.c", "that is not user:password@host:port"),
        ("smtp://host/path?from=a@b.c", "that is not user:password@host:port"),
    ],
)
def test_a_wrong_dsn_is_a_config_error_that_names_the_field(dsn: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_channel(dsn)


def test_the_id_of_a_list_fits_whatever_the_timeline_is_called() -> None:
    open_channel(f"smtp://localhost?from=a@b.c&list_id={'x.' * 103}{{timeline}}")


@pytest.mark.parametrize(
    "dsn",
    [
        "smtp://ada:pass?word@host?from=a@b.c",
        "smtp://ada:pass?from=word@host?from=a@b.c",
        "smtp://ada:pass/word?from=a@b.c",
        "smtp://ada:password?from=a@b.c",
        "smtp://ada:password@ho st?from=a@b.c",
        "smtp://ada:password@mail.example.org?from=a@b.c&tls=none",
    ],
)
def test_no_complaint_shows_a_password(dsn: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_channel(dsn)

    assert "word@" not in str(caught.value).replace("user:password@host", "")
    assert "pass/word" not in str(caught.value)


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("smtp://mail.example.org?from=a@b.c", ("mail.example.org", 587, "starttls", "", "")),
        ("smtps://mail.example.org?from=a@b.c", ("mail.example.org", 465, "smtps", "", "")),
        ("smtp://localhost:25?from=a@b.c", ("localhost", 25, "none", "", "")),
        ("smtp://[::1]:2525?from=a@b.c", ("::1", 2525, "none", "", "")),
        ("smtp://[2001:db8::1]/?from=a@b.c", ("2001:db8::1", 587, "starttls", "", "")),
        ("smtp://10.0.0.1?from=a@b.c&tls=none", ("10.0.0.1", 587, "none", "", "")),
        ("smtp://ada%40x.org:p%3A%40%2F%3F@h?from=a@b.c", ("h", 587, "starttls", "ada@x.org", "p:@/?")),
        ("smtp://ada@x.org:pw@h:26?from=a@b.c", ("h", 26, "starttls", "ada@x.org", "pw")),
    ],
)
def test_what_a_dsn_says_about_the_server(dsn: str, expected: tuple[str, int, str, str, str]) -> None:
    channel = open_channel(dsn)

    assert isinstance(channel, SmtpChannel)
    server = channel.server
    assert (server.host, server.port, server.tls.value, server.user, server.password.reveal()) == expected


@pytest.mark.parametrize(
    ("dsn", "name"),
    [
        ("smtp://mail.example.org?from=a@b.c", "smtp://mail.example.org:587"),
        ("smtps://Mail.example.org?from=a@b.c", "smtps://mail.example.org:465"),
        ("smtp://ada:hunter2@h?from=a@b.c", "smtp://ada@h:587"),
        ("smtp://ada:another@h?from=d@b.c&timeout=5", "smtp://ada@h:587"),
        ("smtp://ada%40x.org:hunter2@h:26?from=a@b.c", "smtp://ada%40x.org@h:26"),
        ("smtp://[::1]:2525?from=a@b.c", "smtp://[::1]:2525"),
    ],
)
def test_its_name_is_the_server_and_the_user(dsn: str, name: str) -> None:
    assert open_channel(dsn).name == name


def test_a_token_that_is_user_and_password_is_not_shown_in_the_name() -> None:
    names = [
        open_channel(f"smtp://{token}:{token}@h?from=a@b.c").name for token in ("tok-en-1", "tok-en-2", "tok-en-1")
    ]

    assert names[0] == names[2] != names[1]
    assert not [name for name in names if "tok-en" in name]


def test_addresses_in_a_dsn_may_have_names_and_pluses() -> None:
    channel = open_channel("smtp://h?from=The%20Digests%20<ada+x@b.c>&reply_to=bob+y@b.c")

    assert isinstance(channel, SmtpChannel)
    sender, reply_to = channel.letterhead.sender, channel.letterhead.reply_to
    assert (sender.name, str(sender), str(reply_to)) == ("The Digests", "ada+x@b.c", "bob+y@b.c")
