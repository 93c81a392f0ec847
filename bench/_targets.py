"""Targets of figures: whether they are met, as a mark in a table and in words."""

from collections.abc import Sequence
from typing import NamedTuple

from bench._measure import console


class Target(NamedTuple):
    """A figure and the bound that it must keep; it should reach the aim, if there is one."""

    what: str
    figure: float
    bound: float
    aim: float | None = None
    unit: str = "×"
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self._reaches(self.bound)

    @property
    def mark(self) -> str:
        """The text for a cell of a table."""
        sign = "[green]✓[/]" if self.met else "[red]✗[/]"
        return f"{sign} {self._wanted}"

    @property
    def words(self) -> str:
        verdict = "met" if self.met else "missed"
        return f"{verdict}: {self.what} {self._said(self.figure)}, asked {self._wanted}"

    @property
    def _wanted(self) -> str:
        relation = "≤" if self.at_most else "≥"
        if self.aim is None or self.aim == self.bound:
            return f"{relation} {self._said(self.bound)}"
        if self._reaches(self.aim):
            return f"{relation} {self._said(self.aim)}"
        return f"{relation} {self._said(self.bound)}, aim {self._said(self.aim)}"

    def _reaches(self, bound: float) -> bool:
        return self.figure <= bound if self.at_most else self.figure >= bound

    def _said(self, number: float) -> str:
        return f"{number:.3g}{self.unit}" if abs(number) < 100 else f"{number:,.0f}{self.unit}"


def show_targets(targets: Sequence[Target]) -> None:
    """Print all targets, missed ones first."""
    screen = console()
    screen.print()
    for one in sorted(targets, key=lambda one: one.met):
        colour = "green" if one.met else "red"
        verdict, _, rest = one.words.partition(":")
        screen.print(f" [{colour}]{verdict}[/]:{rest}")


def as_figures(targets: Sequence[Target]) -> dict[str, dict[str, float | bool | str | None]]:
    """Return the targets for JSON."""
    return {one.what: {**one._asdict(), "met": one.met, "words": one.words} for one in targets}
