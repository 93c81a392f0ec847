"""Details: readers see the fields of a value, and never those that look like secrets."""

import json
import re
from typing import Any

import pytest

from digestif.compose.details import MOST_DETAILS, Detail, Details
from digestif.compose.grouping import summarize
from digestif.compose.hidden import hidden_fields
from digestif.compose.renderer import Rendered, Renderer
from digestif.compose.times import Times
from digestif.core.records import Record
from digestif.core.secret import is_secret_name
from digestif.errors import ConfigError

FORMATS = ("text", "html", "markdown", "slack")


def rendered(*values: Any, details: Any = None, **grouping: Any) -> Rendered:
    records = [Record(f"r{place}", value, 1_794_816_720.0 + 60 * place) for place, value in enumerate(values)]
    return Renderer(details=details).render(summarize(records, **grouping), formats=FORMATS)


def in_each_format(made: Rendered) -> dict[str, str]:
    return {
        "text": made.text,
        "html": made.html,
        "markdown": made.markdown,
        "slack": json.dumps(made.blocks, ensure_ascii=False),
    }


def disk(host: str, percent: int, **more: Any) -> dict[str, Any]:
    return {"title": "Disk almost full", "host": host, "severity": "critical", "percent": percent, **more}


@pytest.mark.parametrize("form", FORMATS)
def test_the_fields_of_a_single_record_are_shown(form: str) -> None:
    text = in_each_format(rendered(disk("web-3", 97)))[form].replace("\\", "")

    assert "host: web-3 · severity: critical · percent: 97" in text


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("group_by", [[], ["title"]])
def test_three_hosts_with_one_title_are_told_apart(form: str, group_by: list[str]) -> None:
    text = in_each_format(rendered(disk("web-1", 91), disk("web-2", 95), disk("web-3", 97), group_by=group_by))[form]

    places = [text.replace("\\", "").index(host) for host in ("web-3", "web-2", "web-1")]
    assert places == sorted(places)


def test_records_with_the_same_fields_are_a_table_in_html() -> None:
    html = rendered(disk("web-1", 91), disk("web-2", 95), group_by=["title"]).html

    assert html.count('scope="col"') == 3
    assert html.index(">host</th>") < html.index(">percent</th>") < html.index(">web-2</td>")


def test_records_with_other_fields_are_lines() -> None:
    made = rendered(disk("web-1", 91), disk("web-2", 95, zone="b"), group_by=["title"])

    assert 'scope="col"' not in made.html
    assert "host: web-2 · severity: critical · percent: 95 · zone: b" in made.html


def test_a_table_has_at_most_four_columns() -> None:
    values = [disk(f"web-{n}", n, zone="b", rack=n) for n in range(3)]

    assert 'scope="col"' not in rendered(*values, group_by=["title"]).html


SECRET_NAMES = (
    "token",
    "accessToken",
    "access_token",
    "X-Api-Key",
    "APIKey",
    "db_password",
    "Authorization",
    "auth",
    "client-secret",
    "session",
    "sessionId",
    "Set-Cookie",
    "credentials",
    "privateKey",
    "pwd",
    "PIN",
    "dbpwd",
    "DBPass",
    "userpass",
    "X-XSRF",
    "totp_code",
    "signing-key",
    "encryptionKey",
    "ConnectionString",
)


@pytest.mark.parametrize("name", SECRET_NAMES)
@pytest.mark.parametrize("title", [{"title": "Signed in"}, {}])
def test_a_field_that_looks_like_a_secret_is_in_no_message(name: str, title: dict[str, str]) -> None:
    made = rendered({**title, "city": "Oslo", name: "hunter2", "_trace": "hunter3"})

    for text in in_each_format(made).values():
        assert "hunter" not in text
        assert "Oslo" in text


@pytest.mark.parametrize("name", ["_trace", " _trace", "\u200b_trace"])
@pytest.mark.parametrize("title", [{"title": "Signed in"}, {}])
def test_a_field_whose_name_begins_with_an_underscore_as_people_see_it_is_in_no_message(
    name: str, title: dict[str, str]
) -> None:
    for text in in_each_format(rendered({**title, "city": "Oslo", name: "hunter2"})).values():
        assert "hunter2" not in text
        assert "Oslo" in text


