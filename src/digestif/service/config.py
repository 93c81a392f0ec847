"""Reads `digestif.toml`: one file with store, addresses, tokens, policies, cadences, channels and routes."""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import FieldInfo

from digestif.core.policy import Policy
from digestif.core.secret import Secret
from digestif.core.texts import did_you_mean, shortened
from digestif.core.times import in_seconds, is_lease
from digestif.dsn import forgetful
from digestif.errors import ConfigError
from digestif.service import addresses, route_settings
from digestif.service.problems import Problem, Problems, WrongSettings, lines_of
from digestif.service.settings import LISTEN, Limits, Scope, Settings, Token, WorkerSettings
from digestif.stores.registry import check_namespace
from digestif.worker.options import check_number

FILE = "digestif.toml"
DEFAULT_STORE = "sqlite:///digestif.db"
OVERRIDES = {"DIGESTIF_STORE": "store", "DIGESTIF_NAMESPACE": "namespace", "DIGESTIF_LISTEN": "serve.listen"}

# The settings of each table. `routes` have those of route_settings.OPTIONS; the tables of NAMED have names of your own.
TABLES: dict[str, tuple[str, ...]] = {
    "": ("store", "namespace", "codec", "lease", "policy"),
    "serve": ("listen", "public", "hosts", "keep_messages"),
    "limits": Limits.__struct_fields__,
    "worker": WorkerSettings.__struct_fields__,
    "tokens": ("name", "hash", "scopes", "prefix"),
}
LISTS = ("tokens", "routes")
NAMED = ("policies", "cadences", "channels")

