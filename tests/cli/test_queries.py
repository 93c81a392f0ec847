"""`digestif timelines`, `show`, `peek`, `explain`, `history` and `trace`."""

import re
import time

import click
import pytest

from digestif import Digests, Policy, Record, Window
from digestif.cli.output import cells, zone_name
from digestif.cli.queries import timeline_table
from digestif.core.times import instant_text
from digestif.core.workers import WorkerNote
from digestif.notes.workers import note_worker
from digestif.stores.base import Burial
from digestif.stores.transfer import ExportSource
from tests.cli.runner import Run


@pytest.fixture
def _delivered(digests: Digests) -> None:
    """A timeline that had a digest and waits with one record, and one that is ready."""
    digests.add("mail:ada", {"title": "Build 7 failed"}, key="build-7")
    with digests.digest("mail:ada"):
        pass
    digests.add("mail:ada", {"title": "Build 8 failed"}, key="build-8")
    digests.add("chat:#ops", "Disk is full", key="disk")


pytestmark = pytest.mark.usefixtures("_delivered")


def test_timelines_are_listed_by_name_with_their_due_times(run: Run) -> None:
    code, out, _ = run("timelines")
    head, *rows = [line.split() for line in out.splitlines()]

    assert code == 0
    assert head == ["timeline", "state", "pending", "in", "digest", "due", "last", "delivery"]
    assert [row[:3] for row in rows] == [["chat:#ops", "ready", "1"], ["mail:ada", "waiting", "1"]]
    assert " in 5 min" in out
    assert rows[0][3:] in (["now"], [*rows[0][3:5], "ago"])  # a ready one shows when it was due


def test_timelines_as_json_are_one_object_per_line(run: Run, digests: Digests) -> None:
    chat, mail = run("timelines", "--json").lines

    assert chat["key"] == "chat:#ops"
    assert mail == {
        "key": "mail:ada",
        "state": "waiting",
        "due": digests.timeline("mail:ada").due,
        "pending": 1,
        "last": digests.timeline("mail:ada").last,
        "iteration": 1,
        "paused": False,
        "in_digest": 0,
        "was_due": None,
        "off": False,
        "cadence": None,
        "unhandled": False,
    }
    assert chat["was_due"] == pytest.approx(digests.store.time(0) / 1000, abs=60)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--state", "ready"], ["chat:#ops"]),
        (["--prefix", "mail:"], ["mail:ada"]),
        (["--after", "chat:#ops"], ["mail:ada"]),
        (["--limit", "1"], ["chat:#ops"]),
        (["--state", "open"], []),
    ],
)
def test_timelines_can_be_chosen(run: Run, options: list[str], found: list[str]) -> None:
    assert [each["key"] for each in run("timelines", "--json", *options).lines] == found
    assert ("may be more" in run("timelines", *options).out) == ("--limit" in options)


def test_no_timelines_is_an_answer_too(run: Run) -> None:
    assert run("timelines", "--prefix", "x") == (0, "no timelines of that kind\n", "")
    assert run("--namespace", "other", "timelines").out == "no timelines; nothing is stored\n"


def test_a_wrong_state_is_refused(run: Run) -> None:
    code, _, err = run("timelines", "--state", "lost")

    assert code == 2
    assert "'lost' is not one of" in err


def test_show_tells_what_is_known(run: Run) -> None:
    code, out, _ = run("show", "mail:ada")

    assert code == 0
    assert "state      waiting" in out
    assert "pending    1 record\n" in out
    assert "due        in " in out
    assert "last       delivered " in out


def test_show_tells_of_an_unfinished_digest(run: Run, digests: Digests) -> None:
    with pytest.raises(KeyError), digests.digest("chat:#ops"):
        raise KeyError

    digest = run("show", "chat:#ops", "--json").json["digest"]

    assert digest["records"] == 1
    assert f"digest     {digest['id']}: 1 record, attempt 1, 0 lapsed" in run("show", "chat:#ops").out


