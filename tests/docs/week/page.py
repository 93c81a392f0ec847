"""The tables of docs/how-to/see-a-week.md."""

import re
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

from tests.docs.pages import DOCS
from tests.docs.week.events import local
from tests.docs.week.outcomes import POLICIES, Outcome

PAGE = DOCS / "how-to" / "see-a-week.md"


def written(page: str, found: dict[str, dict[str, Outcome]]) -> str:
    """The page with its tables made anew, each between two comments."""
    for week, by_policy in found.items():
        page = _with_part(page, week, table(by_policy))
        page = _with_part(page, f"{week}, daily", daily_table(by_policy["daily"]))
    return page


def _with_part(page: str, name: str, text: str) -> str:
    part = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, count = part.subn(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)
    assert count == 1, f"{PAGE.name} has {count} parts <!-- {name} -->"
    return page


def table(found: dict[str, Outcome]) -> str:
    """A row for each policy."""
    head = "| policy | events | messages | median size | largest | longest wait | the policy allows | at night |"
    rows = [_row(name, outcome) for name, outcome in found.items()]
    return "\n".join([head, "|---|--:|--:|--:|--:|--:|--:|--:|", *rows])


def _row(name: str, outcome: Outcome) -> str:
    sizes = outcome.sizes
    waits = f"{duration(max(outcome.waits))} | {duration(POLICIES[name].longest_wait)}"
    counts = f"{len(outcome.times)} | {len(sizes)} | {median(sizes):g} | {max(sizes)}"
    return f"| {name} | {counts} | {waits} | {len(outcome.at_night)} |"


def duration(seconds: float) -> str:
    """In words, the last unit rounded up: 25 h, 9 h 12 min, 29 min 48 s."""
    if seconds < 3600:
        parts = [(int(seconds // 60), "min"), (int(seconds % 60), "s")]
    else:
        minutes = -int(-seconds // 60)
        parts = [(minutes // 60, "h"), (minutes % 60, "min")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def daily_table(daily: Outcome) -> str:
    """Each daily message, with its distance from the one before."""
    distances = [None, *(after.at - before.at for before, after in pairwise(daily.deliveries))]
    rows = [
        f"| {local(delivery.at):%a %d %b %H:%M} | {datetime.fromtimestamp(delivery.at, UTC):%H:%M} "
        f"| {duration(distance) if distance else ''} | {len(delivery.events)} |"
        for delivery, distance in zip(daily.deliveries, distances, strict=True)
    ]
    return "\n".join(["| leaves at, in Berlin | UTC | after the one before | events |", "|---|---|--:|--:|", *rows])
