"""The file of settings on the command line: init, check, token, and --config of other commands."""

import os
import socket
import stat
import tomllib
from pathlib import Path

import pytest

from digestif import Digests
from digestif.service.security.tokens import Tokens, hash_of
from digestif.service.settings import Scope, Token
from tests.cli.runner import Run, is_one_line

FILE = """
store = "sqlite:///other.db"
policy = "hourly"
[cadences]
lunch = "daily@12:00 UTC"
[channels]
outbox = "file://./outbox"
[[routes]]
pattern = "mail:*"
channel = "outbox"
policy = "immediate"
title = "News for you"
"""


@pytest.fixture
def file(folder: Path) -> Path:
    """A file of settings in another folder."""
    (folder / "settings").mkdir()
    made = folder / "settings" / "mine.toml"
    made.write_text(FILE)
    return made


def test_the_file_that_init_writes_is_good(run: Run) -> None:
    assert run("init").out == "wrote digestif.toml; next: digestif serve\n"
    assert run("check") == (0, "digestif.toml is good: 1 route, 0 tokens\n", "")


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_only_the_owner_can_read_the_file_that_init_writes(run: Run, folder: Path, options: tuple[str, ...]) -> None:
    before = os.umask(0)
    try:
        assert run("init", *options).code == 0
    finally:
        os.umask(before)

    assert stat.S_IMODE((folder / "digestif.toml").stat().st_mode) == 0o600


def test_init_never_writes_through_a_link(run: Run, folder: Path) -> None:
    other, file = folder / "other", folder / "digestif.toml"
    other.write_text("precious")
    file.symlink_to(other)

    assert "is there already" in run("init").err
    assert run("init", "--force").code == 0

    assert other.read_text() == "precious"
    assert not file.is_symlink()


def test_init_leaves_a_file_alone_unless_it_is_forced(run: Run, folder: Path) -> None:
    (folder / "digestif.toml").write_text("mine")

    code, _, err = run("init")

    assert (code, err) == (2, "digestif: digestif.toml is there already; --force replaces it\n")
    assert (folder / "digestif.toml").read_text() == "mine"
    assert run("init", "--force").code == 0
    assert "[serve]" in (folder / "digestif.toml").read_text()


def test_check_reports_every_problem(run: Run, folder: Path) -> None:
    (folder / "a.toml").write_text('stoer = 1\n[serve]\nlisten = "x"\n')

    code, out, err = run("check", "a.toml")

    assert (code, err) == (2, "")
    assert out.splitlines() == [
        "a.toml: line 1: stoer: there is no such setting; did you mean store?",
        "a.toml: line 3: serve.listen: 'x' is not HOST:PORT, such as 127.0.0.1:8321 or [::1]:8321",
    ]


@pytest.mark.parametrize(
    "exposed", ['listen = "0.0.0.0:8321"', 'public = "https://a.example"', 'hosts = ["a.example"]']
)
def test_check_reports_a_service_that_other_computers_could_use_without_a_token(
    run: Run, folder: Path, exposed: str
) -> None:
    (folder / "a.toml").write_text(f"[serve]\n{exposed}\n")

    code, out, _ = run("check", "a.toml")

    assert code == 2
    assert "can be reached from other computers, and there are no tokens" in out


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('[serve]\npublic = "http://["', "serve.public"),
        ('[serve]\nhosts = ["["]', "serve.hosts"),
        ("[worker]\npoll = 0", "worker.poll"),
    ],
)
def test_check_reports_what_the_service_could_not_begin_with(run: Run, folder: Path, text: str, path: str) -> None:
    (folder / "a.toml").write_text(text)

    code, out, err = run("check", "a.toml")

    assert (code, err) == (2, "")
    assert out.startswith(f"a.toml: line 2: {path}: ")
    assert out.count("\n") == 1


