"""The texts that readers get, also from hostile contents."""

import email
import email.policy
import re
from email.message import EmailMessage
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from digestif import Digest, Record
from digestif.compose.grouping import summarize
from digestif.compose.renderer import Rendered, Renderer
from digestif.compose.summary import Summary
from digestif.compose.texts import header_line, safe_link, text_of, title_of
from digestif.errors import ConfigError
from tests.compose.samples import LINKS, MONDAY, group, hostile, many, overflow, single, subject, summary

ALL = ["text", "html", "markdown", "slack"]


def render(what: Summary, **options: Any) -> Rendered:
    return Renderer(zone=options.pop("zone", "Europe/Berlin")).render(what, formats=ALL, **options)


def everywhere(rendered: Rendered) -> list[str]:
    """The message in all formats, without the marks of bold names."""
    marked = [rendered.html.replace("<b>", "").replace("</b>", ""), rendered.markdown, slack_text(rendered)]
    return [rendered.text, marked[0], *(re.sub(r"(\*{1,2})([^*\n]+)\1(: | ·)", r"\2\3", text) for text in marked[1:])]


def slack_text(rendered: Rendered) -> str:
    texts = [block["text"]["text"] if "text" in block else block["elements"][0]["text"] for block in rendered.blocks]
    return "\n".join(texts)


# Texts


def test_only_the_formats_that_are_asked_for_are_made() -> None:
    rendered = Renderer().render(many(), formats=["text", "data"])

    assert rendered.text
    assert rendered.subject
    assert (rendered.html, rendered.markdown, rendered.blocks) == ("", "", ())


def test_every_format_tells_groups_subjects_counts_distinct_counts_and_times() -> None:
    for text in everywhere(render(many())):
        assert "73 events about 6 subjects" in text
        assert "44 users" in text
        assert "Checkout" in text
        assert "Slow query" in text
        assert "The bank did not answer within 10 s" in text
        assert "31 users · 09:12 – 10:40" in text


def test_one_subject_reads_as_an_ordinary_notification_of_its_newest_record() -> None:
    rendered = render(single())

    assert rendered.subject == "Disk of db-1 is 91 % full"
    for text in everywhere(rendered):
        assert "Disk of db-1 is 91 % full" in text
        assert "About six hours are left." in text
        assert "event" not in text
        assert "subjects" not in text


def test_one_subject_that_came_seven_times_says_so() -> None:
    for text in everywhere(render(single(count=7, lasts=1800))):
        assert "7 events · Mon 16 Nov 2026, 09:12 – 09:42 (Europe/Berlin)" in text


def test_what_is_not_shown_is_said_exactly() -> None:
    for text in everywhere(render(overflow())):
        assert "and 1,990 more with 8,411 events" in text
        assert "and 3 more with 4 events" in text
        assert "and 17 more groups with 203 events" in text
        assert "and 120 older ones that did not fit" in text


def test_a_record_in_several_groups_that_are_not_shown_is_counted_once() -> None:
    """Fact 71: a record in two groups is counted once in the total."""
    values = [{"rule": list(range(20)), "is": "new"}, {"rule": list(range(10, 30)), "is": "old"}]
    records = tuple(Record(str(n), value, MONDAY - n) for n, value in enumerate(values))
    both = summarize(Digest("mail:ada", "7", 1, 1, 0, records), group_by=["rule", "is"], top_groups=99)

    for text in everywhere(render(both)):
        assert "2 events" in text
        assert "and 10 more groups with 1 event" in text
        assert "1 events" not in text


def test_counts_are_shown_if_a_record_stands_under_several_subjects() -> None:
    records = tuple(Record(str(n), {"tags": tags, "title": tags}, MONDAY) for n, tags in enumerate(["ab", "a"]))
    tagged = summarize(Digest("mail:ada", "7", 1, 1, 0, records), group_by=[lambda record: list(record.value["tags"])])

    for text in everywhere(render(tagged)):
        assert "2 events" in text
        assert "2 ×" in text or 'class="chip"' in text


def test_a_single_notification_tells_what_did_not_fit_too() -> None:
    dropped = summary(group("", subject("disk", {"title": "Full"}, count=2)), dropped=1)

    assert all("and 1 older one that did not fit" in text for text in everywhere(render(dropped)))


