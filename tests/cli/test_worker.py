"""`digestif worker`."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from digestif import Failed
from digestif.cli import worker
from digestif.core.texts import reason_of
from digestif.testing.servers import free_port
from digestif.worker.worker import Worker
from tests.cli.runner import Run, is_one_line, start

pytestmark = pytest.mark.long

APP = """
from digestif import Digests, Policy

digests = Digests("sqlite:///shop.db", policy=Policy(minimum_delay=0))
other = Digests("sqlite:///other.db")
silent = Digests("sqlite:///shop.db")

@digests.handler("mail:*")
def send(digest):
    with open("sent.txt", "a") as sent:
        sent.write(f"{digest.timeline} {[record.value for record in digest]}\\n")

@other.handler("*")
async def send_other(digest):
    with open("sent.txt", "a") as sent:
        sent.write(f"other {digest.timeline}\\n")

class Held:
    inside = digests
"""


@pytest.fixture(autouse=True)
def _app(folder: Path) -> None:
    (folder / "shop_app.py").write_text(APP)


def test_a_worker_delivers_what_others_add_and_ends_well_when_it_is_told_to(run: Run) -> None:
    with start("worker", "shop_app", "shop_app:other", "--json", stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert json.loads(worker.stdout.readline())["event"] == "WorkerStarted"
        run("add", "mail:ada", '"hello"', "--store", "sqlite:///shop.db")
        run("add", "chat", '"hello"', "--store", "sqlite:///other.db")
        events = [json.loads(worker.stdout.readline()) for _ in range(5)]
        worker.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in worker.stdout.read().splitlines()]
        code = worker.wait(20)

    assert code == 0
    assert {"WorkerStarted", "Claimed", "Delivered"} <= {event["event"] for event in events}
    assert [event["event"] for event in rest].count("WorkerStopped") == 2
    assert sorted(Path("sent.txt").read_text().splitlines()) == ["mail:ada ['hello']", "other chat"]


@pytest.mark.parametrize("error", [OSError("no route"), SystemExit(3), KeyboardInterrupt(), None])
def test_whatever_a_handler_raised_is_told_as_json(
    error: BaseException | None, capsys: pytest.CaptureFixture[str]
) -> None:
    event = Failed(
        timeline="t", digest_id="i", attempt=1, records=1, reason="r", late=0, took=0, error=error, retry_in=1
    )

    worker._printer([])(event)

    told = json.loads(capsys.readouterr().out)
    assert told["error"] == (None if error is None else reason_of(error))


def test_a_worker_logs_what_happens(run: Run) -> None:
    run("add", "mail:ada", "1", "--store", "sqlite:///shop.db")
    with start("worker", "shop_app:Held.inside", "--threads", "2", stderr=subprocess.PIPE) as worker:
        assert worker.stderr is not None
        log = [worker.stderr.readline(), worker.stderr.readline()]
        worker.send_signal(signal.SIGINT)
        code = worker.wait(20)

    assert code == 0
    assert b"INFO    WorkerStarted: worker=" in log[0]
    assert b"store=sqlite:///shop.db, handlers=mail:*" in log[0]
    assert b"INFO    Delivered mail:ada: records=1" in log[1]


@pytest.mark.parametrize(
    ("app", "advice"),
    [
        ("missing_app", "there is no module 'missing_app' in "),
        ("shop_app.inner", "there is no module 'shop_app.inner'"),
        ("shop_app:digest", "shop_app has no 'digest'; did you mean digests?"),
        ("shop_app:Policy", "not a Digests; name one as module:attribute"),
        ("shop_app:silent", "it has no handler; register one with @digests.handler('mail:*')"),
        ("shop_app.py", "write the module as it is imported: shop_app:digests"),
        (":digests", "write module:digests"),
    ],
)
def test_an_app_that_cannot_be_served_says_why(run: Run, app: str, advice: str) -> None:
    code, out, err = run("worker", app)

    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert advice in err


@pytest.mark.parametrize("command", [["worker"], ["timelines", "--app"]], ids=["worker", "timelines"])
@pytest.mark.parametrize(
    ("text", "frames", "reason"),
    [
        ("import not_installed\n", [1], "ModuleNotFoundError: No module named 'not_installed' (broken_app.py, line 1)"),
        ("def fail():\n    1 / 0\nfail()\n", [3, 2], "ZeroDivisionError: division by zero (broken_app.py, line 2)"),
        ("x = 1\ndef\n", [2], "SyntaxError: "),
        ("raise SystemExit(7)\n", [1], "SystemExit: 7 (broken_app.py, line 1)"),
    ],
    ids=["import", "error", "syntax", "exit"],
)
def test_an_app_that_cannot_be_imported_is_shown_with_its_traceback(
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    text: str,
    frames: list[int],
    reason: str,
) -> None:
    """Its own lines, as Python would show them, and at the end the one line of every error."""
    monkeypatch.syspath_prepend(str(folder))
    (folder / "broken_app.py").write_text(text)

    code, out, err = run(*command, "broken_app")

    assert (code, out) == (2, "")
    shown, _, last = err.rstrip("\n").rpartition("\n")
    assert re.findall(r'File "(.+)", line (\d+)', shown) == [(str(folder / "broken_app.py"), str(n)) for n in frames]
    assert shown.splitlines()[-1].startswith(reason.split(":")[0])
    assert last.startswith("digestif: broken_app: can't be imported: ")
    assert reason in last


def test_a_password_in_the_reason_is_not_shown(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the traceback nor in the last line."""
    monkeypatch.syspath_prepend(str(folder))
    (folder / "reason_app.py").write_text("raise RuntimeError('postgresql://me:' + 'sec' + 'ret@host/name is away')")

    _, _, err = run("worker", "reason_app")

    assert err.count("RuntimeError: postgresql://me:…@host/name is away") == 2
    assert "secret" not in err


