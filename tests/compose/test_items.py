"""A subject lists its newest records: what differs between them, and how many more there are."""

from typing import Any

import pytest

from digestif import ConfigError, Digest, Grouping, Record, Renderer, summarize
from digestif.compose.renderer import Rendered
from digestif.compose.summary import Summary
from tests.compose.comments import COMMENTS, comments, one_post
from tests.compose.samples import MONDAY
from tests.compose.test_renderer import ALL, assert_bounded, everywhere


def render(what: Summary, **options: Any) -> Rendered:
    return Renderer(zone="Europe/Berlin", wording=COMMENTS).render(what, formats=ALL, **options)


def digest_of(*values: Any) -> Digest:
    """The first is the newest."""
    records = [Record(f"k{number}", value, MONDAY - 60 * number) for number, value in enumerate(values)]
    return Digest("mail:ada", "d1", 1, 1, 0, tuple(records))


def mail_of(*values: Any, group_by: str = "about", **options: Any) -> str:
    """The text of a mail about these values and another subject."""
    other = {"about": "something else", "title": "Other", "kind": "other"}
    return render(summarize(digest_of(*values, other), group_by=[group_by], **options)).text


def test_three_comments_on_one_post_are_all_in_the_mail() -> None:
    rendered = render(one_post())

    assert rendered.subject == "3 comments on How to brew green tea"
    for text in everywhere(rendered):
        assert "3 comments on How to brew green tea" in text
        assert "Grace: Seventy degrees." in text
        assert "Margaret: Which pot?" in text
        assert "Alan: Is it ready?" in text
        assert "3 people · Mon" in text
        assert text.count("Seventy degrees.") == 1 or "<title>" in text
        assert "more" not in text.partition("<body")[2]


def test_a_subject_in_several_groups_lists_all_of_its_records() -> None:
    values = [{"rule": rule, "about": "tea", "text": text} for rule, text in (("ab", "x"), ("bc", "y"), ("c", "z"))]
    digest = digest_of(*values)

    text = render(summarize(digest, group_by=[lambda record: list(record.value["rule"]), "about"])).text

    assert text.startswith("3 comments on tea\nb, c, a · Mon")
    assert "- y · " in text
    assert "- z · " in text


def test_the_newest_five_of_a_subject_are_listed_and_the_others_counted_exactly() -> None:
    rendered = render(comments())

    assert rendered.subject == "How to brew green tea and 1 more (8 comments)"
    for text in everywhere(rendered):
        assert "8 comments on 2 posts" in text
        for author in ("Margaret", "Edsger", "Barbara"):
            assert f"{author}: " in text
        assert text.count("Grace: ") == 2
        assert "Alan: " not in text
        assert text.count("and 1 more") == 1
        assert "Katherine: The third one saved my weekend." in text


def test_comments_come_newest_first_each_with_its_time_and_link() -> None:
    text = render(comments()).text

    assert text.index("Grace: Seventy") < text.index("Margaret: ") < text.index("Barbara: ")
    assert "    - Margaret: And which pot do you use? · 08:58\n      https://blog.example/c/2\n" in text


@pytest.mark.parametrize(
    ("items", "listed", "note"), [(1, 0, ""), (2, 2, "and 2 more"), (3, 3, "and 1 more"), (4, 4, "")]
)
def test_how_many_are_listed_can_be_chosen(items: int, listed: int, note: str) -> None:
    values = [{"about": "tea", "text": f"comment {number}"} for number in range(4)]

    text = mail_of(*values, items=items)

    assert text.count("    - comment") == listed
    assert ("more" in text) == bool(note)
    assert note in text


def test_a_thousand_comments_are_five_lines_and_a_number() -> None:
    values = [{"about": "tea", "text": f"comment {number}"} for number in range(1_234)]

    text = mail_of(*values)

    assert text.count("    - comment") == 5
    assert "and 1,229 more" in text


def test_records_that_look_alike_are_one_line() -> None:
    alike = {"about": "db-1", "title": "Disk is full", "id": 1}

    text = mail_of(alike, alike | {"id": 2}, alike | {"id": 3})

    assert text.count("Disk is full") == 1
    assert "    - " not in text


def test_what_is_listed_is_what_differs() -> None:
    values = [{"about": "tea", "title": "New comment", "text": text} for text in ("Fine", "Hot")]

    text = mail_of(*values)

    assert text.count("New comment") == 1
    assert "    New comment\n" in text
    assert "    - Fine · " in text
    assert "    - Hot · " in text


def test_if_nothing_but_the_people_differs_they_are_listed() -> None:
    text = mail_of(*({"about": "tea", "title": "liked it", "user": name} for name in ("ada", "bob")))

    assert "    - ada · " in text
    assert "    - bob · " in text


def test_the_same_comment_of_several_people_can_be_read_under_each_name() -> None:
    values = [{"about": "tea", "text": "+1", "author": author} for author in ("Ada", "Bob", "Ada")]
    alone = render(summarize(digest_of(*values), group_by=["about"]))

    assert [line for line in mail_of(*values).splitlines() if ": +1" in line] == [
        f"    - {name}: +1 · {time}" for name, time in (("Ada", "09:12"), ("Bob", "09:11"), ("Ada", "09:10"))
    ]
    for text in everywhere(alone):
        assert "Bob: +1" in text
    assert [alone.text.count("Ada: +1"), alone.text.count("Bob: +1"), alone.text.count("+1")] == [2, 1, 3]


def test_a_title_that_is_listed_is_not_said_twice() -> None:
    text = mail_of(*({"about": "tea", "title": title} for title in ("First!", "Second")))

    assert text.count("First!") == 1


