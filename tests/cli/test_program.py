"""What all commands have in common: where the store is, how errors look, how they end."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import pytest

from digestif import Digests
from digestif.cli.program import cli
from digestif.clock import monotonic
from digestif.testing.servers import free_port
from tests.cli.runner import PROGRAM, Run, is_one_line, start
from tests.servers import empty_server

pytestmark = pytest.mark.long

READING = [
    ["timelines"],
    ["show", "t"],
    ["peek", "t"],
    ["explain", "t"],
    ["history"],
    ["trace", "t", "k"],
    ["flush", "t"],
    ["resume", "t"],
    ["retract", "t", "k"],
    ["delete", "t", "--yes"],
    ["dead", "list"],
    ["dead", "show", "id"],
    ["dead", "replay", "id"],
    ["dead", "requeue", "id"],
    ["dead", "discard", "id"],
    ["ledger"],
    ["verify"],
    ["repair"],
    ["status"],
    ["top", "--once"],
    ["prefer", "t"],
    ["policy", "t"],
    ["policy", "t", "--clear"],
]
MAKING = [["add", "t", "1"], ["add", "t"], ["pause", "t"], ["prefer", "t", "daily"], ["policy", "t", "hourly"]]
WITHOUT_STORE = [
    *(["demo"], ["worker", "app"], ["completion", "bash"], ["move", "a", "b"], ["render"], ["send-test", "a", "b"]),
    *(["serve"], ["init"], ["check"], ["token", "a"]),  # it makes a store, or looks at none
    ["migrate"],  # files and memory are not opened
    ["replan"],  # it needs --app
    *(["mailbox", "list"], ["mailbox", "show"]),  # it has a folder of its own
]


def named(arguments: list[str]) -> str:
    return " ".join(arguments)


def test_the_lists_above_name_every_command() -> None:
    listed = {named(arguments) for arguments in [*READING, *MAKING, *WITHOUT_STORE]}

    assert [name for name in command_names() if not any(call.startswith(name) for call in listed)] == []


def command_names() -> list[str]:
    groups = {name: group for name, group in cli.commands.items() if isinstance(group, click.Group)}
    names = [name for name in cli.commands if name not in groups]
    return names + [f"{name} {part}" for name, group in groups.items() for part in group.commands]


# The store


@pytest.mark.parametrize("arguments", READING, ids=named)
def test_a_store_that_does_not_exist_is_not_made_by_looking_for_it(
    run: Run, folder: Path, arguments: list[str]
) -> None:
    for options in ([], ["--json"]):
        code, out, err = run(*arguments, *options)
        assert (code, out) == (2, "")
        assert is_one_line(err)
        assert "there is no store at digestif.db; 'digestif add' makes it" in err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [*READING, *MAKING], ids=named)
def test_a_store_that_cannot_be_reached_is_told_apart(run: Run, folder: Path, arguments: list[str]) -> None:
    (folder / "blocked").mkdir()

    code, out, err = run(*arguments, "--store", "sqlite:///blocked")

    assert (code, out) == (3, "")
    assert is_one_line(err)
    assert "blocked" in err


@pytest.mark.parametrize("arguments", [*READING, *MAKING], ids=named)
def test_a_wrong_store_is_refused_without_its_password(run: Run, arguments: list[str]) -> None:
    for dsn in ("nothing://user:secret@host", "user:secret@host", "memory://", "sqlite://"):
        code, out, err = run(*arguments, "--store", dsn)
        assert (code, out) == (2, "")
        assert is_one_line(err)
        assert "secret" not in err


def test_options_may_come_before_or_after_the_command_and_from_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGESTIF_STORE", "sqlite:///environment.db")
    run("add", "env", "1")
    run("--store", "sqlite:///before.db", "add", "before", "1")
    run("add", "after", "1", "--store", "sqlite:///after.db")
    run("--store", "sqlite:///before.db", "--namespace", "x", "add", "space", "1")

    def keys(*options: str) -> list[str]:
        return [each["key"] for each in run("--json", *options, "timelines").lines]

    assert keys() == ["env"]
    assert keys("--store", "sqlite:///before.db") == ["before"]
    assert keys("--store", "sqlite:///after.db") == ["after"]
    assert keys("--store", "sqlite:///before.db", "--namespace", "x") == ["space"]


def test_a_program_brings_its_store_and_policy(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "shop.py").write_text(
        "from digestif import *\n"
        "digests = Digests('sqlite:///shop.db', policy=Policy(first_delay=60), namespace='shop')\n"
        "later = AsyncDigests('sqlite:///shop.db', namespace='shop')\n"
    )
    monkeypatch.syspath_prepend(str(folder))

    assert "t is due in 1 min" in run("add", "t", "1", "--app", "shop").out
    assert run("--app", "shop:later", "status", "--json").json["namespace"] == "shop"
    assert "--app brings its own store" in run("status", "--app", "shop", "--store", "sqlite:///x.db").err
    assert "--app brings its own store" in run("--app", "shop", "--namespace", "x", "status").err
    assert "shop has no 'digest'; did you mean digests?" in run("status", "--app", "shop:digest").err


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster", "postgresql"])
def test_a_refused_connection_is_told_at_once(run: Run, scheme: str) -> None:
    """It would be tried again for ten seconds."""
    began = monotonic()

    code, out, err = run("status", "--store", f"{scheme}://127.0.0.1:{free_port()}/0")

    assert (code, out) == (3, "")
    assert is_one_line(err)
    assert "refused" in err.lower()
    assert err.endswith("check that the server is up and can be reached\n")
    assert "within 0 s" not in err
    assert monotonic() - began < 4


# Errors


def test_on_a_terminal_a_long_error_breaks_between_words() -> None:
    there, here = pty.openpty()
    name = "sqlite:///" + "folder/" * 5 + "missing.db"

    with start("status", "--store", name, stderr=here, env={**os.environ, "COLUMNS": "60"}) as program:
        assert program.wait(20) == 2
    said = os.read(there, 10_000).decode()
    os.close(there)
    os.close(here)

    assert max(map(len, said.splitlines())) <= 60
    assert said.splitlines()[1].startswith("  ")
    assert (
        "'digestif add' makes it, or name another: --store DSN, DIGESTIF_STORE in the environment, "
        "or --app module:digests for that of your program"
    ) in " ".join(said.split())


def test_wrong_usage_is_one_line_that_says_where_to_look(run: Run) -> None:
    for arguments in (["nope"], ["--nope"], ["show"], ["timelines", "--limit", "0"], ["completion", "csh"]):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert is_one_line(err)
        assert err.endswith("--help\n")


def test_without_a_command_there_is_help(run: Run) -> None:
    for arguments in ([], ["dead"]):
        code, out, err = run(*arguments)
        assert (code, err) == (2, "")
        assert out.startswith("Usage: digestif")


def test_help_fits_in_80_columns_and_cuts_no_sentence(run: Run) -> None:
    for name in ["", *command_names()]:
        code, out, _ = run(*name.split(), "--help")
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80
        assert "..." not in out.replace("[ARGS]...", "")


def test_the_version_is_told(run: Run) -> None:
    assert run("--version").out.startswith("digestif 0.")


@pytest.mark.parametrize("command", [["worker", "app"], ["demo"]], ids=named)
def test_a_command_with_a_store_of_its_own_says_so(run: Run, command: list[str]) -> None:
    code, _, err = run("--store", "sqlite:///x.db", *command)

    assert code == 2
    assert "takes no --store" in err


# What is shown


def test_nothing_stored_can_steer_a_terminal(run: Run, digests: Digests) -> None:
    hostile = "a\x1b[2Jb\nc\x9bd\u202ee"
    digests.add(hostile, {hostile: hostile}, key=hostile)

    for arguments in (["timelines"], ["show", hostile], ["peek", hostile], ["explain", hostile], ["top", "--once"]):
        for options in ([], ["--json"]):
            _, out, _ = run(*arguments, *options)
            assert all(line.isprintable() for line in out.splitlines())
    assert run("timelines", "--json").json["key"] == hostile
    assert run("peek", hostile, "--json").json["value"] == {hostile: hostile}


def test_on_a_terminal_lists_fit_and_in_a_file_nothing_is_cut(digests: Digests) -> None:
    digests.add("long:" + "x" * 200, "y" * 300, key="k")

    there, here = pty.openpty()
    os.set_blocking(there, False)
    with start("timelines", stdout=here, env={**os.environ, "COLUMNS": "80"}) as program:
        assert program.wait(20) == 0
    shown = os.read(there, 10_000).decode()
    filed = subprocess.run([*PROGRAM, "timelines"], capture_output=True, text=True, check=True).stdout
    os.close(there)
    os.close(here)

    assert "…" in shown
    assert "x" * 200 in filed
    assert "\x1b" not in filed


def test_no_color_is_respected(digests: Digests) -> None:
    digests.add("t", 1)
    there, here = pty.openpty()

    with start("timelines", stdout=here, env={**os.environ, "NO_COLOR": "1", "TERM": "xterm"}) as program:
        assert program.wait(20) == 0
    shown = os.read(there, 10_000)
    os.close(there)
    os.close(here)

    assert b"timeline" in shown
    assert b"\x1b" not in shown


def test_all_commands_work_on_a_server_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIGESTIF_STORE", empty_server().url)
    run("add", "t", "1", "--key", "k")

    codes = {named(arguments): run(*arguments).code for arguments in [*READING, *MAKING]}

    negative = {
        "flush t",
        "resume t",
        "dead show id",
        "dead replay id",
        "dead requeue id",
        "dead discard id",
        "prefer t",
        "policy t --clear",
    }
    assert codes == {name: 1 if name in negative else 0 for name in codes}


# How it ends


def test_a_reader_who_leaves_is_no_error(digests: Digests) -> None:
    digests.add_many([(f"timeline-{number:06}" * 10, 1) for number in range(3000)])

    with start("timelines", "--limit", "3000", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        said = program.stderr.read()
        code = program.wait(20)

    assert (code, said) == (141, b"")


def test_ctrl_c_ends_a_stream_and_keeps_what_was_accepted(digests: Digests) -> None:
    with start("add", "t", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stderr is not None
        program.stdin.write(b"1\n2\n")
        program.stdin.flush()
        with closing(digests.store.listen()) as wakeups:
            while digests.ledger().accepted < 2:  # a slow writer is not waited for
                wakeups.wait(0.05)
        program.send_signal(signal.SIGINT)
        said = program.stderr.read()
        code = program.wait(20)

    assert (code, said.strip()) == (130, b"digestif: stopped; 2 lines were accepted")


def test_more_lines_than_a_timeline_keeps_are_all_accounted_for(digests: Digests) -> None:
    lines = b"".join(b'{"title": "event %d"}\n' % number for number in range(20_000))

    with start("add", "t", "--json", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        out, _ = program.communicate(lines, 60)

    assert json.loads(out) == {"accepted": 20_000, "ready": 1, "dropped": 10_000}
    assert digests.ledger().accepted == 20_000


# Completion and start


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_taught_to_complete(run: Run, shell: str) -> None:
    code, out, _ = run("completion", shell)

    assert code == 0
    assert "_DIGESTIF_COMPLETE" in out


def test_commands_options_and_timelines_are_completed(digests: Digests) -> None:
    digests.add_many([("mail:ada", 1), ("mail:bob", 1), ("chat", 1)])

    assert completions("digestif ti") == ["plain,timelines"]
    assert completions("digestif timelines --pre") == ["plain,--prefix"]
    assert completions("digestif show mail:") == ["plain,mail:ada", "plain,mail:bob"]
    with Digests("sqlite:///elsewhere.db") as elsewhere:
        elsewhere.add("chat:#ops", 1)
    assert completions("digestif --store sqlite:///elsewhere.db show c") == ["plain,chat:#ops"]


def completions(typed: str) -> list[str]:
    environment = {
        **os.environ,
        "_DIGESTIF_COMPLETE": "bash_complete",
        "COMP_LINE": typed,
    }
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_help_needs_neither_the_engine_nor_rich() -> None:
    """That is what makes it start in a tenth of a second."""
    costly = {"asyncio", "dataclasses", "digestif.digests", "logging", "msgspec", "rich", "sqlite3"}
    code = "import atexit, runpy, sys; atexit.register(lambda: print(*sys.modules)); runpy.run_module('digestif')"

    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)

    assert "digestif.cli.program" in done.stdout.split()
    assert costly & set(done.stdout.split()) == set()