def test_a_field_with_an_endless_name_is_hidden_without_a_search_for_secrets_in_it() -> None:
    value = {"title": "Signed in", "x" * 100_000: "Oslo", "city": "Oslo"}

    assert Details().of(Record("r", value, 1.0), "Signed in") == [Detail("city", "Oslo")]
    assert list(Details().hidden([Record("r", value, 1.0)]).values()) == ["its name is too long"]


@pytest.mark.parametrize("name", ["author", "host", "spinning", "compass", "authored_by", "passenger", "shipping"])
def test_an_ordinary_name_is_not_taken_for_a_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_what_a_message_says_anyway_is_not_repeated() -> None:
    value = {
        "title": "Build 7 failed",
        "message": "Step 3 ended with 1",
        "author": "Ada",
        "url": "https://ci.example/7",
        "branch": "main",
    }

    text = rendered(value).text

    assert text.count("Build 7 failed") == text.count("Step 3 ended with 1") == text.count("Ada") == 1
    assert text.count("https://ci.example/7") == 1
    assert "\nbranch: main\n" in text


def test_a_field_by_which_records_are_grouped_is_not_repeated() -> None:
    values = [{"title": f"Job {n} failed", "project": "web-shop", "tries": n} for n in range(2)]

    text = rendered(*values, group_by=["project"]).text

    assert text.count("web-shop") == 1
    assert "tries: 1" in text


def test_at_most_eight_fields_are_shown_and_objects_are_not() -> None:
    fields = {f"field{n}": n for n in range(MOST_DETAILS + 2)}

    text = rendered({"title": "Much", "labels": {"a": 1}, "hosts": ["b"], **fields}).text

    assert text.count("field") == MOST_DETAILS
    assert "labels" not in text
    assert "hosts" not in text


def test_chosen_fields_are_shown_in_their_order_also_from_inside_of_objects() -> None:
    made = rendered(disk("web-3", 97, labels={"zone": "b"}), details=["percent", "labels.zone", "missing"])

    assert "\npercent: 97 · zone: b\n" in made.text
    assert "severity" not in made.text


def test_an_empty_choice_hides_all_fields() -> None:
    assert "web-3" not in rendered(disk("web-3", 97), details=[]).text


@pytest.mark.parametrize("chosen", ["host", [1], {"host": 1}, ["a..b"], [f"f{n}" for n in range(9)]])
def test_a_choice_that_can_not_be_read_is_refused_by_its_name(chosen: Any) -> None:
    with pytest.raises(ConfigError, match="details"):
        Details(chosen)


def test_hostile_names_and_texts_are_short_and_escaped() -> None:
    value = {
        "title": "x",
        "<script>" * 20: "<b>&" * 200,
        "line\nbreak": "two\nlines",
        " \u200b": "nameless",
        "huge": 10**400,
        "nan": float("nan"),
    }

    made = rendered(value)

    assert "<script>" not in made.html
    assert "<b>" not in made.html
    assert "line break: two lines" in made.text
    assert "huge" not in made.text
    assert "nameless" not in made.text
    assert len(made.text) < 400


@pytest.mark.parametrize("form", FORMATS)
def test_a_thousand_records_with_many_fields_stay_within_the_size_of_a_message(form: str) -> None:
    values = [{"title": f"Alert {n % 200}", **{f"f{k}": "<&>" * 30 for k in range(8)}} for n in range(1000)]

    text = in_each_format(rendered(*values, group_by=["title"], top=200))[form]

    assert len(text.encode()) < 102_000


