"""DSNs of stores and channels, `scheme://location?option=value`: parsing, typed options, and what opens a scheme.

A store or a channel declares its options as a dataclass, and `Dsn.read` checks the text against it:

    @dataclass(frozen=True, kw_only=True)
    class Options:
        timeout: float = option(number("seconds", above=0), 5.0)
        from_: Mailbox = option(Mailbox.parse, required="an address to send from")  # the option `from`

An option's kind is a function from text to value. Its ValueError says what is wrong with the text.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload
from urllib.parse import parse_qsl, unquote

from digestif.core.texts import did_you_mean, shortened
from digestif.errors import ConfigError, DigestifError
from digestif.exports import explain_missing

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")
Table = TypeVar("Table", bound="DataclassInstance")

_SOUNDS_SECRET = re.compile("auth|cred|dsn|key|pass|pw|secret|signature|token|url", re.IGNORECASE)
_OF_FILES = ("file", "sqlite", "sqlite3")
_SCHEME = re.compile("[a-z][a-z0-9+._-]{0,39}", re.IGNORECASE)
_OPTION = re.compile(r"[A-Za-z_.-]{1,40}")
_WORD = re.compile(r"[\w.+~-]{0,80}")
_ADDRESS = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::[0-9]{1,5})?")
_CHANNEL_OPTION = re.compile("[a-z_]{1,20}")


@dataclass(frozen=True, slots=True)
class Dsn:
    """A parsed DSN. Location, options and rest may hold passwords."""

    scheme: str
    location: str = field(repr=False)
    options: dict[str, str] = field(repr=False)
    rest: str = field(default="", repr=False, compare=False)  # all after ://, as it was written
    common: tuple[str, ...] = field(default=(), compare=False)  # options that are read already, for hints

    @classmethod
    def parse(cls, text: str) -> "Dsn":
        """Read the DSN of a store."""
        scheme, separator, rest = text.partition("://")
        if not separator or not _SCHEME.fullmatch(scheme):
            raise ConfigError(f"store: {redacted(text)!r} is not a DSN such as sqlite:///digests.db or memory://")
        location, _, query = rest.partition("?")
        if "@" in query:
            raise ConfigError("store: write a ? in user or password as %3F, and an @ in an option as %40")
        return cls(scheme.lower(), unquote(location), dict(parse_qsl(query, keep_blank_values=True)), rest)

    @classmethod
    def parse_channel(cls, text: str) -> "Dsn":
        """Read the DSN of a channel. Its options may hold an @. Errors show no part of it: any may be secret."""
        scheme, separator, rest = text.partition("://")
        if not separator or not _SCHEME.fullmatch(scheme):
            raise ConfigError("channel: that is not a DSN such as smtp://host?from=digests@example.org or terminal://")
        location, mark, query = rest.partition("?")
        if "?" in query:
            raise ConfigError("channel: a DSN has one ? before its options; write any other as %3F")
        # An @ in the name of an option comes from a password with a ? in it.
        names = [option.partition("=")[0] for option in query.split("&")] if query else []
        if not all(map(_CHANNEL_OPTION.fullmatch, names)):
            raise ConfigError("channel: options are name=value; write a ? in a user name or password as %3F")
        return cls.parse(f"{scheme}://{location}{mark}{query.replace('@', '%40')}")

    def read(self, table: type[Table], *others: "type[DataclassInstance]") -> Table:
        """Check all options and give those of `table` their types. The others are known, and read elsewhere."""
        known = option_names(table)
        for other in others:
            known += option_names(other)
        self.refuse_options(*known)
        return read_options(table, self.options, scheme=self.scheme)

    def divided(self, table: type[Table]) -> "tuple[Table, Dsn]":
        """Read the options of a table, and return them with the DSN that is left without them."""
        names = option_names(table)
        own = {name: value for name, value in self.options.items() if name in names}
        others = {name: value for name, value in self.options.items() if name not in names}
        replace(self, options=own).refuse_options(*names)
        left = replace(self, options=others, common=tuple(names))
        return read_options(table, own, scheme=self.scheme), left

    def refuse_options(self, *known: str) -> None:
        """Raise ConfigError for an option that is not known, has no value, or is given twice."""
        for name, value in self.options.items():
            if name not in known and not (value and _OPTION.fullmatch(name)):
                raise ConfigError(
                    f"{self.scheme}:// has options such as name=value; write ? and & in a password as %3F, %26"
                )
            if name not in known:
                takes = [*known, *self.common]
                hint = did_you_mean(name, takes) if takes else "; it takes none"
                raise ConfigError(f"{name}: no such option of {self.scheme}://{hint}")
            if not value:
                raise ConfigError(f"{name}: an option of {self.scheme}:// without a value; give one, or leave it out")
        names = [name for name, _ in parse_qsl(self.rest.partition("?")[2], keep_blank_values=True)]
        for name in self.options:
            if names.count(name) > 1:
                raise ConfigError(f"{name}: an option of {self.scheme}:// that is given twice; write it once")

    def refuse_location(self) -> None:
        if self.location:
            raise ConfigError(f"{self.scheme}:// takes no path or host")


def written_path(path: Path) -> str:
    """A path as the location of a DSN: `Dsn.parse` reads it back."""
    return str(path).replace("%", "%25").replace("?", "%3F")


# Secrets


def forgetful(function: Callable[P, T]) -> Callable[P, T]:
    """Raise the errors of a function that gets a DSN without its frames, whose variables hold the text of the DSN."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except DigestifError as error:
            refused = error.with_traceback(None)
            if refused.__suppress_context__:
                refused.__context__ = None
        del args, kwargs
        raise refused

    return call


