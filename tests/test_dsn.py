"""DSNs open stores, and wrong ones say what to write instead."""

import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from digestif import AsyncDigests, ConfigError, Digests
from digestif.channels import open_channel
from digestif.core.secret import Secret
from digestif.dsn import (
    Dsn,
    choice,
    existing_file,
    number,
    option,
    option_names,
    redacted,
    redacted_lines,
    whole_number,
    yes_or_no,
)
from digestif.integrations.logging import DigestHandler
from digestif.stores import registry
from digestif.stores.registry import check_dsn, open_store


@pytest.mark.parametrize(
    ("text", "kind"),
    [("memory://", "MemoryStore"), ("sqlite://", "SQLiteStore"), ("off://", "OffStore"), ("MEMORY://", "MemoryStore")],
)
def test_each_scheme_opens_its_store(text: str, kind: str) -> None:
    store = open_store(text)

    assert type(store).__name__ == kind
    store.close()


def test_a_path_is_relative_with_three_slashes_and_absolute_with_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///here%20it%20is.db").close()
    open_store(f"sqlite:///{tmp_path}/there.db").close()

    assert (tmp_path / "here it is.db").exists()
    assert (tmp_path / "there.db").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("digests.db", "is not a DSN such as sqlite"),
        ("", "is not a DSN"),
        ("sqlight:///x.db", "did you mean sqlite[?]"),
        ("sqlite3:///x.db", "did you mean sqlite[?]"),
        ("file:///x.db", "did you mean sqlite[?]"),
        ("sqlite:x.db", "did you mean sqlite://…[?]"),
        ("redis:/host", "did you mean redis://…[?]"),
        ("postgres:/host/db", "did you mean postgres://…[?]"),
        ("postgresql+psycopg://host/db", "did you mean postgresql[?]"),
        ("pg://host/db", "did you mean postgresql[?]"),
        ("redis+tls://host", "did you mean rediss[?]"),
        ("localhost:6379", "is not a DSN such as sqlite"),
        ("sqlite://x.db", "three slashes"),
        ("sqlite:///", "sqlite:// for memory"),
        ("sqlite:///:memory:", "sqlite:// for memory"),
        ("sqlite:///x.db?sync=full", "sync: no such option.*synchronous"),
        ("sqlite:///x.db?synchronous=off", "synchronous: 'off'"),
        ("sqlite:///x.db?timeout=soon", "timeout: 'soon'"),
        ("sqlite:///x.db?timeout=-1", "timeout: -1"),
        ("sqlite:///x.db?timeout=nan", "timeout: nan"),
        ("memory://here", "takes no path"),
        ("memory://?size=3", "size: no such option.*value_bytes"),
        ("memory://?value_bytes=262143", "value_bytes: .* from 262144 to 1048576"),
        ("off://?value_bytes=1048577", "value_bytes: .* from 262144 to 1048576"),
        ("memory://?value_bytes=300000&value_bytes=300000", "value_bytes: .* given twice"),
    ],
)
def test_a_wrong_dsn_is_a_config_error_that_names_the_field(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_store(text)


@pytest.mark.parametrize("namespace", ["", "a b", "ü", "x" * 65, "a/b", None])
def test_a_namespace_is_a_short_plain_word(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        Digests("memory://", namespace=namespace)


def test_a_store_object_keeps_its_own_namespace() -> None:
    store = open_store("memory://", namespace="mine")

    assert Digests(store).store.namespace == "mine"
    assert Digests(store, namespace="mine").store is store
    with pytest.raises(ConfigError, match="'other' was given, but the store has 'mine'"):
        Digests(store, namespace="other")


def test_a_password_is_not_shown() -> None:
    assert redacted("redis://ada:secret@host:6379/0") == "redis://ada:…@host:6379/0"
    assert redacted("redis://:sec/r@et@host") == "redis://:…@host"
    for text in (
        "nothing://ada:secret@host",
        "redis:/host?password=secret",
        "redis:/ada:secret@host",
        "redis://:top?secret@host",
    ):
        with pytest.raises(ConfigError) as caught:
            open_store(text)
        assert "secret" not in str(caught.value)


def test_other_packages_bring_stores_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("elsewhere", "digestif.stores.memory:from_dsn", registry.ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == "digestif.stores" else [])

    assert type(open_store("elsewhere://")).__name__ == "MemoryStore"


def test_a_store_whose_extra_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("elsewhere", "a_module_that_is_not_here:open", registry.ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    monkeypatch.setitem(sys.modules, "a_module_that_is_not_here", None)

    with pytest.raises(ConfigError, match=r"pip install 'elsewhere\[elsewhere\]'"):
        open_store("elsewhere://")


def test_off_accepts_nothing_and_says_so() -> None:
    with Digests("off://") as digests:
        assert digests.enabled is False
        assert digests.add("t", 1) is False
        assert list(digests.schedule()) == []
        assert digests.ledger().accepted == 0
        assert digests.verify()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("host=h password=hunter2 dbname=x", "host=…"),
        ("postgres://host/db?password=hunter2&sslmode=require", "postgres://host/db?password=…&sslmode=require"),
        ("postgres://host/db?sslmode=require&sslpassword=hunter2", "postgres://host/db?sslmode=require&sslpassword=…"),
        ("x://host?token=hunter2", "x://host?token=…"),
        ("x://host?API_KEY=hunter2&a=b", "x://host?API_KEY=…&a=b"),
        ("x://host?s%65cret=hunter2", "x://host?s%65cret=…"),
        ("x://host:1/0?secret=hunter2=;hunter2?hunter2#hunter2", "x://host:1/0?secret=…"),
        ("x://host:1/0?password=hunter2@hunter2", "x://…"),
        ("x://ada:hunter2?password=hunter2@host", "x://…"),
        ("x://hunter2@host", "x://…@host"),
        ("x://hunter2:@host", "x://…@host"),
        ("x://ada:hunter2/db", "x://…"),
        ("x://host:1,[::1]:2/db?hunter2", "x://host:1,[::1]:2/db?…"),
        ("x//host/hunter2", "x/…"),
        ("x:/y?url=z://hunter2", "x:…"),
        ("hunter2@host", "…"),
        ("sqlite:////home/ada@work/d.db", "sqlite:////home/ada@work/d.db"),
        ("SQLite:///ada@work/d.db", "SQLite:///ada@work/d.db"),
        ("sqlite:///ada:hunter2@host/d.db", "sqlite:///ada:…@host/d.db"),
        ("redis:///hunter2@host", "redis://…@host"),
        ("postgresql:///hunter2@host/app", "postgresql://…@host/app"),
        ("postgresql:////hunter2@host/app", "postgresql://…@host/app"),
        ("postgresql:///ada:hunter2@host/app", "postgresql:///ada:…@host/app"),
        ("redis+unix://hunter2@/run/redis.sock", "redis+unix://…@/run/redis.sock"),
        ("redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
        ("postgresql:///app", "postgresql:///app"),
        ("x://host?pw=hunter2&PW1=hunter2", "x://host?pw=…&PW1=…"),
        ("x://ada:hunter2@host?secret=hunter2", "x://ada:…@host?secret=…"),
        ("no dsn?secret=hunter2", "no …"),
        ("slack:/host/hunter2", "slack:…"),
        ("redis://ada:hunter2\nhunter2@host", "redis://ada:…@host"),
        ("digests.db", "digests.db"),
        ("sqlite:///d.db?timeout=3", "sqlite:///d.db?timeout=3"),
    ],
)
def test_options_that_sound_secret_are_shown_without_their_values(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_a_traceback_shows_no_secret_of_the_dsns_in_its_lines() -> None:
    text = """
    digests = Digests("postgresql://ada:hunter2@db.example/x?sslmode=require")
    digests.route("a", channel="slack://hooks.slack.com/services/T0/B0/hunter2?timeout=3")
    digests.route("b", channel='webhook+https://receiver.example/hunter2?secret=hunter2&timeout=3')
    digests.route("c", channel="apprise+tgram://hunter2/chat")
    requests.post("https://hooks.slack.com/services/T0/B0/hunter2")
    see https://docs.example.org/page?x=1"""

    shown = redacted_lines(text)

    assert "hunter2" not in shown
    assert "slack://hooks.slack.com/…?timeout=3" in shown
    assert "see https://docs.example.org/page?x=1" in shown


# Wrong DSNs

SECRET = "hunter2"
STORES = [
    f"postgresql://ada:{SECRET}@db.example:5432/digests?sslmode=require",
    f"redis://:{SECRET}@cache.example:6379/0?timeout=3",
    f"redis+sentinel://ada:{SECRET}@a.example,b.example/main?sentinel_password={SECRET}",
]
CHANNELS = [
    f"smtp://ada:{SECRET}@mail.example:587?from=digests@example.org&unsubscribe=https://x.example/",
    f"slack://hooks.slack.com/services/T0/B0/{SECRET}?timeout=3",
    f"webhook+https://receiver.example/{SECRET}?query=token%3D{SECRET}&secret=whsec_{'aHVudGVy' * 4}",
]
PIECES = ["", *"://@?=&#,[]% x1"]  # one character of a DSN becomes one of them, or has one of them before it


def mistyped(dsn: str) -> st.SearchStrategy[str]:
    """DSNs with up to four typing errors outside of their secrets."""
    tokens = re.findall(f"{SECRET}|.", dsn)
    places = st.integers(0, len(tokens) - 1)

    def spoil(errors: list[tuple[int, str, bool]]) -> str:
        spoilt = list(tokens)
        for place, piece, is_inserted in errors:
            kept = spoilt[place] if is_inserted or SECRET in spoilt[place] else ""
            spoilt[place] = piece + kept
        return "".join(spoilt)

    return st.lists(st.tuples(places, st.sampled_from(PIECES), st.booleans()), max_size=4).map(spoil)


def shown_by(error: BaseException, test: str = Path(__file__).name) -> str:
    """Everything that a report of an error may show: its chain, and the variables of all frames but the test's own."""
    chain, shown = [error], list[str]()
    for link in chain:
        chain += [other for other in (link.__cause__, link.__context__) if other is not None and other not in chain]
        shown += [str(link), repr(vars(link)), *getattr(link, "__notes__", ())]
        frames = [frame for frame, _ in traceback.walk_tb(link.__traceback__)]
        shown += [repr(frame.f_locals) for frame in frames if Path(frame.f_code.co_filename).name != test]
    return "\n".join(shown)


def refusal_of(open_dsn: Callable[[str], object], dsn: str) -> str:
    """Everything that is shown if a DSN is refused; nothing if it is right."""
    try:
        open_dsn(dsn)
    except ConfigError as error:
        return shown_by(error)
    return ""


@given(st.sampled_from(STORES).flatmap(mistyped))
@example(f"redis://:{SECRET}")
@example(f"redis://ada:{SECRET}/0")
@example(f"redis://:top/{SECRET}")
@example(f"redis://cache.example?{SECRET}")
@example(f"posgres:/ada:{SECRET}@db.example?x=y://z")
def test_no_typing_error_shows_the_password_of_a_store(dsn: str) -> None:
    assert SECRET not in refusal_of(check_dsn, dsn)


@given(st.sampled_from(CHANNELS).flatmap(mistyped))
@example(f"smpt:/ada:{SECRET}@mail.example?unsubscribe=https://x.example")
@example(f"ada:{SECRET}@smtp://mail.example")
def test_no_typing_error_shows_the_secret_of_a_channel(dsn: str) -> None:
    assert SECRET not in refusal_of(open_channel, dsn)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: Digests(f"redis://:{SECRET}@cache.example:port"),
        lambda: AsyncDigests(f"redis://:{SECRET}@cache.example:port"),
        lambda: Digests("off://").route("*", channel=f"smtp://ada:{SECRET}@mail.example"),
        lambda: AsyncDigests("off://").route("*", channel=f"smtp://ada:{SECRET}@mail.example"),
        lambda: Digests(f"redis://:{SECRET}@cache.example".encode()),  # type: ignore[arg-type]
        lambda: Digests("off://").route("*", channel=f"slack://x.example/{SECRET}".encode()),  # type: ignore[arg-type]
        lambda: DigestHandler(f"redis://:{SECRET}@cache.example".encode()),  # type: ignore[arg-type]
    ],
    ids=count(),
)
def test_an_engine_that_refuses_a_dsn_does_not_keep_its_text(refused: Callable[[], object]) -> None:
    with pytest.raises(ConfigError) as caught:
        refused()

    assert SECRET not in shown_by(caught.value)


# Options


@dataclass(frozen=True, kw_only=True)
class Options:
    from_: str = option(str, required="a sender")
    verify: bool = option(yes_or_no, True)
    timeout: float = option(number("seconds", above=0), 5.0)
    size: float = option(number("mebibytes"), 16.0)
    replicas: int = option(whole_number(0), 0)
    pool: int = option(whole_number(1, 100), 10)
    sync: str = option(choice("full", "normal"), "full")
    ca: str | None = option(existing_file, None)
    password: Secret | None = option(Secret, None)
    key: int | None = option(int, None)


def read(query: str) -> Options:
    return Dsn.parse(f"x://host?{query}").read(Options)


def test_options_get_their_types_and_their_defaults() -> None:
    given = read(f"from=me&verify=no&timeout=.5&size=0&replicas=2&pool=100&sync=normal&ca={__file__}&password=hunter2")

    assert given == Options(
        from_="me",
        verify=False,
        timeout=0.5,
        size=0.0,
        replicas=2,
        pool=100,
        sync="normal",
        ca=__file__,
        password=Secret("hunter2"),
    )
    assert read("from=me") == Options(from_="me")
    assert option_names(Options)[:2] == ["from", "verify"]


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("true", True), ("no", False), ("false", False)])
def test_yes_and_no_are_spelled_alike_everywhere(text: str, value: bool) -> None:
    assert read(f"from=me&verify={text}").verify is value


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("verify=yes", "from: x:// needs a sender"),
        ("from=me&from=you", "from: an option of x:// that is given twice; write it once"),
        ("from=", "from: an option of x:// without a value; give one, or leave it out"),
        ("form=me", "form: no such option of x://; did you mean from?"),
        ("from=me&verify=on", "verify: 'on' is neither yes nor no"),
        ("from=me&timeout=0", "timeout: '0' is not a number of seconds above 0"),
        ("from=me&timeout=nan", "timeout: 'nan' is not a number of seconds above 0"),
        ("from=me&size=big", "size: 'big' is not a number of mebibytes"),
        ("from=me&replicas=-1", "replicas: '-1' is not a whole number ≥ 0"),
        ("from=me&replicas=1.5", "replicas: '1.5' is not a whole number ≥ 0"),
        ("from=me&pool=101", "pool: '101' is not a whole number from 1 to 100"),
        (f"from=me&pool={'9' * 5000}", f"pool: '{'9' * 78}… is not a whole number from 1 to 100"),
        ("from=me&sync=off", "sync: 'off' is neither full nor normal"),
        ("from=me&ca=/nowhere", "ca: there is no file '/nowhere'"),
        ("from=me&key=hunter2", "key: not what it should be"),
    ],
)
def test_a_wrong_option_says_its_name_and_what_is_wrong(query: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(query)

    assert str(refused.value) == complaint


def test_a_store_or_channel_of_others_that_checks_names_alone_refuses_empty_and_repeated_options() -> None:
    for query in ("size=1&size=2", "size="):
        with pytest.raises(ConfigError, match="size: an option of x://"):
            Dsn.parse(f"x://?{query}").refuse_options("size")
