"""`digestif demo`."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from digestif.cli.incident import AUDIENCES, EVENTS, incident
from digestif.cli.story import program
from tests.cli.runner import Run, start
from tests.service.harness import Client, segment

pytestmark = pytest.mark.long


def test_an_incident_becomes_a_few_messages_and_the_ledger_balances(run: Run, folder: Path) -> None:
    code, out, err = run("demo", "--seconds", "1.5")
    lines = out.splitlines()

    assert (code, err) == (0, "")
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in out
    assert "delivery failed" in out
    assert "ConnectionError: the chat server answers 503" in out
    assert "(attempt 2)" in out
    assert re.search(r"^ +\+ \d+ more$", out, re.MULTILINE)
    assert re.search(rf"^ {EVENTS} events in, \d+ messages out in ", out, re.MULTILINE)
    assert f" ledger  {EVENTS} accepted = " in out
    assert ": balanced\n" in out
    assert "digestif status" in lines[-3]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("started", "path", "typed"),
    [
        (".venv/bin/digestif", "", ".venv/bin/digestif"),
        (".venv/bin/digestif", ".venv/bin", "digestif"),
        ("pytest", "", "digestif"),
    ],
)
def test_it_says_what_to_type_from_here(
    started: str, path: str, typed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / started).parent.mkdir(parents=True, exist_ok=True)
    (folder / started).touch(0o755)
    monkeypatch.setattr("sys.argv", [str(folder / started)])
    monkeypatch.setenv("PATH", str(folder / path) if path else "")

    assert program() == typed


def test_the_figures_are_there_as_json(run: Run) -> None:
    figures = run("--json", "demo", "--seconds", "1", "--seed", "7").json

    assert figures["good"] is True
    assert figures["events"] == EVENTS
    assert 4 <= figures["messages"] < EVENTS / 8
    assert figures["failures"] >= 1
    assert figures["ledger"]["pending"] == figures["ledger"]["open"] == 0


def test_a_seed_repeats_the_incident_exactly() -> None:
    assert list(incident(14, seed=3)) == list(incident(14, seed=3))
    assert list(incident(14, seed=3)) != list(incident(14, seed=4))


def test_time_goes_forward_in_it() -> None:
    times = [each.at for each in incident(14, seed=1)]

    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= 14


def test_a_length_must_make_sense(run: Run) -> None:
    assert run("demo", "--seconds", "0").code == 2


def test_ctrl_c_ends_it_quietly() -> None:
    with start("demo", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        demo.stdout.readline()
        demo.stdout.readline()
        demo.stdout.readline()
        demo.stdout.readline()
        demo.send_signal(signal.SIGINT)
        code, said = demo.wait(), demo.stderr.read()

    assert (code, said.strip()) == (130, b"")


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    with start("demo", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        demo.stdout.close()
        code, said = demo.wait(), demo.stderr.read()

    assert (code, said) == (141, b"")


def test_it_ends_with_a_dashboard_of_its_run_until_a_key_is_pressed() -> None:
    screen, terminal = os.openpty()
    with start("demo", "--seconds", "1", stdin=terminal, stdout=terminal, stderr=subprocess.PIPE) as demo:
        os.close(terminal)
        shown = b""
        while not (link := re.search(rb"until you press a key: http://127\.0\.0\.1:(\d+)/", shown)):
            shown += os.read(screen, 4096)
        client = Client(int(link[1]))
        known = [client.get(f"/v1/timelines/{segment(name)}").json()["key"] for name in AUDIENCES]
        os.write(screen, b"x")
        code = demo.wait(30)
    os.close(screen)

    assert code == 0
    assert known == list(AUDIENCES)


def test_without_a_terminal_there_is_no_dashboard(run: Run) -> None:
    assert "dashboard, until" not in run("demo", "--seconds", "1").out
