"""What Prometheus sees, scraped over HTTP from a real server and read with a real parser."""

import asyncio
import atexit
import math
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from digestif import AsyncDigests, ConfigError, Digest, Digests, Discard, Event, Policy, Unavailable
from digestif.events import (
    Buried,
    ChannelDown,
    Delivered,
    Discarded,
    Dispatched,
    DispatchFailed,
    DispatchLost,
    Expired,
    Failed,
    Lapsed,
    LeaseLost,
    LeaseNotRenewed,
    PartitionFailed,
    PutOff,
    Quarantined,
    Returned,
    Skipped,
    StoreFailed,
    Unhandled,
    Unsettled,
)
from digestif.integrations.prometheus import instrument, watch_events, watch_store
from digestif.testing import FakeClock
from digestif.testing.servers import RedisServer, becomes_true
from tests.docs.pages import DOCS, code_names

Metrics = dict[str, dict[tuple[str, ...], float]]  # by name of the sample and values of the labels but the namespace

PAGE = DOCS / "how-to" / "prometheus.md"
POLICY = Policy(minimum_delay=60, increment_delay=0, attempts=2)
ERROR = StoreFailed(operation="claim", error=OSError())


class Endpoint:
    """Prometheus' own server. Ending one takes half a second, so all tests share it, each with its registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        served: Any = self  # it is asked for nothing but collect
        self._server, self._thread = start_http_server(0, addr="127.0.0.1", registry=served)
        self._address = f"http://127.0.0.1:{self._server.server_port}/metrics"

    def collect(self) -> Iterable[Metric]:
        return self._registry.collect()

    def fetch(self, registry: CollectorRegistry, accept: str) -> str:
        self._registry = registry
        with urlopen(Request(self._address, headers={"Accept": accept}), timeout=30) as answer:
            assert answer.status == 200
            return str(answer.read().decode())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@cache
def endpoint() -> Endpoint:
    opened = Endpoint()
    atexit.register(opened.close)
    return opened


def fetch(registry: CollectorRegistry, accept: str = "text/plain") -> str:
    return endpoint().fetch(registry, accept)


def scrape(registry: CollectorRegistry, *, namespace: str = "d") -> Metrics:
    found: Metrics = {}
    for family in text_string_to_metric_families(fetch(registry)):
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.pop("namespace") == namespace:
                found.setdefault(sample.name, {})[tuple(labels.values())] = sample.value
    return found


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory://", "sqlite:///{path}/d.db", "redis"])
def digests(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Digests]:
    dsn = request.getfixturevalue("server").url if request.param == "redis" else request.param.format(path=tmp_path)
    with Digests(dsn, policy=POLICY, clock=clock) as digests:
        yield digests


@pytest.fixture(scope="module")
def shared_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    shared_server.cli("FLUSHALL")
    return shared_server


# The store


def test_the_ledger_and_the_backlog_are_those_of_the_store(
    digests: Digests, clock: FakeClock, registry: CollectorRegistry
) -> None:
    @digests.handler("*")
    def handle(digest: Digest) -> None:
        if digest.timeline == "dies":
            raise OSError("no such mailbox")

    instrument(digests, registry=registry)
    for timeline in ("waits", "dies", "open", "ready", "paused"):
        digests.add(timeline, 1, key="a")
    digests.pause("paused")
    for timeline in ("waits", "dies"):
        digests.deliver(timeline)
    clock.advance(59)
    list(digests.schedule())
    digests.deliver("dies")  # its last attempt
    digests.add("waits", 2, key="b")
    digests.add("waits", 3, key="b")
    digests.add("waits", 4, key="c")
    digests.retract("waits", "c")
    digests.prefer("off", "off")
    digests.add("off", 1)

    with digests.digest("open"):
        clock.advance(8)
        found = scrape(registry)

    assert found["digestif_up"] == {(): 1}
    assert found["digestif_records_accepted_total"] == {(): 8}
    assert found["digestif_records_declined_total"] == {(): 1}
    ended = {"delivered": 1, "superseded": 1, "dropped": 0, "expired": 0, "deleted": 1, "lost": 0}
    assert found["digestif_records_ended_total"] == {(fate,): count for fate, count in ended.items()}
    assert found["digestif_pending_records"] == {(): 3}
    assert found["digestif_open_records"] == {(): 1}
    assert found["digestif_dead_records"] == {(): 1}
    states = {"waiting": 2, "ready": 1, "open": 1, "paused": 2}  # also the idle one with a policy of its own
    assert found["digestif_timelines"] == {(state,): count for state, count in states.items()}
    assert found["digestif_due_timelines"] == {(): 2}
    assert found["digestif_overdue_seconds"] == {(): 67}
    assert found["digestif_oldest_record_age_seconds"] == {(): 67}


def test_the_account_can_be_balanced_from_what_is_scraped(digests: Digests, registry: CollectorRegistry) -> None:
    """As the rule on the page does."""
    watch_store(digests, registry=registry)
    digests.add_many([(f"t{number % 7}", number) for number in range(100)])
    for number in range(3):
        with digests.digest(f"t{number}"):
            pass

    found = scrape(registry)

    held = sum(found[f"digestif_{fate}_records"][()] for fate in ("pending", "open", "dead"))
    assert found["digestif_records_accepted_total"][()] == held + sum(found["digestif_records_ended_total"].values())


def test_a_closed_channel_is_shown_until_it_is_long_back(clock: FakeClock, registry: CollectorRegistry) -> None:
    failures: list[Exception] = [Unavailable("refused")]
    digests = Digests("memory://", clock=clock)

    @digests.handler("*", channel="crm")
    def send(digest: Digest) -> None:
        for failure in failures:
            raise failure

    watch_store(digests, registry=registry)
    digests.notify("t", 1)
    assert scrape(registry)["digestif_channel_closed"] == {("crm",): 1}
    assert "digestif_channel_closed_seconds" in scrape(registry)

    failures.clear()
    clock.advance(60)
    for entry in digests.schedule():
        digests.deliver(entry.key)
    assert scrape(registry)["digestif_channel_closed"] == {("crm",): 0}
    clock.advance(60)
    assert scrape(registry).get("digestif_channel_closed", {}) == {}


def test_an_empty_store_is_shown_as_empty(digests: Digests, registry: CollectorRegistry) -> None:
    watch_store(digests, registry=registry)

    found = scrape(registry)

    assert found.pop("digestif_up") == {(): 1}
    assert {value for samples in found.values() for value in samples.values()} == {0}
    assert found["digestif_oldest_record_age_seconds"] == {(): 0}


def test_nothing_is_said_about_the_age_of_records_that_never_expire(registry: CollectorRegistry) -> None:
    digests = Digests("memory://", policy=Policy(ttl=None))
    watch_store(digests, registry=registry)
    digests.add("t", 1)

    assert "digestif_oldest_record_age_seconds" not in scrape(registry)


def test_a_store_that_is_gone_is_down_and_does_not_break_the_scrape(registry: CollectorRegistry) -> None:
    """Others are shown as ever, and it is up when it is back."""
    with RedisServer(appendonly=True) as server, Digests(f"{server.url}?patience=0.2") as digests:
        instrument(digests, registry=registry)
        instrument(Digests("memory://", namespace="other"), registry=registry)
        assert scrape(registry)["digestif_up"] == {(): 1}

        server.kill()
        found, other = scrape(registry), scrape(registry, namespace="other")

        assert found["digestif_up"] == {(): 0}
        assert "digestif_pending_records" not in found  # what it was is not what it is
        assert scrape(registry)["digestif_store_failures_total"][("scrape",)] >= 1
        assert other["digestif_up"] == {(): 1}
        server.start()
        assert becomes_true(lambda: scrape(registry)["digestif_up"] == {(): 1})


def test_a_store_that_hangs_does_not_hang_the_scrape_nor_gather_threads(registry: CollectorRegistry) -> None:
    with RedisServer() as server, Digests(f"{server.url}?timeout=60&patience=60") as digests:
        watch_store(digests, registry=registry, timeout=0.2)
        assert scrape(registry)["digestif_up"] == {(): 1}

        server.freeze()
        hanging = [scrape(registry)["digestif_up"] for _ in range(4)]
        threads = [thread for thread in threading.enumerate() if thread.name == "digestif-scrape"]
        server.thaw()

        assert hanging == [{(): 0}] * 4
        assert len(threads) == 1
        assert becomes_true(lambda: scrape(registry)["digestif_up"] == {(): 1})


def test_a_scrape_may_ask_for_some_metrics_only(registry: CollectorRegistry) -> None:
    """The registry knows the names without asking any store."""
    watch_store(Digests("memory://"), registry=registry)

    text = generate_latest(registry.restricted_registry(["digestif_up"])).decode()

    assert 'digestif_up{namespace="d"} 1.0' in text
    assert "digestif_pending_records" not in text


# Events


def test_a_delivery_is_measured(clock: FakeClock, registry: CollectorRegistry) -> None:
    digests = Digests("memory://", policy=POLICY, clock=clock)
    digests.handler("*")(lambda digest: None)
    instrument(digests, registry=registry)
    digests.add_many([("t", number) for number in range(7)])
    clock.advance(3)

    digests.deliver("t")

    found = scrape(registry)
    assert found["digestif_lateness_seconds_sum"] == {(): 3}
    assert found["digestif_lateness_seconds_bucket"][("1.0",)] == 0
    assert found["digestif_lateness_seconds_bucket"][("5.0",)] == 1
    assert found["digestif_digest_records_sum"] == {(): 7}
    assert found["digestif_delivery_seconds_count"] == {(): 1}
    assert 0 <= found["digestif_delivery_seconds_sum"][()] < 1


def test_a_handler_that_wants_nothing_or_fails_is_counted(clock: FakeClock, registry: CollectorRegistry) -> None:
    digests = Digests("memory://", policy=POLICY, clock=clock)

    @digests.handler("*")
    def fail(digest: Digest) -> None:
        raise Discard if digest.timeline == "unwanted" else OSError

    instrument(digests, registry=registry)
    for timeline in ("unwanted", "bad"):
        digests.add(timeline, 1)
        digests.deliver(timeline)
    clock.advance(3600)
    for entry in digests.schedule():
        digests.deliver(entry.key) if entry.key == "bad" else None

    found = scrape(registry)
    assert found["digestif_discarded_digests_total"] == {(): 1}
    assert found["digestif_failed_attempts_total"] == {(): 2}
    assert found["digestif_buried_digests_total"] == {(): 1}


ATTEMPT: Any = {"timeline": "t", "digest_id": "i", "attempt": 1}
TIMES: Any = {"records": 5, "late": 2, "took": 0.5}
FAILURE: Any = {**ATTEMPT, **TIMES, "reason": "r"}


@pytest.mark.parametrize(
    ("event", "name", "labels", "value"),
    [
        (Delivered(**ATTEMPT, **TIMES, dropped=0), "digestif_lateness_seconds_sum", (), 2),
        (Delivered(**ATTEMPT, **TIMES, dropped=0), "digestif_digest_records_sum", (), 5),
        (Delivered(**ATTEMPT, **TIMES, dropped=0), "digestif_delivery_seconds_sum", (), 0.5),
        (Dispatched(timeline="t", late=1.5), "digestif_dispatch_lateness_seconds_sum", (), 1.5),
        (DispatchFailed(timeline="t", error=OSError()), "digestif_failed_dispatches_total", (), 1),
        (DispatchLost(timeline="t", late=300), "digestif_lost_dispatches_total", (), 1),
        (Skipped(timeline="t", reason="r"), "digestif_skipped_tasks_total", (), 1),
        (Failed(**FAILURE, retry_in=1), "digestif_failed_attempts_total", (), 1),
        (Buried(**FAILURE), "digestif_buried_digests_total", (), 1),
        (Buried(**FAILURE), "digestif_failed_attempts_total", (), 0),
        (Buried(**FAILURE, error=OSError()), "digestif_failed_attempts_total", (), 1),
        (PutOff(**ATTEMPT, records=0, reason="r", retry_in=1), "digestif_put_off_attempts_total", (), 1),
        (Unsettled(**ATTEMPT, ending="failed", error=OSError()), "digestif_unsettled_attempts_total", (), 1),
        (Quarantined(timeline="t", key="k", letter_id="i", reason="r"), "digestif_quarantined_records_total", (), 1),
        (Discarded(**ATTEMPT, records=1, reason="r"), "digestif_discarded_digests_total", (), 1),
        (Returned(**ATTEMPT, begun=True), "digestif_returned_digests_total", (), 1),
        (Unhandled(timeline="t", timelines=3), "digestif_unhandled_timelines_total", (), 3),
        (Expired(timeline="t", records=3), "digestif_expired_records_total", (), 3),
        (Lapsed(timeline="t"), "digestif_lapsed_leases_total", (), 1),
        (LeaseLost(**ATTEMPT), "digestif_lost_leases_total", (), 1),
        (LeaseNotRenewed(timeline="t", error=OSError()), "digestif_failed_renewals_total", (), 1),
        (ChannelDown(channel="crm", reason="r", retry_in=5), "digestif_channel_outages_total", ("crm",), 1),
        (ERROR, "digestif_store_failures_total", ("claim",), 1),
        (PartitionFailed(operation="add", partition=1, error=OSError()), "digestif_store_failures_total", ("add",), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Event) else "",
)
def test_every_event_is_counted(
    event: Event, name: str, labels: tuple[str, ...], value: float, registry: CollectorRegistry
) -> None:
    """A count begins at 0, so that the first event is seen as one."""
    digests = Digests("memory://")
    watch_events(digests, registry=registry)
    assert scrape(registry).get(name, {labels: 0})[labels] == 0
    assert (name in scrape(registry)) is (labels == ())

    digests.events.emit(event)

    assert scrape(registry)[name][labels] == value


def test_buckets_can_be_chosen(registry: CollectorRegistry) -> None:
    instrument(Digests("memory://"), registry=registry, lateness=[1, 2], sizes=[3], durations=[4])

    found = scrape(registry)

    assert found["digestif_lateness_seconds_bucket"].keys() == {("1.0",), ("2.0",), ("+Inf",)}
    assert found["digestif_digest_records_bucket"].keys() == {("3.0",), ("+Inf",)}
    assert found["digestif_delivery_seconds_bucket"].keys() == {("4.0",), ("+Inf",)}


# Registries


def test_several_namespaces_share_a_registry(registry: CollectorRegistry) -> None:
    mail, chat = Digests("memory://", namespace="mail"), Digests("memory://", namespace="chat")
    for digests in (mail, chat):
        instrument(digests, registry=registry)

    mail.add("t", 1)
    chat.events.emit(ERROR)

    assert scrape(registry, namespace="mail")["digestif_pending_records"] == {(): 1}
    assert scrape(registry, namespace="chat")["digestif_pending_records"] == {(): 0}
    assert "digestif_store_failures_total" not in scrape(registry, namespace="mail")
    assert len(re.findall("^# TYPE digestif_pending_records ", fetch(registry), re.MULTILINE)) == 1


def test_two_stores_of_one_name_need_different_labels(registry: CollectorRegistry) -> None:
    instrument(Digests("memory://"), registry=registry)

    with pytest.raises(ConfigError, match="namespace: 'd' is in this registry already"):
        instrument(Digests("memory://"), registry=registry)
    instrument(Digests("memory://"), registry=registry, namespace="second")

    assert scrape(registry, namespace="second")["digestif_up"] == {(): 1}


def test_it_can_be_ended_and_begun_again(registry: CollectorRegistry) -> None:
    digests = Digests("memory://")
    end = instrument(digests, registry=registry)

    end()
    digests.events.emit(Lapsed(timeline="t"))

    assert "digestif_up" not in scrape(registry)
    assert scrape(registry)["digestif_lapsed_leases_total"] == {(): 0}
    instrument(digests, registry=registry)
    assert scrape(registry)["digestif_up"] == {(): 1}


@pytest.mark.parametrize("timeout", [0, -1, math.inf, "5", True])
def test_a_wrong_timeout_is_refused(timeout: Any, registry: CollectorRegistry) -> None:
    with pytest.raises(ConfigError, match="timeout: "):
        instrument(Digests("memory://"), registry=registry, timeout=timeout)


async def scraped_async(registry: CollectorRegistry) -> Metrics:
    async with AsyncDigests("memory://") as digests:
        instrument(digests, registry=registry)
        digests.handler("*")(lambda digest: None)
        await digests.add("t", 1)
        await digests.deliver("t")
        await digests.add("t", 2)
        return scrape(registry)


def test_async_digests_are_watched_likewise(registry: CollectorRegistry) -> None:
    found = asyncio.run(scraped_async(registry))

    assert found["digestif_pending_records"] == {(): 1}
    assert found["digestif_digest_records_count"] == {(): 1}


MANY_PROCESSES = """
import os
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from digestif import Digests
from digestif.integrations.prometheus import watch_events, watch_store

