"""Slack: blocks, cut to Slack's limits, posted to an incoming webhook.

Anyone who knows the address can post to it, so it is a secret. Slack does not deduplicate: a message whose answer got
lost may appear twice.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Any, ClassVar

from digestif.channels.base import Channel, Format, Message, Receipt
from digestif.channels.http import GONE, Answer, HttpOptions, Poster, encoded, failure_of, url_of
from digestif.clock import wall_clock
from digestif.core.secret import Secret
from digestif.core.verdicts import DeliveryFailed, Unavailable
from digestif.dsn import Dsn
from digestif.errors import ConfigError

# https://docs.slack.dev/reference/block-kit/blocks
BLOCKS = 50
HEADER_CHARACTERS = 150
TEXT_CHARACTERS = 3000
FIELD_CHARACTERS = 2000
BUTTON_CHARACTERS = 75
FIELDS = 10
CONTEXT_ELEMENTS = 10
ACTION_ELEMENTS = 25
FALLBACK_CHARACTERS = 300  # beside blocks: for notifications and screen readers
MESSAGE_CHARACTERS = 40_000  # without blocks

# Slack's answers after which posting again to this address is of no use.
FINAL_WORDS = frozenset(
    {
        "action_prohibited",
        "channel_is_archived",
        "channel_not_found",
        "invalid_token",
        "no_active_hooks",
        "no_service",
        "no_team",
        "team_disabled",
    }
)
NOT_FOUND = 404
WHOLE_ADDRESS = "slack:// needs the whole address of an incoming webhook: slack://hooks.slack.com/services/T…/B…/…"


class SlackChannel(Channel):
    """Posts to an incoming webhook of Slack, or of a compatible program."""

    scheme: ClassVar[str] = "slack"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.SLACK, Format.TEXT})

    def __init__(
        self,
        url: str | Secret,
        *,
        timeout: float = 15,
        allow_private: bool = False,
        ca: str | None = None,
        clock: Callable[[], float] = wall_clock,
    ) -> None:
        self._poster = Poster(Secret(url).reveal(), timeout=timeout, allow_private=allow_private, ca=ca)
        if not self._poster.has_path:
            raise ConfigError(f"url: {WHOLE_ADDRESS}")
        self._clock = clock

    @cached_property
    def name(self) -> str:
        return self._poster.name(self.scheme)

    async def deliver(self, message: Message) -> Receipt:
        body = encoded(payload_of(message))
        answer = await self._poster.post(body, {"Content-Type": "application/json; charset=utf-8"})
        failure = _failure_of(answer, now=self._clock())
        if failure is not None:
            raise failure
        return Receipt(channel=self.scheme, detail=f"{answer.status} {answer.text}".strip())

    async def close(self) -> None:
        await self._poster.close()

    def __repr__(self) -> str:
        return f"SlackChannel({self._poster.origin}/…)"


def from_dsn(dsn: Dsn) -> SlackChannel:
    """`slack://hooks.slack.com/services/T…/B…/…`, over HTTPS."""
    return SlackChannel(Secret(url_of("https", dsn)), **asdict(dsn.read(HttpOptions)))


def payload_of(message: Message) -> dict[str, Any]:
    """The JSON to post: blocks with a short text beside them, or the text alone."""
    if not message.blocks:
        return {"text": escaped(f"{message.subject}\n{message.text}", MESSAGE_CHARACTERS)}
    return {"text": escaped(message.subject, FALLBACK_CHARACTERS), "blocks": within_limits(list(message.blocks))}


def within_limits(blocks: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Blocks within Slack's limits: not too many, none too long."""
    if len(blocks) <= BLOCKS:
        return [_fitted(block) for block in blocks]
    more = len(blocks) - (BLOCKS - 1)
    note = {"type": "context", "elements": [{"type": "plain_text", "text": f"… {more} more blocks left out"}]}
    return [*(_fitted(block) for block in blocks[: BLOCKS - 1]), note]


def escaped(text: str, length: int) -> str:
    """A plain text as Slack's markup, without links and mentions."""
    markup = text[:length].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return markup if len(text) <= length and len(markup) <= length else _cut(markup, length)


def _failure_of(answer: Answer, *, now: float) -> DeliveryFailed | None:
    failure = failure_of(answer, now=now)
    if failure is None or answer.status == GONE:
        return failure
    # They concern the address, and with it every digest of the channel, not only this one. Once a person has given a
    # new address or revived the old one, what has gathered arrives: a dead letter for each digest would help no one.
    if answer.status == NOT_FOUND or answer.text in FINAL_WORDS:
        return Unavailable(f"configuration: {answer.line}")
    return failure


def _fitted(block: Mapping[str, Any]) -> Mapping[str, Any]:
    match block:
        case {"type": "header", "text": dict(text)}:
            return {**block, "text": _fitted_text(text, HEADER_CHARACTERS)}
        case {"type": "section"}:
            return _fitted_section(block)
        case {"type": "context", "elements": [*elements]}:
            texts = [_fitted_text(element, TEXT_CHARACTERS) for element in elements[:CONTEXT_ELEMENTS]]
            return {**block, "elements": texts}
        case {"type": "actions", "elements": [*elements]}:
            return {**block, "elements": [_fitted_button(element) for element in elements[:ACTION_ELEMENTS]]}
        case _:
            return block


def _fitted_section(block: Mapping[str, Any]) -> Mapping[str, Any]:
    fitted = dict(block)
    if "text" in block:
        fitted["text"] = _fitted_text(block["text"], TEXT_CHARACTERS)
    if isinstance(block.get("fields"), list | tuple):
        fitted["fields"] = [_fitted_text(field, FIELD_CHARACTERS) for field in block["fields"][:FIELDS]]
    if "accessory" in block:
        fitted["accessory"] = _fitted_button(block["accessory"])
    return fitted


def _fitted_button(element: Mapping[str, Any]) -> Mapping[str, Any]:
    match element:
        case {"type": "button", "text": dict(text)}:
            return {**element, "text": _fitted_text(text, BUTTON_CHARACTERS)}
        case _:
            return element


def _fitted_text(element: Any, length: int) -> Any:
    text = element.get("text") if isinstance(element, Mapping) else None
    if not isinstance(text, str) or len(text) <= length:
        return element  # not a text, or short enough
    if element.get("type") == "plain_text":
        return {**element, "text": text[: length - 1] + "…"}
    return {**element, "text": _cut(text, length)}


def _cut(markup: str, length: int) -> str:
    """The beginning of a markup, without a broken entity or link at its end."""
    return re.sub(r"(&[a-z]*|<[^<>]*)\Z", "", markup[: length - 1]) + "…"
