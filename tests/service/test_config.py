"""The file of settings: what it says, and what is said about it."""

import typing
from pathlib import Path

import pytest

from digestif import Digests
from digestif.channels.registry import open_channel
from digestif.core.policy import Policy
from digestif.routes.route import RouteOptions
from digestif.service import route_settings
from digestif.service.config import defaults, read
from digestif.service.engine import open_digests
from digestif.service.problems import WrongSettings
from digestif.service.settings import Scope, Settings
from tests.test_dsn import shown_by

HOOKS = {"keep", "prepare", "split"}  # functions
HASH = f"sha256:{'0' * 64}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "digestif.toml"


def settings(file: Path, text: str, **environment: str) -> Settings:
    file.write_text(text)
    return read(file, environment)


def problems(file: Path, text: str, **environment: str) -> list[str]:
    with pytest.raises(WrongSettings) as caught:
        settings(file, text, **environment)
    return [str(problem) for problem in caught.value.problems]


def test_a_file_says_everything_that_a_service_needs(file: Path) -> None:
    found = settings(
        file,
        f"""
        store = "sqlite:////var/tmp/x.db"
        namespace = "shop"
        policy = "night"
        lease = 10
        [serve]
        listen = "[::1]:80"
        public = "https://digests.example.org"
        hosts = ["a.example"]
        keep_messages = true
        [limits]
        body = 10
        rate = 5
        [worker]
        grace = 3
        [policies]
        night = "daily@22:00 UTC"
        [cadences]
        lunch = "daily@12:00 UTC"
        silent = "off"
        [channels]
        out = "file:///var/tmp"
        [[tokens]]
        name = "shop"
        hash = "{HASH}"
        scopes = ["ingest", "read"]
        prefix = "shop:"
        [[routes]]
        pattern = "mail:*"
        channel = "out"
        policy = "night"
        top = 3
        budget = {{ messages = 2, per = "1h" }}
        """,
    )

    assert (found.store.reveal(), found.namespace, found.lease) == ("sqlite:////var/tmp/x.db", "shop", 10)
    assert found.policy == "daily@22:00 UTC"
    assert (found.listen, found.public, found.hosts) == ("[::1]:80", "https://digests.example.org", ("a.example",))
    assert (found.keep_messages, found.limits.body, found.limits.rate, found.limits.items) == (True, 10, 5, 1000)
    assert found.worker.options()["grace"] == 3
    assert found.cadences == {"lunch": "daily@12:00 UTC", "silent": "off"}
    [token] = found.tokens
    assert (token.name, token.scopes, token.prefix) == ("shop", frozenset((Scope.INGEST, Scope.READ)), "shop:")
    [route] = found.routes
    assert (route.pattern, route.channel.reveal()) == ("mail:*", "file:///var/tmp")
    assert route.options["policy"] == Policy.parse("daily@22:00 UTC")
    assert (route.options["top"], route.options["budget"].per) == (3, 3600)
    assert found.source == str(file)


def test_without_a_file_there_is_a_store_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    found = defaults({})

    assert found.store.reveal() == f"sqlite:///{tmp_path}/digestif.db"
    assert (found.routes, found.tokens, found.source) == ((), (), None)