def test_an_unknown_timeline_is_idle_and_that_is_no(run: Run) -> None:
    assert run("show", "nobody") == (1, "nobody is idle: nothing is stored\n", "")
    assert run("show", "nobody", "--json").json["state"] == "idle"
    assert run("peek", "nobody") == (1, "nobody has no records\n", "")
    assert run("peek", "nobody", "--json") == (1, "", "")
    assert run("trace", "nobody", "k") == (1, "nothing is known of k in nobody: no such record was seen\n", "")
    assert run("trace", "nobody", "k", "--json") == (1, "", "")


def test_peek_shows_the_records_of_the_next_digest_newest_first(run: Run, digests: Digests) -> None:
    digests.add("mail:ada", Record("old", "plain text", 0.0))

    code, out, _ = run("peek", "mail:ada")
    _, newest, oldest = out.splitlines()

    assert code == 0
    assert newest.split(maxsplit=2)[1:] == ["build-8", '{"title": "Build 8 failed"}']
    assert oldest.endswith("old      plain text")
    assert oldest.split()[0] in ("1970-01-01", "1969-12-31")
    assert run("peek", "mail:ada", "--limit", "1").out.endswith("  + 1 more\n")
    assert [each["key"] for each in run("peek", "mail:ada", "--json").lines] == ["build-8", "old"]


@pytest.mark.usefixtures("_utc")
def test_explain_tells_rule_and_arithmetic_by_the_local_clock(run: Run, digests: Digests) -> None:
    code, out, _ = run("explain", "mail:ada")

    assert code == 0
    assert out.startswith("mail:ada: waiting with 1 pending, due in 5 min ")
    assert "of\n  increment_delay = due" in out
    assert "  rule           increment\n" in out
    assert "  zone           UTC, as on this computer\n" in out
    assert "T" not in out.replace("True", "").replace("UTC", "")
    assert max(map(len, out.splitlines())) <= 80
    assert run("explain", "mail:ada", "--json").json["arithmetic"] == digests.explain("mail:ada").arithmetic


def test_explain_knows_that_nothing_is_stored(run: Run) -> None:
    code, out, _ = run("explain", "nobody")

    assert code == 0
    assert out.startswith("nobody: idle: nothing is stored, the next record starts a new round. Its policy\n")


def test_a_timeline_whose_digest_was_given_up_names_it(run: Run, digests: Digests) -> None:
    earlier = digests.store.time(0) - 3_600_000
    digests.add("mail:bob smith", 1, now=earlier / 1000)
    lease = digests.store.open("mail:bob smith", token="a", lease=30_000, now=earlier)
    digests.store.bury([Burial(lease, "recipient: 'bob smith' is not an address", 0)], now=earlier)
    list(digests.schedule())
    with digests.digest("mail:bob smith"):
        pass

    explained, (code, shown, _) = run("explain", "mail:bob smith").out, run("show", "mail:bob smith")
    digests.add("mail:bob smith", 2)

    assert code == 1
    for out in (explained, shown):
        assert "nothing is stored but dead letters" in " ".join(out.split())
        assert "digestif dead list 'mail:bob smith'" in " ".join(out.split())
    assert "given up   1 digest was given up 1 h ago (recipient: 'bob" in run("show", "mail:bob smith").out
    assert run("show", "mail:bob smith", "--json").json["given_up"].startswith("1 digest was given up ")


def test_what_waits_for_its_window_is_not_called_late(run: Run, digests: Digests) -> None:
    digests.set_policy("digest:bob", Policy(window=Window.monthly(-1, "00:00", tz="UTC")))
    digests.add("digest:bob", 1, now=digests.store.time(0) / 1000 - 30)

    out = run("explain", "digest:bob").out

    assert re.search(r"by delays .* \(3\d s ago\)\n", out)
    assert "late" not in out


