"""`digestif top`."""

import os
import pty
import select
import subprocess

import pytest

from digestif import Digests
from digestif.cli import top
from tests.cli.runner import Run, start


def test_one_view_tells_what_waits_longest_first(run: Run, digests: Digests) -> None:
    for timeline in ("cooling", "later"):
        digests.add(timeline, 1)
        with digests.digest(timeline):
            pass
    digests.add("later", 2)
    digests.pause("held")
    digests.add("held", 3)
    digests.add("now", 4)

    code, out, _ = run("top", "--once")
    document = run("top", "--once", "--json").json

    assert code == 0
    assert "rates      in –   out –" in out
    assert "timelines  4 stored: 2 waiting, 1 ready, 0 open, 1 paused or idle" in out
    assert max(map(len, out.splitlines())) <= 80
    assert [each["key"] for each in document["timelines"]] == ["now", "later", "cooling", "held"]
    assert document["rates"] == {"accepted": None, "delivered": None}
    assert document["ledger"]["accepted"] == 5
    assert "records    5 accepted, 2 delivered, 3 pending, 0 open\n" in out


def test_rates_are_those_since_the_look_before(digests: Digests) -> None:
    before = top.take(digests)
    digests.add_many([("t", number) for number in range(30)])
    with digests.digest("t"):
        pass

    after = top.take(digests, before._replace(taken=before.taken - 10))

    assert after.accepted_rate == pytest.approx(3, rel=0.2)
    assert after.delivered_rate == pytest.approx(3, rel=0.2)


def test_dead_letters_are_shown(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    for _ in range(digests.policy.attempts):
        with pytest.raises(TimeoutError), digests.digest("t"):
            raise TimeoutError("no answer")

    out = run("top", "--once").out

    assert "1 record in dead letters, the oldest:" in out
    assert "TimeoutError: no answer" in out


def test_more_timelines_than_fit_are_counted(run: Run, digests: Digests) -> None:
    digests.add_many([(f"t{number}", 1) for number in range(top.ROWS + 5)])

    assert run("top").out.endswith("  + 5 more\n")


@pytest.mark.parametrize("interval", ["0", "soon"])
def test_a_wrong_interval_is_refused(run: Run, interval: str) -> None:
    assert run("top", "--interval", interval).code == 2


def test_json_goes_on_until_the_reader_leaves(digests: Digests) -> None:
    digests.add("t", 1)
    with start("top", "--json", "--interval", "0.1", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        first, second = program.stdout.readline(), program.stdout.readline()
        program.stdout.close()
        said, code = program.stderr.read(), program.wait(20)

    assert b'"accepted": null' in first
    assert b'"accepted": 0.0' in second
    assert (code, said) == (141, b"")


@pytest.mark.parametrize(("key", "code"), [(b"q", 0), (b"\x03", 130)])
def test_q_and_ctrl_c_end_the_live_view_and_the_terminal_is_as_before(digests: Digests, key: bytes, code: int) -> None:
    import termios

    digests.add("t", 1)
    there, here = pty.openpty()
    termios.tcsetwinsize(here, (24, 80))
    before = termios.tcgetattr(here)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}

    def begin() -> None:
        import fcntl

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with start(
        "top", "--interval", "0.2", stdin=here, stdout=here, stderr=here, env=environment, begin=begin
    ) as program:
        shown = b""
        while b"q ends" not in shown:
            assert select.select([there], [], [], 20)[0]
            shown += os.read(there, 65536)
        os.write(there, key)
        while program.poll() is None:
            if select.select([there], [], [], 0.05)[0]:
                shown += os.read(there, 65536)

    assert program.returncode == code
    assert b"1 stored: 0 waiting, 1 ready, 0 open" in shown
    assert termios.tcgetattr(here) == before
    os.close(there)
    os.close(here)
