"""The words of the built-in templates: every one can be replaced."""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from digestif import ConfigError, Renderer, Wording, summarize
from digestif.compose.renderer import Rendered
from digestif.compose.slack import read_blocks
from digestif.compose.summary import Summary
from digestif.compose.wording import ENGLISH
from tests.compose.comments import (
    COMMENTS,
    GERMAN,
    HEBREW,
    comments,
    hebrew,
    one_author,
    one_comment,
    one_post,
    several_posts,
)
from tests.compose.samples import LINKS, MONDAY, group, many, overflow, single, subject, summary
from tests.compose.test_grouping import digest_of
from tests.compose.test_renderer import ALL, everywhere, slack_text


def render(what: Summary, wording: Any, **options: Any) -> Rendered:
    return Renderer(zone=options.pop("zone", "Europe/Berlin"), wording=wording).render(what, formats=ALL, **options)


def test_a_digest_counts_with_nouns_of_its_own() -> None:
    for text in everywhere(render(comments(), COMMENTS)):
        assert "8 comments on 2 posts" in text
    assert render(comments(), COMMENTS).subject == "How to brew green tea and 1 more (8 comments)"


def test_a_noun_may_be_a_function_of_the_number() -> None:
    def stars(count: int) -> str:
        return {1: "звезда", 2: "звезды"}.get(count, "звёзд")

    texts = [render(single(count=count, lasts=60), {"record": stars}).text for count in (2, 7)]

    assert ["2 звезды" in texts[0], "7 звёзд" in texts[1]] == [True, True]


def test_a_digest_speaks_another_language() -> None:
    rendered = render(comments(), GERMAN, links=LINKS, next_delivery=MONDAY + 9000)

    assert rendered.subject == "How to brew green tea und 1 mehr (8 Kommentare)"
    for text in everywhere(rendered):
        assert "8 Kommentare zu 2 Beiträgen" in text
        assert "7 Personen · Mo, 16. Nov. 2026, 08:23 – 09:12 Uhr (Europe/Berlin)" in text
        assert "und 1 weitere" in text
        assert "Der nächste kommt meist nicht vor Mo, 16. Nov. 2026, 11:42 Uhr." in text
        assert "Abbestellen" in text
    assert '<html lang="de" dir="ltr">' in rendered.html


def test_numbers_are_written_as_the_language_does() -> None:
    rendered = render(overflow(), GERMAN)

    for text in everywhere(rendered):
        assert "und 1.990 weitere mit 8.411 Kommentare" in text
        assert "9.961" in text


def test_html_may_be_written_from_right_to_left() -> None:
    right, left = render(hebrew(), HEBREW).html, render(hebrew(), None).html

    assert '<html lang="he" dir="rtl">' in right
    assert '<body class="page" dir="rtl"' in right
    assert "text-align:right" in right
    assert "text-align:left" not in right
    assert "padding-left:14px" in right
    assert '<html lang="en" dir="ltr">' in left
    assert "text-align:right" not in left


def test_what_has_no_text_is_named_in_the_same_language() -> None:
    digest = digest_of({"a": None, "title": "x"}, {"a": "", "title": "y"}, {"a": "other", "title": "z"}, "", "(empty)")

    for text in everywhere(render(summarize(digest, group_by=["a", "title"]), GERMAN)):
        assert "ohne" in text
        assert "(leer)" in text.replace("\\", "")
        assert "other" in text
        assert "(kein Text)" in text
        assert "(empty)" in text


def test_a_renderer_may_be_given_words_for_one_reader() -> None:
    renderer = Renderer(wording=GERMAN)

    assert "8 Kommentare" in renderer.render(comments(), formats=["text"]).text
    assert "8 comments" in renderer.render(comments(), formats=["text"], wording=COMMENTS).text


# Every word


MARKER = "\u26ab"  # a black circle: what the templates write by themselves is made of these
TEXTS: dict[str, Any] = {
    each.name: re.sub(r"[^\W\d_]+(?![^{]*})", MARKER, getattr(ENGLISH, each.name))
    for each in fields(Wording)
    if isinstance(getattr(ENGLISH, each.name), str) and each.name not in ("lang", "dir")
}
NOUNS: dict[str, Any] = dict.fromkeys(("record", "subject", "more_group", "older_record"), (MARKER, MARKER))
PEOPLE: dict[str, Any] = {"people": (MARKER, MARKER)}
WORDS = Wording(**TEXTS, **NOUNS, distinct=PEOPLE, days=(MARKER,) * 7, months=(MARKER,) * 12)
EVERYTHING: dict[str, Callable[[], Summary]] = {
    "several groups": many,
    "too much": overflow,
    "comments": comments,
    "one subject": one_post,
    "one comment": one_comment,
    "one author": one_author,
    "each subject once": several_posts,
    "no grouping": lambda: summarize(digest_of("#1", "#2")),
    "one subject with a link": lambda: single({"title": "#", "message": "7", "url": "https://1.example"}),
    "one record": single,
    "no text": lambda: single(""),
    "no group and an empty one": lambda: summarize(
        digest_of({"a": "", "b": None, "title": "#"}, {"title": "#"}), group_by=["a", "b"]
    ),
    "several days": lambda: summary(group("", subject("1", at=MONDAY, lasts=86400, count=2), subject("2", at=1e300))),
}


