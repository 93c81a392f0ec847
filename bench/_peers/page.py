"""The page about the comparison, made from the stored runs and the words in page.md: no figure is written by hand."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Any

from bench._measure import caution
from bench._peers.catalog import PEERS, Peer
from bench._peers.figures import (
    COSTS,
    RANKED,
    RATES,
    Column,
    Trial,
    agreement,
    ahead,
    count,
    is_ours,
    span,
    succeeded,
)

Run = dict[str, Any]

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_name("page.md")
PAGE = ROOT / "docs" / "peers.md"
PICTURE = ROOT / "docs" / "images" / "peers.svg"
STORED = [ROOT / "bench" / "results" / f"peers-{number}.json" for number in (1, 2)]


def write(first: Run, second: Run) -> str:
    """The page: the figures of two runs, and how far they agree."""
    runs, scale, around = [first, second], first["scale"], first["surroundings"]
    order = agreement(first, second)
    return Template(WORDS.read_text("utf-8")).substitute(
        events=count(scale["events"]),
        timelines=count(scale["timelines"]),
        one=f"{scale['one']:.0%}",
        callers=f"{scale['callers']:.0%}",
        seconds=f"{scale['seconds']:g}",
        recovery=f"{scale['recovery']:g}",
        cores=around["cores"],
        python=around["python"],
        load=f"{around['load']:.1f}",  # before the second run it is that of the first
        caution=caution(first),
        intake=_columns(runs, RATES, "durable by", lambda peer: peer.durability),
        arrivals=_table(ARRIVALS, [_arrivals(peer, trials) for peer, trials in _trials(runs) if trials]),
        costs=_columns(runs, COSTS, "a message is due", lambda peer: peer.rule),
        notes="\n".join(f"- {peer.name}: {peer.note}" for peer in PEERS if peer.note),
        behind="\n".join(_behind(runs)),
        agreed=count(order.agreed),
        compared=count(order.compared),
        swaps="\n".join(f"- {swap}" for swap in order.swaps or ["no two systems change places"]),
        versions=_table(("system", "versions"), [_versions(peer, trials) for peer, trials in _trials(runs)]),
    )


def _trials(runs: list[Run]) -> list[tuple[Peer, list[Trial]]]:
    """Each system, and its trials that succeeded."""
    return [(peer, [one for run in runs for one in succeeded(run) if one["name"] == peer.name]) for peer in PEERS]


ARRIVALS = (
    *("system", "sent", "messages", "delivered", "refused", "replaced", "lost", "repeated"),
    *("killed: acknowledged", "lost", "repeated"),
)


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head, *body = [f"| {' | '.join(cells)} |" for cells in (titles, *rows)]
    return "\n".join([head, f"|{'---|' * (head.count('|') - 1)}", *body])


def _columns(runs: list[Run], columns: list[Column], last: str, words: Callable[[Peer], str]) -> str:
    """A row for each system, with these figures and some words; also for those that could not be run."""

    def row(peer: Peer, trials: list[Trial]) -> list[str]:
        if not trials:
            return [peer.name, "could not be run", *[""] * len(columns)]
        return [_name(peer), *(column.text(trials) for column in columns), words(peer)]

    return _table(["system", *(column.title for column in columns), last], [row(*each) for each in _trials(runs)])


def _arrivals(peer: Peer, trials: list[Trial]) -> list[str]:
    """The fates of the events of a system."""
    fates = [_fates(peer, trial) for trial in trials]
    cells = [span(numbers, count) for numbers in zip(*fates, strict=True)]
    if peer.keeps == "last":
        cells[-2] += f" of {span([trial['kill']['expected'] for trial in trials], count)} timelines"
    return [_name(peer), *cells]


def _fates(peer: Peer, trial: Trial) -> list[int]:
    gone = trial["sent"] - trial["refused"] - trial["delivered"]
    lost = gone if peer.keeps == "all" else trial["missing"]
    counts = [trial[name] for name in ("sent", "notifications", "delivered", "refused")]
    kill = trial["kill"]
    after_kill = [kill["acknowledged"], kill["lost"], kill["repeated"]]
    return [*counts, gone - lost, lost, trial["repeated"], *after_kill]


def _behind(runs: list[Run]) -> Iterator[str]:
    """Each figure in which a system is better than Digestif on every store, in every run."""
    trials = [(peer, found) for peer, found in _trials(runs) if found]
    ours = [(peer.name.partition(", ")[2], found) for peer, found in trials if is_ours(found[0])]
    nothing = True
    for column in RANKED:
        names = [{trial["name"] for trial in ahead(run, column)} for run in runs]
        others = [
            f"{peer.name} {column.text(found)}" for peer, found in trials if all(peer.name in one for one in names)
        ]
        if others:
            nothing = False
            best = ", ".join(f"{store} {column.text(found)}" for store, found in ours)
            yield f"- **{column.title}**: {', '.join(others)}; Digestif on {best}."
    if nothing:
        yield "- In none of these figures a system is ahead of Digestif on every store, in both runs."


def _versions(peer: Peer, trials: list[Trial]) -> list[str]:
    if not trials:
        return [peer.name, "could not be run"]
    versions = dict(trials[0]["versions"])
    server = versions.pop("server")
    return [peer.name, ", ".join([*(f"{name} {version}" for name, version in versions.items()), server])]


def _name(peer: Peer) -> str:
    return f"**{peer.name}**" if is_ours({"name": peer.name}) else peer.name
