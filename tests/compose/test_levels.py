"""Groups and subjects that are objects: told apart by their id, shown by their title, linked to their page."""

from typing import Any

import pytest

from digestif import ConfigError, Grouping, Record, Renderer, summarize
from digestif.compose.summary import Subject
from tests.compose.comments import COMMENTS
from tests.compose.test_items import digest_of
from tests.compose.test_renderer import ALL, assert_bounded, everywhere

TEA = {"id": 1, "title": "Green tea", "url": "https://blog.example/tea"}
KNOTS = {"id": 2, "title": "Ten knots", "url": "https://blog.example/knots"}
BY_ID = {"by": "post.id", "label": "post.title", "url": "post.url"}


def comment(post: Any, text: str = "Nice", author: str = "Ben", **more: Any) -> dict[str, Any]:
    return {"post": post, "author": {"name": author}, "comment": text, **more}


def subjects_of(*values: Any, **options: Any) -> list[tuple[Any, str, str, int]]:
    (group,) = summarize(digest_of(*values), **options).groups
    return [(subject.key, subject.label, subject.url, subject.count) for subject in group.subjects]


@pytest.mark.parametrize("level", ["post", BY_ID])
def test_objects_with_the_same_id_are_one_subject_with_the_newest_title_and_link(level: Any) -> None:
    renamed = {**TEA, "title": "Greener tea", "url": "https://blog.example/greener", "views": 7}

    found = subjects_of(comment(renamed), comment(KNOTS), comment(TEA), group_by=[level])

    assert found == [
        (1, "Greener tea", "https://blog.example/greener", 2),
        (2, "Ten knots", "https://blog.example/knots", 1),
    ]


@pytest.mark.parametrize(
    ("post", "key", "label"),
    [
        ({"id": 1, "name": "Tea"}, 1, "Tea"),
        ({"key": "t", "subject": "Tea"}, "t", "Tea"),
        ({"id": None, "key": "t", "label": "Tea"}, "t", "Tea"),
        ({"id": 1, "title": " ", "name": "Tea"}, 1, "Tea"),
        ({"id": 1}, 1, "1"),
        ({"id": 1, "title": 7}, 1, "1"),
        ({"title": "Tea"}, {"title": "Tea"}, "Tea"),
        ({"a": 1}, {"a": 1}, '{"a":1}'),
    ],
)
def test_an_object_is_known_by_its_key_and_shown_by_its_name(post: Any, key: Any, label: str) -> None:
    assert subjects_of(comment(post), comment(dict(post)), group_by=["post"]) == [(key, label, "", 2)]


def test_an_object_and_its_bare_id_are_different_subjects() -> None:
    assert len(subjects_of(comment(TEA), comment(1), comment({"key": 1}), group_by=["post"])) == 3


@pytest.mark.parametrize(
    ("post", "label"),
    [({"id": 1}, "1"), ({"id": 1, "title": " "}, "1"), ({"id": 1, "title": 7}, "7"), ({"title": "Tea"}, "other")],
)
def test_without_a_label_the_value_itself_is_shown(post: Any, label: str) -> None:
    [(_, found, _, _)] = subjects_of(comment(post), group_by=[BY_ID])

    assert found == label


def test_fields_of_a_mapping_may_be_functions_and_one_that_raises_stops_no_digest() -> None:
    level = {"by": lambda record: record.value["post"]["id"], "label": lambda record: record.value["post"]["title"]}
    digest = digest_of(comment(TEA), comment({"id": 1}), comment(None))

    summary = summarize(digest, group_by=[level])

    assert [(subject.label, subject.count) for subject in summary.groups[0].subjects] == [
        ("Green tea", 2),
        ("other", 1),
    ]
    assert summary.faults == 1


def test_a_record_stands_under_each_object_of_a_list() -> None:
    values = [{"tags": [TEA, KNOTS], "text": "a"}, {"tags": [TEA], "text": "b"}]

    assert [(label, count) for _, label, _, count in subjects_of(*values, group_by=["tags"])] == [
        ("Green tea", 2),
        ("Ten knots", 1),
    ]