TOO_MANY = 1 << 53  # for a number in the file

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\$))")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@forgetful
def read(path: Path, environment: Mapping[str, str]) -> Settings:
    """The settings in a file. Raises WrongSettings with everything that is wrong."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise _unreadable(path, "there is no such file; digestif init writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, f"can't be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _unreadable(path, f"is not TOML: {error}") from None
    return _Reader(document, lines_of(text), environment, source=path).settings()


@forgetful
def defaults(environment: Mapping[str, str]) -> Settings:
    """The settings without a file: a SQLite store in the working directory."""
    return _Reader({}, {}, environment, source=Path(FILE)).settings()


def _unreadable(path: Path, text: str) -> WrongSettings:
    return WrongSettings(str(path), [Problem(path="", text=text)])


class _Reader:
    """Reads one document. What is wrong is collected, so that one look shows all of it."""

    def __init__(
        self, document: dict[str, Any], lines: Mapping[str, int], environment: Mapping[str, str], *, source: Path
    ) -> None:
        self._problems = Problems(lines)
        self._environment = environment
        self._source = source
        self._folder = source.absolute().parent
        self._document: dict[str, Any] = self._expanded(document, "")
        self._override()

    def settings(self) -> Settings:
        """The settings, if nothing is wrong."""
        self._check_names()
        policies = self._policies()
        settings = Settings(
            **self._top(policies),
            **self._serve(),
            limits=self._numbers("limits", Limits, _check_limit),
            worker=self._numbers("worker", WorkerSettings, _check_option),
            tokens=self._tokens(),
            cadences=self._cadences(),
            channels=self._channels(),
            routes=route_settings.read(
                self._items("routes"),
                self._problems,
                policies=policies,
                channels=self._table("channels"),
                folder=self._folder,
            ),
            source=str(self._source) if self._source.exists() else None,
        )
        self._problems.raise_if_any(str(self._source))
        return settings

    # The environment

    def _expanded(self, value: Any, path: str) -> Any:
        """Texts with ${NAME} taken from the environment; $$ stands for a $."""
        if isinstance(value, str):
            return _VARIABLE.sub(lambda found: "$" if found[2] else self._variable(found[1], path), value)
        if isinstance(value, list):
            return [self._expanded(each, f"{path}[{index}]") for index, each in enumerate(value)]
        if isinstance(value, dict):
            return {name: self._expanded(each, f"{path}.{name}" if path else name) for name, each in value.items()}
        return value

    def _variable(self, name: str, path: str) -> str:
        found = self._environment.get(name)
        if not found:
            self._problems.add(path, f"${{{name}}} is not in the environment; set it, or write $$ for a $")
            return ""
        self._problems.secrets.add(found)
        return found

    def _override(self) -> None:
        for variable, place in OVERRIDES.items():
            if value := self._environment.get(variable):
                table, _, name = place.rpartition(".")
                owner = self._document.setdefault(table, {}) if table else self._document
                if isinstance(owner, dict):
                    owner[name] = value

    # Tables

    def _check_names(self) -> None:
        tables = [name for name in TABLES if name]
        known = [*TABLES[""], *dict.fromkeys([*tables, *LISTS, *NAMED])]
        self._refuse_unknown("", self._document, known)
        for name in ("serve", "limits", "worker"):
            self._refuse_unknown(name, self._table(name), TABLES[name])
        for index, token in enumerate(self._items("tokens")):
            self._refuse_unknown(f"tokens[{index}]", token, TABLES["tokens"])

    def _refuse_unknown(self, path: str, given: Mapping[str, Any], known: "list[str] | tuple[str, ...]") -> None:
        for name in given:
            if name not in known:
                where = f"{path}.{name}" if path else name
                self._problems.add(where, f"there is no such setting{did_you_mean(name, list(known))}")

    def _table(self, name: str) -> dict[str, Any]:
        found = self._document.get(name, {})
        if isinstance(found, dict):
            return found
        self._problems.add(name, f"is not a table: write [{name}]")
        return {}

    def _items(self, name: str) -> list[dict[str, Any]]:
        found = self._document.get(name, [])
        if isinstance(found, list) and all(isinstance(each, dict) for each in found):
            return found
        self._problems.add(name, f"is not a list of tables: write [[{name}]] before each")
        return []

    def _text(self, path: str, value: Any, default: str = "") -> str:
        if isinstance(value, str):
            return value
        self._problems.add(path, f"a {type(value).__name__} is not a text: put it in quotes")
        return default

    # Settings

    def _top(self, policies: Mapping[str, Policy]) -> dict[str, Any]:
        given = self._document
        store = addresses.relative_to(self._store_folder(), self._text("store", given.get("store", DEFAULT_STORE)))
        namespace = self._text("namespace", given.get("namespace", "d"), "d")
        codec = self._text("codec", given.get("codec", "json"), "json")
        with self._problems.at("store"):
            addresses.check_store(store)
        with self._problems.at("namespace"):
            check_namespace(namespace)
        with self._problems.at("codec"):
            from digestif.stores.codec import load_codec

            load_codec(codec)
        policy = None
        with self._problems.at("policy"):
            policy = None if "policy" not in given else str(route_settings.policy_of(given["policy"], policies))
        lease = self._lease(given.get("lease", 30))
        return {"store": Secret(store), "namespace": namespace, "codec": codec, "lease": lease, "policy": policy}

    def _store_folder(self) -> Path:
        """Where a relative path begins: at the file, but one from the environment in the working directory."""
        return Path.cwd() if self._environment.get("DIGESTIF_STORE") else self._folder

    def _lease(self, value: Any) -> float:
        seconds: float = in_seconds(value)
        if is_lease(seconds):
            return float(seconds)
        self._problems.add("lease", f"{shortened(value)} is not a number of seconds > 0")
        return 1.0

    def _serve(self) -> dict[str, Any]:
        given = self._table("serve")
        listen = self._text("serve.listen", given.get("listen", LISTEN), LISTEN)
        public, hosts = given.get("public"), given.get("hosts", [])
        keep_messages = given.get("keep_messages", False)
        with self._problems.at("serve.listen"):
            addresses.parse(listen)
        with self._problems.at("serve.public"):
            addresses.check_public(public)
        if not isinstance(hosts, list):
            self._problems.add("serve.hosts", 'is not a list of names, such as ["digests.example.org"]')
            hosts = []
        for host in hosts:
            with self._problems.at("serve.hosts"):
                addresses.check_host(host)
        if not isinstance(keep_messages, bool):
            self._problems.add("serve.keep_messages", f"{shortened(keep_messages)} is neither true nor false")
        return {"listen": listen, "public": public, "hosts": tuple(hosts), "keep_messages": keep_messages is True}

    def _numbers(self, name: str, kind: Callable[..., Any], check: "Callable[[FieldInfo, Any], None]") -> Any:
        """A table of numbers, each as `check` allows it for its field."""
        values = {}
        for field in msgspec.structs.fields(kind):  # type: ignore[arg-type]  # a Struct
            value = self._table(name).get(field.name, field.default)
            with self._problems.at(f"{name}.{field.name}"):
                check(field, value)
                values[field.name] = field.type(value)
        return kind(**values)

    def _tokens(self) -> tuple[Token, ...]:
        tokens: list[Token] = []
        for index, given in enumerate(self._items("tokens")):
            path = f"tokens[{index}]"
            name = self._text(f"{path}.name", given.get("name", ""))
            digest = self._text(f"{path}.hash", given.get("hash", ""))
            prefix = self._text(f"{path}.prefix", given.get("prefix", ""))
            if not name or name in [token.name for token in tokens]:
                self._problems.add(f"{path}.name", "is missing" if not name else f"{name!r} is there twice")
            same = next((place for place, token in enumerate(tokens) if token.hash == digest), None)
            if not _HASH.fullmatch(digest):
                self._problems.add(f"{path}.hash", "is not sha256:… as digestif token prints it")
            elif same is not None:
                self._problems.add(f"{path}.hash", f"is that of tokens[{same}]: make a token of its own")
            tokens.append(Token(name=name, hash=digest, scopes=self._scopes(path, given), prefix=prefix))
        return tuple(tokens)

    def _scopes(self, path: str, given: Mapping[str, Any]) -> frozenset[Scope]:
        scopes = given.get("scopes")
        known = [scope.value for scope in Scope]
        if not isinstance(scopes, list) or not scopes:
            self._problems.add(f"{path}.scopes", f"is not a list of some of {', '.join(known)}")
            return frozenset()
        for scope in scopes:
            if scope not in known:
                self._problems.add(f"{path}.scopes", f"{shortened(scope)} is unknown{did_you_mean(str(scope), known)}")
        return frozenset(Scope(scope) for scope in scopes if scope in known)

    # Names of your own

    def _policies(self) -> dict[str, Policy]:
        found = dict.fromkeys(self._table("policies"), Policy())  # a wrong one is known by its name all the same
        for name, text in self._table("policies").items():
            with self._problems.at(f"policies.{name}"):
                found[name] = route_settings.policy_of(text, {})
        return found

    def _cadences(self) -> dict[str, str]:
        from digestif.core.cadences import Cadences

        found = {}
        for name, text in self._table("cadences").items():
            with self._problems.at(f"cadences.{name}"):
                try:
                    Cadences({name: Cadences.OFF if text == "off" else text})
                except ConfigError as error:
                    raise ConfigError(str(error).removeprefix("cadences: ").removeprefix(f"{name}: ")) from None
                found[name] = text
        return found

    def _channels(self) -> dict[str, Secret]:
        from digestif.channels.registry import open_channel

        found = {}
        for name, dsn in self._table("channels").items():
            path = f"channels.{name}"
            text = addresses.relative_to(self._folder, self._text(path, dsn))
            with self._problems.at(path):
                try:
                    open_channel(text)
                except ConfigError as error:
                    raise ConfigError(str(error).removeprefix("channel: ")) from None
                found[name] = Secret(text)
        return found


def _check_limit(field: FieldInfo, value: Any) -> None:
    """ConfigError unless it is a number of the field's type. 0 is allowed where it stands for no limit."""
    least = 1 if field.default else 0
    if type(value) not in (int, field.type) or not least <= value < TOO_MANY:
        what = "a number" if field.type is float else "a whole number"
        raise ConfigError(f"{shortened(value)} is not {what} ≥ {least}")


def _check_option(field: FieldInfo, value: Any) -> None:
    """ConfigError if the worker would refuse it."""
    check_number(field.name, value)
    if value >= TOO_MANY:
        raise ConfigError(f"{shortened(value)} is not a number < {TOO_MANY}")