TOKEN = f'[[tokens]]\nname = "a"\nhash = "sha256:{"0" * 64}"\nscopes = ["read"]\n'
ROUTE = '[[routes]]\npattern = "a"\nchannel = "terminal://"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("stoer = 1", "line 1: stoer: there is no such setting; did you mean store?"),
        ("store = 1", "line 1: store: a int is not a text: put it in quotes"),
        ('store = "sqlite3:///a.db"', "line 1: store: nothing here opens sqlite3://; did you mean sqlite?"),
        ('store = "sqlite:///a.db?sync=full"', "line 1: store: sync: no such option of sqlite://; did you mean"),
        ('store = "sqlite:///no/such/a.db"', "line 1: store: there is no folder "),
        ('store = "postgresql://u:p@host:badport/db"', "line 1: store: the port of a host is not a number from 1 to"),
        ('store = "postgresql://u:p@a:1,b:65536/db"', "line 1: store: the port of a host is not a number from 1 to"),
        ('store = "postgresql://u:p@[::1]:x/db"', "line 1: store: the port of a host is not a number from 1 to"),
        ('namespace = "a b"', "line 1: namespace: 'a b' is not 1 to 64 letters"),
        ('codec = "jsn"', "line 1: codec: no codec is named 'jsn'; did you mean json?"),
        ("lease = 0", "line 1: lease: 0 is not a number of seconds > 0"),
        ("lease = 0.0001", "line 1: lease: 0.0001 is not a number of seconds > 0"),
        ('policy = "dayly@9:00 UTC"', "line 1: policy: 'dayly@9:00 UTC' is unknown; did you mean daily@…?"),
        ("serve = 1", "line 1: serve: is not a table: write [serve]"),
        ('[serve]\nlisten = "8321"', "line 2: serve.listen: '8321' is not HOST:PORT"),
        ('[serve]\nlisten = "::1:80"', "line 2: serve.listen: '::1:80' is not HOST:PORT"),
        ('[serve]\nlisten = "a:99999"', "line 2: serve.listen: 'a:99999' is not HOST:PORT"),
        ('[serve]\nlisten = "é..x:8499"', "line 2: serve.listen: 'é..x:8499' is not HOST:PORT"),
        (f'[serve]\nlisten = "{"a" * 64}:80"', "line 2: serve.listen: 'aaa"),
        ('[serve]\nlisten = "a\\u0000b:80"', r"line 2: serve.listen: 'a\x00b:80' is not HOST:PORT"),
        ('[serve]\npublic = "example.org"', "line 2: serve.public: is not an address such as https://"),
        ('[serve]\npublic = "https://a.example/x"', "line 2: serve.public: a path can't be part of it"),
        ('[serve]\npublic = "http://["', "line 2: serve.public: is not an address such as https://"),
        ('[serve]\npublic = "https://x.example:99999"', "line 2: serve.public: is not an address such as https://"),
        ('[serve]\nhosts = "a"', "line 2: serve.hosts: is not a list of names"),
        ('[serve]\nhosts = ["a.example", "["]', "line 2: serve.hosts: '[' is not a name, such as digests.example.org"),
        ('[serve]\nhosts = ["::1"]', "line 2: serve.hosts: '::1' is not a name, such as digests.example.org"),
        ('[serve]\nhosts = ["a.example:99999"]', "line 2: serve.hosts: 'a.example:99999' is not a name"),
        ('[serve]\nkeep_messages = "yes"', "line 2: serve.keep_messages: 'yes' is neither true nor false"),
        ("[limits]\nitmes = 3", "line 2: limits.itmes: there is no such setting; did you mean items?"),
        ("[limits]\nitems = 0", "line 2: limits.items: 0 is not a whole number ≥ 1"),
        ("[limits]\nrate = -1", "line 2: limits.rate: -1 is not a number ≥ 0"),
        ("[limits]\nrate = nan", "line 2: limits.rate: nan is not a number ≥ 0"),
        ("[limits]\nbody = true", "line 2: limits.body: True is not a whole number ≥ 1"),
        ("[worker]\nthreads = 0", "line 2: worker.threads: 0 is not a whole number ≥ 1"),
        ("[worker]\nmemory = 1.5", "line 2: worker.memory: 1.5 is not a whole number ≥ 1"),
        ("[worker]\npoll = 0", "line 2: worker.poll: 0 is not a number of seconds ≥ 0.001"),
        ("[worker]\npoll = 1e11", "line 2: worker.poll: 100000000000.0 is not a number of seconds ≥ 0.001"),
        ("[worker]\ngrace = -1", "line 2: worker.grace: -1 is not a number of seconds ≥ 0"),
        ('[policies]\na = "x"', "line 2: policies.a: 'x' is unknown; there are default"),
        ("[policies]\na = 1", "line 2: policies.a: 1 is not the text of a policy"),
        ('[cadences]\na = "x"', "line 2: cadences.a: policy: 'x' is unknown"),
        ('[cadences]\n"!" = "off"', "line 2: cadences.!: '!' is not a name"),
        ('[channels]\na = "smpt://x"', "line 2: channels.a: nothing here opens smpt://; did you mean smtp?"),
        ("tokens = 1", "line 1: tokens: is not a list of tables: write [[tokens]]"),
        ("[[tokens]]", "line 1: tokens[0].name: is missing"),
        ('[[tokens]]\nhash = "abc"', "line 2: tokens[0].hash: is not sha256:… as digestif token prints it"),
        (f"{TOKEN}{TOKEN}", "line 7: tokens[1].hash: is that of tokens[0]: make a token of its own"),
        ('[[tokens]]\nscopes = ["raed"]', "line 2: tokens[0].scopes: 'raed' is unknown; did you mean read?"),
        ("[[tokens]]\nscopes = []", "line 2: tokens[0].scopes: is not a list of some of ingest, read, admin"),
        ("[[tokens]]\nscop = 1", "line 2: tokens[0].scop: there is no such setting; did you mean scopes?"),
        ("[[routes]]", 'line 1: routes[0].pattern: is missing: which timelines, such as "mail:*"'),
        ("[[routes]]", "line 1: routes[0].channel: is missing: the name of a channel"),
        (
            '[[routes]]\nchannel = "x"',
            "line 2: routes[0].channel: 'x' is neither a channel of the file nor a DSN; there",
        ),
        (f"{ROUTE}{ROUTE}", "line 5: routes[1].pattern: 'a' is that of routes[0]"),
        (f"{ROUTE}gruop_by = []", "line 4: routes[0].gruop_by: there is no such setting; did you mean group_by?"),
        (f"{ROUTE}keep = 1", "line 4: routes[0].keep: there is no such setting"),
        (f"{ROUTE}top = 0", "line 4: routes[0].top: 0 is not a whole number"),
        (f'{ROUTE}zone = "Mars"', "line 4: routes[0].zone: 'Mars' is not an IANA time zone"),
        (f'{ROUTE}template = "nix"', "line 4: routes[0].template: "),
        (f"{ROUTE}budget = 5", 'line 4: routes[0].budget: is not written as { messages = 5, per = "1h" }'),
        (f"{ROUTE}details = 5", "line 4: routes[0].details: 5 is not a list of fields"),
        (f'{ROUTE}details = ["a..b"]', "line 4: routes[0].details: the path 'a..b' has an empty step"),
        (f'{ROUTE}order = "latest"', 'line 4: routes[0].order: \'latest\' is neither "newest" nor "oldest"'),
        (f'{ROUTE}reason = "{{who}}"', "line 4: routes[0].reason: '{who}': {who} is not filled in"),
        (f'{ROUTE}weight = {{ by = "severity" }}', "line 4: routes[0].weight: {'by': 'severity'} is not like"),
        (f"{ROUTE}brand = 5", "line 4: routes[0].brand: 5 is not a mapping"),
        (f'{ROUTE}[routes.brand]\ncolour = "#fff"', "line 4: routes[0].brand: 'colour': unknown; did you mean color?"),
        (f'{ROUTE}policy = "nigth"\n[policies]\nnight = "hourly"', "line 4: routes[0].policy: 'nigth' is neither"),
        ("a = b", "is not TOML: Invalid value (at line 1, column 5)"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(file: Path, text: str, problem: str) -> None:
    found = problems(file, text)

    assert [each for each in found if each.startswith(problem)], found


@pytest.mark.parametrize("host", ["a.example", "a.example:8443", "127.0.0.1", "[::1]", "[::1]:8321"])
def test_a_host_is_a_name_or_an_address_with_or_without_a_port(file: Path, host: str) -> None:
    assert settings(file, f'[serve]\nhosts = ["{host}"]').hosts == (host,)


def test_every_problem_is_reported_at_once(file: Path) -> None:
    found = problems(file, f'stoer = 1\nlease = 0\n{ROUTE}top = 0\nzone = "Mars"\nbudget = 1\n[[tokens]]\nname = ""')

    assert [each.split(": ")[1] for each in found] == [
        "stoer",
        "lease",
        "routes[0].top",
        "routes[0].zone",
        "routes[0].budget",
        "tokens[0].hash",
        "tokens[0].scopes",
        "tokens[0].name",
    ]


def test_a_file_that_is_not_there_says_how_to_make_one(file: Path) -> None:
    with pytest.raises(WrongSettings, match="there is no such file; digestif init writes one"):
        read(file, {})


def test_texts_come_from_the_environment(file: Path) -> None:
    text = 'store = "redis://:${WORD}@127.0.0.1/0"\n[[routes]]\npattern = "a$$b"\nchannel = "terminal://"'

    found = settings(file, text, WORD="secret")

    assert found.store.reveal() == "redis://:secret@127.0.0.1/0"
    assert found.routes[0].pattern == "a$b"


def test_a_variable_that_is_missing_is_a_problem(file: Path) -> None:
    [problem] = problems(file, '[channels]\na = "smtp://u:${NOPE}@h?from=a@b.example"')

    assert problem == "line 2: channels.a: ${NOPE} is not in the environment; set it, or write $$ for a $"


@pytest.mark.parametrize(
    "text",
    [
        'policy = "${WORD}"',
        'store = "${WORD}"',
        'namespace = "a b ${WORD}"',
        '[[routes]]\npattern = "a"\nchannel = "${WORD}"',
        f'{ROUTE}zone = "{"x" * 70}${{WORD}}"',  # the message shows only the beginning
        '[[tokens]]\nname = "a"\nhash = "${WORD}"\nscopes = ["${WORD}"]',
    ],
)
def test_no_message_shows_a_text_from_the_environment(file: Path, text: str) -> None:
    found = problems(file, text, WORD="hunter2-correct-horse")

    assert found
    assert not [each for each in found if "hunt" in each or "orse" in each]


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:hunter2@h/x?optoin=1",
        "postgresql://u:hunter2/x",  # without a host
        "redis://:hunter2@h:x/0",
        "sqlite:hunter2",
    ],
)
def test_no_message_shows_a_password_of_the_file(file: Path, dsn: str) -> None:
    found = problems(file, f'store = "{dsn}"\n[channels]\na = "smtp://u:hunter2@h?x=1"')

    assert len(found) == 2
    assert not [each for each in found if "hunter2" in each]