def test_check_answers_in_json(run: Run, folder: Path) -> None:
    (folder / "a.toml").write_text("stoer = 1")

    code, out, _ = answer = run("check", "a.toml", "--json")

    assert code == 2
    assert answer.json == {
        "file": "a.toml",
        "good": False,
        "problems": [
            {"path": "stoer", "line": 1, "problem": "there is no such setting; did you mean store?"},
        ],
        "warnings": [],
    }, out


def test_check_makes_no_store(run: Run, folder: Path) -> None:
    run("init")
    run("check")

    assert [path.name for path in folder.iterdir()] == ["digestif.toml"]


@pytest.mark.parametrize("scheme", ["redis", "valkey+cluster", "redis+sentinel", "postgresql"])
def test_check_connects_to_no_server(run: Run, folder: Path, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        path = "/mymaster" if scheme.endswith("sentinel") else ""
        (folder / "a.toml").write_text(f'store = "{scheme}://127.0.0.1:{server.getsockname()[1]}{path}"\n')

        assert run("check", "a.toml").out.endswith("a.toml is good: 0 routes, 0 tokens\n")

        with pytest.raises(BlockingIOError):
            server.accept()


def test_check_warns_of_a_window_that_the_worker_may_miss(run: Run, folder: Path) -> None:
    (folder / "a.toml").write_text(
        'policy = "hours@09:00-09:01 UTC"\n[worker]\npoll = 45\n[cadences]\nshort = "hours@10:00-10:01 UTC"\n'
        '[[routes]]\npattern = "a"\nchannel = "file://./out"\npolicy = "hours@09:00-09:02 UTC"\n'
    )
    doubt = (
        "Window.hours('09:00-09:01', tz='UTC') is open for 60 s, and the worker looks every 45 s: it may be missed; "
        "make it 90 s or longer, or let the worker poll every 30 s"
    )

    code, out, _ = run("check", "a.toml")
    found = run("check", "a.toml", "--json").json

    assert code == 0
    assert out.splitlines()[0] == f"a.toml: warning: policy: {doubt}"
    assert out.splitlines()[-1] == "a.toml is good: 1 route, 0 tokens"
    assert found["good"]
    assert [each["path"] for each in found["warnings"]] == ["policy", "cadences.short"]


@pytest.mark.parametrize(("prefixes", "warns"), [(256, False), (257, True)])
def test_check_warns_of_more_prefixes_than_have_bounds_of_their_own(
    run: Run, folder: Path, prefixes: int, warns: bool
) -> None:
    names = ["", *(f"p{number}:" for number in range(prefixes)), "p0:"]
    tables = (
        f'[[tokens]]\nname = "t{place}"\nhash = "{hash_of(str(place))}"\nscopes = ["read"]\nprefix = "{name}"\n'
        for place, name in enumerate(names)
    )
    (folder / "a.toml").write_text("\n".join(['store = "memory://"', *tables]))

    code, out, _ = run("check", "a.toml")

    assert code == 0
    assert ("a.toml: warning: tokens: have 257 prefixes, and 256 of a namespace have bounds" in out) is warns


def test_a_token_comes_with_its_table(run: Run) -> None:
    out = run("token", 'a "b"', "--scope", "read", "--scope", "ingest", "--prefix", "shop:").out
    token = out.splitlines()[0].removeprefix("token: ")
    [table] = tomllib.loads(out.partition("\n\n")[2])["tokens"]

    assert table == {"name": 'a "b"', "hash": hash_of(token), "scopes": ["read", "ingest"], "prefix": "shop:"}
    known = Tokens([Token(name="x", hash=table["hash"], scopes=frozenset([Scope.READ]))])
    assert known.find(token) is not None
    assert known.find(token[:-1]) is None


def test_commands_know_the_policies_and_cadences_of_the_file(run: Run, file: Path) -> None:
    config = ["--config", str(file)]
    run("add", "chat", "1", *config)

    assert "immediate (route mail:*)" in run("policy", "mail:ada", *config).out
    assert "hourly (engine)" in run("policy", "chat", *config).out
    assert "mail:ada is lunch: daily@12:00 UTC" in run("prefer", "mail:ada", "lunch", *config).out
    assert run("replan", *config).code == 0
    with Digests(f"sqlite:///{file.parent}/other.db") as digests:
        assert digests.preference("mail:ada") is not None


def test_the_file_may_stand_in_the_environment_or_in_the_folder(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("add", "mail:ada", "1", "--config", str(file))
    monkeypatch.setenv("DIGESTIF_CONFIG", str(file))
    by_variable = run("timelines").out
    monkeypatch.delenv("DIGESTIF_CONFIG")
    file.rename("digestif.toml")
    run("add", "mail:bob", "1")

    assert "mail:ada" in by_variable
    assert "mail:bob" in run("timelines").out
    assert Path("other.db").exists()
    assert not Path("digestif.db").exists()


def test_a_store_that_is_typed_goes_before_a_file_that_was_found(run: Run, file: Path) -> None:
    file.rename("digestif.toml")

    run("add", "t", "1", "--store", "sqlite:///typed.db")

    assert Path("typed.db").exists()
    assert not Path("other.db").exists()
    assert "default (engine" in run("policy", "t", "--store", "sqlite:///typed.db").out


def test_a_message_is_rendered_by_the_route_of_the_file(run: Run, file: Path) -> None:
    run("add", "mail:ada", '"hello"', "--config", str(file))

    assert "News for you" in run("render", "--timeline", "mail:ada", "--config", str(file)).out


def test_a_channel_is_tested_by_its_name(run: Run, file: Path) -> None:
    sent = run("send-test", "outbox", "ada", "--config", str(file))
    wrong = run("send-test", "outbx", "ada", "--config", str(file))

    assert sent.code == 0
    assert list((file.parent / "outbox").iterdir())
    assert (wrong.code, "did you mean outbox?" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["status", "--app", "shop"], "--app brings its own settings; leave out --config"),
        (["worker", "shop"], "an APP brings its own settings; leave out --config, or the APP"),
        (["add", "t", "1", "--policy", "hourly"], "brings its own policies; leave out --policy"),
    ],
)
def test_what_can_not_stand_together_is_refused(run: Run, file: Path, arguments: list[str], advice: str) -> None:
    code, _, err = run(*arguments, "--config", str(file))

    assert code == 2
    assert is_one_line(err)
    assert advice in err