def test_a_password_in_the_line_that_fails_is_not_shown(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    line = "digests = len(Digests, 'postgresql://me:secret@host/name')"
    (folder / "secret_app.py").write_text(f"from digestif import Digests\n{line}\n")

    err = run("worker", "secret_app").err

    assert 'secret_app.py", line 2' in err
    assert "postgresql://me:…@host/name" in err
    assert "secret@" not in err


@pytest.mark.parametrize("option", ["--concurrency", "--threads", "--poll"])
def test_a_wrong_option_is_refused(run: Run, option: str) -> None:
    assert run("worker", "shop_app", option, "0").code == 2


def test_a_store_that_was_never_reached_ends_it_with_a_code(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(worker, "START_SECONDS", 0.3)
    monkeypatch.setattr(Worker, "tuning", Worker.tuning._replace(last_calls=0.1))
    app = f"from digestif import Digests\ndigests = Digests('redis://127.0.0.1:{free_port()}')\ndigests.handler('*')(print)\n"
    (folder / "astray_app.py").write_text(app)

    code, _, err = run("worker", "astray_app")
    sys.modules["astray_app"].digests.close()  # otherwise calls that are under way are tried for as long as they may

    assert code == 3
    assert err.endswith("check its address and password, or let the worker wait for it (--wait, start_timeout=None)\n")
    assert "refused" in caplog.text


def test_an_app_must_be_named(run: Run) -> None:
    assert "Missing argument 'APP" in run("worker").err


def test_a_worker_whose_events_nobody_reads_ends(run: Run) -> None:
    with start("worker", "shop_app", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        worker.stdout.close()
        run("add", "mail:ada", "1", "--store", "sqlite:///shop.db")

        assert worker.wait(20) in (0, 141)


def test_a_worker_says_what_it_serves_and_shows_no_password(run: Run, folder: Path) -> None:
    (folder / "served_app.py").write_text(
        "from digestif import Digests\n"
        "digests = Digests('sqlite:///shop.db')\n"
        "digests.handler('mail:*', channel='crm')(print)\n"
        "digests.route('chat:*', channel='slack://hooks.slack.com/services/T1/B2/secret-token')\n"
    )
    with start("worker", "served_app", stderr=subprocess.PIPE) as worker:
        assert worker.stderr is not None
        line = worker.stderr.readline().decode()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0

    assert "store=sqlite:///shop.db, handlers=mail:* chat:*, channels=crm " in line
    assert "secret-token" not in line


def test_drain_delivers_what_is_due_and_ends(run: Run) -> None:
    for name in ("mail:ada", "mail:bob"):
        run("add", name, "1", "--store", "sqlite:///shop.db")

    with start("worker", "shop_app", "--drain", stderr=subprocess.PIPE) as worker:
        assert worker.wait(20) == 0
    with start("worker", "shop_app", "--drain", stderr=subprocess.PIPE) as worker:  # nothing is due
        assert worker.wait(20) == 0

    assert sorted(Path("sent.txt").read_text().splitlines()) == ["mail:ada [1]", "mail:bob [1]"]


def test_drain_of_a_store_that_does_not_answer_ends_with_a_code(run: Run, folder: Path) -> None:
    dsn = f"redis://127.0.0.1:{free_port()}?patience=0.2"
    (folder / "gone_app.py").write_text(
        f"from digestif import Digests\ndigests = Digests('{dsn}')\ndigests.handler('*')(print)\n"
    )

    with start("worker", "gone_app", "--drain", stderr=subprocess.PIPE) as worker:
        assert worker.wait(20) == 3
