"""Users' templates in a route: they make messages, and can't harm the worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif import ConfigError, Digests, Policy, Record
from digestif.routes.route import Route
from tests.routes.recorder import Recording
from tests.worker.workers import once

T = 1_700_000_000.0


@pytest.fixture
def digests() -> Iterator[Digests]:
    with Digests("memory://", policy=Policy(minimum_delay=60, attempts=2)) as digests:
        yield digests


def test_a_bomb_is_stopped_and_the_digest_is_buried_with_the_reason(digests: Digests, tmp_path: Path) -> None:
    (tmp_path / "bomb.txt").write_text("{{ 'a' * 10**9 }}", "utf-8")
    channel = Recording()
    digests.route("bomb:*", channel=channel, template="bomb", templates=tmp_path)
    digests.route("good:*", channel=channel)
    digests.add("bomb:ada", {"title": "tick"}, now=T)

    once(digests, now=T)
    assert digests.timeline("bomb:ada").state == "waiting"
    once(digests, now=T + 3600)
    digests.add("good:ada", {"title": "hello"}, now=T + 3601)
    once(digests, now=T + 3601)

    [letter] = digests.dead_letters()
    assert "the template 'bomb' failed" in letter.reason
    assert [message.timeline for message in channel.messages] == ["good:ada"]


def test_a_template_of_ones_own_makes_the_message(digests: Digests, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("{{ count }} for {{ timeline }}", "utf-8")
    (tmp_path / "short.subject.txt").write_text("{{ lead }}!", "utf-8")
    channel = Recording()
    digests.route("t", channel=channel, template="short", templates=tmp_path)
    digests.add_many([("t", Record(str(n), {"title": "tick"}, T)) for n in range(3)], now=T)

    once(digests, now=T)

    [message] = channel.messages
    assert message.text == "3 for t"
    assert message.subject.endswith("!")


def test_what_is_secret_in_a_route_is_not_shown() -> None:
    route = Route(pattern="t", channel="smtp://user:hunter2@mail.example.org?from=a@example.org")

    assert "hunter2" not in f"{route!r} {route} {route.open_channel()!r}"


def test_a_template_that_does_not_parse_is_refused_when_the_route_is_made(digests: Digests, tmp_path: Path) -> None:
    (tmp_path / "weekly.html").write_text("<p>\n{% for group in groups %}\n{{ group.label }\n{% endfor %}", "utf-8")

    with pytest.raises(ConfigError, match=r"template: weekly.html, line 3: unexpected '}'"):
        digests.route("t", channel="terminal://", template="weekly", templates=tmp_path)
