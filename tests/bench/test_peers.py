"""The comparison with other systems: its workload, its counting, its verdicts and its page."""

import json
import re
import subprocess
import sys
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench._peers import install
from bench._peers.arrivals import Arrivals, missing_of_all, missing_of_last
from bench._peers.catalog import PEERS
from bench._peers.figures import RATES, agreement, ahead, succeeded
from bench._peers.gauge import Gauge, family
from bench._peers.install import Missing, Runtime
from bench._peers.page import PAGE, PICTURE, STORED, write
from bench._peers.picture import draw
from bench._peers.sink import Sink
from bench._peers.trial import FULL, Scale, tried
from bench._peers.workload import POOL, VALUE_BYTES, Workload
from bench.peers import peers
from digestif.testing.processes import becomes_true
from tests.bench.program import Program
from tests.bench.program import program as program  # a fixture

pytestmark = pytest.mark.long

SMALL = Scale(200, 10, 0.2, 0.3, 20, 60, 100, 5, 10)
NODE = Path(install.__file__).parent / "node"


def peer(name: str) -> Any:
    return next(peer for peer in PEERS if peer.name == name)


# The workload


def test_the_workload_is_the_same_each_time_and_falls_off_as_zipf_says() -> None:
    events = Workload.made(FULL.events, FULL.timelines)
    sizes = [count for _, count in Counter(events.timelines).most_common()]

    assert events.timelines == Workload.made(FULL.events, FULL.timelines).timelines
    assert sizes[0] / sizes[9] == pytest.approx(10, rel=0.2)
    assert len(sizes) == FULL.timelines


def test_every_value_has_its_size_and_tells_its_event(tmp_path: Path) -> None:
    Workload.made(12_000, 10).write(tmp_path / "events")
    events = Workload.read(str(tmp_path / "events"))

    for number in (0, 9, 11_999):
        _, value = events.event(number)
        assert value["id"] == number
        assert len(json.dumps(value, separators=(",", ":"))) == VALUE_BYTES


def test_programs_for_node_make_values_of_the_same_size() -> None:
    text = (NODE / "producing.mjs").read_text()

    assert re.findall(r"const (?:VALUE_BYTES|POOL) = (\d+)", text) == [str(VALUE_BYTES), str(POOL)]


# Counting


def test_what_is_in_the_sink_is_counted_once_and_repetitions_apart(tmp_path: Path) -> None:
    sink, arrivals = Sink(str(tmp_path / "sink")), Arrivals(tmp_path / "sink")
    sink.note([1, 2], due=0.0)
    sink.note([2, 3])
    sink.note_late(0.5)

    assert arrivals.look()
    assert not arrivals.look()
    assert (arrivals.notifications, arrivals.payloads, arrivals.ids) == (2, 4, {1, 2, 3})
    assert len(arrivals.lateness) == 2


def test_a_line_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path, arrivals = tmp_path / "sink", Arrivals(tmp_path / "sink")
    path.write_text('{"ids": [1]}\n{"ids"')
    arrivals.look()

    path.write_text('{"ids": [1]}\n{"ids": [2]}\n')
    arrivals.look()

    assert arrivals.ids == {1, 2}


def test_of_events_that_are_all_kept_each_is_missed() -> None:
    assert missing_of_all([1, 2, 3])({2, 9}) == 2


def test_of_timelines_that_keep_the_last_event_only_that_is_missed() -> None:
    timelines = ["a", "b", "a", "b", "a"]
    missing = missing_of_last([0, 1, 2, 3], timelines)

    assert missing({2, 3}) == 0
    assert missing({4, 3}) == 0, "a later one, which was not acknowledged, took its place"
    assert missing({0, 3}) == 1
    assert missing(set()) == 2


def test_of_several_that_have_come_the_latest_counts() -> None:
    missing = missing_of_last(range(33), ["a"] * 33)

    assert missing({32, 1}) == 0, "whatever the order of a set is"


def test_of_events_under_way_at_once_any_may_be_the_last() -> None:
    timelines = ["a"] * 5

    assert missing_of_last(range(5), timelines, together=2)({3}) == 0
    assert missing_of_last(range(5), timelines, together=2)({2}) == 1


def test_the_processor_time_of_grandchildren_is_counted() -> None:
    burn = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass\ninput()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    command = [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process, Gauge(lambda: [process.pid]) as gauge:
        while sum(family([process.pid]).values()) < 0.5:
            pass
        gauge.__exit__()
        process.communicate(b"\n")

    assert gauge.seconds >= 0.4
    assert gauge.peak > 5


# A trial


@pytest.mark.parametrize("name", ["Digestif, SQLite", "origin's layout"])
def test_a_system_that_keeps_its_events_delivers_all_of_them_even_if_it_is_killed(name: str) -> None:
    """A digest that was open when the kill came waits for the end of its lease, 30 s."""
    found = tried(peer(name), SMALL._replace(recovery=45))

    assert found["delivered"] == found["sent"] == SMALL.events
    assert (found["missing"], found["refused"]) == (0, 0)
    assert set(found["per_second"]) == {"one", "callers", "batches"}
    assert found["notifications"] < found["sent"]
    assert 0 < found["kill"]["acknowledged"] < SMALL.stream
    assert found["kill"]["lost"] == 0
    assert found["cpu_seconds"] > 0
    assert found["memory_mib"] > 10
    assert found["late_p95"] >= 0


def test_what_a_system_loses_is_found() -> None:
    forgetful = replace(peer("Digestif, SQLite"), name="forgetful", program="tests.bench.forgetful", batches="")

    found = tried(forgetful, SMALL._replace(patience=0.5, recovery=0.5))

    assert (found["delivered"], found["missing"]) == (0, SMALL.events)
    assert found["kill"]["lost"] == found["kill"]["acknowledged"] > 0


def missing_runtime() -> Runtime:
    raise Missing("npm is not installed")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"runtime": missing_runtime}, "npm is not installed"),
        ({"program": "bench._peers.programs.unknown"}, "No module named"),
    ],
)
def test_a_system_that_can_not_be_run_says_why_and_the_others_go_on(change: dict[str, Any], why: str) -> None:
    found = tried(replace(peer("Digestif, SQLite"), **change), SMALL)

    assert found["name"] == "Digestif, SQLite"
    assert why in found["failed"]