def test_history_lists_what_ended(run: Run, digests: Digests) -> None:
    [entry] = digests.history()

    code, out, _ = run("history")

    assert code == 0
    assert out.splitlines()[1].split()[:3] == ["mail:ada", "delivered", "1"]
    assert out.splitlines()[1].endswith(entry.id)
    assert run("history", "mail:ada", "--json").json["keys"] == ["build-7"]
    assert run("history", "chat:#ops") == (0, "no digest has ended yet\n", "")


def test_trace_tells_what_became_of_a_record(run: Run, digests: Digests) -> None:
    [entry] = digests.history()

    assert run("trace", "mail:ada", "build-8").out.splitlines()[1].split() == ["pending"]
    assert run("trace", "mail:ada", "build-7").out.splitlines()[1].split()[:2] == ["delivered", entry.id]
    assert run("trace", "mail:ada", "build-7", "--json").json == {
        "fate": "delivered",
        "digest_id": entry.id,
        "ended": entry.ended,
        "certain": True,
        "since": None,
        "records": None,
        "text": f"delivered with the digest {entry.id}, {instant_text(entry.ended)}",
    }


def test_trace_says_that_a_record_was_replaced_by_a_later_version(run: Run) -> None:
    assert run("trace", "mail:ada", "build-8").out.splitlines()[-1].endswith("that one replaced it (superseded)")


def test_trace_tells_a_record_that_was_retracted_from_one_that_never_came(run: Run, digests: Digests) -> None:
    digests.retract("mail:ada", "build-8")

    code, out, _ = run("trace", "mail:ada", "build-8")

    assert (code, out.splitlines()[1].split()[0]) == (0, "retracted")
    assert "no such record was seen" in run("trace", "mail:ada", "build-9").out


def test_trace_says_what_may_have_become_of_a_record(run: Run, digests: Digests) -> None:
    digests.prefer("mail:ada", "off")

    code, out, _ = run("trace", "mail:ada", "build-9")

    assert (code, out.splitlines()[0]) == (1, "nothing is certain about build-9 in mail:ada:")
    assert out.splitlines()[1].startswith("it may have been deleted or declined: the timeline was switched off")
    assert run("trace", "mail:ada", "build-9", "--json").json["certain"] is False


@pytest.mark.parametrize("command", [["show"], ["peek"], ["explain"], ["trace", "t"]])
def test_a_name_that_is_too_long_is_refused(run: Run, command: list[str]) -> None:
    code, _, err = run(*command, "x" * 513)

    assert (code, err) == (2, err)
    assert "513 bytes of UTF-8, allowed are 1 to 512" in err


def test_records_of_an_unfinished_digest_are_counted(run: Run, digests: Digests) -> None:
    with pytest.raises(KeyError), digests.digest("chat:#ops"):
        raise KeyError
    digests.add("chat:#ops", "Disk is fuller", key="more")

    row = run("timelines", "--prefix", "chat").out.splitlines()[1].split()
    known = run("timelines", "--prefix", "chat", "--json").json

    assert row[2:4] == ["1", "1"]
    assert (known["pending"], known["in_digest"]) == (1, 1)
    assert "1 pending and 1 of an unfinished digest" in " ".join(run("explain", "chat:#ops").out.split())
    assert run("top", "--once", "--json").json["timelines"][0]["in_digest"] == 1


