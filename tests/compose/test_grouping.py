"""From the records of a digest to groups and subjects: exact counts, in an order that does not depend on chance."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digestif.compose.grouping import Grouping, summarize
from digestif.compose.summary import Group, Subject, Summary
from digestif.core.records import Digest, Record
from digestif.errors import ConfigError


def digest_of(*values: Any, times: Sequence[float] | None = None, dropped: int = 0) -> Digest:
    """A digest of these values, the first the newest."""
    moments = times or range(len(values), 0, -1)
    records = tuple(
        Record(f"k{n}", value, float(at)) for n, (value, at) in enumerate(zip(values, moments, strict=True))
    )
    return Digest("mail:ada", "d1", 1, 1, dropped, records)


def labels(parts: Sequence[Subject] | Sequence[Group]) -> list[str]:
    return [part.label for part in parts]


def issue(rule: Any, name: Any, user: Any = None) -> dict[str, Any]:
    return {"rule": rule, "issue": name, "user": {"id": user}}


# Groups and subjects


def test_records_are_found_under_their_subject_and_subjects_under_their_group() -> None:
    """Fact 36: group → subject → records; subjects by count, groups by number of subjects, both falling."""
    busy = [issue("errors", "timeout")] * 2 + [issue("errors", "crash")] * 3
    loud = [issue("deploys", "api")] * 6
    wide = [issue("tests", name) for name in ("a", "b", "c")]

    summary = summarize(digest_of(*busy, *loud, *wide), group_by=["rule", "issue"])

    assert labels(summary.groups) == ["tests", "errors", "deploys"]
    assert [(subject.label, subject.count) for subject in summary.groups[1].subjects] == [("crash", 3), ("timeout", 2)]
    assert [(group.size, group.count) for group in summary.groups] == [(3, 3), (2, 5), (1, 6)]
    assert (summary.count, summary.subjects, summary.more, summary.more_records) == (14, 6, 0, 0)


def test_a_digest_with_one_subject_reads_as_a_single_notification_of_its_newest_record() -> None:
    """Fact 36: a digest with one subject only reads as an ordinary single notification of its newest record."""
    digest = digest_of(*[issue("errors", "crash", user) for user in range(3)])

    assert summarize(digest, group_by=["rule", "issue"]).single == digest[0]
    assert summarize(digest, group_by=["issue"]).single == digest[0]
    assert summarize(digest).single is None
    assert summarize(digest_of("alone")).single == Record("k0", "alone", 1.0)


def test_one_subject_in_each_of_two_groups_is_no_single_notification() -> None:
    assert summarize(digest_of(issue("a", "x"), issue("b", "x")), group_by=["rule", "issue"]).single is None


# Records in several groups


def test_a_record_stands_in_each_group_of_its_list_and_counts_once_in_the_total() -> None:
    """Fact 71: a record in two groups stands in both, is counted once in the total."""
    both, other = issue(["errors", "payments"], "crash", 1), issue("errors", "slow", 2)

    summary = summarize(digest_of(both, other), group_by=["rule", "issue"], distinct={"users": "user.id"})

    assert [(group.label, group.count, labels(group.subjects)) for group in summary.groups] == [
        ("errors", 2, ["crash", "slow"]),
        ("payments", 1, ["crash"]),
    ]
    assert (summary.count, summary.subjects, summary.distinct) == (2, 2, {"users": 2})


def test_one_subject_in_two_groups_still_reads_as_a_single_notification() -> None:
    """Fact 71: the digest still reads as single if there is one subject."""
    digest = digest_of(issue(["a", "b"], "x"), issue(["b", "c"], "x"), issue("c", "x"))

    assert summarize(digest, group_by=["rule", "issue"]).single == digest[0]


def test_subjects_of_one_name_that_share_no_record_are_two() -> None:
    digest = digest_of(issue(["a", "b"], "x"), issue("c", "x"), issue("c", "x"))

    summary = summarize(digest, group_by=["rule", "issue"])

    assert (summary.subjects, summary.single) == (2, None)


def test_a_record_stands_under_each_subject_of_its_list() -> None:
    digest = digest_of({"tags": ["tea", "pots"]}, {"tags": ["tea"]}, {"tags": "tea"}, {"tags": []})

    (group,) = summarize(digest, group_by=["tags"]).groups

    assert [(subject.label, subject.count) for subject in group.subjects] == [("tea", 3), ("pots", 1), ("other", 1)]
    assert group.count == 4


def test_both_levels_may_be_lists() -> None:
    summary = summarize(digest_of(issue(["a", "b"], ["x", "y"])), group_by=["rule", "issue"])

    assert {group.label: sorted(labels(group.subjects)) for group in summary.groups} == {
        "a": ["x", "y"],
        "b": ["x", "y"],
    }
    assert (summary.count, summary.subjects) == (1, 2)


def test_a_value_that_is_in_a_list_twice_counts_once() -> None:
    (group,) = summarize(digest_of(issue(["a", "a"], "x")), group_by=["rule", "issue"]).groups

    assert (group.label, group.count) == ("a", 1)


def test_what_is_not_shown_counts_a_record_once_too() -> None:
    digest = digest_of(issue(["a", "b", "c"], "x"), issue(["b", "c"], "y"), issue("a", ["z", "z2"]))

    few = summarize(digest, group_by=["rule", "issue"], top=1, top_groups=1)

    assert (few.more, few.more_records) == (2, 2)
    assert (few.groups[0].label, few.groups[0].more, few.groups[0].more_records) == ("a", 2, 1)


def test_a_bad_value_in_a_list_is_a_fault_of_its_record_alone() -> None:
    summary = summarize(digest_of(issue([object(), "a"], "x"), issue("a", "y")), group_by=["rule", "issue"])

    assert summary.faults == 1
    assert {group.label: group.count for group in summary.groups} == {"a": 2, "other": 1}


def test_of_a_long_list_the_first_twenty_count() -> None:
    digest = digest_of(*[issue(list(range(100_000)), list(range(100_000)))] * 20)

    summary = summarize(digest, group_by=["rule", "issue"], top_groups=99)

    assert (len(summary.groups), summary.groups[0].size, summary.count) == (20, 20, 20)


@pytest.mark.parametrize(("subjects", "shown", "more"), [(9, 9, 0), (10, 10, 0), (11, 10, 1), (2_000, 10, 1_990)])
def test_ten_subjects_are_shown_and_the_others_counted(subjects: int, shown: int, more: int) -> None:
    """Fact 37: at most 10 subjects per group are shown, and how many more there are is said."""
    values = [issue("errors", f"i{n}") for n in range(subjects)] + [issue("errors", "i0")] * 5

    (group,) = summarize(digest_of(*values), group_by=["rule", "issue"]).groups

    assert (len(group.subjects), group.more, group.size) == (shown, more, subjects)
    assert group.more_records == more
    assert (group.subjects[0].label, group.subjects[0].count) == ("i0", 6)


def test_twenty_groups_are_shown_and_the_others_counted() -> None:
    values = [issue(f"r{n}", m) for n in range(23) for m in range(2)]

    summary = summarize(digest_of(*values), group_by=["rule", "issue"])

    assert (len(summary.groups), summary.more, summary.more_records, summary.subjects) == (20, 3, 6, 46)


def test_how_many_are_shown_can_be_chosen() -> None:
    values = [issue(rule, name) for rule in "ab" for name in "xyz"]

    summary = summarize(digest_of(*values), group_by=["rule", "issue"], top=1, top_groups=1)

    assert (len(summary.groups), summary.more, summary.more_records) == (1, 1, 3)
    assert (len(summary.groups[0].subjects), summary.groups[0].more, summary.groups[0].more_records) == (1, 2, 2)


def test_the_records_of_subjects_that_are_not_shown_are_counted_too() -> None:
    values = [issue("errors", name) for name in "aaaabbbccd"]

    (group,) = summarize(digest_of(*values), group_by=["rule", "issue"], top=1).groups

    assert (group.more, group.more_records, group.count) == (3, 6, 10)


def test_one_level_gives_subjects_in_one_group_without_a_label() -> None:
    (group,) = summarize(digest_of(issue("a", "x"), issue("b", "x"), issue("b", "y")), group_by=["issue"]).groups

    assert (group.label, group.key) == ("", None)
    assert labels(group.subjects) == ["x", "y"]


def test_without_levels_every_record_is_a_subject_of_one_group_newest_first() -> None:
    (group,) = summarize(digest_of("c", "b", "a")).groups

    assert group.label == ""
    assert [(subject.key, subject.newest.value) for subject in group.subjects] == [
        ("k0", "c"),
        ("k1", "b"),
        ("k2", "a"),
    ]


def test_first_and_last_times_and_the_newest_record_are_those_of_the_part() -> None:
    digest = digest_of(issue("a", "x", 1), issue("a", "y", 2), issue("a", "x", 3), times=[30, 20, 10.5])

    summary = summarize(digest, group_by=["rule", "issue"])
    x, y = summary.groups[0].subjects

    assert (x.first, x.last, x.newest) == (10.5, 30, digest[0])
    assert (y.first, y.last, y.newest) == (20, 20, digest[1])
    assert (summary.first, summary.last, summary.newest) == (10.5, 30, digest[0])
    assert (summary.groups[0].first, summary.groups[0].last) == (10.5, 30)


def test_the_newest_record_is_found_in_any_order_and_of_one_moment_it_is_the_first() -> None:
    digest = digest_of("old", "late", "later arrival is first", times=[1, 5, 5])

    assert summarize(digest).newest.value == "late"


def test_what_capacity_pushed_out_is_said() -> None:
    assert summarize(digest_of(1, dropped=7)).dropped == 7


def test_an_empty_digest_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the digest d1 of 'mail:ada' is empty"):
        summarize(digest_of())


# Distinct counts


def test_different_values_are_counted_for_subjects_groups_and_the_whole() -> None:
    values = [issue("a", "x", 1), issue("a", "x", 1), issue("a", "y", 2), issue("b", "x", 1), issue("b", "x", 3)]

    summary = summarize(digest_of(*values), group_by=["rule", "issue"], distinct={"users": "user.id"})
    a, b = summary.groups

    assert summary.distinct == {"users": 3}
    assert (a.distinct, b.distinct) == ({"users": 2}, {"users": 2})
    assert [subject.distinct["users"] for subject in a.subjects] == [1, 1]


def test_none_and_what_is_missing_are_not_counted_as_different_values() -> None:
    values = [issue("a", "x"), issue("a", "x", 1), "nothing like it", {"user": {}}]

    summary = summarize(digest_of(*values), distinct={"users": "user.id"})

    assert summary.distinct == {"users": 1}
    assert [subject.distinct["users"] for subject in summary.groups[0].subjects] == [1, 0, 0, 0]


def test_subjects_of_equal_count_are_ordered_by_distinct_counts_in_the_order_given() -> None:
    values = [
        *[{"is": "x", "user": user, "host": 1} for user in (1, 2)],
        *[{"is": "y", "user": 1, "host": host} for host in (1, 2)],
    ]

    by_user = summarize(digest_of(*values), group_by=["is"], distinct={"users": "user", "hosts": "host"})
    by_host = summarize(digest_of(*values), group_by=["is"], distinct={"hosts": "host", "users": "user"})

    assert labels(by_user.groups[0].subjects) == ["x", "y"]
    assert labels(by_host.groups[0].subjects) == ["y", "x"]


# Order


def test_ties_go_to_the_later_one_then_by_label_then_by_kind() -> None:
    values = ["b", "a", "1", 1, "late"]
    times = [1, 1, 1, 1, 2]

    by_subject = summarize(digest_of(*values, times=times), group_by=[lambda record: record.value])
    by_group = summarize(digest_of(*values, times=times), group_by=[lambda record: record.value, "nothing"])

    assert [subject.key for subject in by_subject.groups[0].subjects] == ["late", 1, "1", "a", "b"]
    assert [group.key for group in by_group.groups] == ["late", 1, "1", "a", "b"]


def test_groups_of_as_many_subjects_go_by_count_then_to_the_later_one_then_by_label() -> None:
    values = [issue("b", 1), issue("a", 1), issue("late", 1), issue("twice", 1), issue("twice", 1)]

    summary = summarize(digest_of(*values, times=[1, 1, 2, 1, 1]), group_by=["rule", "issue"])

    assert labels(summary.groups) == ["twice", "late", "a", "b"]


# Weights


def test_subjects_come_in_the_order_of_numbers_from_outside_before_they_are_cut() -> None:
    stars = {"a": 3, "b": 9.5, "c": 9.5, "d": -1}
    digest = digest_of(*[issue("r", name) for name in "aaabccd"])

    (group,) = summarize(
        digest, group_by=["issue"], top=3, weight=lambda subjects: [stars[subject.key] for subject in subjects]
    ).groups

    assert [(subject.label, subject.weight) for subject in group.subjects] == [("c", 9.5), ("b", 9.5), ("a", 3)]
    assert (group.more, group.more_records) == (1, 1)


def test_a_weight_is_asked_once_for_the_subjects_of_all_groups() -> None:
    asked: list[list[str]] = []

    def weigh(subjects: list[Subject]) -> list[int]:
        asked.append(labels(subjects))
        return [0] * len(subjects)

    weighed = summarize(digest_of(issue("a", "x"), issue("b", "y")), group_by=["rule", "issue"], weight=weigh)

    assert asked == [["x", "y"]]
    assert weighed == summarize(digest_of(issue("a", "x"), issue("b", "y")), group_by=["rule", "issue"])


WEIGHTS: list[tuple[list[Any], str]] = [
    ([(1, 5), (2, 0), (1, 7)], "bca"),
    ([(1,), (1, 0), (1, -1)], "bca"),  # as Python compares them: a beginning is less than the whole
    ([(), (0,), (-1,)], "bca"),
    ([0, (3, 1), (0, 1)], "bca"),  # a number is like the tuple of it alone
    ([(0,), 0, (0,)], "abc"),  # equal: the newest first
    ([(1e300, 1), (1e300, 2), (-1e300, 9)], "bac"),
]


@pytest.mark.parametrize(("weights", "order"), WEIGHTS)
def test_weights_may_be_tuples(weights: list[Any], order: str) -> None:
    given = dict(zip("abc", weights, strict=True))
    digest = digest_of(*[issue("r", name) for name in "abc"])

    weighed = summarize(
        digest, group_by=["issue"], weight=lambda subjects: [given[subject.key] for subject in subjects]
    )

    assert "".join(labels(weighed.groups[0].subjects)) == order
    assert {subject.label: subject.weight for subject in weighed.groups[0].subjects} == given


def test_records_alone_are_summarized_like_a_digest() -> None:
    digest = digest_of(*[issue("r", name) for name in "aab"])
    chosen = [record for record in digest if record.value["issue"] == "a"]

    summary = summarize(chosen, group_by=["issue"])

    assert summary == summarize(replace(digest, timeline="", dropped=0, records=tuple(chosen)), group_by=["issue"])
    assert (summary.timeline, summary.dropped, summary.count) == ("", 0, 2)
    assert summary == summarize(tuple(chosen), group_by=["issue"]) == summarize(iter(chosen), group_by=["issue"])
    assert summary == Grouping(group_by=["issue"]).summarize(reversed(chosen))


def test_no_records_have_nothing_to_say() -> None:
    with pytest.raises(ValueError, match="no records: nothing to summarize"):
        summarize([])


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(TypeError, match=r"\('k', 1, 2.0\) is not a Record"):
        summarize([("k", 1, 2.0)])  # type: ignore[list-item]  # a mistake that users may make


@pytest.mark.parametrize(
    "answer",
    [
        None,
        7,
        [],
        [1, 2],
        {"x": 1},
        ["1"],
        [float("nan")],
        [None],
        [(1, None)],
        [(1, "b")],
        [((1,),)],
        [(float("inf"),)],
    ],
)
def test_weights_that_are_no_number_for_each_subject_are_refused(answer: Any) -> None:
    complaint = r"weight: gave .*, not a list with a number, or a tuple of numbers, for each of 1 subjects"
    with pytest.raises(ConfigError, match=complaint):
        summarize(digest_of("alone"), weight=lambda _: answer)


# Equal values


def test_values_that_json_tells_apart_are_apart() -> None:
    values = [
        1,
        1.0,
        True,
        "1",
        "true",
        [[1]],
        [[1.0]],
        [[True]],
        [["1"]],
        {"a": 1},
        {"a": True},
        "",
        None,
        "None",
        "null",
        0.0,
    ]

    (group,) = summarize(digest_of(*values), group_by=[lambda record: record.value], top=99).groups

    assert [subject.count for subject in group.subjects] == [1] * len(values)


def test_values_without_a_hash_agree_if_they_are_equal_whatever_the_order_of_their_keys() -> None:
    nested = [{"a": [1, {"b": 2, "c": 3}], "d": 4}, {"d": 4, "a": [1, {"c": 3, "b": 2}]}]
    large = [{"id": n, "text": "x" * 1_000} for n in (1, 1, 2)]

    (group,) = summarize(digest_of(*nested, *large), group_by=[lambda record: record.value]).groups

    assert sorted(subject.count for subject in group.subjects) == [1, 2, 2]


def test_a_missing_path_and_null_are_one_subject_called_other() -> None:
    (group,) = summarize(digest_of({}, {"a": None}, {"a": {"b": None}}, "text", ["b"]), group_by=["a.b"]).groups

    assert [(subject.label, subject.key, subject.count) for subject in group.subjects] == [("other", None, 5)]


def test_a_text_other_is_not_what_is_missing() -> None:
    (group,) = summarize(digest_of({"a": "other"}, {}), group_by=["a"]).groups

    assert {subject.key for subject in group.subjects} == {"other", None}


# Faults


def test_a_callable_that_raises_stops_nothing_and_is_counted_once_per_record() -> None:
    digest = digest_of({"n": 1}, {"n": 0}, {"n": 1})

    def inverse(record: Record) -> float:
        return 1 / record.value["n"]  # type: ignore[no-any-return]

    summary = summarize(digest, group_by=[inverse, inverse], distinct={"inverses": inverse})

    assert summary.faults == 1
    assert {group.label: group.count for group in summary.groups} == {"1.0": 2, "other": 1}
    assert summary.distinct == {"inverses": 1}


def test_a_value_that_json_can_not_say_is_none_and_counted() -> None:
    endless: list[Any] = []
    endless.append(endless)

    summary = summarize(digest_of(object(), endless, 1j, 10**5_000), group_by=[lambda record: record.value])

    assert summary.faults == 3
    assert sorted(labels(summary.groups[0].subjects)) == ["<int>", "other"]


def test_an_exit_is_not_taken_for_a_fault() -> None:
    def leave(record: Record) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        summarize(digest_of(1), group_by=[leave])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"group_by": ["a", "b", "c"]}, "group_by: 3 levels, allowed are 2"),
        ({"group_by": "rule"}, "group_by: 'rule' is no list"),
        ({"group_by": [3]}, "group_by: 3 is neither a path such as 'user.id' nor a callable"),
        ({"group_by": ["a..b"]}, "group_by: the path 'a..b' has an empty step"),
        ({"group_by": [""]}, "group_by: the path '' has an empty step"),
        ({"distinct": ["user"]}, "distinct: \\['user'\\] has no names"),
        ({"distinct": {"users": "user."}}, "distinct\\['users'\\]: the path 'user.' has an empty step"),
        ({"distinct": {1: "user"}}, "distinct: {1: 'user'} has no names"),
        ({"top": 0}, "top: 0 is not a whole number from 1"),
        ({"top": True}, "top: True is not a whole number from 1"),
        ({"weight": 7}, "weight: 7 is neither a function nor"),
        ({"weight": lambda: [1]}, r"weight: <lambda>\(\) can't be called with \(subjects\)"),
        ({"group_by": [lambda a, b: a]}, r"group_by: <lambda>\(a, b\) can't be called with \(record\)"),
        ({"distinct": {"users": lambda: 1}}, r"distinct\['users'\]: <lambda>\(\) can't be called with \(record\)"),
        ({"distinct": {"of {timeline}": "user"}}, "distinct: {timeline} is not filled in here"),
        ({"top_groups": 2.5}, "top_groups: 2.5 is not a whole number from 1"),
    ],
)
def test_a_wrong_option_is_refused_before_there_is_a_digest(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Grouping(**options)


# For programs


def test_a_summary_for_programs_says_the_same() -> None:
    digest = digest_of(issue("errors", "crash", 1), issue("errors", "crash", 2), issue("errors", "slow"), dropped=4)
    newest = {"key": "k0", "value": issue("errors", "crash", 1), "timestamp": 3.0}
    all_three = {"count": 3, "first": 1.0, "last": 3.0, "newest": newest, "distinct": {"users": 2}}
    crash = {"key": "crash", "label": "crash", "url": "", "count": 2, "first": 2.0, "last": 3.0, "newest": newest}
    crash |= {"items": ["k0", "k1"], "weight": 0}
    errors = {
        "key": "errors",
        "label": "errors",
        "url": "",
        "subjects": [{**crash, "distinct": {"users": 2}}],
        **all_three,
    }
    groups = {"groups": [{**errors, "more": 1, "more_records": 1}], "more": 0, "more_records": 0}

    found = summarize(digest, group_by=["rule", "issue"], distinct={"users": "user.id"}, top=1).to_dict()

    assert found == {"timeline": "mail:ada", "subjects": 2, "dropped": 4, "faults": 0, **all_three, **groups}


def test_hostile_values_make_a_summary_neither_large_nor_slow() -> None:
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    long = "x" * 10_000_000
    values = [long, {"a": long}, {long: 1}, [long] * 3, deep, {"a": deep}, "\x00‮" * 1_000_000, list(range(100_000))]

    summary = summarize(digest_of(*values), group_by=[lambda record: record.value], distinct={"all": lambda r: r.value})

    assert summary.faults == 2
    assert max(map(len, labels(summary.groups[0].subjects))) <= 100
    assert len(json.dumps(summary.to_dict())) < 60_000


# Any records


SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False, width=16) | st.text(max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner)
)
PLAIN = SCALARS | st.dictionaries(st.sampled_from("ab"), VALUES)


def records_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, Any, Any, int]]]:
    row = st.tuples(st.sampled_from("xyz") | values, st.integers(0, 4) | values, VALUES, st.integers(0, 3))
    return st.lists(row, min_size=1, max_size=30)


RECORDS = records_of(VALUES)
OPTIONS = st.fixed_dictionaries(
    {
        "group_by": st.sampled_from([[], ["subject"], ["group", "subject"]]),
        "distinct": st.sampled_from([{}, {"users": "user"}]),
        "top": st.integers(1, 4),
        "top_groups": st.integers(1, 3),
    }
)


def digest_of_rows(rows: list[tuple[Any, Any, Any, int]]) -> Digest:
    values = [{"group": group, "subject": subject, "user": user} for group, subject, user, _ in rows]
    return digest_of(*values, times=[at for *_, at in rows])


@given(records_of(PLAIN), OPTIONS)
def test_counts_add_up_exactly(rows: list[tuple[Any, Any, Any, int]], options: dict[str, Any]) -> None:
    summary = summarize(digest_of_rows(rows), **options)

    assert summary.count == len(rows)
    assert sum(group.count for group in summary.groups) + summary.more_records == len(rows)
    assert len(summary.groups) <= options["top_groups"]
    for group in summary.groups:
        assert sum(subject.count for subject in group.subjects) + group.more_records == group.count
        assert len(group.subjects) == min(group.size, options["top"])
    assert summary.faults == 0


@given(RECORDS, OPTIONS)
def test_what_is_counted_is_what_a_plain_count_finds(rows: list[Any], options: dict[str, Any]) -> None:
    everything = {"top": 99, "top_groups": 99}
    by = options["group_by"]
    digest = digest_of_rows(rows)
    places = {record.key: places_of(record, by) for record in digest}
    expected = Counter(place for several in places.values() for place in several)

    summary = summarize(digest, **{**options, **everything})

    assert sorted(expected.values()) == sorted(s.count for group in summary.groups for s in group.subjects)
    assert summary.subjects == number_of_subjects(places)
    assert summary.count == len(rows)
    users = {json.dumps(record.value["user"], sort_keys=True) for record in digest} - {"null"}
    assert summary.distinct.get("users", len(users)) == len(users)


def places_of(record: Record, by: list[str]) -> set[tuple[str, ...]]:
    """The groups and subjects under which a record stands."""
    values = [record.value[name] for name in by]
    lists = [(value or [None]) if isinstance(value, list) else [value] for value in values]
    found = {tuple(json.dumps(value, sort_keys=True) for value in place) for place in itertools.product(*lists)}
    return found if by else {(record.key,)}


def number_of_subjects(places: dict[str, set[tuple[str, ...]]]) -> int:
    """Places whose last values agree are one subject if they share a record, directly or by way of others."""
    subjects = {place: {place} for several in places.values() for place in several}
    for several in places.values():
        for one, other in itertools.product(several, several):
            if one[-1] == other[-1]:
                joined = subjects[one] | subjects[other]
                subjects.update(dict.fromkeys(joined, joined))
    return len({frozenset(joined) for joined in subjects.values()})


@given(RECORDS, OPTIONS, st.randoms())
def test_the_order_of_records_of_the_same_moment_changes_nothing(
    rows: list[Any], options: dict[str, Any], chance: random.Random
) -> None:
    """Except for `newest`, which is the record that arrived last."""
    digest = digest_of_rows(rows)
    shuffled = replace(digest, records=tuple(chance.sample(digest.records, len(digest))))

    assert without_newest(summarize(digest, **options)) == without_newest(summarize(shuffled, **options))


def without_newest(summary: Summary) -> Any:
    def strip(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: strip(value) for name, value in part.items() if name != "newest"}
        return [strip(one) for one in part] if isinstance(part, list) else part

    return json.dumps(strip(summary.to_dict()), sort_keys=True)


@given(RECORDS, OPTIONS)
def test_parts_fall_in_order_and_no_two_share_a_place(rows: list[Any], options: dict[str, Any]) -> None:
    summary = summarize(digest_of_rows(rows), **{**options, "top": 99, "top_groups": 99})

    groups = [(-group.size, -group.count, -group.last, group.label) for group in summary.groups]
    assert groups == sorted(groups)
    for group in summary.groups:
        places = [(-s.count, -s.distinct.get("users", 0), -s.last, s.label) for s in group.subjects]
        assert places == sorted(places)
        keys = [json.dumps(subject.key, sort_keys=True) for subject in group.subjects]
        assert all(one != other for one, other in itertools.combinations(keys, 2))


@given(RECORDS, OPTIONS)
def test_fewer_are_shown_from_the_same_order(rows: list[Any], options: dict[str, Any]) -> None:
    digest = digest_of_rows(rows)

    few, all_of_them = summarize(digest, **options), summarize(digest, **{**options, "top": 99, "top_groups": 99})

    shown = all_of_them.groups[: options["top_groups"]]
    assert [group.subjects for group in few.groups] == [group.subjects[: options["top"]] for group in shown]
    rest = all_of_them.groups[options["top_groups"] :]
    assert few.more_records == len({row for group in rest for row in group.rows})
    assert [group.more_records for group in few.groups] == [
        len({row for subject in group.subjects[options["top"] :] for row in subject.rows}) for group in shown
    ]
