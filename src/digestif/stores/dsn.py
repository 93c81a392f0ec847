"""DSNs: from `sqlite:///digests.db` to a store. Other packages bring theirs by the entry point `digestif.stores`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote

from digestif.core.texts import did_you_mean, shortened
from digestif.errors import ConfigError
from digestif.stores.base import Store

Opener = Callable[..., Store]  # (dsn, *, namespace) -> Store

BUILT_IN = {
    "memory": "digestif.stores.memory:from_dsn",
    "postgres": "digestif.stores.postgres:from_dsn",
    "postgresql": "digestif.stores.postgres:from_dsn",
    "off": "digestif.stores.off:from_dsn",
    "sqlite": "digestif.stores.sqlite:from_dsn",
    "redis+unix": "digestif.stores.redis:from_dsn",
    "valkey+unix": "digestif.stores.redis:from_dsn",
    **dict.fromkeys(
        (
            f"{product}{kind}"
            for product in ("redis", "rediss", "valkey", "valkeys")
            for kind in ("", "+cluster", "+sentinel")
        ),
        "digestif.stores.redis:from_dsn",
    ),
}
# Modules that a built-in store needs, and the extra that brings them.
EXTRAS = {"redis": "redis", "psycopg": "postgres", "psycopg_pool": "postgres"}
ENTRY_POINTS = "digestif.stores"
_SOUNDS_SECRET = re.compile("auth|cred|dsn|key|pass|pwd|secret|signature|token|url", re.IGNORECASE)
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Dsn:
    """A parsed DSN: `scheme://location?option=value`."""

    scheme: str
    location: str = field(repr=False)  # may hold a password
    options: dict[str, str] = field(repr=False)  # likewise
    rest: str = field(default="", repr=False, compare=False)  # all after ://, as it was written

    @classmethod
    def parse(cls, text: str) -> "Dsn":
        scheme, separator, rest = text.partition("://")
        if not separator or not scheme:
            raise ConfigError(f"store: {redacted(text)!r} is not a DSN such as sqlite:///digests.db or memory://")
        location, _, query = rest.partition("?")
        if "@" in query:
            raise ConfigError("store: write a ? in user or password as %3F, and an @ in an option as %40")
        return cls(scheme.lower(), unquote(location), dict(parse_qsl(query, keep_blank_values=True)), rest)

    def refuse_location(self) -> None:
        if self.location:
            raise ConfigError(f"store: {self.scheme}:// takes no path or host")

    def refuse_options(self, *known: str) -> None:
        """Raise ConfigError for an option that the store does not know."""
        for name in self.options:
            if name not in known:
                hint = did_you_mean(name, list(known)) if known else "; it takes none"
                raise ConfigError(f"{name}: no such option of {self.scheme}://{hint}")


def redacted(text: str) -> str:
    """A DSN without its password and without the values of options that sound secret, whatever they consist of."""
    location, mark, query = text.partition("?")
    shown = location + mark + "&".join(map(_without_secret, query.split("&")))
    if "://" not in shown:  # then nobody knows what is secret in it
        return re.sub(r"(?s)([:=]).*", r"\1…", re.sub(r"(?s).*@", "…@", shown))
    return re.sub(r"(?s)://([^:@]*):.*@", r"://\1:…@", shown)


def _without_secret(option: str) -> str:
    name, sign, value = option.partition("=")
    if not sign or not _SOUNDS_SECRET.search(unquote(name)):
        return option
    # With an @ it may be the end of a password that has a ? in it, whose beginning is to be hidden too.
    return f"{name}=…@…" if "@" in value else f"{name}=…"


def open_store(text: str, *, namespace: str = "d") -> Store:
    """Make the store that a DSN names."""
    check_namespace(namespace)
    dsn = Dsn.parse(text)
    opener: Opener = load_opener(dsn.scheme, what="store", built_in=BUILT_IN, extras=EXTRAS, group=ENTRY_POINTS)
    return opener(dsn, namespace=namespace)


def check_namespace(namespace: object) -> None:
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
        raise ConfigError(
            f"namespace: {shortened(namespace)} is not 1 to 64 letters, digits, dots, hyphens or underscores"
        )


def load_opener(
    scheme: str,
    *,
    what: str,
    built_in: Mapping[str, str],
    extras: Mapping[str, str],
    group: str,
    hint: Callable[[str, list[str]], str] = did_you_mean,
) -> Any:
    """What opens a scheme: one of ours, or of a package with an entry point. ConfigError says what is missing."""
    if scheme in built_in:
        try:
            return load_attribute(built_in[scheme])
        except ModuleNotFoundError as error:
            if error.name is None or error.name not in extras:
                raise
            raise _missing(what, scheme, error, f"digestif[{extras[error.name]}]") from error
    from importlib.metadata import entry_points  # a sixth of the time that importing digestif takes

    others = {point.name: point for point in entry_points(group=group)}
    if scheme not in others:
        raise ConfigError(f"{what}: nothing here opens {scheme}://{hint(scheme, [*built_in, *others])}")
    try:
        return others[scheme].load()
    except ImportError as error:
        distribution = others[scheme].dist
        package = distribution.name if distribution else scheme
        raise _missing(what, scheme, error, f"{package}[{scheme}]") from error


def _missing(what: str, scheme: str, error: ImportError, package: str) -> ConfigError:
    return ConfigError(f"{what}: {scheme}:// needs the module {error.name}; pip install '{package}'")


def load_attribute(path: str) -> Any:
    """What `module:attribute` names."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