def test_alerts_whose_titles_differ_by_a_status_only_are_told_apart() -> None:
    def alert(status: str, host: str) -> dict[str, str]:
        return {"title": f"{status}: DiskFull", "message": f"The disk of {host} is 97 % full", "rule": "disk"}

    values = [alert("FIRING", "web-1"), alert("FIRING", "web-2"), alert("RESOLVED", "web-1")]

    text = rendered(*values, group_by=["rule"]).text

    assert "- RESOLVED: DiskFull: The disk of web-1 is 97 % full" in text
    assert "- FIRING: DiskFull: The disk of web-2 is 97 % full" in text
    assert "- FIRING: DiskFull: The disk of web-1 is 97 % full" in text
    assert text.count("web-1") == 2


def test_titles_that_tell_records_apart_stand_alone() -> None:
    values = [{"title": f"Build {n} failed", "message": f"Step {n} of the pipeline failed", "p": "w"} for n in range(3)]

    lines = rendered(*values, group_by=["p"]).text.splitlines()

    assert [line.split(" · ")[0] for line in lines if line.startswith("- ")] == [
        "- Build 2 failed",
        "- Build 1 failed",
        "- Build 0 failed",
    ]


def test_hidden_fields_are_named_with_the_reason() -> None:
    value = disk("web-3", 97, token="t", _id=1, labels={"a": 1}, nothing=None, **{f"f{n}": n for n in range(6)})

    assert Details().hidden(Record("r", value, 0.0)) == {
        "token": "its name looks like that of a secret",
        "_id": "its name begins with _",
        "labels": "it is not a single value; details can name a path into it",
        "f5": "more than 8 fields",
    }
    assert set(Details(["host"]).hidden(Record("r", disk("web-3", 97), 0.0))) == {"severity", "percent"}


PAYMENT = {"title": "Payment failed", "amount": 99, "text": "Card declined: insufficient funds"}
BACKUP = {"title": "Backup done"}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("group_by", [[], ["title"]])
def test_a_line_of_the_longer_text_follows_the_title_of_a_record(form: str, group_by: list[str]) -> None:
    text = in_each_format(rendered(PAYMENT, BACKUP, group_by=group_by))[form]

    assert re.search(r"Payment failed.*Card declined: insufficient funds.*amount: 99", text, re.DOTALL)
    assert text.count("Card declined") == 1


def test_the_longer_text_stands_behind_a_title_that_is_not_the_label() -> None:
    text = rendered(PAYMENT | {"user": "Ada", "team": "web"}, BACKUP | {"team": "api"}, group_by=["team"]).text

    assert "- web\n    Ada: Payment failed: Card declined: insufficient funds\n    amount: 99\n" in text


def test_records_that_look_the_same_share_a_line_of_their_longer_text() -> None:
    assert "2 × Payment failed\n    Card declined: insufficient funds\n" in (
        rendered(PAYMENT, PAYMENT, BACKUP, group_by=["title"]).text
    )


def test_a_longer_text_is_one_line_that_is_cut() -> None:
    text = rendered({"title": "Payment failed", "text": "First\n\nsecond " + "x" * 500}, BACKUP).text

    assert "- Payment failed\n    First / second " + "x" * 144 + "…\n" in text


@pytest.mark.parametrize("text", ["Card declined", "Card declined " * 20])
def test_a_longer_text_that_is_the_name_of_its_subject_is_not_repeated(text: str) -> None:
    values = [{"title": "Payment failed", "text": text}, {"title": "Backup done", "text": "None"}]

    assert re.search(r"- Card declined.*\n    Payment failed\n    08:12\n", rendered(*values, group_by=["text"]).text)


def test_a_longer_text_that_details_name_is_not_repeated() -> None:
    text = rendered(PAYMENT, BACKUP, details=["text", "amount"]).text

    assert "- Payment failed\n    text: Card declined: insufficient funds · amount: 99\n" in text


def test_without_room_the_longer_texts_are_left_out_first() -> None:
    values = [PAYMENT | {"title": f"Payment {number}", "text": "x" * 500} for number in range(150)]

    made = rendered(*values, top=150)

    assert made.text.count("- Payment ") == 150
    assert 0 < made.text.count("x" * 159) < 150
    assert len(made.html.encode()) < 102_000


def hidden(*values: Any, details: Any = None, **grouping: Any) -> dict[str, str]:
    records = [Record(f"r{place}", value, 60.0 * place) for place, value in enumerate(values)]
    return hidden_fields(summarize(records, **grouping), Details(details), Times("UTC", 24))