@pytest.mark.parametrize(
    ("names", "labels"), [(["Tea", "Knots"], ["Tea", "Knots"]), (["Tea"], ["1", "2"]), ("Both", ["Both", "Both"])]
)
def test_labels_of_a_list_are_a_list_of_the_same_length(names: Any, labels: list[str]) -> None:
    values = [{"ids": [1, 2], "names": names}]

    found = subjects_of(*values, group_by=[{"by": "ids", "label": "names"}])

    assert sorted(label for _, label, _, _ in found) == sorted(labels)


def test_different_objects_are_counted_by_their_id() -> None:
    values = [comment(TEA), comment({**TEA, "title": "Greener tea"}), comment(KNOTS)]

    summary = summarize(digest_of(*values), distinct={"posts": "post"})

    assert summary.distinct == {"posts": 2}


def test_a_weight_finds_a_subject_by_its_id() -> None:
    def votes(subjects: list[Subject]) -> list[int]:
        return [{2: 12}.get(subject.key, 0) for subject in subjects]

    found = subjects_of(comment(TEA), comment(TEA), comment(KNOTS), group_by=["post"], weight=votes)

    assert [label for _, label, _, _ in found] == ["Ten knots", "Green tea"]


def test_programs_get_the_link_of_a_subject_if_it_is_safe() -> None:
    summary = summarize(digest_of(comment({**TEA, "url": "javascript:1"}), comment(KNOTS)), group_by=["post", "post"])

    assert sorted(group["url"] for group in summary.to_dict()["groups"]) == ["", KNOTS["url"]]
    assert {group["subjects"][0]["url"] for group in summary.to_dict()["groups"]} == {"", KNOTS["url"]}