@pytest.mark.parametrize(
    "channel",
    [
        "smtp:/ada:hunter2@mail.example",
        "smtp//ada:hunter2@mail.example?from=a@b.example",
        "smpt:/ada:hunter2@mail.example?from=a@b.example&unsubscribe=https://x.example",
        "ada:hunter2@mail.example",
        "hooks.slack.com/services/T0/B0/hunter2",
        "slack//hooks.slack.com/services/T0/B0/hunter2",
        "https://hooks.slack.com/services/T0/B0/hunter2",
    ],
)
@pytest.mark.parametrize("place", ['[[routes]]\npattern = "a"\nchannel', "[channels]\na", "store"])
def test_no_message_and_no_frame_shows_a_mistyped_dsn(file: Path, place: str, channel: str) -> None:
    file.write_text(f'{place} = "{channel}"', "utf-8")

    with pytest.raises(WrongSettings) as caught:
        read(file, {})

    assert "hunter2" not in shown_by(caught.value, "test_config.py")


def test_the_environment_goes_before_the_file(file: Path) -> None:
    text = 'store = "sqlite:///a.db"\nnamespace = "a"\n[serve]\nlisten = "127.0.0.1:1"'

    found = settings(
        file, text, DIGESTIF_STORE="sqlite:////b.db", DIGESTIF_NAMESPACE="b", DIGESTIF_LISTEN="127.0.0.1:2"
    )

    assert (found.store.reveal(), found.namespace, found.listen) == ("sqlite:////b.db", "b", "127.0.0.1:2")


