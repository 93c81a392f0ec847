"""`digestif ledger`, `verify`, `repair` and `status`."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from digestif import Digest, Digests, Unavailable
from digestif.core.workers import WorkerNote
from digestif.notes.workers import note_worker
from tests.cli.runner import DEFAULT_FILE, Run
from tests.servers import empty_server
from tests.stores.postgres.servers import empty_database


def test_the_ledger_is_shown_and_balances(run: Run, digests: Digests) -> None:
    digests.add_many([("t", number) for number in range(1200)])

    code, out, _ = run("ledger")

    assert code == 0
    assert "accepted    1,200\n" in out
    assert "delivered       0\n" in out
    assert out.endswith("balanced: every accepted record is accounted for\n")
    assert run("ledger", "--json").json == {
        "accepted": 1200,
        "pending": 1200,
        **dict.fromkeys(
            ("open", "delivered", "superseded", "dropped", "expired", "deleted", "dead", "lost", "declined"), 0
        ),
        "balanced": True,
    }


def test_verify_says_yes_if_the_books_agree(run: Run, digests: Digests) -> None:
    digests.add("t", 1)

    assert run("verify") == (0, "recounted 1 pending, 0 open, 0 dead\nthe ledger agrees\n", "")
    assert run("verify", "--json").json["agrees"] is True


def test_verify_says_no_if_a_record_has_gone(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    with closing(sqlite3.connect(DEFAULT_FILE)) as file:
        file.execute("DELETE FROM record")
        file.commit()

    code, out, _ = run("verify")

    assert code == 1
    assert "problem: " in out
    assert run("verify", "--json").json["agrees"] is False


def damage(*timelines: str) -> None:
    with closing(sqlite3.connect(DEFAULT_FILE, isolation_level=None)) as file:
        for timeline in timelines:
            file.execute("UPDATE timeline SET slot = substr(slot, 2) WHERE key = ?", (timeline,))


def test_repair_finds_nothing_where_nothing_is_damaged(run: Run, digests: Digests) -> None:
    digests.add("t", 1)

    assert run("repair") == (0, "nothing is damaged\n", "")
    assert run("repair", "--dry-run", "--json").json == {"dry_run": True, "damages": []}


def test_repair_says_what_is_damaged_and_quarantines_it(run: Run, digests: Digests) -> None:
    digests.add_many([("bad", 1), ("bad", 2), ("good", 1)])
    damage("bad")

    code, out, _ = run("repair", "--dry-run")
    assert code == 1
    assert "damaged: 'bad': its row can't be read" in out
    assert "(2 records)\n" in out
    assert out.endswith("nothing was changed; without --dry-run it is quarantined\n")
    assert run("verify").code == 1

    code, out, _ = run("repair")
    assert code == 0
    assert "quarantined: 'bad': its row can't be read" in out
    assert out.endswith("see digestif dead list\n")
    assert run("verify").code == 0
    assert run("dead", "list").out.split().count("bad") == 1  # an id may contain it


def test_repair_answers_programs(run: Run, digests: Digests) -> None:
    digests.add("bad", 1)
    damage("bad")

    known = run("repair", "--json").json

    assert known["dry_run"] is False
    assert [(found["timeline"], found["part"], found["records"]) for found in known["damages"]] == [("bad", "slot", 1)]


def test_a_dead_letter_shows_what_is_stored_where_that_cannot_be_decoded(run: Run, digests: Digests) -> None:
    digests.add("t", 1, key="k")
    damage("t")
    digests.repair()
    with closing(sqlite3.connect(DEFAULT_FILE, isolation_level=None)) as file:
        file.execute("UPDATE record SET payload = x'00ff41'")
    [letter] = digests.dead_letters()

    assert "k can't be read: b'\\x00\\xffA'" in run("dead", "show", letter.id).out
    assert run("dead", "show", letter.id, "--json").json["unreadable"] == {"k": "b'\\x00\\xffA'"}


def test_status_tells_of_store_versions_backlog_and_ledger(run: Run, digests: Digests) -> None:
    digests.add("ready", 1)
    digests.pause("held")
    digests.add("held", 2)

    code, out, _ = run("status")
    known = run("status", "--json").json

    assert code == 0
    assert "store       sqlite:///digestif.db, namespace d\n" in out
    assert "durability  records survive power loss\n" in out
    assert "timelines   2 stored: 0 waiting, 1 ready, 0 open, 1 paused or idle\n" in out
    assert "due         1 now\n" in out
    assert max(map(len, out.splitlines())) <= 80
    assert known["partitions"] == 1
    assert known["durability"] == "power loss"
    assert set(known["versions"]) == {"digestif", "Python", "SQLite"}
    assert known["backlog"]["due"] == 1
    assert (known["ledger"]["accepted"], known["ledger"]["balanced"]) == (2, True)


def test_status_says_when_the_next_is_due(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    with digests.digest("t"):
        pass

    assert "due         none; the next in 5 min (" in run("status").out


def test_why_a_digest_is_tried_again_is_shown(run: Run, digests: Digests) -> None:
    digests.handler("t")(refuse)
    digests.add("t", 1)
    digests.deliver("t")

    known = run("status", "--json").json["failures"]

    assert [(failed["timeline"], failed["attempt"], failed["attempts"]) for failed in known] == [("t", 1, 8)]
    assert re.search(r"retried     1 timeline; t: attempt 1 of 8 failed \d+ m?s ago: OSError: full", run("status").out)
    assert re.search(r"failed     attempt 1 of 8 failed \d+ m?s ago: OSError: full", run("show", "t").out)
    assert run("show", "t", "--json").json["failed"]["reason"] == "OSError: full"
    assert "Attempt 1 of 8 failed " in run("explain", "t").out
    assert run("explain", "t", "--json").json["failed"]["digest_id"] == known[0]["digest_id"]


def refuse(_: Digest) -> None:
    raise OSError("full")


def test_status_of_a_store_that_is_off(run: Run) -> None:
    assert "durability  switched off: accepts nothing" in run("status", "--store", "off://").out


def test_status_knows_the_version_of_a_server(run: Run) -> None:
    def versions(store: str) -> dict[str, str]:
        found: dict[str, str] = run("status", "--store", store, "--json").json["versions"]
        return found

    assert {"redis", "valkey"} & set(versions(empty_server().url))
    with empty_database() as place:
        assert re.fullmatch(r"\d+\.\d+", versions(place)["PostgreSQL"])


def test_a_password_is_not_shown(run: Run) -> None:
    server = empty_server()
    server.cli("ACL", "SETUSER", "somebody", "on", ">secret", "~*", "&*", "+@all")
    try:
        code, out, _ = run("status", "--store", server.url.replace("://", "://somebody:secret@"))
    finally:
        server.cli("ACL", "DELUSER", "somebody")

    assert code == 0
    assert "somebody:…@" in out
    assert "secret" not in out


def test_status_tells_of_a_channel_that_is_down(run: Run, digests: Digests) -> None:
    close_channel(digests)

    out, known = run("status").out, run("status", "--json").json

    assert re.search(r"channel     crm down for .*, next try in .*: 535 wrong password\n", out)
    [outage] = known["outages"]
    assert (outage["channel"], outage["reason"], outage["patterns"]) == ("crm", "535 wrong password", ["mail:*"])


def test_top_and_explain_tell_of_a_channel_that_is_down(run: Run, digests: Digests) -> None:
    close_channel(digests)

    assert "channel    crm down for" in run("top", "--once").out
    assert run("top", "--once", "--json").json["outages"][0]["channel"] == "crm"
    assert "Its channel crm is unavailable since" in run("explain", "mail:ada").out.replace("\n  ", " ")
    assert run("explain", "mail:ada", "--json").json["outage"]["reason"] == "535 wrong password"


def close_channel(digests: Digests) -> None:
    """Let a delivery find that its channel can't be used."""

    @digests.handler("mail:*", channel="crm")
    def send(digest: Digest) -> None:
        raise Unavailable("535 wrong password")

    digests.notify("mail:ada", 1)