@pytest.mark.parametrize(
    ("level", "complaint"),
    [
        ({"by": "post.id", "lable": "x"}, "group_by: 'lable': unknown; did you mean label?"),
        ({"label": "post.title"}, 'lacks "by", the field whose values are compared'),
        ({"by": "post..id"}, "group_by: by: the path 'post..id' has an empty step"),
        ({"by": "post.id", "url": 7}, "group_by: url: 7 is neither a path"),
    ],
)
def test_a_wrong_mapping_is_refused(level: Any, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Grouping(group_by=[level])

    assert complaint in str(refused.value)


# In a mail


def mail_of(*values: Any, group_by: Any = ("post",)) -> Any:
    return Renderer(wording=COMMENTS).render(summarize(digest_of(*values), group_by=group_by), formats=ALL)


def test_a_mail_names_posts_by_title_and_shows_neither_ids_nor_json() -> None:
    rendered = mail_of(comment(TEA, "One"), comment(TEA, "Two"), comment(KNOTS, "Three"))

    assert rendered.subject == "Green tea and 1 more (3 comments)"
    assert "2 × Green tea\n" in rendered.text
    assert all("{&#34;id" not in text and '{"id' not in text for text in everywhere(rendered))


def test_a_title_links_to_its_subject_and_a_time_to_its_record() -> None:
    listed = [comment(TEA, text, url=f"https://blog.example/c/{text}") for text in ("one", "two")]
    alone = comment(KNOTS, "three", url="https://blog.example/c/three")

    rendered = mail_of(*listed, alone)

    assert f'href="{TEA["url"]}" style="font-size:15px;line-height:22px;font-weight:600' in rendered.html
    assert rendered.html.count(f'href="{TEA["url"]}"') == 1
    for number in ("one", "two", "three"):
        link = rendered.html.partition(f'href="https://blog.example/c/{number}"')[2]
        assert link.partition(">")[2].startswith("08:")
    assert "[Ten knots](<https://blog.example/knots>) · [08:10](<https://blog.example/c/three>)" in rendered.markdown
    assert "<https://blog.example/knots|Ten knots> · <https://blog.example/c/three|08:10>" in str(rendered.blocks)
    assert "    08:10\n    https://blog.example/knots\n    https://blog.example/c/three\n" in rendered.text


def test_a_lone_record_keeps_its_own_link_for_details() -> None:
    own, without = (mail_of(comment(TEA, **more)).html for more in ({"url": "https://blog.example/c/1"}, {}))

    assert 'href="https://blog.example/c/1" style="display:inline-block;' in own
    assert f'href="{TEA["url"]}" style="display:inline-block;' in without


def test_several_records_of_one_subject_lead_to_it() -> None:
    rendered = mail_of(*(comment(TEA, text, url=f"https://blog.example/c/{text}") for text in ("one", "two")))

    assert rendered.subject == "2 comments on Green tea"
    assert f'href="{TEA["url"]}" style="display:inline-block;' in rendered.html
    assert rendered.html.count("https://blog.example/c/") == 2


def test_a_group_links_to_its_page() -> None:
    rendered = mail_of(comment(TEA, kind="a"), comment(TEA, "Two", kind="b"), group_by=["post", "kind"])

    assert (
        f'<a class="link" href="{TEA["url"]}" style="color:#2456c9;text-decoration:none">Green tea</a>' in rendered.html
    )
    assert f"### [Green tea](<{TEA['url']}>) (" in rendered.markdown


def test_a_subject_whose_id_is_the_key_of_its_record_keeps_its_title() -> None:
    records = [Record(str(n), {"post": {"id": str(n), "title": f"Post {n}"}, "text": "x"}, 100.0 + n) for n in (1, 2)]
    digest = digest_of()

    text = (
        Renderer()
        .render(summarize(type(digest)("mail:ada", "d1", 1, 1, 0, tuple(records)), group_by=["post"]), formats=ALL)
        .text
    )

    assert "Post 1" in text
    assert "2 events about 2 subjects" in text


@pytest.mark.parametrize("letter", ["a", "&", "é"])
def test_links_of_many_subjects_never_make_a_mail_too_long(letter: str) -> None:
    def value(n: int) -> dict[str, Any]:
        page: dict[str, Any] = {"id": n, "title": f"{n}{letter * 90}", "url": f"https://x.example/{n}{letter * 90}"}
        return {"group": {**page, "id": n % 20}, "post": page, "text": letter * 900, "url": f"{page['url']}c"}

    rendered = mail_of(*map(value, range(400)), group_by=["group", "post"])

    assert_bounded(rendered)


# Texts of several lines, and the same text several times


def test_lines_of_a_listed_comment_stay_apart() -> None:
    rendered = mail_of(comment(TEA, "Nice post\n\nSecond paragraph.\r\nThird."), comment(TEA, "Hm"), comment(KNOTS))

    for text in everywhere(rendered):
        assert "Ben: Nice post / Second paragraph. / Third." in text


def test_the_same_comment_of_one_person_several_times_is_told_with_its_number() -> None:
    rendered = mail_of(*[comment(TEA, "+1")] * 3, comment(KNOTS))

    assert "3 × Green tea\n    3 × Ben: +1\n" in rendered.text
    assert "1 × Ten knots\n    Ben: Nice\n" in rendered.text
    assert "\n  3 × **Ben**: +1\n" in rendered.markdown
    assert "Ben · 3 comments · " in mail_of(*[comment(TEA, "+1")] * 3).text


def test_the_same_comments_with_links_of_their_own_are_all_listed() -> None:
    three = [comment(TEA, "+1", url=f"https://blog.example/c/{number}") for number in range(3)]

    for rendered in (mail_of(*three, comment(KNOTS)), mail_of(*three)):
        assert rendered.text.count("- Ben: +1 · 08:1") == 3
        assert all(rendered.html.count(f'href="https://blog.example/c/{number}"') == 1 for number in range(3))
    assert mail_of(*three).subject == "3 comments on Green tea"


def test_more_than_is_listed_is_not_said_to_be_the_same() -> None:
    text = mail_of(*[comment(TEA, "+1")] * 7, comment(KNOTS)).text

    assert "7 × Green tea\n    Ben: +1\n" in text
