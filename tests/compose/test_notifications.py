"""A digest about one subject: what it is called, who wrote it, and how much of it is shown."""

from typing import Any

import pytest

from digestif import Renderer, summarize
from digestif.compose.renderer import Rendered
from tests.compose.comments import COMMENTS
from tests.compose.samples import single
from tests.compose.test_items import digest_of
from tests.compose.test_renderer import ALL, assert_bounded, everywhere, slack_text

LONG = " ".join(f"word{number}" for number in range(300))  # more than 2,000 characters


def comment(text: str, post: str | None = "Why we moved", author: str = "Ben", **more: Any) -> dict[str, Any]:
    return {"post": post, "author": author, "comment": text, **more}


def mail_of(*values: Any, wording: Any = COMMENTS, **options: Any) -> Rendered:
    """The newest value comes first."""
    options = {"group_by": ["post"], "distinct": {"people": "author"}} | options
    return Renderer(wording=wording).render(summarize(digest_of(*values), **options), formats=ALL)


# One record


def test_one_comment_names_its_post_and_its_author_everywhere() -> None:
    rendered = mail_of(comment("I disagree."))

    assert rendered.subject == "Why we moved · Ben: I disagree."
    for text in everywhere(rendered):
        assert "Why we moved" in text
        assert "Ben · Mon 16 Nov 2026, 08:12" in text
        assert "I disagree." in text
        assert "person" not in text
        assert "people" not in text


def test_one_record_with_a_title_is_headed_by_it_and_names_its_group_and_its_subject() -> None:
    alert = {"rule": "Disks", "host": "db-1", "title": "91 % full", "message": "Six hours are left."}

    rendered = mail_of(alert, group_by=["rule", "host"])

    assert rendered.subject == "Disks · db-1 · 91 % full"
    assert rendered.text.startswith("91 % full\nDisks · db-1 · Mon 16 Nov 2026")
    assert all("Disks · db-1 · " in text for text in everywhere(rendered))


def test_a_name_that_the_title_says_is_not_repeated() -> None:
    alert = {"rule": "Disk", "host": "db-1", "title": "The disk of db-1 is full"}

    rendered = mail_of(alert, group_by=["rule", "host"])

    assert rendered.subject == "The disk of db-1 is full"
    assert rendered.text.startswith("The disk of db-1 is full\nMon")
    assert mail_of(alert | {"host": "b-1"}, group_by=["host"]).subject == "b-1 · The disk of db-1 is full"


def test_a_comment_that_happens_to_say_the_name_of_its_post_names_it_nonetheless() -> None:
    assert mail_of(comment("Tea is hot.", post="Tea")).subject == "Tea · Ben: Tea is hot."


def test_a_record_grouped_by_its_author_names_the_author_once() -> None:
    rendered = mail_of(comment("I disagree."), group_by=["author"])

    assert rendered.subject == "Ben: I disagree."
    assert rendered.text.startswith("Ben\nMon")


@pytest.mark.parametrize("post", [None, "", " "])
def test_a_subject_without_a_name_is_not_named(post: Any) -> None:
    rendered = mail_of(comment("I disagree.", post=post))

    assert rendered.subject == "Ben: I disagree."
    assert rendered.text.startswith("I disagree.\nBen · Mon")


def test_one_record_without_grouping_is_headed_by_its_text() -> None:
    rendered = mail_of(comment("I disagree."), group_by=[])

    assert rendered.subject == "Ben: I disagree."
    assert rendered.text.startswith("I disagree.\nBen · Mon")


def test_the_whole_text_of_one_comment_is_shown() -> None:
    for text in everywhere(mail_of(comment(LONG))):
        assert LONG in text.replace("\n", " ")


@pytest.mark.parametrize("letter", ["x", "&", "é", "😀", "<\n", "word "])
def test_a_text_is_cut_at_eight_thousand_characters_with_an_ellipsis(letter: str) -> None:
    rendered = mail_of(comment(letter * 30_000))

    assert_bounded(rendered)
    assert rendered.text.count(letter.strip()) >= 7_999 / len(letter)
    assert all("…" in text for text in everywhere(rendered))


def test_a_long_text_is_divided_over_the_blocks_of_slack() -> None:
    rendered = mail_of(comment("word " * 1_500))

    assert_bounded(rendered)
    assert str(rendered.blocks).count("word") == 1_500


def test_the_fields_of_a_value_without_a_text_stand_in_lines_of_their_own() -> None:
    rendered = mail_of({"post": "Why we moved", "stars": 5, "by": "Ben", "place": {"city": "Bonn"}})

    assert rendered.subject == "Why we moved · Ben"
    assert "\npost: Why we moved\nstars: 5\nplace.city: Bonn\n" in rendered.text
    for text in everywhere(rendered):
        assert "stars: 5" in text
        assert "{" not in text.partition("<body")[2]


def test_a_value_without_text_and_without_grouping_is_said_once() -> None:
    text = mail_of({"stars": 5, "place": "Bonn"}, group_by=[]).text

    assert text.startswith("stars: 5, place: Bonn\nMon")
    assert text.count("Bonn") == 1


# Several records


def test_several_comments_on_a_post_are_headed_by_their_number_and_the_post() -> None:
    rendered = mail_of(*(comment(text) for text in ("I disagree.", "Still.", "First.")))

    assert rendered.subject == "3 comments on Why we moved"
    for text in everywhere(rendered):
        assert "3 comments on Why we moved" in text
        assert "person" not in text
        for each in ("Ben: I disagree.", "Ben: Still.", "Ben: First."):
            assert each in text


def test_without_words_of_its_own_it_is_about_the_subject() -> None:
    assert mail_of(comment("a"), comment("b"), wording=None).subject == "2 events about Why we moved"