def test_status_and_top_name_the_live_workers(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    assert "workers     none was seen in the last minute\n" in run("status").out
    assert run("status", "--json").json["workers"] == []
    now = digests.store.time(0)
    for number in range(7):
        note = WorkerNote(f"w{number}", "host", number, now - 90_000, now, ("mail:*", "a", "b", "c"))
        note_worker(digests.store, f"w{number}", note, now=now)

    out, known = run("status").out, run("status", "--json").json

    assert re.search(
        r"worker      w0 on host \(process 0\) serves mail:\*, a, b and 1 more, started 1 min 3\d s ago\n", out
    )
    assert "and 2 more workers\n" in out
    assert (known["workers"][0]["name"], known["workers"][0]["patterns"]) == ("w0", ["mail:*", "a", "b", "c"])
    assert "workers    7 live: host:0, host:1" in run("top", "--once").out
    assert len(run("top", "--once", "--json").json["workers"]) == 7


def test_status_says_that_a_worker_was_not_seen_for_long(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    now = digests.store.time(0)
    note = WorkerNote("w", "host", 7, now - 90_000, now - 30_000, ("mail:*",))
    note_worker(digests.store, "w", note, now=now)

    out = run("status").out

    assert re.search(
        r"w on host .* serves mail:\*, started 1 min 3\d s ago; not seen for 3\d s: it may have died\n", out
    )


def test_status_names_timelines_that_no_live_worker_delivers(run: Run, digests: Digests) -> None:
    digests.add_many([("mial:ada", 1), ("mail:ada", 1), ("mial:off", 1)])
    digests.pause("mial:off")
    before = run("status")
    now = digests.store.time(0)
    note_worker(digests.store, "w", WorkerNote("w", "host", 7, now, now, ("mail:*",)), now=now)

    out, known = run("status").out, run("status", "--json").json

    assert "unhandled" not in before.out
    assert "unhandled   1 timeline has no handler: mial:ada\n" in out
    assert known["unhandled"] == ["mial:ada"]


def test_status_looks_at_the_first_timelines_due_for_unhandled_ones(run: Run, digests: Digests) -> None:
    digests.add_many([(f"mial:{number:03}", 1) for number in range(120)])
    now = digests.store.time(0)
    note_worker(digests.store, "w", WorkerNote("w", "host", 7, now, now, ("mail:*",)), now=now)

    out = run("status").out

    assert re.search(r"unhandled   at least 100 timelines have no handler: mial:\d+, .* and 97 more", out)


def test_a_worker_that_has_just_started_is_not_shown_with_a_duration_of_0(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    now = digests.store.time(0)
    note_worker(digests.store, "w", WorkerNote("w", "host", 7, now, now, ("mail:*",)), now=now)

    assert "w on host (process 7) serves mail:*, started just now\n" in run("status").out


def test_status_names_workers_with_different_policies(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    now = digests.store.time(0)
    for number, policy in enumerate(["hourly", "default"]):
        note = WorkerNote("w", "host", number, now, now, ("mail:*",), {"mail:*": policy})
        note_worker(digests.store, f"w{number}", note, now=now)

    out, known = run("status").out, run("status", "--json").json

    assert "policies    differ between workers for mail:*: default (host:1) or hourly (host:0)\n" in out
    assert known["policy_conflicts"] == [
        {"pattern": "mail:*", "policies": {"default": ["host:1"], "hourly": ["host:0"]}}
    ]
    assert known["workers"][0]["policies"] == {"mail:*": "hourly"}


def test_status_of_an_application_names_its_store(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (folder / "named_app.py").write_text("from digestif import Digests\ndigests = Digests('sqlite:///named.db')\n")

    out, known = run("status", "--app", "named_app").out, run("status", "--json", "--app", "named_app").json

    assert "store       sqlite:///named.db, of named_app, namespace d\n" in out
    assert known["store"] == "sqlite:///named.db"
    assert "sqlite:///named.db, of named_app" in run("top", "--once", "--app", "named_app").out