def test_values_without_a_text_are_told_apart_by_their_fields() -> None:
    text = mail_of({"kind": "a", "n": 1}, {"kind": "a", "n": 2}, group_by="kind")

    assert "    - kind: a, n: 2 · " in text


@pytest.mark.parametrize("author", [{"name": "Ada"}, "Ada", {"name": " Ada\n"}])
@pytest.mark.parametrize("field", ["author", "actor", "sender", "from", "by", "user"])
def test_the_person_is_a_text_or_has_a_name(author: Any, field: str) -> None:
    assert "    - Ada: x · " in mail_of({"about": "t", field: author, "text": "x"}, {"about": "t", "text": "y"})


@pytest.mark.parametrize("author", [7, None, {"id": 7}, ["Ada"], {"name": 7}, "", {"name": " "}])
def test_a_person_without_a_name_is_left_out(author: Any) -> None:
    assert "    - x · " in mail_of({"about": "t", "author": author, "text": "x"}, {"about": "t", "text": "y"})


def test_names_of_authors_are_bold_and_escaped() -> None:
    values = [{"about": "t", "author": name, "text": f"says {name[0]}"} for name in ("Ada <b>& Co", "*B*en")]

    rendered = render(
        summarize(digest_of(*values, {"about": "u", "author": "Eve", "title": "One"}), group_by=["about"])
    )
    blocks = "\n".join(block["text"]["text"] for block in rendered.blocks if block["type"] == "section")

    assert "<b>Ada &lt;b&gt;&amp; Co</b>: says A" in rendered.html
    assert "<b>Eve</b>: One" in rendered.html
    assert "**Ada \\<b\\>&amp; Co**: says A" in rendered.markdown
    assert "**\\*B\\*en**: says" in rendered.markdown
    assert "*Ada &lt;b&gt;&amp; Co*: says A" in blocks
    assert "*Eve*: One" in blocks


def test_a_wording_decides_where_the_author_stands() -> None:
    wording = {"item": "{text} ({author})"}
    values = [{"about": "t", "author": name, "text": f"says {name}"} for name in ("Ada", "Ben")]

    html = Renderer(wording=wording).render(summarize(digest_of(*values), group_by=["about"]), formats=["html"]).html

    assert "says Ada (<b>Ada</b>)" in html


def test_hostile_comments_stay_text_in_one_line() -> None:
    evil = "<script>alert(1)</script>\n\u202e[x](javascript:alert(1)) <!channel> @everyone"
    values = [{"about": "t", "author": evil, "text": f"{number}{evil}", "url": "javascript:1"} for number in range(3)]

    rendered = render(summarize(digest_of(*values, {"about": "u"}), group_by=["about"]))

    assert "<script" not in rendered.html
    assert "@everyone" not in rendered.markdown
    assert "[x](" not in rendered.markdown
    assert not any("<!channel>" in str(block) or "\u202e" in str(block) for block in rendered.blocks)
    assert "\u202e" not in rendered.text + rendered.html


@pytest.mark.parametrize("letter", ["a", "&", "é", "😀"])
@pytest.mark.parametrize(("groups", "subjects"), [(1, 1), (2, 20), (20, 200)])
def test_items_never_make_a_mail_too_long_nor_push_out_a_subject(letter: str, groups: int, subjects: int) -> None:
    values = [
        {
            "group": n % groups,
            "about": n % subjects,
            "text": f"{n}{letter * 900}",
            "url": f"https://x.example/{n}{letter * 90}",
        }
        for n in range(2_000)
    ]
    digest = digest_of(*values)

    with_items, without = (
        render(summarize(digest, group_by=["group", "about"], items=items), title=letter * 500) for items in (5, 1)
    )

    assert_bounded(with_items)
    assert with_items.html.count('class="chip"') == without.html.count('class="chip"')
    assert subjects == 200 or with_items.html.count("&ensp;") > without.html.count("&ensp;") + 4 * groups - 1


def test_a_thousand_items_never_make_a_mail_too_long() -> None:
    values = [{"about": n % 2, "text": f"{n}{'x' * 900}"} for n in range(2_000)]

    rendered = render(summarize(digest_of(*values), group_by=["about"], items=1_000))

    assert_bounded(rendered)
    listed = rendered.text.count("    - ")
    assert listed > 50
    assert f"and {1_000 - listed:,} more" in rendered.text


@pytest.mark.parametrize("letter", ["x", "&", "é"])
def test_a_thousand_items_of_one_subject_never_make_a_notification_too_long(letter: str) -> None:
    links = [f"https://x.example/{n}" for n in range(1_000)]
    values = [{"about": "t", "title": link[18:], "message": letter * 9_000, "url": link} for link in links]

    rendered = render(summarize(digest_of(*values), group_by=["about"], items=1_000))

    assert_bounded(rendered)
    listed = rendered.text.count("\n- ")
    assert listed > 20
    assert f"and {1_000 - listed:,} more" in rendered.text


def test_programs_get_the_keys_of_what_is_listed() -> None:
    values = [{"about": "tea", "text": f"comment {number}"} for number in range(4)]

    summary = summarize(digest_of(*values), group_by=["about"], items=2)
    [subject] = summary.groups[0].subjects

    assert [record.key for record in subject.items] == ["k0", "k1"]
    assert subject.to_dict()["items"] == ["k0", "k1"]


@pytest.mark.parametrize("items", [0, -1, True, 2.0, "5", None])
def test_a_wrong_number_of_items_is_refused(items: Any) -> None:
    with pytest.raises(ConfigError, match=r"items: .* is not a whole number from 1"):
        Grouping(items=items)
