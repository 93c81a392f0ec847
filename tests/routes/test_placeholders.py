"""Names in braces in the texts of a route: filled in, or refused when the route is made."""

from pathlib import Path
from typing import Any

import pytest

from digestif import ConfigError, Digests
from digestif.channels.registry import open_channel
from digestif.service.config import read
from digestif.service.problems import WrongSettings
from tests.routes.recorder import Recording, T, add
from tests.worker.workers import once


def test_timeline_and_recipient_are_filled_into_the_texts_for_readers(digests: Digests, channel: Recording) -> None:
    digests.route(
        "mail:*",
        channel=channel,
        to="<{timeline}>",
        title="All of {timeline} for {recipient}",
        links={"open": "https://a.example/{timeline}?{recipient}"},
    )
    add(digests, "mail:ä", "a")

    once(digests, now=T)

    [message] = channel.messages
    assert message.recipient == "<mail:ä>"
    assert message.subject == "All of mail:ä for <mail:ä>: about a"
    assert message.links == {"open": "https://a.example/mail%3A%C3%A4?%3Cmail%3A%C3%A4%3E"}


def test_doubled_braces_are_braces(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, to="{{{timeline}}}", title="{{timeline}}", links={"a}": "https://a/{{}}"})
    add(digests, "t", "a")

    once(digests, now=T)

    [message] = channel.messages
    assert (message.recipient, message.subject, message.links) == ("{t}", "{timeline}: about a", {"a}": "https://a/{}"})


def test_what_stands_in_for_a_name_is_not_read_again(digests: Digests, channel: Recording) -> None:
    """Not even if a timeline is called like a placeholder, or has line breaks, which no subject has."""
    digests.route("{*", channel=channel, to="r", title="About {timeline}")
    add(digests, "{recipient}", "a")
    add(digests, "{x\r\nBcc: eve@example.org", "a")

    once(digests, now=T)

    assert sorted(message.subject for message in channel.messages) == [
        "About {recipient}: about a",
        "About {x Bcc: eve@example.org: about a",
    ]


def test_a_preview_and_a_notification_have_the_title_filled_in(digests: Digests, channel: Recording) -> None:
    digests.route("mail:*", channel=channel, title="For {recipient}")
    digests.route("now:*", channel=channel, title="At once: {timeline}", digest=False)
    add(digests, "mail:ada", "a")

    preview = digests.preview("mail:ada")
    digests.notify("now:ada", {"title": "x"})

    assert preview is not None
    assert preview.subject == "For ada: about a"
    assert channel.messages[0].subject == "At once: now:ada: x"


# By option: a text with a name that nothing fills in, and what is said about it.
UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"title": "Of {timelien}"}, "title: 'Of {timelien}': {timelien} is not filled in; did you mean timeline?"),
    ({"title": "{count}"}, "title: '{count}': {count} is not filled in; there are timeline, recipient"),
    ({"title": "{"}, "title: '{': Single '{' encountered in format string; write {{ or }} for a brace"),
    (
        {"title": "{timeline.__class__}"},
        "title: '{timeline.__class__}': {timeline.__class__} is not filled in; did you",
    ),
    ({"title": "{timeline!r}"}, "title: '{timeline!r}': {timeline} is not filled in; write the name alone"),
    ({"to": "{recipient}"}, "to: '{recipient}': {recipient} is not filled in; "),
    ({"links": {"open": "https://a/{user}"}}, "links: open: 'https://a/{user}': {user} is not filled in; there are"),
    ({"links": {"{timeline}": "https://a/"}}, "links: '{timeline}': {timeline} is not filled in here"),
    ({"wording": {"open": "Open {timeline}"}}, "wording: open: {timeline} is not filled in here"),
    (
        {"wording": {"headline": "{timeline}"}},
        "wording: headline: '{timeline}': {timeline} is not filled in; there are",
    ),
    ({"distinct": {"in {timeline}": "user"}}, "distinct: {timeline} is not filled in here"),
]


@pytest.mark.parametrize(("options", "complaint"), UNKNOWN)
def test_a_name_that_is_not_filled_in_is_refused_when_the_route_is_made(
    digests: Digests, options: Any, complaint: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        digests.route("t", channel="terminal://", **options)

    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(("options", "complaint"), UNKNOWN)
def test_a_file_of_settings_is_refused_for_the_same(tmp_path: Path, options: Any, complaint: str) -> None:
    def written(value: Any) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(f'"{name}" = {written(each)}' for name, each in value.items()) + " }"
        return f'"{value}"'

    lines = [f"{name} = {written(value)}" for name, value in options.items()]
    file = tmp_path / "digestif.toml"
    file.write_text("\n".join(['[[routes]]\npattern = "t"\nchannel = "terminal://"', *lines]), "utf-8")

    with pytest.raises(WrongSettings) as refused:
        read(file, {})

    [problem] = refused.value.problems
    assert complaint.partition(": ")[2] in str(problem)


CHANNELS = {
    "smtp://localhost?from={timeline}@example.org": "from: {timeline} is not filled in here",
    "smtp://localhost?from=The%20{timeline}%20<a@example.org>": "from: {timeline} is not filled in here",
    "file:///tmp/{timeline}": "file: {timeline} is not filled in here; write %7B and %7D for braces",
    "file:///tmp/x?from={timeline}@example.org": "from: {timeline} is not filled in here",
    "slack://hooks.slack.com/services/{timeline}": "url: a name in braces is not filled in here; write %7B",
    "webhook+https://a.example/{timeline}?secret=whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw": "url: a name in braces",
}


@pytest.mark.parametrize(("dsn", "complaint"), CHANNELS.items(), ids=list(CHANNELS))
def test_a_channel_fills_nothing_into_addresses_and_says_so(dsn: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_channel(dsn)


@pytest.mark.parametrize("dsn", ["file:///tmp/%7Btimeline%7D", "slack://hooks.slack.com/services/%7Btimeline%7D"])
def test_a_channel_may_have_braces_in_its_address(dsn: str) -> None:
    open_channel(dsn)
