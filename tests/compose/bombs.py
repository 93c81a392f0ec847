"""Templates that would use up memory or time, and a program that measures their memory."""

import resource
import sys
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
    "one-long-operation": ("{{ ([[0]] * 99999) | sum(start=[]) | length }}", "takes longer"),
}
HUNGRY = ["doubling", "replacing", "width-in-braces", "wide-filter"]


def bomb_renderer(folder: Path) -> Renderer:
    """A renderer of the template that the title of the mail names."""
    for name, (template, _) in BOMBS.items():
        (folder / f"{name}.txt").write_text(template)
    (folder / "own.txt").write_text("{% if title %}{% include title ~ '.txt' %}{% else %}{{ count }} events{% endif %}")
    return Renderer("own", folder=folder)


def main(folder: Path) -> None:
    """Render the templates that need the most memory, and print the highest use of a child, in KiB."""
    renderer = bomb_renderer(folder)
    for name in HUNGRY:
        with pytest.raises(TemplateFailed):
            renderer.render(many(), formats=["text"], title=name)
    renderer.close()
    sys.stdout.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