def test_records_without_grouping_are_listed_by_their_titles_not_by_their_keys() -> None:
    lines = [subject(f"01HX{n}", {"title": f"Build {n} failed"}) for n in range(3)]
    lines = [replace(line, newest=line.newest._replace(key=line.label)) for line in lines]

    rendered = render(summary(group("", *lines)))

    assert rendered.subject == "Build 0 failed and 2 more (3 events)"
    for text in everywhere(rendered):
        assert "Build 2 failed" in text
        assert "01HX" not in text
        assert "1 ×" not in text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Disk\x07 of \x1b[1mdb-1\x1b[0m is full", "Disk of [1mdb-1[0m is full"),
        ("Disk\tof\x0bdb-1  is full", "Disk of db-1 is full"),
        ("\x00\nDisk of db-1 is full\n", "Disk of db-1 is full"),
        ("\u202eDisk of \ufff9db-1 is full", "Disk of \ufff9db-1 is full"),
        ("Disk of db-1 is full. " * 6, "Disk of db-1 is full. " * 5 + "Disk of db-1 is full."),
    ],
)
def test_a_title_is_said_once_whatever_was_taken_out_of_it(text: str, title: str) -> None:
    others = {"title": "Other", "message": "Nothing else"}
    values: list[Any] = [text, {"title": text}, {"title": text, "message": text}, {"message": text}]
    for value in values:
        records = (Record("1", value, MONDAY), Record("2", others, MONDAY))
        alone = summarize(Digest("mail:ada", "7", 1, 1, 0, records[:1]), group_by=[lambda record: text])
        both = summarize(Digest("mail:ada", "7", 1, 1, 0, records), group_by=[text_of_record])

        for rendered in (render(alone), render(both)):
            assert rendered.text.count(title) == 1
            assert rendered.text.count("db-1") == title.count("db-1")
            assert "\ufffd" not in rendered.text + rendered.html + rendered.subject


def text_of_record(record: Record) -> str:
    return text_of(record.value)


def test_a_text_of_several_lines_is_shown_with_its_lines() -> None:
    assert "Hosts:\ndb-1\ndb-2" in render(single({"title": "Down", "message": "Hosts:\r\ndb-1\u2028db-2"})).text
    assert "Down:\ndb-1" in render(single("Down:\ndb-1")).text


def test_the_subject_leads_with_the_most_frequent_one() -> None:
    assert render(many()).subject == "PaymentTimeout in charge_card and 5 more (73 events)"
    assert render(many(), title="Acme").subject == "Acme: PaymentTimeout in charge_card and 5 more (73 events)"


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ("plain text", "plain text"),
        ({"title": "a", "subject": "b"}, "a"),
        ({"title": "  ", "subject": "b", "message": "c"}, "b"),
        ({"title": 7, "message": "c", "summary": "d"}, "c"),
        ({"summary": "d", "name": "e"}, "d"),
        ({"name": "e", "text": "f"}, "e"),
        ({"text": "f"}, "f"),
        ({"text": " ", "comment": "g", "content": "h", "body": "i", "description": "j"}, "g"),
        ({"content": "h", "body": "i", "description": "j"}, "h"),
        ({"body": "i", "description": "j"}, "i"),
        ({"description": "j"}, "j"),
        ({"user": {"id": 7}}, "user.id: 7"),
        ({"stars": 5, "tags": ["a", "b"], "ok": True, "no": None, "empty": ""}, "stars: 5, tags: a, b, ok: true"),
        ({"stars": 5, "author": {"name": "Ada"}, "url": "https://x.example/"}, "stars: 5"),
        ({"stars": 5, "author": {"id": 7}, "url": "javascript:1"}, "stars: 5, author.id: 7, url: javascript:1"),
        ([{"a": 1}, {"a": 2, "b": 3}], "a: 1, a: 2, b: 3"),
        ([1, None, True], "1, true"),
        (None, "(no text)"),
        ({}, "(no text)"),
        (7.5, "7.5"),
        ("", "(no text)"),
        ([10**5000], "a number of 16610 bits"),
        (object, "<class 'object'>"),
    ],
)
def test_a_value_is_shown_by_its_first_telling_field(value: object, title: str) -> None:
    assert title_of(value) == title


# Times


@pytest.mark.parametrize(
    ("zone", "hours", "window", "upcoming"),
    [
        ("UTC", 24, "Mon 16 Nov 2026, 08:12 – 09:40 (UTC)", "Mon 16 Nov 2026, 10:42"),
        ("America/Toronto", 12, "Mon 16 Nov 2026, 3:12 am – 4:40 am (America/Toronto)", "Mon 16 Nov 2026, 5:42 am"),
        ("Asia/Tokyo", 24, "Mon 16 Nov 2026, 17:12 – 18:40 (Asia/Tokyo)", "Mon 16 Nov 2026, 19:42"),
        ("Etc/GMT-14", 12, "Mon 16 Nov 2026, 10:12 pm – 11:40 pm (Etc/GMT-14)", "Tue 17 Nov 2026, 12:42 am"),
        ("Asia/Dubai", 12, "Mon 16 Nov 2026, 12:12 pm – 1:40 pm (Asia/Dubai)", "Mon 16 Nov 2026, 2:42 pm"),
        ("Pacific/Auckland", 12, "Mon 16 Nov 2026, 9:12 pm – 10:40 pm (Pacific/Auckland)", "Mon 16 Nov 2026, 11:42 pm"),
    ],
)
def test_times_are_those_of_the_reader(zone: str, hours: Literal[12, 24], window: str, upcoming: str) -> None:
    rendered = Renderer(zone="Asia/Tokyo").render(
        many(), formats=ALL, zone=zone, hours=hours, next_delivery=MONDAY + 9000
    )

    for text in everywhere(rendered):
        assert window in text
        assert f"Next one: usually not before {upcoming}." in text


