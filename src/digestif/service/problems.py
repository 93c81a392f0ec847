"""What is wrong with a file of settings: all of it at once, each with its place, and without secrets."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from digestif.core.policy import Policy
from digestif.core.tenants import MOST_TENANTS
from digestif.errors import ConfigError
from digestif.service.settings import Settings

SHOWN_OF_SECRET = 4  # characters in a row that a message may share with a text from the environment

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\"'-]+)\s*\]")
_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+))\s*=""")


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    path: str  # such as routes[2].policy; empty for the file itself
    text: str
    line: int | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        return f"{place}{self.path}: {self.text}" if self.path else f"{place}{self.text}"


class WrongSettings(ConfigError):
    """A file of settings can't be used; `problems` has everything that is wrong."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        more = len(self.problems) - 1
        rest = f" (and {more} more: digestif check {source})" if more else ""
        super().__init__(f"{source}: {self.problems[0]}{rest}")


def warnings_of(settings: Settings) -> list[Problem]:
    """What a service can run with, although it is hardly meant: missed windows, no route, too many prefixes."""
    routes = {f"routes[{place}].policy": route.options.get("policy") for place, route in enumerate(settings.routes)}
    cadences = {f"cadences.{name}": text for name, text in settings.cadences.items() if text != "off"}
    found: list[Problem] = []
    for path, text in {"policy": settings.policy, **cadences, **routes}.items():
        window = None if text is None else Policy.parse(str(text)).window
        doubt = None if window is None else window.missed_by(settings.worker.poll)
        if doubt is not None:
            found.append(Problem(path=path, text=doubt))
    if not settings.routes:
        doubt = "there is none: records are accepted, and nothing is delivered unless a program of yours does"
        found.append(Problem(path="routes", text=doubt))
    prefixes = len({token.prefix for token in settings.tokens} - {""})
    if prefixes > MOST_TENANTS:
        doubt = f"have {prefixes:,} prefixes, and {MOST_TENANTS} of a namespace have bounds of their own: others share"
        found.append(Problem(path="tokens", text=f"{doubt} those of the rest"))
    return found


class Problems:
    """Collects what is wrong."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self._lines = lines
        self._found: list[Problem] = []
        self.secrets: set[str] = set()  # texts from the environment

    def __len__(self) -> int:
        return len(self._found)

    def add(self, path: str, text: str) -> None:
        if any(part in text for secret in self.secrets for part in _parts(secret)):
            text = "is wrong; it has a text from the environment, which is not shown"
        problem = Problem(path=path, text=text, line=self._line(path))
        if problem not in self._found:
            self._found.append(problem)

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """Collect a ConfigError. A message that begins with the name of the setting does not say it twice."""
        try:
            yield
        except ConfigError as error:
            name = re.split(r"[.\[]", path)[-1].rstrip("]")
            self.add(path, str(error).removeprefix(f"{name}: "))

    def raise_if_any(self, source: str) -> None:
        if self._found:
            raise WrongSettings(source, sorted(self._found, key=lambda each: each.line or 0)) from None

    def _line(self, path: str) -> int | None:
        """Where a setting stands; of one that is missing, where its table begins."""
        while path and path not in self._lines:
            path = path.rpartition(".")[0]
        return self._lines.get(path)


def _parts(secret: str) -> Iterator[str]:
    """A message may show any part of a text, because it shortens what is long."""
    yield from (secret[start : start + SHOWN_OF_SECRET] for start in range(max(1, len(secret) - SHOWN_OF_SECRET + 1)))


def lines_of(text: str) -> dict[str, int]:
    """The line of each setting in a TOML file, for messages: what it misses is reported without a line."""
    place = ""
    tables: Counter[str] = Counter()
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            place = _place(header[2], tables, is_item=header[1] == "[[")
            found[place] = number
        elif key := _KEY.match(line):
            name = key[1] or key[2] or key[3] or ""
            found.setdefault(f"{place}.{name}" if place else name, number)
    return found


def _place(name: str, tables: "Counter[str]", *, is_item: bool) -> str:
    if is_item:
        tables[name] += 1
    first, dot, rest = name.partition(".")
    return f"{first}[{tables[first] - 1}]{dot}{rest}" if tables[first] else name
