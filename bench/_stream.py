"""A realistic stream of builds, deploys, alerts and comments for people, channels and pagers; its seed repeats it."""

from itertools import accumulate
from random import Random
from typing import Any

from digestif import Record


def _words(text: str) -> list[str]:
    return text.split()


PEOPLE = _words(
    "ada amir anna bela bruno carla chen dana diego elif emma farid fatou george grace hana hugo ines ivan jana jonas "
    "kofi lena liam lucia maja marco mei miriam nadia nils noor olga omar paula pedro priya rosa samir sara selma "
    "sofia tariq tessa tomas uma vera wei yusuf zoe"
)
FAMILIES = _words(
    "abe adeyemi almeida berg brandt castro cohen costa dubois eriksen farah fischer garcia haas hansen hopper ito "
    "jansen kaya khan kim kowalski larsen li lopez mbeki meyer moreau mori nagy nguyen novak okafor osei park patel "
    "petrov rossi sato schmidt silva singh sokolov suzuki tanaka turing varga weber yilmaz zhang"
)
SERVICES = _words(
    "auth billing catalog checkout-api docs gateway invoices loyalty mailer media orders payments search web"
)
TOPICS = _words("alerts builds deploys incidents releases reviews")
REGIONS = _words("eu-west eu-north us-east us-west ap-south")
TESTS = _words(
    "test_refund_rounding test_login_with_expired_token test_import_of_empty_file test_retry_after_timeout "
    "test_unicode_names test_two_buyers_one_item test_leap_day_invoice test_cache_is_shared"
)
REMARKS = (
    "Could we retry here instead of failing?",
    "Nice, much easier to read now.",
    "This needs a test for the empty case.",
    "Why not reuse the client from billing?",
    "Ship it once the build is green.",
    "I can reproduce this on staging.",
    "Let's discuss this tomorrow.",
)
SYMPTOMS = {
    "latency": "p99 latency at {:.1f} s, limit 0.8 s",
    "errors": "{:.1f} % of requests fail, limit 1 %",
    "queue": "{:.1f} thousand jobs are waiting, limit 2",
    "disk": "disk will be full in {:.1f} hours",
}
# the kinds of events of each audience, and their weights
MIX = {
    "mail": {"comment": 5, "build": 3, "deploy": 2, "alert": 1},
    "chat": {"deploy": 4, "build": 4, "comment": 2, "alert": 2},
    "pager": {"alert": 1},
}
BUSY = 1.6  # how unevenly the events fall on the timelines; 1 would be evenly
LATENESS = 20.0  # seconds by which an event may arrive after it happened


class Stream:
    """Random events for a fixed number of timelines, some of them far busier than others."""

    def __init__(self, timelines: int, *, seed: int) -> None:
        self._random = Random(seed)
        self.timelines = self._names(timelines)
        self._number = 1000
        self._kinds = {audience: (list(mix), list(accumulate(mix.values()))) for audience, mix in MIX.items()}

    def page(self, size: int, *, now: float) -> list[tuple[str, Record]]:
        """Return events that arrive now."""
        return [self._event(now) for _ in range(size)]

    def _names(self, count: int) -> list[str]:
        """Return names: of ten, six are people, three channels and one a pager; numbered when the names run out."""
        people = [f"mail:{person}.{family}" for person in PEOPLE for family in FAMILIES]
        channels = [f"chat:#{service}-{topic}" for service in SERVICES for topic in TOPICS]
        pagers = [f"pager:{service}-{region}" for service in SERVICES for region in REGIONS]
        for names in (people, channels, pagers):
            self._random.shuffle(names)
        kinds = [*[people] * 6, *[channels] * 3, pagers]
        names = [_numbered(kinds[i % 10], i // 10 * 6 + i % 10) for i in range(count)]
        self._random.shuffle(names)
        return names

    def _event(self, now: float) -> tuple[str, Record]:
        timeline = self.timelines[int(len(self.timelines) * self._random.random() ** BUSY)]
        kinds, weights = self._kinds[timeline.partition(":")[0]]
        kind = self._random.choices(kinds, cum_weights=weights)[0]
        service = self._random.choice(SERVICES)
        self._number += 1
        key, title = getattr(self, f"_{kind}")(service)
        value: dict[str, Any] = {"kind": kind, "service": service, "title": title}
        return timeline, Record(key, value, round(now - self._random.random() * LATENESS, 3))

    def _build(self, service: str) -> tuple[str, str]:
        reason = self._random.choice(TESTS)
        return f"build-{self._number}", f"{service} #{self._number} failed: {reason}"

    def _deploy(self, service: str) -> tuple[str, str]:
        version = f"{self._random.randint(1, 9)}.{self._random.randint(0, 30)}.{self._random.randint(0, 9)}"
        place = self._random.choice(REGIONS)
        fate = "was rolled back in" if self._random.random() < 0.1 else "is live in"
        return f"deploy-{self._number}", f"{service} {version} {fate} {place}"

    def _alert(self, service: str) -> tuple[str, str]:
        """Alerts repeat under one key: the latest reading replaces the one before."""
        symptom = self._random.choice(list(SYMPTOMS))
        return f"alert-{service}-{symptom}", f"{service}: {SYMPTOMS[symptom].format(self._random.uniform(1.1, 9.9))}"

    def _comment(self, service: str) -> tuple[str, str]:
        who = self._random.choice(PEOPLE).capitalize()
        remark = self._random.choice(REMARKS)
        return f"comment-{self._number}", f"{who} on {service} !{self._number % 900 + 100}: {remark}"


def _numbered(names: list[str], index: int) -> str:
    turn, place = divmod(index, len(names))
    return names[place] if turn == 0 else f"{names[place]}-{turn + 1}"
