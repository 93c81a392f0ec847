"""A route: policy, grouping, template and channel of the timelines of a pattern, checked when it is made."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Literal, TypedDict
from urllib.parse import quote

from digestif.channels.base import Channel
from digestif.channels.registry import open_channel
from digestif.compose.brand import brand_of
from digestif.compose.grouping import Grouping
from digestif.compose.levels import Level
from digestif.compose.renderer import Order, Renderer
from digestif.compose.summary import Subject
from digestif.compose.wording import Wording, wording_of
from digestif.core.hooks import accepted, check_hook
from digestif.core.placeholders import filled, placeholder_fault, unfilled_fault
from digestif.core.policy import Policy, refuse_unknown
from digestif.core.records import KEY_BYTES, Digest, Record, check_timeline
from digestif.core.texts import shortened
from digestif.errors import ConfigError, InvalidRecord
from digestif.intake.patterns import check_pattern, stars
from digestif.intake.policies import PolicyOf, check_policy
from digestif.routes.budget import Budget

UTC = "UTC"
FieldOf = str | Callable[[Record], Any]
RecordsOf = Callable[[list[Record]], Any] | Callable[[list[Record], str], Any]  # from records, or records and timeline
Keep = RecordsOf  # the records that are still wanted; may be a coroutine
Prepare = RecordsOf  # the records as this message shows them; may be a coroutine
Split = Callable[[Digest], Any]  # from recipient to records; may be a coroutine
Weight = Callable[[list[Subject]], Any]  # a number or a tuple of numbers for each subject; may be a coroutine
Words = Wording | Mapping[str, Any]
ZoneOf = Callable[[str], str] | Callable[[str, str], str]  # from recipient, or from recipient and timeline
WordsOf = Callable[[str], Words] | Callable[[str, str], Words]
Links = Mapping[str, str] | Callable[[str, str], Mapping[str, str]]


class RouteOptions(TypedDict, total=False):
    """The options of a route, without its pattern and channel."""

    policy: Policy | PolicyOf | None
    redelivery: Literal["merge", "same"] | None
    group_by: Sequence[Level]
    distinct: Mapping[str, FieldOf]
    top: int
    items: int
    details: Sequence[str] | None
    weight: Weight | Mapping[str, Any] | None
    order: Order
    template: str | None
    templates: str | Path | None
    to: str | Callable[[str], str] | None
    keep: Keep | None
    prepare: Prepare | None
    split: Split | None
    budget: Budget | None
    zone: str | ZoneOf | None
    hours: Literal[12, 24]
    wording: Words | WordsOf
    links: Links
    title: str | None
    brand: Mapping[str, str]
    reason: str | None
    digest: bool


@refuse_unknown
@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How the timelines of a pattern are delivered. `channel` is a DSN or a Channel object."""

    pattern: str
    channel: str | Channel = field(repr=False)  # may hold a password
    policy: Policy | PolicyOf | None = None  # or from timeline to policy
    redelivery: Literal["merge", "same"] | None = None  # by default the policy's; "same" for webhooks and split
    group_by: Sequence[Level] = ()
    distinct: Mapping[str, FieldOf] = field(default_factory=dict)
    top: int = 10
    items: int = 5  # records that are listed of each subject
    details: Sequence[str] | None = None  # fields that are shown beside the text; None: all that may be shown
    weight: Weight | Mapping[str, Any] | None = None  # subjects are sorted by it: a function, or a field and an order
    order: Order = "newest"  # of the records of a subject: which one comes first
    template: str | None = None
    templates: str | Path | None = None  # a folder of the user's own
    to: str | Callable[[str], str] | None = None  # from timeline to recipient; by default the text that `*` matches
    keep: Keep | None = None
    prepare: Prepare | None = None
    split: Split | None = None
    budget: Budget | None = None
    zone: str | ZoneOf | None = None  # by default that of the policy's window
    hours: Literal[12, 24] = 24
    wording: Words | WordsOf = field(default_factory=dict)
    links: Links = field(default_factory=dict)
    title: str | None = None
    brand: Mapping[str, str] = field(default_factory=dict)  # the sender's name, logo and color
    reason: str | None = None  # why readers get messages; None: to which address they are sent
    digest: bool = True  # False: `notify` sends each record at once

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        check_policy(self.policy)
        for name, (kinds, what) in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, tuple(kind for kind in kinds if kind is not callable)) and not (
                callable in kinds and callable(value)
            ):
                shown = (
                    f"a value of type {type(value).__name__}" if name == "channel" else shortened(value)
                )  # a DSN in bytes, for one
                raise ConfigError(f"{name}: {shown} is not {what}")
        check_hooks({name: getattr(self, name) for name in FORMS})
        if isinstance(self.channel, Channel) and not iscoroutinefunction(self.channel.deliver):
            raise ConfigError(
                f"channel: deliver of {type(self.channel).__name__} is not a coroutine: async def deliver"
            )
        if isinstance(self.group_by, str):
            raise ConfigError(f'group_by: {shortened(self.group_by)} is not a list of at most two fields: ["rule"]')
        if isinstance(self.links, Mapping):
            for name, link in self.links.items():
                _check_link(name, link)
        if not callable(self.wording):
            object.__setattr__(self, "wording", wording_of(self.wording))
        if isinstance(self.to, str):
            _check_placeholders("to", self.to, "timeline")
        if self.title is not None:
            _check_placeholders("title", self.title, "timeline", "recipient")
        if self.reason is not None:
            _check_placeholders("reason", self.reason, "timeline", "recipient")
        brand_of(self.brand)
        if self.budget is not None and not self.digest:
            raise ConfigError("budget: with digest=False there is nowhere for a message to wait")
        if self.templates is not None and not Path(self.templates).is_dir():
            raise ConfigError(f"templates: there is no folder {str(self.templates)!r}")

    def open_channel(self) -> Channel:
        """The channel, to be used on one event loop."""
        return open_channel(self.channel) if isinstance(self.channel, str) else self.channel

    def renderer(self) -> Renderer:
        zone = self.zone if isinstance(self.zone, str) else UTC
        folder = None if self.templates is None else Path(self.templates)
        return Renderer(
            self.template,
            folder=folder,
            zone=zone,
            hours=self.hours,
            details=self.details,
            order=self.order,
            brand=self.brand,
        )

    def grouping(self) -> Grouping:
        """Return how records are grouped. The handler calls a function for `weight`, which may be a coroutine."""
        weight = self.weight if isinstance(self.weight, Mapping) else None
        return Grouping(group_by=self.group_by, distinct=self.distinct, top=self.top, items=self.items, weight=weight)

    def redelivery_over_policy(self) -> Literal["merge", "same"] | None:
        """What replaces the `redelivery` of the policy; None: nothing does. By default a digest comes again unchanged
        if the channel deduplicates by key, or if it is split: recipients that have their part would miss records that
        join it.
        """
        if self.redelivery is not None:
            return self.redelivery
        return "same" if self.split is not None or self.open_channel().redelivery == "same" else None

    def channel_name(self) -> str:
        """What is closed when the channel is unavailable."""
        channel = self.open_channel()
        return channel.name or f"{channel.scheme} of {self.pattern}"

    def check_recipient(self) -> None:
        """Raise ConfigError if the channel refuses every recipient that `to` or a pattern without a star can give.

        With `split` it is that which gives the recipients.
        """
        if self.split is not None or callable(self.to) or (self.to is None and "*" in self.pattern):
            return
        channel = self.open_channel()
        recipients = {
            self.recipient(self.pattern) if self.to is None else filled(self.to, timeline=name) for name in _NAMES
        }
        faults = [channel.refusal(recipient) for recipient in sorted(recipients)]
        if all(faults):
            why = "; the recipient is the name of the timeline, unless `to` gives another" if self.to is None else ""
            raise ConfigError(f"to: {faults[0]}{why}")

    def recipient(self, timeline: str) -> str:
        """The recipient of a timeline's digests."""
        if callable(self.to):
            return self.to(timeline)
        if self.to is not None:
            return filled(self.to, timeline=timeline)
        found = stars(self.pattern, timeline)
        return found[-1] if found else timeline

    def timeline_of(self, recipient: str, *, beside: str) -> str | None:
        """Return the timeline of another recipient that is named like the one `beside` it.

        None if there is none: the recipient is not a part of the name.
        """
        if callable(self.to):
            return None
        if self.to is not None:
            before, _, after = self.to.partition("{timeline}")
            named = recipient[len(before) : len(recipient) - len(after)]
        else:
            end = len(beside) - len(self.pattern.rpartition("*")[2]) if "*" in self.pattern else len(beside)
            named = f"{beside[: end - len(self.recipient(beside))]}{recipient}{beside[end:]}"
        is_key = 0 < len(named.encode()) <= KEY_BYTES
        return named if is_key and self.recipient(named) == recipient else None

    def zone_of(self, recipient: str, *, timeline: str, policy: Policy, chosen: str | None = None) -> str:
        """The zone in which a reader sees times: as the route says, else the chosen one, else that of the window of
        the policy in force.
        """
        if self.zone is None:
            return chosen or policy.zone_of(timeline) or UTC
        return self.zone if isinstance(self.zone, str) else self.zone(*accepted(self.zone, recipient, timeline))

    def wording_for(self, recipient: str, *, timeline: str) -> Words:
        """The words for a reader. What a function gave is checked where it is used."""
        return self.wording(*accepted(self.wording, recipient, timeline)) if callable(self.wording) else self.wording

    def links_for(self, timeline: str, recipient: str) -> Mapping[str, str]:
        """The links of a message, with timeline and recipient filled in."""
        if callable(self.links):
            return self.links(timeline, recipient)
        who = {"timeline": quote(timeline, safe=""), "recipient": quote(recipient, safe="")}
        return {name: filled(link, **who) for name, link in self.links.items()}

    def title_for(self, timeline: str, recipient: str) -> str | None:
        """The title of a message, with timeline and recipient filled in."""
        return None if self.title is None else filled(self.title, timeline=timeline, recipient=recipient)

    def gathering(self, policy: Policy) -> Policy | None:
        """Return the policy by which messages come; None if `notify` sends each record by itself."""
        return policy if self.digest else None

    def reason_for(self, timeline: str, recipient: str, words: Words) -> str:
        """Why a reader gets a message. By default the address that it was sent to; nothing if it has none."""
        if self.reason is not None:
            return filled(self.reason, timeline=timeline, recipient=recipient)
        return wording_of(words).reason.format(recipient=recipient) if "@" in recipient else ""