digests = Digests("sqlite:///digests.db")
digests.handler("*")(lambda digest: None)
watch_events(digests)
for number in range(3):
    digests.add(f"t{number}", 1)
    child = os.fork()
    if child == 0:
        digests.deliver(f"t{number}")
        os._exit(0)
    os.waitpid(child, 0)
registry = CollectorRegistry()
MultiProcessCollector(registry)
watch_store(digests, registry=registry)
print(generate_latest(registry).decode())
"""


def test_the_events_of_many_processes_are_added_up_as_the_client_library_does_it(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "metrics")}

    done = subprocess.run(
        [sys.executable, "-c", MANY_PROCESSES],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert 'digestif_delivery_seconds_count{namespace="d"} 3.0' in done.stdout
    assert 'digestif_records_ended_total{fate="delivered",namespace="d"} 3.0' in done.stdout


# Names


@pytest.fixture
def families(registry: CollectorRegistry) -> list[Any]:
    """All that there are, as OpenMetrics, whose parser is strict."""
    digests = Digests("memory://", clock=FakeClock())
    instrument(digests, registry=registry)
    digests.events.emit(ERROR)
    text = fetch(registry, accept="application/openmetrics-text; version=1.0.0")
    return list(open_metrics(text))  # type: ignore[no-untyped-call]  # the library has not typed it


def test_names_and_units_are_those_that_prometheus_advises(families: list[Any]) -> None:
    assert len(families) >= 20
    for family in families:
        assert re.fullmatch(r"digestif(_[a-z]+)+", family.name)
        assert family.documentation.endswith(".")
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert not re.search("milli|minutes|hours", family.name)
        assert all("namespace" in sample.labels for sample in family.samples)


def test_every_metric_is_explained_on_its_page(families: list[Any]) -> None:
    exposed = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    explained = {name for name in code_names(PAGE.read_text("utf-8")) if name.startswith("digestif_")}

    assert explained == exposed


def test_the_alerts_on_the_page_speak_of_metrics_that_exist(families: list[Any]) -> None:
    samples = {sample.name for family in families for sample in family.samples}
    rules = re.search(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)

    assert rules is not None
    named = set(re.findall(r"digestif_[a-z_]+", rules[1]))
    assert len(named) >= 5
    assert named <= samples