LONGER = "a longer text, shown if its record stands alone"
SAME = {"title": "Payment failed", "text": "Card declined"}


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ([PAYMENT], {}),
        ([PAYMENT, BACKUP], {}),
        ([PAYMENT, PAYMENT, BACKUP], {}),
        ([SAME | {"amount": 1}, SAME | {"amount": 2}, BACKUP], {"text": LONGER}),
        ([SAME | {"amount": 1}, SAME | {"amount": 2}], {}),  # the first of the list has its text below it
        ([SAME, SAME | {"text": "Card expired"}, BACKUP], {}),
        ([SAME | {"text": "Card declined\nb"}, SAME | {"text": "Card declined\nc"}, BACKUP], {}),
        ([PAYMENT | {"description": "Not seen"}], {"description": "another longer text is shown"}),
        ([PAYMENT | {"description": "Not seen"}, BACKUP], {"description": LONGER}),
    ],
)
def test_what_is_said_to_be_hidden_is_what_the_whole_digest_hides(values: list[Any], fields: dict[str, str]) -> None:
    assert hidden(*values, group_by=["title"]) == fields

    text = rendered(*values, group_by=["title"]).text
    assert ("Card declined" in text) == ("text" not in fields)


def test_details_that_too_many_alike_records_hide_are_named() -> None:
    values = [disk("web-3", 97)] * 20

    assert set(hidden(*values, BACKUP, group_by=["title"])) == {"host", "severity", "percent"}
    assert set(hidden(*values, group_by=["title"])) == {"host", "severity", "percent"}
    assert hidden(*values, BACKUP, group_by=["title"], items=20) == {}


SEVERITIES = {"by": "severity", "order": ["critical", "warning", "info"]}


def test_a_field_and_an_order_weigh_subjects() -> None:
    values = [
        {"title": "a", "severity": "info"},
        {"title": "b", "severity": "Critical"},
        {"title": "c", "severity": "warning"},
        {"title": "d", "severity": "odd"},
        *({"title": "b", "severity": "info"} for _ in range(8)),
    ]
    records = [Record(str(place), value, float(place)) for place, value in enumerate(values)]

    made = summarize(records, group_by=["title"], weight=SEVERITIES)

    assert [(each.label, each.weight) for each in made.groups[0].subjects] == [("b", 3), ("c", 2), ("a", 1), ("d", 0)]


def alerts_of(*levels: str) -> list[Record]:
    """Alerts with one title: each says its place, the last one is the newest."""
    values = [{"title": "Down", "severity": level, "text": f"alert {place}"} for place, level in enumerate(levels)]
    return [Record(str(place), value, 60.0 * place) for place, value in enumerate(values)]


@pytest.mark.parametrize("others", [[], [Record("other", {"title": "Backup done"}, 0.0)]], ids=["alone", "of two"])
@pytest.mark.parametrize("form", FORMATS)
def test_the_heaviest_records_of_a_subject_are_listed_first_then_the_newest(form: str, others: list[Record]) -> None:
    records = [*alerts_of("critical", *["warning"] * 5, "info"), *others]

    summary = summarize(records, group_by=["title"], weight=SEVERITIES, items=3)

    subject = summary.groups[0].subjects[0]
    assert [record.key for record in subject.items] == ["0", "5", "4"]
    assert subject.newest.key == "6"
    text = in_each_format(Renderer().render(summary, formats=FORMATS))[form]
    assert re.findall(r"alert (\d)", text)[-3:] == ["0", "5", "4"]
    assert "and 4 more" in text


def test_with_the_oldest_first_the_heaviest_records_are_read_downwards() -> None:
    records = [*alerts_of("warning", "critical", *["warning"] * 5), Record("other", {"title": "Backup done"}, 0.0)]

    summary = summarize(records, group_by=["title"], weight=SEVERITIES, items=3)
    text = Renderer(order="oldest").render(summary, formats=["text"]).text

    assert re.findall(r"alert (\d)", text) == ["1", "5", "6"]
    assert "and 4 more" in text  # they are not all earlier
    assert "earlier" not in text