def test_timelines_fit_in_80_columns(digests: Digests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("digestif.cli.output.width", lambda: 80)
    for name in ("mail:ada.lovelace@example.org", "mail:grace"):
        digests.add(name, 1)
        with digests.digest(name):
            pass
        digests.add(name, 2)
        digests.prefer(name, "weekly")
    digests.pause("mail:grace")

    lines = [click.unstyle(line) for line in timeline_table(digests.timelines(), now=time.time() + 83)]

    assert [line for line in lines if cells(line) > 80] == []
    assert lines[0].split()[-1] == "cadence"


def test_timelines_that_no_live_worker_serves_are_named(run: Run, digests: Digests) -> None:
    """Only if a worker is known: without one, nothing can be said."""
    assert "no worker has a handler" not in run("timelines").out
    serve(digests, "mail:*")

    assert "  no worker has a handler for chat:#ops\n" in run("timelines").out
    assert "  no worker has a handler for chat:#ops\n" in run("top", "--once").out
    assert [each["unhandled"] for each in run("timelines", "--json").lines] == [True, False]
    assert [each["unhandled"] for each in run("top", "--once", "--json").json["timelines"]] == [True, False]
    assert "No worker that is running has a handler for it." in " ".join(run("explain", "chat:#ops").out.split())
    assert run("explain", "chat:#ops", "--json").json["unhandled"] is True
    assert run("explain", "mail:ada", "--json").json["unhandled"] is False
    assert "No worker" not in run("explain", "nothing:stored").out


def serve(digests: Digests, *patterns: str) -> None:
    """Note a worker as if it ran."""
    now = digests.store.time(0)
    note = WorkerNote("w", "host", 7, now - 90_000, now, patterns)
    note_worker(digests.store, "w", note, now=now)


# Zones

JANUARY, JULY = 1_768_471_200.0, 1_784_109_600.0  # 2026, at 11:00 and 12:00 in Berlin


@pytest.mark.usefixtures("_berlin")
def test_a_column_of_times_names_its_zone_in_its_head(run: Run, digests: Digests) -> None:
    digests.add("winter", 1, key="a", timestamp=JANUARY)
    digests.add_many([("year", Record("a", 1, JANUARY)), ("year", Record("b", 1, JULY))])

    assert run("peek", "winter").out.splitlines()[0].startswith("  time (CET)")
    head, july, january = run("peek", "year").out.splitlines()
    assert head.startswith("  time (CEST/CET)")
    assert july.startswith("  2026-07-15 12:00:00")
    assert january.startswith("  2026-01-15 11:00:00")
    assert run("peek", "winter", "--json").json["timestamp"] == JANUARY


@pytest.mark.usefixtures("_berlin")
def test_a_time_that_stands_alone_names_its_zone(run: Run, digests: Digests) -> None:
    digests.add("zoned", 1, key="a")
    with digests.digest("zoned"):
        pass
    digests.add("zoned", 2)

    local = r"\d\d:\d\d:\d\d CES?T\)"
    shown = run("show", "zoned").out
    assert len(re.findall(local, shown)) == 2
    digests.delete("chat:#ops")  # which is due
    assert re.search(local, run("status").out)
    assert re.search(r"  ended \(CES?T\)\n", run("trace", "zoned", "a").out)
    assert re.search(r"  zone +CES?T, as on this computer\n", run("explain", "zoned").out)
    assert re.search(r"digestif top  \d\d:\d\d:\d\d CES?T  ", run("top", "--once").out)


def test_a_zone_without_a_name_is_told_by_its_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "<+03>-3")
        time.tzset()
        assert zone_name(JANUARY) == "UTC+03"
    time.tzset()


def test_what_a_person_chose_is_shown(run: Run, digests: Digests) -> None:
    assert "cadence" not in run("timelines").out
    digests.prefer("chat:#ops", "off")
    digests.prefer("mail:ada", "daily")

    for rows in (run("timelines").out, run("top", "--once").out):
        assert re.search(r"timeline .* last delivery +cadence\n", rows)
        assert re.search(r"chat:#ops +off +0 +.*off\n", rows)
        assert re.search(r"mail:ada +waiting +1 .* daily\n", rows)
    assert re.search(r"state +off\n +policy +off \(cadence off\)\n", run("show", "chat:#ops").out)
    assert [(each["off"], each["cadence"]) for each in run("timelines", "--json").lines] == [
        (True, "off"),
        (False, "daily"),
    ]


def test_the_lease_of_a_timeline_that_is_being_moved_ends_with_the_move(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    assert isinstance(digests.store, ExportSource)
    digests.store.begin_export(["t"], token="road", now=None)

    out = run("explain", "t").out

    assert re.search(r"lease until +the move ends or is given up\n", out)
    assert "253402300800" not in out
