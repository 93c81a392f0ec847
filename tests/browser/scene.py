"""A believable day in a store: a few hundred timelines, a burst of alerts, an outage, dead letters, samples.

`python -m tests.browser.scene FOLDER` fills FOLDER/digestif.db and writes FOLDER/digestif.toml for `digestif serve`.
"""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from digestif import DeliveryFailed, Digest, Digests, InvalidState, Policy, Record, Unavailable
from digestif.notes.samples import Sampler
from tests.service.programs import started

DAY = 86_400
STEP = 60  # seconds between two looks at the schedule
BURST = (9000.0, 7200.0)  # seconds before now in which a database fails and everything alerts
OUTAGE = (8700.0, 6000.0)  # seconds before now in which mails are refused
ALERTS = Policy.parse("minimum=10m,increment=1m,maximum=1h,attempts=3")
COMMENTS = Policy.parse("minimum=1h,increment=5m,maximum=4h")
HOSTILE = (
    "<script>alert('timeline')</script>",
    "\u202egnp.ecioVni",
    "👩‍💻 deploys 🚀",
    "a/b?c=d&e=f#g%2F",
    "\"><img src=x onerror=alert(1)>'",
    "long-" + "x" * 507,
)
GONE = ("comments:grace@team-7.example", "comments:ken@team-1.example")  # whose mailboxes do not exist
SERVICES = [
    "checkout",
    "payments",
    "search",
    "inventory",
    "ledger-api",
    "gateway",
    "mailer",
    "billing",
    "catalog",
    "sessions",
    "thumbnails",
    "webhooks",
]
REGIONS = ["eu-west-1", "eu-north-1", "us-east-1"]
PEOPLE = ["ada", "grace", "linus", "margaret", "barbara", "ken", "dennis", "radia", "vint", "tim", "frances", "edsger"]
PROBLEMS = (
    "p99 latency is above 800 ms",
    "error rate is above 2 %",
    "disk of db-1 is 91 % full",
    "connection pool is exhausted",
    "queue grows for 10 minutes",
    "certificate expires in 6 days",
)
TITLES = ("Quarterly plan", "Onboarding", "Incident review", "Release notes", "Pricing", "API guidelines")
SETTINGS = """\
store = "sqlite:///{store}"

[serve]
listen = "127.0.0.1:0"
keep_messages = true

[[routes]]
pattern = "alerts:*"
channel = "file://{folder}/alerts"
policy = "minimum=10m,increment=1m,maximum=1h,attempts=3"
group_by = ["service", "title"]
title = "Alerts"

[[routes]]
pattern = "comments:*"
channel = "file://{folder}/comments"
policy = "minimum=1h,increment=5m,maximum=4h"
group_by = ["page"]

[[routes]]
pattern = "pager:*"
channel = "webhook+http://127.0.0.1:9/hook?allow_private=yes&secret=whsec_{secret}"
policy = "minimum=1m,increment=0s,maximum=5m"
"""


class Day:
    """Lives through a day, ending now."""

    def __init__(self, digests: Digests, *, now: float, seed: int = 7) -> None:
        self.digests, self.now, self.clock = digests, now, now - DAY
        self.chance = Random(seed)
        self.alerts = [f"alerts:{service}/{region}" for service in SERVICES for region in REGIONS]
        self.comments = [f"comments:{person}@team-{team}.example" for person in PEOPLE for team in range(1, 19)]
        self.sampler = Sampler(digests.store)
        for pattern, policy in (("alerts:*", ALERTS), ("comments:*", COMMENTS), ("*", ALERTS)):
            digests.handler(pattern, policy=policy, channel="mail")(self.send)

    def live(self) -> None:
        while self.clock < self.now:
            arrivals = [(timeline, self.record(value)) for timeline, value in self.events()]
            self.clock += STEP
            ready = self.digests.add_many(arrivals, now=self.clock)
            due = {timeline for (timeline, _), is_ready in zip(arrivals, ready, strict=True) if is_ready}
            for timeline in sorted(due | {entry.key for entry in self.digests.schedule(now=self.clock)}):
                self.deliver(timeline)
            self.sampler.tick(int(self.clock * 1000))

    def record(self, value: Any) -> Record:
        at = self.clock + self.chance.random() * STEP
        return Record(self.key(at), value, at)

    def key(self, at: float) -> str:
        """As fresh keys look."""
        return f"{int(at * 1000):012x}{self.chance.getrandbits(48):012x}"

    def events(self) -> Iterator[tuple[str, Any]]:
        hour = (self.clock % DAY) / DAY
        busy = 1.2 + math.sin(2 * math.pi * (hour - 0.35))
        is_burst = self.now - BURST[0] < self.clock < self.now - BURST[1]
        for _ in range(self.amount(9 * busy + (110 if is_burst else 0))):
            timeline = self.chance.choice(self.alerts[:12] if is_burst else self.alerts)
            service, _, region = timeline.removeprefix("alerts:").partition("/")
            yield timeline, {"title": self.chance.choice(PROBLEMS), "service": service, "region": region}
        for _ in range(self.amount(3 * busy)):
            who, page = self.chance.choice(PEOPLE), self.chance.choice(TITLES)
            yield (
                self.comments[int(len(self.comments) * self.chance.random() ** 2)],
                {"title": f"{who.title()} commented on {page}", "page": page},
            )

    def amount(self, mean: float) -> int:
        """A number that varies as people and machines do."""
        return max(0, round(self.chance.gauss(mean, 0.6 * mean)))

    def deliver(self, timeline: str) -> None:
        with suppress(InvalidState):  # its window, or an outage, holds it back
            self.digests.deliver(timeline, now=self.clock)

    def send(self, digest: Digest) -> None:
        if self.now - OUTAGE[0] < self.clock < self.now - OUTAGE[1]:
            raise Unavailable("mail.example.com:587 does not answer: connection refused")
        if digest.timeline in GONE:
            raise DeliveryFailed("550 5.1.1 mailbox does not exist", retry=False)


def fill(folder: Path, *, now: float, hostile: bool = False) -> None:
    """Write a day into FOLDER/digestif.db."""
    with Digests(f"sqlite:///{folder / 'digestif.db'}?synchronous=normal") as digests:
        day = Day(digests, now=now)
        day.live()
        for name in HOSTILE if hostile else ():
            digests.add(name, {"title": name}, key=name[:100], now=now)
        digests.add("pager:on-call", {"title": "Checkout is down"}, now=now)
        for timeline in day.alerts[30:33]:
            digests.pause(timeline, now=now)
    (folder / "digestif.toml").write_text(
        SETTINGS.format(store=folder / "digestif.db", folder=folder, secret="A" * 43 + "=")
    )


@contextmanager
def shown(folder: Path) -> Iterator[str]:
    """Run `digestif serve` on what `fill` wrote, and give the address."""
    with started(folder, "--config", "digestif.toml") as (_, client):
        yield client.url


if __name__ == "__main__":
    fill(Path(sys.argv[1]), now=time.time())
