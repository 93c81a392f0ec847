"""`digestif move`."""

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from digestif import Digests
from digestif.stores.memory import MemoryStore
from digestif.transfer import Move, Progress
from tests.cli.runner import Run, is_one_line, start
from tests.servers import empty_server

pytestmark = pytest.mark.long

HERE, THERE = "sqlite:///here.db", "sqlite:///there.db"


def fill(dsn: str, *, timelines: int = 3, records: int = 5) -> None:
    with Digests(dsn) as digests:
        digests.add_many([(f"t{name}", number) for name in range(timelines) for number in range(records)])


def test_everything_goes_over_and_both_are_verified(run: Run) -> None:
    fill(HERE)

    code, out, _ = run("move", HERE, THERE)

    assert code == 0
    assert out.startswith("moved 3 timelines with 15 records in ")
    assert out.endswith("both ledgers agree with a recount\n")
    assert run("--store", THERE, "ledger", "--json").json["pending"] == 15
    assert run("--store", HERE, "ledger", "--json").json["accepted"] == 0


def test_programs_are_told_in_json(run: Run) -> None:
    fill(HERE)

    assert run("move", HERE, THERE, "--json").json == {
        "timelines": 3,
        "letters": 0,
        "records": 15,
        "waiting": 0,
        "finished": True,
        "problems": [],
    }
    assert "problems" not in run("--json", "move", THERE, HERE, "--no-verify").json


def test_namespaces_of_one_store_may_be_moved(run: Run) -> None:
    fill(HERE)

    assert run("move", HERE, HERE, "--to-namespace", "other").code == 0
    assert run("--store", HERE, "--namespace", "other", "ledger", "--json").json["pending"] == 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((HERE, HERE), "the same store"),
        (("sqlite:///none.db", THERE), "no store at none.db"),
        ((HERE, "memory://"), "gone when this command ends"),
        ((HERE, "off://"), "not a store that records can be moved"),
        ((HERE, THERE, "--decoder", "json2"), "for --origin"),
        ((HERE, "nothing"), "is not a DSN"),
        (("redis://localhost:1", THERE, "--origin"), "can't be reached"),
    ],
)
def test_what_can_not_be_moved_is_refused_in_one_line(run: Run, arguments: tuple[str, ...], message: str) -> None:
    fill(HERE)

    code, out, err = run("move", *arguments)

    assert code in (2, 3)
    assert out == ""
    assert is_one_line(err)
    assert message in err


def test_a_delivery_that_does_not_end_is_told(run: Run) -> None:
    with Digests(HERE) as digests:
        digests.add("t", 1)
        with digests.digest("t"):
            code, _, err = run("move", HERE, THERE, "--patience", "0")

    assert code == 1
    assert "deliveries have to end first" in err
    assert run("move", HERE, THERE).code == 0


def test_a_difference_is_told(run: Run) -> None:
    fill(HERE)
    fill(THERE)
    with closing(sqlite3.connect("there.db")) as file:
        file.execute("DELETE FROM record WHERE arrival % 2 = 0")
        file.commit()

    code, out, _ = run("move", HERE, THERE)

    assert code == 1
    assert "problem: TO: " in out


def test_the_layout_of_the_origin_is_moved(run: Run) -> None:
    server = empty_server()
    server.cli("ZADD", "x:s:w", "1500000000", "mail:1")
    server.cli("ZADD", "x:t:mail:1", "1400000000", "k")
    server.cli("SET", "x:t:mail:1:r:k", '{"title": "hello"}')

    assert run("move", server.url, THERE, "--origin", "--prefix", "x").code == 0
    assert run("--store", THERE, "peek", "mail:1", "--json").lines[0]["value"] == {"title": "hello"}


