"""Jinja2 in a sandbox: templates can use only their context, and no single operation can make a huge result.

The sandbox can't see every expensive template, such as loops within loops. So users' templates are rendered in a child
process, which limits time and memory.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import (
    ChainableUndefined,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PrefixLoader,
    TemplateNotFound,
    TemplateSyntaxError,
    Undefined,
    nodes,
    pass_context,
)
from jinja2.exceptions import SecurityError
from jinja2.loaders import split_template_path
from jinja2.meta import find_referenced_templates
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from digestif.compose.slack import escaped
from digestif.compose.texts import one_line, safe_link
from digestif.compose.times import Hours, Times
from digestif.compose.wording import Wording
from digestif.core.texts import did_you_mean

BUILT_IN = Path(__file__).parent / "templates"
LONGEST = 1_000_000  # characters or items in the result of one operation
MOST_BITS = 10_000  # of a power

_WIDE = re.compile(r"\d{5,}|\*")  # in a format: a large width, or one from an argument
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!])")
_MENTION = re.compile(r"@(?=(?:everyone|here|channel|all)\b)", re.IGNORECASE)


def environment(folder: Path | None = None, *, preview: bool = False) -> ImmutableSandboxedEnvironment:
    """Jinja2 for the built-in templates, or for a folder's, which may extend `builtin/default.html`."""
    built_in = FileSystemLoader(BUILT_IN)
    loader = ChoiceLoader([_Folder(folder), PrefixLoader({"builtin": built_in})]) if folder else built_in
    sandbox = _Sandbox(
        loader=loader,
        autoescape=_is_html,
        undefined=_Visible if preview else ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=folder is not None,
    )
    sandbox.globals.pop("lipsum")
    sandbox.filters.update(FILTERS)
    return sandbox


def leads_out(path: Path, folder: Path) -> bool:
    """True if a symbolic link on the path leads to a file outside of the folder."""
    return not path.resolve().is_relative_to(folder.resolve())


def fault_of(files: list[str], folder: Path) -> str:
    """The first mistake by which a file, or another that it names, does not parse: its place and reason, or nothing.

    Nothing is compiled: Jinja2 computes constants then, and `{{ "a" | center(10**9) }}` would need the memory here.
    """
    env = environment(folder)
    waiting, seen = list(files), set(files)
    while waiting:
        name = waiting.pop(0)
        try:
            tree = env.parse(env.loader.get_source(env, name)[0], name)  # type: ignore[union-attr]  # it has one
            _check_names(tree, env, name)
        except TemplateSyntaxError as error:
            return f"{error.name or name}, line {error.lineno}: {error.message}"
        except RecursionError:
            return f"{name} is nested too deeply"
        except UnicodeDecodeError as error:
            return f"{name} is not UTF-8: {error}"
        except (TemplateNotFound, SecurityError):
            continue  # of an include, which may never be reached
        named = {each for each in find_referenced_templates(tree) if each}
        waiting += sorted(named - seen)
        seen |= named
    return ""


def _check_names(tree: nodes.Template, env: Environment, name: str) -> None:
    """Raise TemplateSyntaxError for a filter or a test that does not exist."""
    for kind, known, what in (nodes.Filter, env.filters, "filter"), (nodes.Test, env.tests, "test"):
        for node in tree.find_all(kind):
            if node.name not in known:
                hint = did_you_mean(node.name, sorted(known), or_all=False)
                raise TemplateSyntaxError(f"No {what} named {node.name!r}{hint}", node.lineno, name)


class _Folder(FileSystemLoader):
    """Loads files of one folder. It follows links inside the folder (Kubernetes mounts have them), never out of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        if leads_out(self._folder.joinpath(*split_template_path(template)), self._folder):
            raise SecurityError(f"{template} is a link that leads out of the folder of templates")
        return super().get_source(environment, template)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look into dicts first: contexts consist of dicts, and the default way raises an error for each access."""
        if type(obj) is dict and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "*" and _product(left, right) > LONGEST:
            raise SecurityError(f"* makes something longer than {LONGEST:,}")
        if operator == "**" and _bits(left, right) > MOST_BITS:
            raise SecurityError(f"** makes a number of more than {MOST_BITS:,} bits")
        if operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise SecurityError("% with a width of more than four digits")
        return super().call_binop(context, operator, left, right)


class _Visible(ChainableUndefined):
    """An unknown name in a template, shown as it is written there."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{{{{ {self._undefined_name} }}}}"


def _is_html(name: str | None) -> bool:
    return name is None or name.endswith(".html")


def _product(left: Any, right: Any) -> int:
    """The size of `left * right`: in items if one is a sequence, in bits if both are numbers."""
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length()
    for sequence, times in ((left, right), (right, left)):
        if isinstance(times, int) and hasattr(sequence, "__len__"):
            return len(sequence) * max(times, 0)
    return 0


def _bits(base: Any, power: Any) -> int:
    if isinstance(base, int) and isinstance(power, int):
        return base.bit_length() * abs(power)
    return 0


@pass_context
def _clock(context: Context, at: Any) -> str:
    return _timed(context, at, Times.clock)


@pass_context
def _moment(context: Context, at: Any) -> str:
    return _timed(context, at, Times.moment)


def _timed(context: Context, at: Any, write: Callable[[Times, float], str]) -> str:
    if isinstance(at, Undefined) or not isinstance(at, int | float):
        return str(at)
    words = context["wording"]
    return write(_times(context["zone"], context["hours"], *(_hashable(words[name]) for name in _TIME_WORDS)), at)


_TIME_WORDS = (
    "days", "months", "am", "pm", "clock", "date", "full_date", "moment", "short_moment", "span", "far"
)  # fmt: skip


def _hashable(word: Any) -> Any:
    return tuple(word) if isinstance(word, list) else word


@lru_cache(maxsize=8)
def _times(zone: str, hours: Hours, *words: Any) -> Times:
    return Times(zone, hours, Wording(**dict(zip(_TIME_WORDS, words, strict=True))))


@pass_context
def _number(context: Context, count: Any) -> str:
    if not isinstance(count, int | float):
        return str(count)
    return f"{count:,}".replace(",", context["wording"]["thousands"])


@pass_context
def _plural(context: Context, count: Any, one: str, many: str = "") -> str:
    return f"{_number(context, count)} {one if count == 1 else many or one + 's'}"


def _line(text: Any) -> str:
    return one_line(str(text))


def markdown(text: Any) -> str:
    """A text that Markdown shows unchanged, without mentions."""
    return _MENTION.sub("@\u200b", _MARKDOWN.sub(r"\\\1", str(text))).replace("&", "&amp;")


def slack(text: Any) -> str:
    """A text that Slack's markup shows unchanged, without mentions."""
    return escaped(str(text))


FILTERS: dict[str, Callable[..., str]] = {
    "clock": _clock,
    "line": _line,
    "link": safe_link,
    "md": markdown,
    "moment": _moment,
    "number": _number,
    "plural": _plural,
    "slack": slack,
}