_NAMES = ("ada", "ada@example.org")  # of timelines that `to` may be written for
_NONE = type(None)
# By option: its types, and their description in an error.
_KINDS: dict[str, tuple[tuple[Any, ...], str]] = {
    "channel": ((str, Channel), "a DSN or a Channel"),
    "group_by": ((list, tuple), "a list of at most two fields"),
    "distinct": ((Mapping,), "a mapping from names to fields"),
    "template": ((str, _NONE), "the name of a template"),
    "templates": ((str, Path, _NONE), "a folder"),
    "to": ((str, _NONE, callable), "a text or a function from timeline to recipient"),
    "details": ((list, tuple, _NONE), "a list of fields"),
    "weight": ((Mapping, _NONE, callable), 'a function or {"by": …, "order": […]}'),
    "keep": ((_NONE, callable), "a function"),
    "prepare": ((_NONE, callable), "a function"),
    "split": ((_NONE, callable), "a function"),
    "budget": ((Budget, _NONE), "a Budget"),
    "zone": ((str, _NONE, callable), "a time zone or a function from recipient, or recipient and timeline, to zone"),
    "wording": (
        (Wording, Mapping, callable),
        "a mapping, a Wording or a function from recipient, or recipient and timeline, to them",
    ),
    "links": ((Mapping, callable), "a mapping or a function of timeline and recipient"),
    "title": ((str, _NONE), "a text"),
    "brand": ((Mapping,), "a mapping with name, logo and color"),
    "reason": ((str, _NONE), "a text"),
    "digest": ((bool,), "True or False"),
}

