"""Blocks for Slack, made from a context or read from a user's template."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

import msgspec

from digestif.compose.context import SizeLimit
from digestif.compose.phrases import enumerated
from digestif.compose.texts import cut

LONGEST_TEXT = 3000
LONGEST_HEADER = 150
LONGEST_ESCAPE = len("&amp;")

LONGEST_PART = 600  # of the four parts of a line: link, label, facts, title
SHORT_LINK = 300  # of the facts of a line, and of each link in the foot

# Keeps a message below Slack's 50 blocks: each of at most 20 groups begins a section, and two sections of a group are
# together longer than 3,000 characters, so there are at most 20 + 36,000 / 1,500 sections, and five other blocks.
SLACK = SizeLimit(bytes=36_000, body=9_000, subject=120, chip=0, title=0, group=60, item=60, detail=10)

Block = dict[str, Any]


def blocks(context: dict[str, Any]) -> tuple[Block, ...]:
    """A message for Slack, from a context within the limit SLACK."""
    head = _head(context["title"] or context["headline"])
    return (*_brand(context["brand"]), *head, *_body(context), *_foot(context))


def read_blocks(text: str) -> tuple[Block, ...]:
    """The blocks in a user's template: a JSON list, or the object that Slack's Block Kit Builder copies.

    Raises ValueError for blocks that Slack would refuse without a reason. The channel cuts those that are too long.
    """
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"that is not JSON: {error}") from None
    found = found.get("blocks") if isinstance(found, dict) else found
    if not isinstance(found, list) or not found:
        raise ValueError("that is not a list of blocks")
    for number, block in enumerate(found, 1):
        if fault := _fault(block):
            raise ValueError(f"block {number} {fault}")
    return tuple(found)


def _fault(block: Any) -> str:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return "has no type"
    for part in _parts(block):
        if not isinstance(part, dict):
            return f'({block["type"]}) has a text that is not written as {{"type": "mrkdwn", "text": "…"}}'
        if isinstance(part.get("text"), str) and not part["text"].strip():
            return f"({block['type']}) has an empty text, which Slack refuses"
    return ""


def _parts(block: Block) -> Iterator[Any]:
    """The texts of a block of a known type."""
    if block["type"] in ("header", "section", "context"):
        for part in (block.get(name) for name in ("text", "fields", "elements")):
            yield from part if isinstance(part, list) else [] if part is None else [part]


def escaped(text: str) -> str:
    """A text with the characters escaped that begin links and mentions in Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _body(context: dict[str, Any]) -> Iterator[Block]:
    facts, single = context["facts"], context["single"]
    if single is None:
        yield _remark(escaped(enumerated(context["headline"] if context["title"] else "", facts)))
        for group in context["groups"]:
            yield from map(_section, _packed(_lines(group, context["counted"])))
        return
    if context["title"] and context["headline"]:
        yield _section(f"*{_part(context['headline'])}*")
    yield _remark(escaped(facts))
    yield from map(_section, _packed(_notification(single, context["wording"]["details"])))


def _notification(single: dict[str, Any], details: str) -> Iterator[str]:
    yield from _pieces(single["body"])
    yield from _details(single)
    if single["url"]:
        yield _linked(single["url"], details)
    yield from _items(single, "•  ")


def _lines(group: dict[str, Any], counted: bool) -> Iterator[str]:
    if group["label"]:
        yield f"*{_linked(group['url'], group['label'])}* · {_part(group['facts'])}"
    note = [f"_{_part(group['note'])}_"] if group["note"] else []
    yield from note if group["oldest_first"] else []
    for subject in group["subjects"]:
        yield _line(subject, counted)
        yield from _details(subject, indent="      ")
        yield from _items(subject, "      ◦  ")
    yield from [] if group["oldest_first"] else note


def _line(subject: dict[str, Any], counted: bool) -> str:
    count = f"*{subject['count']:,} ×* " if counted else ""
    title = f"\n      {_signed(subject['title_parts'])}" if subject["title"] else ""
    facts = _linked(subject["newest_url"], subject["facts"], SHORT_LINK)
    return f"•  {count}{_linked(subject['url'], subject['label'])} · {facts}{title}"


