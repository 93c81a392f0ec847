"""Templates that would eat the computer: they end, with a reason, and the worker goes on."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif.compose.renderer import Renderer, TemplateFailed
from tests.compose.samples import many

BOMBS = {
    "multiplied-text": ("{{ 'a' * 10**9 }}", "longer than"),
    "multiplied-list": ("{{ ([0] * 10**9) | length }}", "longer than"),
    "power": ("{{ 9 ** (10**9) }}", "bits"),
    "width": ("{{ '%1000000000d' % 1 }}", "width"),
    "width-in-braces": ("{{ '{:1000000000}'.format(1) }}", "memory"),
    "wide-filter": ("{{ 'a' | center(10**9) }}", "memory"),
    "doubling": (
        "{% set n = namespace(s='aaaa') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "memory",
    ),
    "replacing": ("{{ 'a b' | replace('a', 'b' * 900000) | replace('b', 'c' * 900000) }}", "memory"),
    "long-range": ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
    "much-output": ("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "more than 2,097,152 characters"),
    "macro-of-itself": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deeply"),
    "include-of-itself": ("{% include 'include-of-itself.txt' %}", "nested too deeply"),
    "nested-loops": ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes longer"),
    "one-long-operation": ("{{ (range(99999) | list * 10) | map('string') | join | wordwrap(1) }}", "takes longer"),
}
HUNGRY = ["doubling", "replacing", "width-in-braces", "wide-filter"]


def arm(folder: Path) -> Renderer:
    """A renderer whose template is the one that the mail's title names."""
    for name, (template, _) in BOMBS.items():
        (folder / f"{name}.txt").write_text(template)
    (folder / "own.txt").write_text("{% if title %}{% include title ~ '.txt' %}{% else %}{{ count }} events{% endif %}")
    return Renderer("own", folder=folder)


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Renderer]:
    renderer = arm(tmp_path_factory.mktemp("templates"))
    yield renderer
    renderer.close()


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_stopped_and_the_next_mail_is_rendered(renderer: Renderer, name: str) -> None:
    with pytest.raises(TemplateFailed, match=BOMBS[name][1]) as failed:
        renderer.render(many(), formats=["text"], title=name)

    assert failed.value.reason == str(failed.value)
    assert renderer.render(many(), formats=["text"]).text == "73 events"


def test_no_bomb_takes_more_than_a_hundred_megabytes(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.compose.test_bombs", str(tmp_path)]

    peak = subprocess.run(program, capture_output=True, text=True, check=True).stdout

    assert 40_000_000 < 1024 * int(peak) < 100_000_000


def main(folder: Path) -> None:
    """Let the hungriest off, and tell the peak of memory among the children, in KiB."""
    renderer = arm(folder)
    for name in HUNGRY:
        with pytest.raises(TemplateFailed):
            renderer.render(many(), formats=["text"], title=name)
    renderer.close()
    sys.stdout.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