# By option: the arguments that its function is called with. The first form that fits is taken.
FORMS = {
    "to": ("timeline",),
    "weight": ("subjects",),
    "keep": ("records", "records, timeline"),
    "prepare": ("records", "records, timeline"),
    "split": ("digest",),
    "zone": ("recipient", "recipient, timeline"),
    "wording": ("recipient", "recipient, timeline"),
    "links": ("timeline, recipient",),
}


def check_hooks(options: Mapping[str, Any]) -> None:
    """Raise ConfigError for a function that takes other arguments than its option gives it."""
    for name, forms in FORMS.items():
        if callable(options.get(name)):
            check_hook(name, options[name], *forms)


def _check_link(name: object, link: object) -> None:
    if not isinstance(name, str) or not isinstance(link, str):
        raise ConfigError(f"links: {shortened(name)}: {shortened(link)} is not a name with an address")
    if not link.startswith(("https://", "http://", "mailto:")):
        raise ConfigError(f"links: {name}: {shortened(link)} is not an https:, http: or mailto: address")
    if fault := unfilled_fault(name):
        raise ConfigError(f"links: {shortened(name)}: {fault}")
    _check_placeholders(f"links: {name}", link, "timeline", "recipient")


def _check_placeholders(option: str, text: str, *known: str) -> None:
    if fault := placeholder_fault(text, *known):
        raise ConfigError(f"{option}: {fault}")