def test_records_that_share_their_title_are_headed_by_it() -> None:
    values = [{"title": "Disk is full", "message": text} for text in ("91 %", "90 %")]

    assert mail_of(*values, group_by=["title"]).subject == "2 comments on Disk is full"


def test_several_records_of_a_subject_without_a_name_are_headed_by_their_number() -> None:
    assert mail_of(comment("a", post=None), comment("b", post=None)).subject == "2 comments"


def test_several_records_name_their_group_too() -> None:
    rendered = mail_of(
        *({"rule": "Disks", "host": "db-1", "title": n} for n in "ab"), group_by=["rule", "host"], distinct={}
    )

    assert rendered.subject == "Disks · 2 comments on db-1"
    assert rendered.text.startswith("2 comments on db-1\nDisks · Mon")


def test_records_that_look_the_same_read_as_one_and_say_how_many_they_are() -> None:
    rendered = mail_of(*[{"post": "db-1", "title": "Disk is full", "message": "Six hours are left."}] * 7)

    assert rendered.subject == "db-1 · Disk is full · 7 comments"
    assert rendered.text.startswith("Disk is full\ndb-1 · 7 comments · ")
    assert all("Six hours are left." in text for text in everywhere(rendered))


def test_the_number_of_records_stays_in_a_long_subject() -> None:
    assert render_subject("x" * 500).endswith("… · 7 events")
    assert len(render_subject("x" * 500)) <= 150


def render_subject(text: str) -> str:
    return Renderer().render(single({"text": text}, count=7, label="y" * 90), formats=[]).subject


def test_the_newest_of_several_records_shows_its_text_below_its_title() -> None:
    values = [{"post": "db-1", "title": f"{n} % full", "message": f"{n} hours are left.\nHurry!"} for n in (91, 90)]

    rendered = mail_of(*values)

    assert "- 91 % full · 08:12\n  91 hours are left.\n  Hurry!\n- 90 % full · 08:11\n" in rendered.text
    assert "- 91 % full · 08:12\n  > 91 hours are left.\n  > Hurry\\!\n" in rendered.markdown
    assert all("91 hours are left.\n" in text for text in everywhere(rendered))


@pytest.mark.parametrize("posts", [("Tea", "Tea"), ("Tea", "Tea", "Knots"), ("Tea", "Knots")])
def test_a_listed_comment_is_cut_at_five_hundred_characters_with_an_ellipsis(posts: tuple[str, ...]) -> None:
    rendered = mail_of(*(comment(f"{n}{'x' * 999}", post=post) for n, post in enumerate(posts)))

    for text in everywhere(rendered):
        assert f"Ben: 0{'x' * 498}…" in text
        assert "x" * 499 not in text


# Words


def test_a_headline_of_ones_own_is_used_if_each_subject_has_one_record() -> None:
    rendered = mail_of(comment("a", post="Tea"), comment("b", post="Knots"))

    assert all("2 comments on 2 posts" in text for text in everywhere(rendered))


def test_records_without_grouping_have_a_headline_of_their_own() -> None:
    values = comment("a"), comment("b")

    assert mail_of(*values, group_by=[]).text.startswith("2 comments\n")
    assert mail_of(*values, group_by=[], wording={"headline_each": "New: {records}"}).text.startswith("New: 2 events\n")


@pytest.mark.parametrize(
    ("name", "wording"), [("people", {}), ("users", {}), ("people", {"distinct": {"people": ("reader", "readers")}})]
)
def test_one_different_value_is_not_worth_a_word(name: str, wording: Any) -> None:
    rendered = mail_of(comment("a"), comment("b"), distinct={name: "author"}, wording=wording)

    assert "\nMon 16 Nov" in rendered.text
    assert not any(word in text for word in ("person", "1 user", "reader") for text in everywhere(rendered))


@pytest.mark.parametrize(
    ("name", "wording", "phrase"),
    [
        ("people", {}, "2 people"),
        ("status", {}, "2 status"),
        ("users", {"distinct": {"users": ("a", "Leute")}}, "2 Leute"),
    ],
)
def test_several_different_values_are_counted_by_their_name_or_noun(name: str, wording: Any, phrase: str) -> None:
    rendered = mail_of(comment("a"), comment("b", author="Eve"), distinct={name: "author"}, wording=wording)

    assert all(f"{phrase} · Mon" in text for text in everywhere(rendered))


# Links


LINKS = {"open": "https://blog.example/", "inbox": "https://blog.example/inbox", "settings": "https://blog.example/s"}


def links_of(*values: Any) -> list[set[str]]:
    """The labels of the links that stand for themselves, in each format."""
    made = Renderer().render(summarize(digest_of(*values), group_by=["post"]), formats=ALL, links=LINKS)
    labels = {"View details", "Open", "Inbox", "Settings"}
    foot = "\n".join(made.text.splitlines()[-4:])
    texts = [foot, made.html, made.markdown, slack_text(made)]
    return [{label for label in labels if label in text} for text in texts]


def test_a_message_with_a_link_of_its_own_has_no_other_one_to_open() -> None:
    text, html, markdown, slack = links_of(comment("a", url="https://blog.example/c/1"))

    assert text == markdown == {"Inbox", "Settings"}
    assert html == slack == {"View details", "Inbox", "Settings"}


@pytest.mark.parametrize(
    "values",
    [
        [comment("a")],
        [comment("a", url="javascript:1")],
        [comment("a", url="https://blog.example/c/1"), comment("b", post="Tea")],
        [comment(text, url=f"https://blog.example/c/{text}") for text in "ab"],
    ],
)
def test_any_other_message_has_the_link_of_its_route_to_open(values: list[Any]) -> None:
    assert all(found == {"Open", "Inbox", "Settings"} for found in links_of(*values))