def test_workers_end_with_the_program_that_started_them() -> None:
    """Even if that is killed."""
    worker = [sys.executable, "-m", "tests.bench.forgetful", "worker"]
    script = f"""import subprocess, time
worker = subprocess.Popen({worker}, stdin=subprocess.PIPE, start_new_session=True)
print(worker.pid, flush=True)
time.sleep(60)"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == "ready\n"
        parent.kill()

    assert becomes_true(lambda: family([pid]) == {} or not is_alive(pid))


def is_alive(pid: int) -> bool:
    """False also for a process that has ended and waits to be buried."""
    return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"


# Verdicts


def run_of(**rates: float) -> dict[str, Any]:
    """A run in which systems differ in the rate of one caller only."""
    same = {"sent": 100, "delivered": 100, "late_p95": 0.1, "cpu_seconds": 1.0, "memory_mib": 50.0}
    kill = {"lost": 0, "expected": 10}
    systems = [{"name": name, "per_second": {"one": rate}, "kill": kill, **same} for name, rate in rates.items()]
    return {"systems": systems}


def test_two_systems_that_change_places_are_named() -> None:
    first, second = run_of(ours=100, theirs=200), run_of(ours=200, theirs=100)

    assert agreement(first, second) == (1, ["events a second by one caller: ours and theirs change places"])
    assert agreement(first, first) == (1, [])


def test_figures_that_are_close_have_no_order() -> None:
    assert agreement(run_of(ours=100, theirs=120), run_of(ours=200, theirs=100)) == (0, [])


def test_a_system_that_failed_is_not_compared() -> None:
    first, second = run_of(ours=100, theirs=200), run_of(ours=200, theirs=100)
    second["systems"][1] = {"name": "theirs", "failed": "gone"}

    assert agreement(first, second) == (0, [])


def test_ahead_is_what_is_better_than_digestif_on_every_store() -> None:
    run = run_of(**{"Digestif, SQLite": 100, "Digestif, Valkey": 300, "slow": 200, "fast": 900, "close": 310})

    assert [trial["name"] for trial in ahead(run, RATES[0])] == ["fast"]


# The page


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in STORED]


def test_the_page_is_made_from_the_stored_figures(runs: list[dict[str, Any]]) -> None:
    """If not: ./dev bench peers --page."""
    assert PAGE.read_text("utf-8") == write(*runs)
    assert PICTURE.read_text("utf-8") == draw(runs)


def test_every_system_is_on_the_page_with_its_versions(runs: list[dict[str, Any]]) -> None:
    page = PAGE.read_text("utf-8")

    assert {trial["name"] for trial in runs[0]["systems"]} == {peer.name for peer in PEERS}
    for trial in succeeded(runs[0]):
        assert all(version in page for version in trial["versions"].values())


def test_the_stored_runs_are_whole_ones(runs: list[dict[str, Any]]) -> None:
    assert [run["scale"] for run in runs] == [FULL._asdict()] * 2


def test_a_system_that_could_not_be_run_is_said_so_on_the_page(runs: list[dict[str, Any]]) -> None:
    broken = deepcopy(runs[0])
    broken["systems"][-1] = {"name": PEERS[-1].name, "failed": "no network"}

    assert f"| {PEERS[-1].name} | could not be run |" in write(broken, broken)


def test_a_figure_is_given_as_the_lowest_and_the_highest_of_the_runs() -> None:
    (one,), (two,) = run_of(ours=300)["systems"], run_of(ours=100)["systems"]

    assert RATES[0].text([one, two]) == "100 – 300"
    assert RATES[0].text([one, one]) == "300"
    assert RATES[1].text([one, two]) == "–"


def test_the_page_warns_if_the_machine_had_other_work(runs: list[dict[str, Any]]) -> None:
    quiet, busy = deepcopy(runs[0]), deepcopy(runs[0])
    quiet["surroundings"].update(load=0.2, cores=2)
    busy["surroundings"].update(load=9.0, cores=2)

    assert "Other work had the machine" in write(busy, quiet)
    assert "Other work had the machine" not in write(quiet, busy)  # before the second run that is the first one's work


# The command


def test_the_command_compares_two_files(program: Program, tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    files[0].write_text(json.dumps(run_of(ours=100, theirs=200)))
    files[1].write_text(json.dumps(run_of(ours=200, theirs=100)))

    said = program(peers, "--compare", str(files[0]), str(files[1]))

    assert "0 of 1 orders" in said
    assert "ours and theirs change places" in said


def test_a_name_that_no_system_has_is_answered_with_those_there_are(program: Program) -> None:
    said = program(peers, "--only", "nothing", status=2)

    assert "BullMQ debounce" in said


def test_a_part_of_a_run_is_not_stored(program: Program) -> None:
    assert "whole runs" in program(peers, "--write", "--quick", status=2)
    assert "whole runs" in program(peers, "--write", "--only", "sqlite", status=2)