def test_a_worker_without_routes_says_so(run: Run, file: Path) -> None:
    file.write_text("")

    code, _, err = run("worker", "--config", str(file))

    assert code == 2
    assert "there are no [[routes]], so there is nothing to deliver; add one" in err


def test_a_wrong_file_is_told_in_one_line(run: Run, file: Path) -> None:
    file.write_text("a = 1\nb = 2\n")

    code, _, err = run("status", "--config", str(file))

    assert code == 2
    assert is_one_line(err)
    assert f"(and 1 more: digestif check {file})" in err


def test_check_warns_that_nothing_is_delivered_without_a_route(run: Run, folder: Path) -> None:
    (folder / "a.toml").write_text('store = "sqlite:///a.db"\n')

    assert run("check", "a.toml").out == (
        "a.toml: warning: routes: there is none: records are accepted, and nothing is delivered unless a program of "
        "yours does\na.toml is good: 0 routes, 0 tokens\n"
    )


def test_check_reports_a_recipient_that_can_be_no_address(run: Run, folder: Path) -> None:
    (folder / "a.toml").write_text(
        '[[routes]]\npattern = "mail:*"\nchannel = "smtp://localhost?from=a@b.c"\nto = "no address"\n'
    )

    code, out, _ = run("check", "a.toml")

    assert (code, out) == (2, "a.toml: line 1: routes[0]: to: 'no address' is not an address such as ada@example.org\n")