def redacted(text: str) -> str:
    """The DSN of a store without its password and without the values of options that sound secret.

    Channels are shown by their names: a path may be as secret as a password.
    """
    scheme, mark, rest = text.partition("://")
    if not mark or not _SCHEME.fullmatch(scheme):
        return _beginning(text)
    location, mark, query = rest.partition("?")
    shown = location if _is_path(scheme, location) else _location_without_secret(location)
    if shown is None or "@" in query:  # the end of a password with a ? in it
        return f"{scheme}://…"
    return f"{scheme}://{shown}{mark}{'&'.join(map(_option_without_secret, query.split('&'))) if query else ''}"


def redacted_lines(text: str) -> str:
    """A text of several lines, in which DSNs may stand, without their secrets."""
    return "\n".join(_line_without_secrets(line) if "://" in line else line for line in text.splitlines())


def _beginning(text: str) -> str:
    """What may be shown of a text that is no DSN: one word, or the word before what may be secret."""
    word = _WORD.match(text)
    if word is None or "@" in text:
        return "…"
    return text if word[0] == text else f"{text[: word.end() + 1]}…"


def _is_path(scheme: str, location: str) -> bool:
    """True for the path of a file. With other schemes, an @ in it may be behind a password with a slash too many."""
    if not location.startswith("/"):
        return False
    return "@" not in location or (scheme.lower() in _OF_FILES and ":" not in location.rpartition("@")[0])


def _location_without_secret(location: str) -> str | None:
    """The location without a password, and without a user who has none; None if it is not clear which part is which."""
    login, at, place = location.rpartition("@")
    if not all(map(_ADDRESS.fullmatch, place.partition("/")[0].split(","))):
        return None
    user, _, password = login.partition(":")
    return f"{f'{user}:' if password else ''}…@{place}" if at else place


def _option_without_secret(option: str) -> str:
    name, sign, _ = option.partition("=")
    if not sign:
        return "…"
    return f"{name}=…" if _is_secret(name) else option


def _line_without_secrets(line: str) -> str:
    shown = re.sub(r"://([^:@]*):.*@", r"://\1:…@", line)
    shown = re.sub(r"(?<=[?&])([^=&?\s]+)=[^&\s'\"]+", lambda found: _option_without_secret(found[0]), shown)
    shown = re.sub(r"(apprise[\w+.-]*://)[^\s'\"]+", r"\1…", shown)
    return re.sub(r"((?:slack://|webhook[\w+.-]*://|https?://hooks\.)[^/?\s'\"]*)/[^?\s'\"]+", r"\1/…", shown)


def _is_secret(name: str) -> bool:
    """True for the name of an option whose value is not shown."""
    return _SOUNDS_SECRET.search(unquote(name)) is not None


# Options


