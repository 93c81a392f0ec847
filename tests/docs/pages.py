"""Reading Markdown pages, and running the examples in them.

A `python` block is run, one statement after the other, in the namespace of its page. What it claims is checked:

- a `text` block right below it is all that it prints;
- a comment `# → …` says what the statement on its line gives or prints;
- `<!-- no-run -->` on the line above: it is only shown;
- `<!-- pytest -->` on the line above: it is a file of tests, run by pytest; options may follow the word.
- `<!-- file NAME -->` on the line above: it is a file of a program, or the end of one that exists. A test in
  tests/integrations writes all files of the page and runs the program.

Where a page says `localhost:6379`, a server of the test's own is meant.
"""

import ast
import io
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any

from digestif import Digests, Store

RunTests = Callable[[str, list[str]], None]  # of a file with this text, with these options of pytest
StartServer = Callable[[], str]  # gives the address

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# Options of pytest: without the plugins of packages that we need for other things. To import them takes a second.
NO_PLUGINS = tuple(
    word for name in ("anyio", "platformdirs", "schemathesis", "valkey") for word in ("-p", f"no:{name}")
)
ADDRESS = "localhost:6379"  # as the pages have it
FILE = "file "

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (?P<mark>[^\n]*?) -->\n\Z")
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)|(?:src|href)=\"(?P<attribute>[^\"]+)\"")
_CLAIM = re.compile(r"# → (?P<claim>.*)$")
_ID = re.compile(r"\b[0-9a-f]{20}\b")
_REMAINING = re.compile(r"due in ([\d.]+) s")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int  # of the page, where the text begins
    mark: str  # what a comment on the line above says
    output: str | None  # the text block right below

    def with_server_at(self, address: str) -> "Block":
        output = None if self.output is None else self.output.replace(ADDRESS, address)
        return replace(self, text=self.text.replace(ADDRESS, address), output=output)


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = list(_FENCE.finditer(page))
    return [
        Block(
            fence["language"],
            fence["text"],
            line=page.count("\n", 0, fence.start("text")) + 1,
            mark=_mark_before(page, fence.start()),
            output=_output_below(page, fence, after),
        )
        for fence, after in zip(found, [*found, None][1:], strict=True)
    ]


def _mark_before(page: str, start: int) -> str:
    mark = _MARK.search(page, 0, start)
    return mark["mark"] if mark else ""


def _output_below(page: str, fence: re.Match[str], after: re.Match[str] | None) -> str | None:
    if after is None or after["language"] != "text" or page[fence.end() : after.start()].strip():
        return None
    return after["text"]


def write_files(page: str, folder: Path) -> None:
    """Write the files of a program that a page shows. What has the name of a file that exists is added to it."""
    for block in blocks(page):
        if block.mark.startswith(FILE):
            path = folder / block.mark.removeprefix(FILE)
            path.parent.mkdir(exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(block.text)


def without_blocks(page: str) -> str:
    """The prose of a page."""
    return _FENCE.sub("", page)


def headings(page: str) -> list[str]:
    return [heading["title"] for heading in _HEADING.finditer(without_blocks(page))]


def code_names(page: str) -> set[str]:
    """What is written as code in the prose and in headings, with and without what follows a name."""
    spans = set(_CODE.findall(without_blocks(page)))
    return spans | {re.split(r"[(=:]", span)[0] for span in spans} | {title.strip("`") for title in headings(page)}


def links(page: str) -> list[str]:
    """Where a page points to, inside of the project."""
    targets = [link["target"] or link["attribute"] for link in _LINK.finditer(without_blocks(page))]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: str) -> set[str]:
    """What can stand after the # of a link to this page."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in headings(page)}


# Running


def run_page(path: Path, run_tests: RunTests, start_server: StartServer) -> None:
    """Run the examples of a page; fails where one does not do what the page says."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with closed_in_the_end(namespace) as look:
        for block in _examples(path.read_text("utf-8"), start_server):
            if block.mark.startswith("pytest"):
                run_tests(block.text, block.mark.split()[1:])
            else:
                _run(block, namespace, path, look)


@contextmanager
def closed_in_the_end(namespace: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """Close what examples leave open. They give a name to one after the other: look after each statement."""
    opened: dict[int, Any] = {}

    def look() -> None:
        found = (value for value in namespace.values() if isinstance(value, (Digests, Store, sqlite3.Connection)))
        opened.update((id(value), value) for value in found)

    try:
        yield look
    finally:
        look()
        for value in opened.values():
            value.close()


def _examples(page: str, start_server: StartServer) -> list[Block]:
    """What is to be run, with the address of a server if one is needed."""
    examples = [
        block
        for block in blocks(page)
        if block.language == "python" and block.mark != "no-run" and not block.mark.startswith(FILE)
    ]
    if not any(ADDRESS in block.text for block in examples):
        return examples
    address = start_server()
    return [block.with_server_at(address) for block in examples]


def _run(block: Block, namespace: dict[str, Any], path: Path, look: Callable[[], None]) -> None:
    printed = ""
    for statement in _statements(block, path):
        printed += _run_statement(statement, namespace)
        look()
    if block.output is not None:
        assert settled(printed) == settled(block.output), f"{path.name}:{block.line} prints\n{printed}"


@dataclass(frozen=True)
class Statement:
    """A statement at the top of a block, with the claims in its comments."""

    code: CodeType
    is_expression: bool
    claims: list[str]
    place: str


def _statements(block: Block, path: Path) -> Iterator[Statement]:
    lines = block.text.splitlines()
    for node in ast.parse(block.text).body:
        ast.increment_lineno(node, block.line - 1)
        first, last = node.lineno - block.line, (node.end_lineno or node.lineno) - block.line
        claims = [claim["claim"] for line in lines[first : last + 1] if (claim := _CLAIM.search(line))]
        tree = ast.Expression(node.value) if isinstance(node, ast.Expr) else ast.Module([node], type_ignores=[])
        code = compile(tree, str(path), "eval" if isinstance(node, ast.Expr) else "exec")
        yield Statement(code, isinstance(node, ast.Expr), claims, f"{path.name}:{node.lineno}")


def _run_statement(statement: Statement, namespace: dict[str, Any]) -> str:
    """Run it, compare with its claims, and give back what it printed."""
    with redirect_stdout(io.StringIO()) as output:
        value = eval(statement.code, namespace)
    printed = output.getvalue()
    if statement.claims:
        given = settled(repr(value) if statement.is_expression and value is not None else printed)
        claimed = "\n".join(settled(claim) for claim in statement.claims)
        assert given == claimed, f"{statement.place}: the page says {claimed}, it gives {given}"
    return printed


def settled(text: str) -> str:
    """A text without what differs from run to run: fresh ids, and moments of waiting."""
    text = _REMAINING.sub(lambda found: f"due in about {round(float(found[1]), -1):g} s", text)
    return _ID.sub("<id>", text).strip()
