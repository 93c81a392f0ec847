"""From a summary to texts for people: a subject, plain text, HTML, Markdown, blocks for Slack."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from jinja2 import Template

from digestif.compose.brand import brand_of
from digestif.compose.cadence import cadence_of
from digestif.compose.context import context
from digestif.compose.details import Details
from digestif.compose.processes import Children, TemplateFailed
from digestif.compose.sandbox import environment, fault_of, leads_out
from digestif.compose.slack import SLACK, blocks, read_blocks
from digestif.compose.summary import Summary
from digestif.compose.texts import header_line
from digestif.compose.times import Hours, Times
from digestif.compose.wording import Wording, wording_of
from digestif.core.policy import Policy
from digestif.core.texts import did_you_mean, shortened
from digestif.errors import ConfigError

__all__ = ["Rendered", "Renderer", "TemplateFailed"]

DEFAULT = "default"
TEXTS = {"subject": ".subject.txt", "text": ".txt", "html": ".html", "markdown": ".md"}  # endings of files, by part
ENDINGS = TEXTS | {"slack": ".slack.json"}
ENVIRONMENT = environment()
Order = Literal["newest", "oldest"]
NO_LINKS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A rendered digest. The subject is one line and always there; formats that were not asked for are empty."""

    subject: str = ""
    text: str = ""
    html: str = ""
    markdown: str = ""
    blocks: tuple[dict[str, Any], ...] = ()  # of Slack


class Renderer:
    """Renders summaries with one set of templates. Safe to use from several threads.

    `template` names a built-in set, or files in `folder`: NAME.html, NAME.txt, NAME.md, NAME.subject.txt,
    NAME.slack.json. Built-in files replace those that are missing. Files of a folder are rendered in a child process,
    which is killed after `timeout` seconds or when it needs more than `memory` bytes. With `preview`, unknown names in
    a template stay visible. `zone`, `hours` (12 or 24) and `wording` are the defaults for readers. `details` are the
    fields of values that are shown beside their text, `brand` is the sender's name, logo and color. With
    `order="oldest"` the records of a subject are in the order in which they were written. Raises ConfigError for a file
    that does not parse.
    """

    def __init__(
        self,
        template: str | None = None,
        *,
        folder: Path | None = None,
        zone: str = "UTC",
        hours: Hours = 24,
        wording: Wording | Mapping[str, Any] | None = None,
        details: Sequence[str] | None = None,
        order: Order = "newest",
        brand: Mapping[str, str] | None = None,
        timeout: float = 1.0,
        memory: int = 100_000_000,
        preview: bool = False,
    ) -> None:
        self._times = Times(zone, hours, wording_of(wording))
        self._details = Details(details)
        self._oldest_first = _is_oldest_first(order)
        self._brand = brand_of(brand)
        self._own = _own_templates(template or DEFAULT, folder)
        self._built_in = _built_in(DEFAULT)
        self._children = (
            Children(folder, timeout=timeout, memory=memory, preview=preview) if folder and self._own else None
        )

    def render(
        self,
        summary: Summary,
        *,
        formats: Collection[str],
        next_delivery: float | None = None,
        links: Mapping[str, str] = NO_LINKS,
        zone: str | None = None,
        hours: Hours | None = None,
        title: str | None = None,
        wording: Wording | Mapping[str, Any] | None = None,
        reason: str = "",
        policy: Policy | None = None,
    ) -> Rendered:
        """Render a summary in some of the formats "text", "html", "markdown" and "slack".

        `next_delivery` is a time in seconds. `links` have names such as "open", "settings" and "unsubscribe"; links to
        anything but the web or a mailbox are left out. The foot says the `reason` why a reader gets it, and how often
        by the `policy`. Raises TemplateFailed, but not for built-in templates.
        """
        times = self._times_for(zone, hours, wording)
        about: dict[str, Any] = {
            "times": times,
            "next_delivery": next_delivery,
            "links": links,
            "title": title,
            "details": self._details,
            "oldest_first": self._oldest_first,
            "brand": self._brand,
            "reason": reason,
            "cadence": "" if policy is None else cadence_of(policy, times),
        }
        parts = self._parts(["subject", *(name for name in formats if name in TEXTS)], summary, about)
        made = self._blocks(summary, about) if "slack" in formats else ()
        return Rendered(**parts | {"subject": header_line(parts["subject"])}, blocks=made)

    @property
    def in_process(self) -> bool:
        """True if it renders within milliseconds in this process; False if it waits for a child process."""
        return self._children is None

    def close(self) -> None:
        """End the child processes. A later call starts new ones."""
        if self._children is not None:
            self._children.close()

    def _parts(self, names: Collection[str], summary: Summary, about: dict[str, Any]) -> dict[str, str]:
        own = {name: self._own[name] for name in names if name in self._own}
        known = context(summary, **about, values=bool(own))
        parts = {name: self._built_in[name].render(known) for name in names if name not in own}
        if own and self._children is not None:
            parts |= self._children.render(own, known)
        return parts

    def _blocks(self, summary: Summary, about: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        file = self._own.get("slack")
        known = context(summary, **about, limit=SLACK, values=file is not None)
        if file is None or self._children is None:
            return blocks(known)
        try:
            return read_blocks(self._children.render({"slack": file}, known)["slack"])
        except ValueError as error:
            raise TemplateFailed(f"{file}: {error}") from None

    def _times_for(self, zone: str | None, hours: Hours | None, wording: Wording | Mapping[str, Any] | None) -> Times:
        if zone is None and hours is None and wording is None:
            return self._times
        words = self._times.wording if wording is None else wording_of(wording)
        return Times(zone or self._times.zone, hours or self._times.hours, words)


def _is_oldest_first(order: object) -> bool:
    if order not in ("newest", "oldest"):
        raise ConfigError(f'order: {shortened(order)} is neither "newest" nor "oldest"')
    return order == "oldest"


def _own_templates(name: str, folder: Path | None) -> dict[str, str]:
    """The files of a folder for a template's name, by part."""
    if folder is None:
        if name != DEFAULT:
            raise ConfigError(
                f"template: {name!r} is not built in{did_you_mean(name, [DEFAULT])}; or name a folder of your own"
            )
        return {}
    files = {part: f"{name}{ending}" for part, ending in ENDINGS.items()}
    found = {part: file for part, file in files.items() if "/" not in name and (folder / file).is_file()}
    if not found and name != DEFAULT:
        raise ConfigError(f"template: none of {', '.join(files.values())} is a file in {folder}")
    for file in found.values():
        if leads_out(folder / file, folder):
            raise ConfigError(f"template: {file} is a link that leads out of {folder}")
    if fault := fault_of(list(found.values()), folder):
        raise ConfigError(f"template: {fault}")
    return found


def _built_in(name: str) -> dict[str, Template]:
    return {part: ENVIRONMENT.get_template(name + ending) for part, ending in TEXTS.items()}
