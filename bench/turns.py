"""Two trees compared: `./dev bench turns worker --against /path/to/another/clone` runs a benchmark in both, in turn."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click

HERE = Path(__file__).parent.parent


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.option("--against", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(name: str, against: Path, rounds: int, options: tuple[str, ...]) -> None:
    """Run the benchmark NAME in this tree and in another, in turn, and print medians and their ratio.

    The other tree needs its .venv (./dev check there). OPTIONS go to the benchmark, besides --quick and --json. Figures
    that are the same in every round of both trees, such as numbers of timelines, are inputs and not printed.
    """
    here: dict[str, list[float]] = {}
    there: dict[str, list[float]] = {}
    for number in range(1, rounds + 1):
        click.echo(f"round {number} of {rounds}", err=True)
        for tree, figures in ((against, there), (HERE, here)):
            for path, figure in _figures(_measured(tree, name, options)):
                figures.setdefault(path, []).append(figure)
    measured = sorted(path for path in here.keys() & there.keys() if len({*here[path], *there[path]}) > 1)
    width = max(map(len, measured), default=0)
    for path in measured:
        new, old = median(here[path]), median(there[path])
        ratio = f"{new / old:8.2f}×" if old else ""
        click.echo(f"{path:<{width}}  {_rounded(new):>12} here  {_rounded(old):>12} there  {ratio}".rstrip())


def _measured(tree: Path, name: str, options: tuple[str, ...]) -> Any:
    python = tree.absolute() / ".venv/bin/python"
    command = [str(python), "-m", f"bench.{name}", "--quick", "--json", *options]
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _rounded(figure: float) -> str:
    """Four digits, and no exponents."""
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.4g}"


def _figures(measured: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number with the names that lead to it."""
    if isinstance(measured, dict):
        for name, part in measured.items():
            if name != "asked":
                yield from _figures(part, f"{path} / {name}" if path else str(name))
    elif isinstance(measured, int | float) and not isinstance(measured, bool):
        yield path, float(measured)


if __name__ == "__main__":
    sys.exit(main())
