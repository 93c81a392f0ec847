"""Applications that are made by a function: `module:make`."""

import subprocess
import sys
from pathlib import Path

import pytest

from digestif import Digests
from digestif.exports import explain_missing
from tests.cli.runner import PROGRAM, Run, is_one_line, start

APP = """
from functools import partial
from digestif import AsyncDigests, Digests, Policy

def make(file="made.db"):
    digests = Digests(f"sqlite:///{file}", policy=Policy(first_delay=60, minimum_delay=0))
    @digests.handler("mail:*")
    def send(digest):
        with open("sent.txt", "a") as sent:
            sent.write(digest.timeline)
    return digests

def later():
    return AsyncDigests("sqlite:///made.db")

def wanting(dsn, *, namespace):
    return Digests(dsn, namespace=namespace)

def other():
    return "sqlite:///made.db"

def failing():
    raise RuntimeError("no settings")

async def slow():
    return make()

bound = partial(wanting, "sqlite:///made.db", namespace="bound")
"""


@pytest.fixture(autouse=True)
def _app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (folder / "made_app.py").write_text(APP)


def test_a_function_makes_the_engine_of_a_command(run: Run) -> None:
    assert "t is due in 1 min" in run("add", "t", "1", "--app", "made_app:make").out
    assert run("timelines", "--json", "--app", "made_app:later").json["key"] == "t"
    assert run("status", "--json", "--app", "made_app:bound").json["namespace"] == "bound"


def test_a_worker_serves_what_a_function_makes(run: Run) -> None:
    with Digests("sqlite:///made.db") as digests:
        digests.add("mail:ada", 1)

    with start("worker", "made_app:make", "--drain", stderr=subprocess.PIPE) as worker:
        assert worker.wait(20) == 0

    assert Path("sent.txt").read_text() == "mail:ada"


@pytest.mark.parametrize("command", [["worker"], ["timelines", "--app"]], ids=["worker", "timelines"])
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("wanting", "wanting needs arguments (dsn, namespace), and is called without; give them defaults"),
        ("other", "other() gave 'sqlite:///made.db', not a Digests"),
        ("slow", "slow is a coroutine; name a plain function that returns a Digests"),
    ],
)
def test_a_function_that_makes_none_is_refused(run: Run, command: list[str], name: str, advice: str) -> None:
    code, out, err = run(*command, f"made_app:{name}")

    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert advice in err


def test_a_function_that_fails_is_shown_with_its_traceback(run: Run) -> None:
    code, _, err = run("status", "--app", "made_app:failing")

    assert code == 2
    assert 'made_app.py", line' in err
    assert "made_app:failing: failing() failed: RuntimeError: no settings (made_app.py, line" in err


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("def make():\n    return Digests('memory://')", "; name the function that makes one: hinted:make"),
        ("def mail_digests():\n    ...", "; name the function that makes one: hinted:mail_digests"),
        ("def build() -> 'Digests':\n    ...", "; name the function that makes one: hinted:build"),
        ("def build() -> Digests:\n    ...", "; name the function that makes one: hinted:build"),
        ("def make(dsn):\n    ...", "; there is no Digests in it"),
        ("def other():\n    ...", "; there is no Digests in it"),
    ],
)
def test_a_function_that_looks_as_if_it_makes_one_is_suggested(run: Run, folder: Path, code: str, hint: str) -> None:
    (folder / "hinted.py").write_text(f"from digestif import Digests\n\n{code}\n")
    sys.modules.pop("hinted", None)

    answer = run("worker", "hinted")

    assert answer.code == 2
    assert answer.err.endswith(f"hinted has no 'digests'{hint}\n")


@pytest.mark.parametrize("command", [["status", "--app"], ["worker"]])
def test_a_missing_extra_is_one_line_with_its_place_and_no_traceback(folder: Path, command: list[str]) -> None:
    (folder / "needy.py").write_text(
        "import sys\nsys.modules['redis'] = None\n"
        "from digestif import Digests\n\ndigests = Digests('redis://me:secret@localhost')\n"
    )

    done = subprocess.run([*PROGRAM, *command, "needy"], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "digestif: needy: can't be imported: store: redis:// "
        f"{explain_missing('redis', extra='redis')} (needy.py, line 5)\n"
    )


def test_a_wrong_option_in_an_application_is_one_line_with_the_line_of_the_application(run: Run, folder: Path) -> None:
    (folder / "mistaken.py").write_text("from digestif import Policy\n\npolicy = Policy(minimum_delay='5m')\n")

    code, _, err = run("status", "--app", "mistaken")

    assert code == 2
    assert is_one_line(err)
    assert err.startswith("digestif: mistaken: can't be imported: minimum_delay: '5m' is not a number")
    assert err.endswith("(mistaken.py, line 3)\n")
