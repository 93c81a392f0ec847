"""How fast digests are composed: grouped and counted, then rendered as a mail.

Nothing here waits, so processor time is measured, which other programs disturb less.
"""

import json
import os
import platform
from collections.abc import Callable
from functools import partial
from random import Random
from time import process_time
from typing import Any, NamedTuple

import click
import msgspec

from bench._measure import Child, Figures, console, interleaved, middle, start
from bench._table import Report, show
from bench._targets import Target, as_figures, show_targets
from digestif import Digest, Record
from digestif.compose.grouping import Grouping
from digestif.compose.renderer import Renderer

RECORDS = 100  # in each digest
PAGE = 20  # digests
MOST_MILLISECONDS = 0.4  # for an ordinary summary
LEAST_MAILS = 500  # a second

NOON = 1_794_830_400.0
LINKS = {"open": "https://example.org/digests/7", "unsubscribe": "https://example.org/unsubscribe/7"}


class Scale(NamedTuple):
    """How much is measured."""

    rounds: int
    digests: int


FULL = Scale(7, 1_000)
QUICK = Scale(3, 100)


class Shape(NamedTuple):
    """How many subjects the records of a digest have."""

    rules: int
    issues: int  # of each rule


SHAPES = {"ordinary, 5 × 4": Shape(5, 4), "one subject": Shape(1, 1), "all different": Shape(20, 1_000_000)}
ORDINARY, _, DIFFERENT = SHAPES
ASKED = {ORDINARY: "ordinary digests", DIFFERENT: "100 different subjects"}


def digest_of(shape: Shape, number: int) -> Digest:
    """Return a digest of errors; the same for the same number."""
    chance = Random(number)
    records = tuple(_record(shape, chance, place) for place in range(RECORDS))
    return Digest(f"mail:{number}", f"{number:020x}", 1, 1, 0, records)


def _record(shape: Shape, chance: Random, place: int) -> Record:
    rule, issue, user = chance.randrange(shape.rules), chance.randrange(shape.issues), chance.randrange(50)
    value = {
        "rule": f"Errors in service {rule}",
        "issue": {"id": rule * 1_000_000 + issue, "title": f"TimeoutError: no answer from backend {issue} in time"},
        "title": f"TimeoutError: no answer from backend {issue} in time",
        "message": "The request was given up after 30 s; three retries had failed before with the same error.",
        "url": f"https://example.org/issues/{issue}",
        "user": {"id": user, "name": f"user {user}"},
    }
    return Record(f"{place:020x}", value, NOON - place * 7.5)


class Composer:
    """Composes digests of one shape again and again; each page is decoded from JSON, as from a store."""

    def __init__(self, shape: Shape, digests: int) -> None:
        pages = [range(digests)[first : first + PAGE] for first in range(0, digests, PAGE)]
        self._pages = [msgspec.json.encode([digest_of(shape, number) for number in page]) for page in pages]
        self._grouping = Grouping(group_by=["rule", "issue.title"], distinct={"users": "user.id"})
        self._renderer = Renderer(zone="Europe/Lisbon")

    def summaries(self) -> Figures:
        return self._rate(self._grouping.summarize)

    def mails(self) -> Figures:
        """Mails per second, with HTML and plain text."""
        render = partial(self._renderer.render, formats=("html", "text"), next_delivery=NOON + 300, links=LINKS)
        return self._rate(lambda digest: render(self._grouping.summarize(digest)))

    def bytes(self) -> Figures:
        rendered = self._renderer.render(
            self._grouping.summarize(_digests(self._pages[0])[0]), formats=("html", "text")
        )
        return {"html": len(rendered.html.encode()), "text": len(rendered.text.encode())}

    def close(self) -> None:
        self._renderer.close()

    def _rate(self, compose: Callable[[Digest], object]) -> Figures:
        done, seconds = 0, 0.0
        for digests in map(_digests, self._pages):
            began = process_time()
            for digest in digests:
                compose(digest)
            seconds += process_time() - began
            done += len(digests)
        return {"rate": done / max(seconds, 1e-9)}


def _digests(page: bytes) -> list[Digest]:
    return msgspec.json.decode(page, type=list[Digest])


def measure(scale: Scale) -> tuple[Report, list[Target]]:
    """Measure each shape, as summaries only and as mails."""
    children = {name: Child(Composer, shape, scale.digests) for name, shape in SHAPES.items()}
    asks = {(name, kind): child.ask(kind) for name, child in children.items() for kind in ("summaries", "mails")}
    answers = interleaved({f"{kind}: {name}": ask for (name, kind), ask in asks.items()}, rounds=scale.rounds)
    report = Report(f"digests of {RECORDS} records", ("summaries/s", "ms", "mails/s", "ms", "KiB of HTML", "MiB"))
    for name, child in children.items():
        summaries, mails = (middle(answers[f"{kind}: {name}"], "rate") for kind in ("summaries", "mails"))
        size = child.ask("bytes")()["html"] / 1024
        peak = child.end()
        rates = f"{summaries:,.0f}", f"{1000 / summaries:.2f}", f"{mails:,.0f}", f"{1000 / mails:.2f}"
        report.rows.append((name, *rates, f"{size:,.1f}", f"{peak:,.0f}"))
        figures = {"summaries_per_second": summaries, "mails_per_second": mails}
        report.figures[name] = {**figures, "html_kib": size, "peak_mib": peak}
    report.notes.append("Two levels and one distinct count; mails are HTML with their plain text. Seconds of one core.")
    return report, _targets_of(report.figures)


def _targets_of(figures: dict[str, dict[str, float]]) -> list[Target]:
    milliseconds = 1000 / figures[ORDINARY]["summaries_per_second"]
    mails = {words: figures[name]["mails_per_second"] for name, words in ASKED.items() if name in figures}
    return [
        Target("a summary of an ordinary digest", milliseconds, MOST_MILLISECONDS, unit=" ms", at_most=True),
        *(Target(f"mails of {words} a second", rate, LEAST_MAILS, unit="") for words, rate in mails.items()),
    ]


@click.command("compose", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Smaller numbers, in some seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def compose(quick: bool, as_json: bool) -> int:
    """Measure how many digests are composed, and rendered as mails, in a second."""
    facts: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count()}
    if not as_json:
        console().print("[dim]Python {python} · {cores} cores, one is used · MiB: peak memory[/]".format(**facts))
    report, targets = measure(QUICK if quick else FULL)
    if as_json:
        figures = {"digests": report.figures, "asked": as_figures(targets)}
        print(json.dumps({"surroundings": facts, "quick": quick, **figures}, indent=2))
    else:
        show(report)
        show_targets(targets)
    return 0


if __name__ == "__main__":
    start(compose, name="./dev bench compose")
