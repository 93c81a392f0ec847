"""What a reader would get: a digest rendered as its route says, or as options say, without calling any hook."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from digestif.channels.base import Message
from digestif.compose.brand import brand_of
from digestif.compose.details import Details
from digestif.compose.grouping import summarize
from digestif.compose.hidden import hidden_fields
from digestif.compose.levels import Level
from digestif.compose.renderer import Order, Rendered, Renderer, TemplateFailed
from digestif.compose.summary import Summary
from digestif.compose.times import Times
from digestif.compose.wording import wording_of
from digestif.core.policy import Policy
from digestif.core.records import Digest, Record
from digestif.errors import ConfigError
from digestif.routes.route import FieldOf, Route, Words, check_links, check_recipient

FORMATS = frozenset({"text", "html"})
PREVIEW = "preview"  # in the place of a digest's id


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a digest is grouped and rendered, and for whom."""

    recipient: str = ""
    group_by: Sequence[Level] = ()
    distinct: Mapping[str, FieldOf] = field(default_factory=dict)
    top: int = 10
    items: int = 5
    details: Sequence[str] | None = None
    weight: Mapping[str, Any] | None = None
    order: Order = "newest"
    template: str | None = None
    folder: Path | None = None
    zone: str = "UTC"
    hours: Literal[12, 24] = 24
    links: Mapping[str, str] = field(default_factory=dict)
    wording: Words | None = None
    title: str | None = None
    brand: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    policy: Policy | None = None  # of which the foot says how often messages come


def look_of(route: Route, timeline: str, policy: Policy, *, chosen: str | None) -> Look:
    """The look of a timeline's digests, by the policy in force and the zone that the reader chose.

    The hooks keep, prepare, split and a function for weight are left out. Raises ConfigError for a wrong answer of
    another function.
    """
    recipient = check_recipient(route.recipient(timeline))
    wording = route.wording_for(recipient, timeline=timeline)
    return Look(
        recipient=recipient,
        group_by=route.group_by,
        distinct=route.distinct,
        top=route.top,
        items=route.items,
        details=route.details,
        weight=route.weight if isinstance(route.weight, Mapping) else None,
        order=route.order,
        template=route.template,
        folder=None if route.templates is None else Path(route.templates),
        zone=route.zone_of(recipient, timeline=timeline, policy=policy, chosen=chosen),
        hours=route.hours,
        links=check_links(route.links_for(timeline, recipient)),
        wording=wording,
        title=route.title_for(timeline, recipient),
        brand=route.brand,
        reason=route.reason_for(timeline, recipient, wording),
        policy=route.gathering(policy),
    )


def rendered(digest: Digest, look: Look, *, formats: Collection[str]) -> Rendered:
    """Raises ConfigError if the template fails."""
    renderer = Renderer(
        look.template,
        folder=look.folder,
        zone=look.zone,
        hours=look.hours,
        wording=look.wording,
        details=look.details,
        order=look.order,
        brand=look.brand,
        preview=True,
    )
    try:
        return renderer.render(
            _summary(digest, look),
            formats=formats,
            links=look.links,
            title=look.title,
            reason=look.reason,
            policy=look.policy,
        )
    except TemplateFailed as error:
        raise ConfigError(f"template: {error}") from error
    finally:
        renderer.close()


def hidden(digest: Digest, look: Look) -> dict[str, str]:
    """Return the fields of listed records that the built-in templates do not show, each with the reason."""
    times = Times(look.zone, look.hours, wording_of(look.wording))
    return hidden_fields(_summary(digest, look), Details(look.details), times)


def _summary(digest: Digest, look: Look) -> Summary:
    return summarize(
        digest, group_by=look.group_by, distinct=look.distinct, top=look.top, items=look.items, weight=look.weight
    )


def digest_of(timeline: str, records: Sequence[Record]) -> Digest:
    return Digest(timeline, PREVIEW, 1, 1, 0, tuple(records))


def preview(digest: Digest, look: Look, *, now: float) -> Message:
    """The message with these records."""
    made = rendered(digest, look, formats=FORMATS)
    return Message(
        key=digest.idempotency_key,
        timeline=digest.timeline,
        recipient=look.recipient,
        sender=brand_of(look.brand).name,
        subject=made.subject,
        text=made.text,
        html=made.html,
        links=look.links,
        timestamp=now,
    )