def _items(subject: dict[str, Any], bullet: str) -> Iterator[str]:
    note = [f"      _{_part(subject['items_note'])}_"] if subject["items_note"] else []
    yield from note if subject["oldest_first"] else []
    for item in subject["items"]:
        yield f"{bullet}{_signed(item['parts'])} · {_linked(item['url'], item['when'])}"
        if item["details_line"]:  # else they are its line
            yield from _details(item, indent="      ")
        yield from _pieces(item["body"])
    yield from [] if subject["oldest_first"] else note


def _details(shown: dict[str, Any], *, indent: str = "") -> Iterator[str]:
    """The details as a quiet line; links can be followed. What does not fit in a block is on the next line."""
    details = (f"{_part(each['name'])}: {_linked(each['url'], each['text'])}" for each in shown["details"])
    return (indent + line for line in _packed(details, between=" · ", longest=LONGEST_TEXT - len(indent)))


def _signed(parts: tuple[str, str, str]) -> str:
    """Write a text with the name of its author in bold."""
    before, author, after = parts
    return f"{_part(before)}*{_part(author)}*{_part(after)}" if author else _part(before + after)


def _foot(context: dict[str, Any]) -> Iterator[Block]:
    why = " ".join(filter(None, [context["reason"], context["cadence"]]))
    notes = [*context["omissions"], *filter(None, [context["outlook"], why])]
    if notes:
        yield _remark("\n".join(map(_part, notes)))
    links = [
        _linked(link["url"], link["label"]) for link in context["foot_links"] if len(escaped(link["url"])) < SHORT_LINK
    ]
    if links:
        yield _remark(" · ".join(links))


def _packed(lines: Iterator[str], *, between: str = "\n", longest: int = LONGEST_TEXT) -> Iterator[str]:
    """Join lines to texts of at most `longest` characters."""
    text = ""
    for line in lines:
        if text and len(text) + len(between) + len(line) > longest:
            yield text
            text = ""
        text = f"{text}{between}{line}" if text else line
    if text:
        yield text


def _pieces(body: str) -> Iterator[str]:
    """A text of any length, escaped, in pieces that fit in one block each; divided between words if there are any."""
    for line in body.splitlines():
        fits = len(escaped(line)) <= LONGEST_TEXT
        yield from map(escaped, [line] if fits else wrap(line, LONGEST_TEXT // LONGEST_ESCAPE))


def _part(text: str, length: int = LONGEST_PART) -> str:
    """A text, cut so that it is not too long once escaped, then escaped; so no escape is cut in two."""
    while len(escaped(text)) > length:
        text = cut(text, len(text) * 9 // 10)
    return escaped(text)


def _linked(url: str, label: str, longest: int = LONGEST_PART) -> str:
    link = escaped(url.replace("|", "%7C"))
    return f"<{link}|{_part(label)}>" if link and len(link) <= longest else _part(label)


def _brand(brand: dict[str, Any]) -> Iterator[Block]:
    """The logo and the name of the sender. Slack refuses an empty text beside an image."""
    logo = {"type": "image", "image_url": brand["logo"], "alt_text": brand["name"] or "logo"}
    parts = [logo] if brand["logo"] else []
    parts += [_text(f"*{_part(brand['name'])}*")] if brand["name"] else []
    if parts:
        yield {"type": "context", "elements": parts}


def _head(text: str) -> Iterator[Block]:
    if text.strip():  # Slack refuses an empty header
        yield {"type": "header", "text": {"type": "plain_text", "text": cut(text, LONGEST_HEADER), "emoji": False}}


def _section(text: str) -> Block:
    return {"type": "section", "text": _text(text)}


def _remark(text: str) -> Block:
    return {"type": "context", "elements": [_text(text)]}


def _text(text: str) -> Block:
    return {"type": "mrkdwn", "text": text, "verbatim": True}  # else Slack turns names and addresses into links