def kept_keys(records: Sequence[Record], kept: object) -> set[str]:
    """The keys of the records that a `keep` hook returned. ConfigError unless each is a record of the digest."""
    try:
        wanted = list(kept)  # type: ignore[call-overload]  # if it is a list of records
        keys = {record.key for record in wanted}
    except (TypeError, AttributeError):
        raise ConfigError(f"keep: gave {shortened(kept)}, not the records that are still wanted") from None
    originals = {record.key: record for record in records}
    for record in wanted:
        if originals.get(record.key) != record:
            raise ConfigError(
                f"keep: gave {shortened(record)}, which is not in the digest; it can leave out, not change"
            )
    return keys


def prepared_records(records: Sequence[Record], prepared: object) -> list[Record]:
    """The records that a `prepare` hook returned. ConfigError unless each has the key of a record of the digest."""
    if not isinstance(prepared, list | tuple) or not all(isinstance(record, Record) for record in prepared):
        raise ConfigError(f"prepare: gave {shortened(prepared)}, not a list of records")
    _refuse_others(records, prepared, hook="prepare")
    return list(prepared)


def _refuse_others(records: Sequence[Record], given: Sequence[Record], *, hook: str, whom: str = "") -> None:
    """Raise ConfigError for a record whose key is not one of the digest's, or was given before."""
    known = {record.key for record in records}
    for record in given:
        if record.key not in known:
            raise ConfigError(f"{hook}: gave {shortened(record)}{whom}, whose key is not in the digest, or there twice")
        known.remove(record.key)


def check_recipient(recipient: object) -> str:
    """What `to` returned. ConfigError if it is not a text."""
    if not isinstance(recipient, str) or not recipient.strip():
        raise ConfigError(f"to: gave {shortened(recipient)}; return the recipient as a text, or raise Discard")
    return recipient


def check_links(links: object) -> Mapping[str, str]:
    """What `links` returned, without those that are None. ConfigError if it is not a mapping of texts."""
    if not isinstance(links, Mapping):
        raise ConfigError(f'links: gave {shortened(links)}, not a mapping such as {{"open": "https://…"}}')
    given = {name: link for name, link in links.items() if link is not None}
    for name, link in given.items():
        if not isinstance(name, str) or not isinstance(link, str):
            raise ConfigError(f"links: gave {shortened(name)}: {shortened(link)}, not a name with an address")
    return given


def check_recipients(records: Sequence[Record], shares: object) -> dict[str, list[Record]]:
    """The mapping that a `split` hook returned, without recipients of no record.

    ConfigError if it is no mapping, or a record has not the key of one of the digest's.
    """
    if not isinstance(shares, Mapping):
        raise ConfigError(f"split: gave {shortened(shares)}, not a mapping from recipients to records")
    for name in shares:
        try:
            check_timeline(name)
        except InvalidRecord:
            raise ConfigError(f"split: {shortened(name)} is not a recipient of 1 to 512 bytes of UTF-8") from None
    lists = {name: _records_for(name, given) for name, given in shares.items()}
    for name, share in lists.items():
        _refuse_others(records, share, hook="split", whom=f" for {shortened(name)}")
    return {name: share for name, share in lists.items() if share}


def _records_for(name: str, given: Any) -> list[Record]:
    records = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(record, Record) for record in records):
        raise ConfigError(f"split: gave {shortened(given)} for {shortened(name)}, not a list of records")
    return records