def test_among_equal_weights_the_newest_records_are_listed_and_the_others_are_earlier() -> None:
    summary = summarize(alerts_of(*["warning"] * 5), group_by=["title"], weight=SEVERITIES, items=3)

    assert [record.key for record in summary.items] == ["4", "3", "2"]
    assert "2 earlier" in Renderer(order="oldest").render(summary, formats=["text"]).text


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"by": "severity"}, "is not like"),
        ({"by": "severity", "order": []}, "is not like"),
        ({"by": "severity", "ordr": ["a"]}, "did you mean order"),
        ({"by": 1, "order": ["a"]}, "is not like"),
    ],
)
def test_a_weight_that_can_not_be_read_is_refused(weight: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        summarize([Record("r", 1, 0.0)], weight=weight)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("url", "javascript:alert(7)"),
        ("docs_url", "JavaScript:alert(7)"),
        ("note", " vbscript:alert(7)"),
        ("callbackUrl", "file:///etc/alert(7)"),
        ("icon", "data:text/html,alert(7)"),
        ("database", "postgres://app:alert(7)@db.example/shop"),
    ],
)
def test_a_link_that_is_refused_and_an_address_with_a_password_are_not_shown(form: str, name: str, text: str) -> None:
    value = {"title": "Sent", name: text, "host": "web-3"}

    made = in_each_format(rendered(value))[form]

    assert "alert" not in made
    assert "web-3" in made
    assert list(Details().hidden(Record("r", value, 0.0))) == [name]


def test_a_link_among_the_fields_can_be_followed() -> None:
    made = rendered({"title": "Disk almost full", "runbook_url": "https://wiki.example/disk?a=1&b=2"})

    assert 'href="https://wiki.example/disk?a=1&amp;b=2"' in made.html
    assert "runbook_url: https://wiki.example/disk?a=1&b=2\n" in made.text


@pytest.mark.parametrize("values", [1, 2], ids=["single", "list"])
def test_links_that_are_too_long_for_one_block_of_slack_are_whole_in_the_next(values: int) -> None:
    links = {f"link-{number}": f"https://shop.example/{'a' * 175}{number}" for number in range(MOST_DETAILS)}

    made = rendered(
        *({"title": "Build", "commit": f"c{number}", **links} for number in range(values)), details=[*links]
    )

    texts = [block["text"]["text"] for block in made.blocks if block["type"] == "section"]
    assert max(map(len, texts)) <= 3000
    assert all(f"<{url}|{url}>" in "".join(texts) for url in links.values())


def test_truth_values_and_numbers_read_as_json_writes_them() -> None:
    text = rendered({"title": "Saved", "muted": True, "load": 0.25, "at": "2026-11-16T08:12:00Z", "size": 10**15}).text

    assert "muted: true · load: 0.25 · at: 2026-11-16T08:12:00Z · size: 1000000000000000" in text


def test_a_field_that_the_operator_chose_is_shown_whatever_its_name_or_length() -> None:
    value = {"title": "Bill", "usage": {"tokens": 812}, "id": 7, "tags": ["eu", "prod"], "message": "Due"}

    text = rendered(value, details=["usage.tokens", "id", "tags"]).text

    assert "tokens: 812 · id: 7 · tags: eu, prod" in text


def test_a_number_by_which_records_are_grouped_is_not_repeated() -> None:
    values = [{"title": f"Job {n} failed", "rack": 7, "tries": n + 20} for n in range(2)]

    assert "rack" not in rendered(*values, {"title": "x", "rack": 8}, group_by=["rack", "title"]).text


def test_an_address_with_a_password_is_not_the_title_of_a_value_without_one() -> None:
    value = {"database": "postgres://app:hunter2@db.example/shop", "rows": 3}

    made = in_each_format(rendered(value))

    assert not any("hunter2" in text for text in made.values())
    assert Details().hidden(Record("r", value, 0.0)) == {"database": "an address with a password in it"}