def test_over_midnight_each_line_says_its_day() -> None:
    night = summary(group("", subject("a", at=MONDAY, lasts=86400, count=2), subject("b", at=MONDAY + 3600)))

    text = render(night).text

    assert "Mon 16 Nov 2026, 09:12 – Tue 17 Nov 2026, 09:12" in text
    assert "16 Nov 09:12 – 17 Nov 09:12" in text
    assert "16 Nov 10:12\n" in text


@pytest.mark.parametrize("at", [-1e300, -62135596801.0, 253402300800.0, 1e18, 1e300])
def test_an_event_dated_in_no_year_of_the_calendar_is_still_told(at: float) -> None:
    rendered = render(summary(group("", subject("a", at=at), subject("b"))))

    assert f"second {at:.6g}" in rendered.text


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "/".join("a" * 2000)])
def test_a_zone_that_is_none_is_refused_with_its_name(zone: str) -> None:
    with pytest.raises(ConfigError, match="is not an IANA time zone"):
        Renderer(zone=zone)


# Links


def test_links_come_in_a_fixed_order_with_labels() -> None:
    text = render(many(), links=LINKS | {"archive": "https://alerts.example/old"}).text

    assert text.endswith(
        "Open: https://alerts.example/inbox\n"
        "Settings: https://alerts.example/settings\n"
        "Unsubscribe: https://alerts.example/u?who=ada&what=mail\n"
        "Archive: https://alerts.example/old\n"
    )


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "//evil.example",
        "https:evil",
        "https://",
        "mailto:",
        "https://a b",
        "https://[evil",
        "https://x/\u202egpj.exe",
        "https://x/" + "a" * 2000,
        "",
        None,
        7,
    ],
)
def test_links_to_anything_but_the_web_or_a_mailbox_are_dropped(link: Any) -> None:
    assert safe_link(link) == ""
    assert render(many(), links={"open": link}).html == render(many()).html


@pytest.mark.parametrize(
    ("link", "safe"),
    [
        ("https://x.example/a?b=c&d=%20#e", "https://x.example/a?b=c&d=%20#e"),
        ("HTTP://x.example/", "HTTP://x.example/"),
        ("mailto:ada@x.example?subject=stop", "mailto:ada@x.example?subject=stop"),
        ('https://x.example/"><script>', "https://x.example/%22%3E%3Cscript%3E"),
        ("https://x.example/ä|b", "https://x.example/%C3%A4%7Cb"),
    ],
)
def test_links_are_written_so_that_they_end_where_they_should(link: str, safe: str) -> None:
    assert safe_link(link) == safe


# Hostile contents


def test_markup_in_contents_is_text() -> None:
    rendered = render(hostile())

    for tag in ("<script", "<img", "</td></table>", '<a href="https://evil', 'javascript:alert(1)"', "<i>"):
        assert tag not in rendered.html.split("<h1")[1].replace("</td></tr></table>", "")
    assert "&lt;script&gt;alert(&#39;group&#39;)&lt;/script&gt;" in rendered.html
    assert "<!channel>" not in slack_text(rendered)
    assert "<https://evil" not in slack_text(rendered)
    assert "\n[click]" not in rendered.markdown
    assert "@everyone" not in rendered.markdown


def test_nothing_that_turns_or_hides_text_is_left() -> None:
    rendered = render(hostile())

    for text in [rendered.subject, *everywhere(rendered)]:
        assert not any(mark in text for mark in "\u202e\u202c\u2066\u2060\ufeff\x00\x1b\ud800\r")