def test_killed_at_any_time_the_same_command_goes_on(run: Run, folder: Path) -> None:
    fill(HERE, timelines=900, records=10)
    before = run("--store", HERE, "ledger", "--json").json
    with start("move", HERE, THERE, cwd=folder) as program:
        _wait_for(THERE, 1000)
        assert program.poll() is None
        os.kill(program.pid, signal.SIGKILL)

    code, out, _ = run("move", HERE, THERE)

    assert code == 0
    assert out.endswith("both ledgers agree with a recount\n")
    assert run("--store", THERE, "ledger", "--json").json == before


def _wait_for(dsn: str, records: int) -> None:
    """Until so many have arrived."""
    with Digests(dsn) as digests:
        while digests.ledger().accepted < records:
            pass


def test_stopped_by_ctrl_c_it_says_how_to_go_on(run: Run, folder: Path) -> None:
    fill(HERE, timelines=900, records=10)
    with start("move", HERE, THERE, cwd=folder, stdout=-1) as program:
        _wait_for(THERE, 500)
        os.kill(program.pid, signal.SIGINT)
        out, _ = program.communicate()

    assert program.returncode == 130
    assert "FROM accepts records and delivers nothing; run the same command to go on" in out.decode()
    assert run("move", HERE, THERE).code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_says_when_to_switch_and_ends_well(run: Run, folder: Path, number: signal.Signals) -> None:
    fill(HERE)
    with start("move", HERE, THERE, "--follow", cwd=folder, stdout=-1, stderr=-1) as program:
        assert program.stderr is not None
        assert program.stderr.readline() == b"following: FROM is empty; switch the producers now\n"
        os.kill(program.pid, number)
        out, _ = program.communicate()

    assert program.returncode == 0
    assert "FROM accepts records and delivers nothing; when nothing writes to FROM any more" in out.decode()
    assert "run digestif move FROM TO" in out.decode()


def test_a_stopped_move_is_told_in_json(run: Run, folder: Path) -> None:
    with start("move", HERE, THERE, "--follow", "--json", cwd=folder, stdout=-1) as program:
        fill(HERE)
        _wait_for(THERE, 15)
        os.kill(program.pid, signal.SIGINT)
        out, _ = program.communicate()

    told = json.loads(out)
    assert (program.returncode, told["finished"], told["following"]) == (0, False, True)
    assert "run digestif move FROM TO" in told["advice"]


def test_what_a_move_means_is_seen_in_status_and_explain_until_it_is_given_up(run: Run, folder: Path) -> None:
    fill(HERE)
    with start("move", HERE, THERE, "--follow", cwd=folder, stdout=-1, stderr=-1) as program:
        assert program.stderr is not None
        program.stderr.readline()
        os.kill(program.pid, signal.SIGINT)
        program.communicate()

    assert run("--store", HERE, "add", "t0", '"later"').code == 0
    status = run("--store", HERE, "status").out
    assert "accepts records and delivers nothing; digestif move FROM TO ends it" in status
    assert run("--store", HERE, "status", "--json").json["moving_since"] > 0
    assert "being moved into another" in run("--store", HERE, "explain", "t0").out
    code, _, err = run("--store", HERE, "flush", "t0")
    assert (code, is_one_line(err)) == (1, True)
    assert "this store is being moved" in err

    code, out, _ = run("move", HERE, "--abandon")

    assert code == 0
    assert "FROM delivers again" in out
    assert run("--store", HERE, "status", "--json").json["moving_since"] is None
    assert "move" not in run("--store", HERE, "status").out
    assert run("--store", HERE, "flush", "t0").code == 0


def test_a_timeline_that_gets_records_again_and_again_is_counted_once() -> None:
    source, target = MemoryStore(), MemoryStore()
    producer, rounds = Digests(source), iter(range(4))

    def produce(progress: Progress) -> None:
        if progress.records == 15:
            move.stop()
        elif progress.following and next(rounds, None) is not None:
            producer.add_many([(f"t{number}", number) for number in range(3)])

    producer.add_many([(f"t{number}", number) for number in range(3)])
    move = Move(source, target, report=produce)
    move.run(follow=True)

    assert (move.progress.timelines, move.progress.records) == (3, 15)