@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("hours", [12, 24])
def test_the_built_in_templates_write_no_word_that_can_not_be_replaced(name: str, hours: Any) -> None:
    what = EVERYTHING[name]()

    rendered = render(what, WORDS, links=LINKS, next_delivery=MONDAY + 9000, hours=hours, zone="Etc/GMT-1")

    for text in [rendered.subject, rendered.text, rendered.markdown, *visible_texts(rendered)]:
        assert words_of_templates(text, what) == []


def visible_texts(rendered: Rendered) -> list[str]:
    html = re.sub(r"(?s)<style.*?</style>|<!--.*?-->|<[^>]*>|&\w+;", " ", rendered.html)
    return [html, slack_text(rendered)]


def words_of_templates(text: str, what: Summary) -> list[str]:
    """The words of a text that come neither from the records nor from the wording."""
    text = re.sub(r"https?://[^\s|>)]*", " ", text).replace("Etc/GMT-1", " ")
    known = set(re.findall(r"[^\W\d_]+", repr(what).replace("\\n", " ")))
    return [word for word in re.findall(r"[^\W\d_]+", text) if word not in known]


def test_the_search_for_words_finds_them() -> None:
    assert words_of_templates(render(many(), None).text, many()) != []


# Mistakes


@pytest.mark.parametrize(
    ("wording", "complaint"),
    [
        ({"recrod": ("a", "b")}, "recrod: no such option of Wording; did you mean record?"),
        ({"headline": "{record}"}, r"wording: headline: '{record}': {record} is not filled in; did you mean records\?"),
        ({"headline": "{records!r}"}, "wording: headline: .* write the name alone"),
        ({"headline": "{records.__class__}"}, "is not filled in"),
        ({"headline": "{}"}, "is not filled in"),
        ({"headline": "{records"}, "wording: headline: '{records': .*; write {{ or }} for a brace"),
        ({"open": "Open {timeline}"}, "wording: open: {timeline} is not filled in here"),
        ({"record": ("one of {timeline}", "more")}, "wording: record: {timeline} is not filled in here"),
        ({"distinct": {"users": ("{name}", "s")}}, r"wording: distinct\['users'\]: {name} is not filled in here"),
        ({"months": ["{month}"] * 12}, "wording: months: {month} is not filled in here"),
        ({"record": lambda: "comments"}, r"wording: record: <lambda>\(\) can't be called with \(number\)"),
        ({"open": 7}, "wording: open: 7 is not a text"),
        ({"record": "comment"}, "wording: record: 'comment' is no noun"),
        ({"record": ("comment",)}, "is no noun"),
        ({"distinct": {"users": 7}}, r"wording: distinct\['users'\]: 7 is no noun"),
        ({"distinct": ["users"]}, "is not a mapping from names to nouns"),
        ({"days": ("Mo", "Di")}, "wording: days: .* is not a list of 7 texts"),
        ({"months": range(12)}, "wording: months: .* is not a list of 12 texts"),
        ({"dir": "right"}, 'wording: dir: \'right\' is neither "ltr" nor "rtl"'),
        (7, "wording: 7 is neither a Wording nor a mapping"),
        ({7: "x"}, "is neither a Wording nor a mapping"),
    ],
)  # fmt: skip
def test_a_wrong_word_is_refused_with_its_name(wording: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Renderer(wording=wording)


def test_braces_may_be_written() -> None:
    assert "{3 events}" in render(single(count=3, lasts=9), {"counted": "{{{count} {noun}}}"}).text


@pytest.mark.parametrize("title", [None, "Alerts"])
@pytest.mark.parametrize("what", [comments, one_post])
def test_without_a_headline_slack_gets_no_empty_text(title: str | None, what: Callable[[], Summary]) -> None:
    made = render(what(), {"headline": "", "headline_each": ""}, title=title).blocks

    assert read_blocks(json.dumps(made)) == made
    assert "**" not in json.dumps(made)
    assert '"text": " · ' not in json.dumps(made)