def test_a_store_of_the_environment_is_checked_too(file: Path) -> None:
    found = problems(file, "", DIGESTIF_STORE="postgresql://u:p@host:badport/db")

    assert found == ["store: the port of a host is not a number from 1 to 65535"]


def test_relative_paths_begin_in_the_folder_of_the_file(file: Path) -> None:
    (file.parent / "mine").mkdir()
    text = 'store = "sqlite:///a.db?timeout=5"\n[[routes]]\npattern = "a"\nchannel = "file://./out"\ntemplates = "mine"'

    found = settings(file, text)

    assert found.store.reveal() == f"sqlite:///{file.parent}/a.db?timeout=5"
    assert Path(found.routes[0].channel.reveal().removeprefix("file://")) == file.parent / "out"
    assert found.routes[0].options["templates"] == str(file.parent / "mine")


@pytest.mark.parametrize("name", ["a%20b", "a?b", "a b", "100%", "ä#&=@"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    text = '[[routes]]\npattern = "a"\nchannel = "file://./out%20box?as=json"'

    found = settings(folder / "digestif.toml", text)
    with open_digests(found) as digests:
        digests.add("a", 1)

    assert (folder / "digestif.db").is_file()
    assert open_channel(found.routes[0].channel.reveal()).name == f"file://{folder}/out box"


def test_every_option_of_a_route_that_is_no_function_can_be_set() -> None:
    assert set(route_settings.OPTIONS) == set(typing.get_type_hints(RouteOptions)) - HOOKS


def test_a_route_of_a_file_shows_details_by_weight_and_order_for_a_brand(file: Path) -> None:
    text = (
        '[[routes]]\npattern = "mail:*"\nchannel = "file://./out"\ndetails = ["host", "labels.zone"]\n'
        'order = "oldest"\nreason = "You watch {timeline}."\n'
        '[routes.weight]\nby = "severity"\norder = ["critical", "warning", "info"]\n'
        '[routes.brand]\nname = "Web shop"\nlogo = "https://cdn.example/logo.png"\ncolor = "#0a7d55"'
    )

    with open_digests(settings(file, text)) as digests:
        assert digests.engine.routes is not None
        route = digests.engine.routes.find("mail:ada")

    assert route is not None
    assert (route.details, route.order, route.reason) == (["host", "labels.zone"], "oldest", "You watch {timeline}.")
    assert route.weight == {"by": "severity", "order": ["critical", "warning", "info"]}
    assert route.brand == {"name": "Web shop", "logo": "https://cdn.example/logo.png", "color": "#0a7d55"}


def test_the_engine_has_what_the_file_says(file: Path) -> None:
    found = settings(
        file,
        'policy = "hourly"\n[cadences]\nlunch = "daily@12:00 UTC"\nsilent = "off"\n'
        '[[routes]]\npattern = "mail:*"\nchannel = "file://./out"\npolicy = "immediate"',
    )

    with open_digests(found) as digests:
        assert isinstance(digests, Digests)
        assert digests.policy_of("x").policy == Policy.hourly()
        assert digests.policy_of("mail:ada").source == "route mail:*"
        assert {"lunch", "silent", "daily"} <= set(digests.cadences)
        assert [handler.pattern for handler in digests.engine.handlers] == ["mail:*"]