@overload
def option(kind: Callable[[str], T], default: D) -> T | D: ...
@overload
def option(kind: Callable[[str], T], *, required: str) -> T: ...
def option(kind: Callable[[str], Any], default: Any = MISSING, *, required: str = "a value") -> Any:
    """A field of a table of options. `required` says what has to be given, if there is no default."""
    return field(default=default, metadata={"kind": kind, "required": required})


def option_names(table: "type[DataclassInstance]") -> list[str]:
    """The options of a table; `from_` declares `from`, which Python keeps for itself."""
    return [each.name.rstrip("_") for each in fields(table)]


def read_options(table: type[Table], given: Mapping[str, str], *, scheme: str) -> Table:
    """Give the options of a table their types; options of other tables are ignored."""
    values: dict[str, Any] = {}
    for each, name in zip(fields(table), option_names(table), strict=True):
        if name in given:
            values[each.name] = _typed(name, given[name], each.metadata["kind"])
        elif each.default is MISSING:
            raise ConfigError(f"{name}: {scheme}:// needs {each.metadata['required']}")
    return table(**values)


def _typed(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError as error:
        problem = "not what it should be" if _SOUNDS_SECRET.search(name) else str(error)
    raise ConfigError(f"{name}: {problem}")  # outside of the handler, whose error may show a secret


def yes_or_no(text: str) -> bool:
    if text not in ("yes", "true", "no", "false"):
        raise ValueError(f"{shortened(text)} is neither yes nor no")
    return text in ("yes", "true")


def number(unit: str, *, above: float = -math.inf) -> Callable[[str], float]:
    """A number of seconds, of mebibytes… Without a bound, what uses the number judges it."""

    def read(text: str) -> float:
        bound = "" if above == -math.inf else f" above {above:g}"
        try:
            value = float(text)
        except ValueError:
            value = None
        if value is None or (bound and not above < value < math.inf):
            raise ValueError(f"{shortened(text)} is not a number of {unit}{bound}")
        return value

    return read


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text) if re.fullmatch("[0-9]{1,15}", text) else -1
        if not least <= value <= (value if most is None else most):
            bounds = f"≥ {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"{shortened(text)} is not a whole number {bounds}")
        return value

    return read


def choice(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{shortened(text)} is neither {' nor '.join(words)}")
        return text

    return read


def existing_file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError(f"there is no file {text!r}")
    return text


# Openers


def refuse_few_slashes(text: str, *, what: str, built_in: Collection[str], meant: Mapping[str, str]) -> None:
    """ConfigError for a scheme that is not followed by two slashes, as in smtp:/host. It shows the scheme alone."""
    scheme, colon, rest = text.partition(":")
    scheme = meant.get(scheme.lower(), scheme.lower())
    if colon and not rest.startswith("//") and scheme in built_in:
        raise ConfigError(f"{what}: :// follows the scheme of a DSN; did you mean {scheme}://…?")


def load_opener(
    scheme: str,
    *,
    what: str,
    built_in: Mapping[str, str],
    extras: Mapping[str, str],
    group: str,
    meant: Mapping[str, str],
) -> Any:
    """The function that opens a scheme: a built-in one, or an entry point's. ConfigError says what is missing.

    `meant` maps a scheme that does not exist to the one that people mean by it.
    """
    if scheme in built_in:
        try:
            return load_attribute(built_in[scheme])
        except ModuleNotFoundError as error:
            if error.name is None or error.name not in extras:
                raise
            raise ConfigError(f"{what}: {scheme}:// {explain_missing(error.name, extra=extras[error.name])}") from error
    from importlib.metadata import entry_points  # a sixth of the time that importing digestif takes

    others = {point.name: point for point in entry_points(group=group)}
    if scheme not in others:
        hint = f"; did you mean {meant[scheme]}?" if scheme in meant else did_you_mean(scheme, [*built_in, *others])
        raise ConfigError(f"{what}: nothing here opens {scheme}://{hint}")
    try:
        return others[scheme].load()
    except ImportError as error:
        distribution = others[scheme].dist
        package = f"{distribution.name if distribution else scheme}[{scheme}]"
        raise ConfigError(f"{what}: {scheme}:// needs the module {error.name}; pip install '{package}'") from error


def load_attribute(path: str) -> Any:
    """The object that `module:attribute` names."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