@pytest.mark.parametrize(
    "text",
    [
        "=?utf-8?q?Hi=0D=0ABcc:_eve@evil.example?=",
        "=\u200b?utf-8?q?Hi=0D=0ABcc:_eve@evil.example?\u200b=",
        "Hi\r\nBcc: eve@evil.example",
        "Hi\nBcc: eve@evil.example\n\nbody",
        "Hi\u2028Bcc: eve@evil.example",
        "Hi\x85Bcc: eve@evil.example",
        "Hi\x0bBcc: eve@evil.example\x0c",
    ],
)
def test_a_subject_never_becomes_another_header(text: str) -> None:
    message = EmailMessage(policy=email.policy.SMTP)

    message["Subject"] = render(single(text)).subject
    message["To"] = "ada@x.example"

    parsed = email.message_from_bytes(message.as_bytes(), policy=email.policy.default)
    assert parsed.keys() == ["Subject", "To"]
    assert len(parsed["Subject"].splitlines()) == 1
    assert "Bcc" in parsed["Subject"]


def test_a_subject_is_cut_but_keeps_its_count() -> None:
    long = summary(group("", subject("x" * 10_000, count=2), subject("y")))

    assert render(long).subject == "x" * 79 + "… and 1 more (3 events)"
    assert len(render(single("word " * 1000)).subject) <= 150
    assert header_line("é" * 151) == "é" * 149 + "…"


@pytest.mark.parametrize("letter", ["a", "&", "'", "é", "😀", "\u0301"])
@pytest.mark.parametrize(("groups", "subjects"), [(1, 2000), (2000, 1), (40, 50), (20, 2)])
def test_two_thousand_subjects_fit_and_the_rest_is_counted(letter: str, groups: int, subjects: int) -> None:
    value = {"title": letter * 1000, "url": "https://x.example/" + letter * 150}
    lines = [
        subject(f"{n}{letter * 500}", value, count=3, lasts=90, users=2, **{letter * 90: 8}) for n in range(subjects)
    ]
    flood = summary(*(group(f"{n}{letter * 500}", *lines) for n in range(groups)))
    links = {f"{letter * 60}{n}": "https://x.example/" + letter * 300 for n in range(20)}

    rendered = render(flood, links=links, title=letter * 500)

    assert_bounded(rendered)
    shown = rendered.html.count('class="chip"')
    assert shown >= 10
    assert 3 * shown + left_out(rendered.text) == flood.count == 3 * groups * subjects
    assert left_out(slack_text(rendered)) + 3 * slack_text(rendered).count("*3 ×*") == flood.count


def test_a_mail_has_room_for_two_hundred_short_records_and_says_how_many_more_there_are() -> None:
    records = [Record(str(number), {"title": f"Short {number}"}, MONDAY + number) for number in range(2000)]

    rendered = render(summarize(records, top=2000, items=2000))

    assert_bounded(rendered)
    shown = rendered.text.count("- Short")
    assert shown >= 195
    assert f"\n… and {2000 - shown:,} more\n" in rendered.text


@pytest.mark.parametrize("letter", ["a", "&", "é"])
@pytest.mark.parametrize("length", [1, 30, 159, 500])
@pytest.mark.parametrize("group_by", [[], ["team"], ["team", "title"]])
def test_mails_of_records_with_titles_texts_links_and_fields_stay_small(
    letter: str, length: int, group_by: list[str]
) -> None:
    text = letter * length
    value = {"text": text, "author": text, "url": "https://x.example/" + text, "host": text}
    records = [
        Record(str(number), {"title": f"{number} {text}", "team": f"{number % 300}", **value}, MONDAY + number)
        for number in range(1000)
    ]

    assert_bounded(render(summarize(records, group_by=group_by, top=1000, top_groups=1000)))


def left_out(text: str) -> int:
    """The number of events that a text says are missing."""
    notes = [line.strip("…_ \n") for line in text.splitlines() if line.strip("…_ ").startswith("and ")]
    return sum(int(note.split(" with ")[1].split()[0].replace(",", "")) for note in notes)


def assert_bounded(rendered: Rendered) -> None:
    assert len(rendered.html.encode()) < 100_000  # Gmail hides what comes after 102 KB
    assert len(rendered.text.encode()) < 100_000
    assert len(rendered.markdown.encode()) < 100_000
    assert len(rendered.blocks) <= 50
    for block in rendered.blocks:
        text = block["text"] if "text" in block else block["elements"][0]
        assert 1 <= len(text["text"]) <= (150 if block["type"] == "header" else 3000)


@pytest.mark.parametrize(
    "value",
    [
        "&" * 10_000_000,
        " " * 10_000_000,
        "\u200b" * 10_000_000,
        {"title": "x" * 10_000_000, "message": "<\n" * 5_000_000},
        {f"field {n}": "x" * 100 for n in range(100_000)},
        ["x" * 1000] * 10_000,
    ],
    ids=["ampersands", "blanks", "nothing", "message", "fields", "list"],
)
def test_a_value_of_ten_megabytes_makes_a_mail_of_ordinary_size(value: object) -> None:
    assert_bounded(render(single(value)))
    assert_bounded(render(summary(group("", subject("a", value), subject("b", value)))))
