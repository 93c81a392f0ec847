"""Metrics for Prometheus: the store is read at each scrape, the events of this process are counted as they happen.

    instrument(digests)
    prometheus_client.start_http_server(9100)

The metrics are those of docs/how-to/prometheus.md; all have a label `namespace`.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from digestif.aio import AsyncDigests
from digestif.clock import monotonic
from digestif.core.backlog import Backlog
from digestif.core.ledger import Ledger
from digestif.core.outages import ChannelOutage
from digestif.core.texts import shortened
from digestif.core.times import Duration, in_seconds, is_duration, to_seconds
from digestif.digests import Digests
from digestif.errors import ConfigError
from digestif.events import (
    Buried,
    ChannelDown,
    Delivered,
    Discarded,
    Dispatched,
    DispatchFailed,
    DispatchLost,
    Event,
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
    StoreChanged,
    StoreFailed,
    Unhandled,
    Unsettled,
)
from digestif.exports import needs

with needs("prometheus", module=__name__):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

TIMEOUT = 5.0  # seconds for a store to answer: half of what Prometheus waits for a scrape
LATENESS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Remove = Callable[[], None]


def instrument(
    digests: Digests | AsyncDigests,
    *,
    registry: CollectorRegistry = REGISTRY,
    namespace: str | None = None,
    timeout: Duration = TIMEOUT,
    lateness: Sequence[float] = LATENESS,
    sizes: Sequence[float] = SIZES,
    durations: Sequence[float] = DURATIONS,
) -> Remove:
    """Do both `watch_store` and `watch_events`; call the returned function to stop."""
    remove = watch_store(digests, registry=registry, namespace=namespace, timeout=timeout)
    try:
        unsubscribe = watch_events(
            digests, registry=registry, namespace=namespace, lateness=lateness, sizes=sizes, durations=durations
        )
    except BaseException:
        remove()
        raise

    def end() -> None:
        unsubscribe()
        remove()

    return end


# What is in the store


def watch_store(
    digests: Digests | AsyncDigests,
    *,
    registry: CollectorRegistry = REGISTRY,
    namespace: str | None = None,
    timeout: Duration = TIMEOUT,
) -> Remove:
    """Read ledger and backlog at every scrape; call the returned function to stop.

    A store that does not answer within `timeout` seconds is shown as `digestif_up` 0. `namespace` is the label, by
    default that of the store; two stores in one registry need different ones.
    """
    seconds = in_seconds(timeout)
    if not is_duration(seconds) or seconds == 0:
        raise ConfigError(f"timeout: {shortened(timeout)} is not a number of seconds > 0")
    if registry not in _stores:
        collector = _Stores()
        registry.register(collector)
        _stores[registry] = collector
    return _stores[registry].add(_label(digests, namespace), _Source(digests, seconds))


class Reading(NamedTuple):
    """The answer of a store."""

    ledger: Ledger
    backlog: Backlog
    outages: Sequence[ChannelOutage]
    at: float  # by the store's clock


Sample = tuple[tuple[str, ...], float]  # values of labels, and the number


class _Family(NamedTuple):
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    text: str
    samples: Callable[[Reading], Iterable[Sample]]
    labels: tuple[str, ...] = ()

    def metric(self) -> CounterMetricFamily | GaugeMetricFamily:
        return self.kind(self.name, self.text, labels=("namespace", *self.labels))


def _one(value: Callable[[Reading], float]) -> Callable[[Reading], Iterable[Sample]]:
    return lambda reading: [((), value(reading))]


ENDED = ("delivered", "superseded", "dropped", "expired", "deleted", "lost")  # fates from which no record comes back


def _ended(reading: Reading) -> Iterator[Sample]:
    for fate in ENDED:
        yield (fate,), getattr(reading.ledger, fate)


def _states(reading: Reading) -> Iterator[Sample]:
    backlog = reading.backlog
    yield ("waiting",), backlog.waiting
    yield ("ready",), backlog.ready
    yield ("open",), backlog.open
    yield ("paused",), max(0, backlog.timelines - backlog.waiting - backlog.ready - backlog.open)


def _oldest(reading: Reading) -> Iterator[Sample]:
    """No sample for records without a ttl: the store does not index when they arrived."""
    oldest, ledger = reading.backlog.oldest, reading.ledger
    if oldest is not None:
        yield (), oldest
    elif ledger.pending + ledger.open == 0:
        yield (), 0.0


def _closed(reading: Reading) -> Iterator[Sample]:
    for outage in reading.outages:
        yield (outage.channel,), float(outage.next_probe is not None)


def _closed_for(reading: Reading) -> Iterator[Sample]:
    for outage in reading.outages:
        yield (outage.channel,), max(0.0, reading.at - outage.since) if outage.next_probe is not None else 0.0


_UP = _Family(GaugeMetricFamily, "digestif_up", "1 if the store answered this scrape, else 0.", _one(lambda _: 1))
_FAMILIES = (
    _Family(
        CounterMetricFamily,
        "digestif_records_accepted_total",
        "Records that were accepted.",
        _one(lambda reading: reading.ledger.accepted),
    ),
    _Family(
        CounterMetricFamily,
        "digestif_records_declined_total",
        "Records that were not accepted because their timelines are switched off.",
        _one(lambda reading: reading.ledger.declined),
    ),
    _Family(
        CounterMetricFamily,
        "digestif_records_ended_total",
        "Accepted records that are done with, by fate.",
        _ended,
        ("fate",),
    ),
    _Family(
        GaugeMetricFamily,
        "digestif_pending_records",
        "Records that are in no digest yet.",
        _one(lambda reading: reading.ledger.pending),
    ),
    _Family(
        GaugeMetricFamily,
        "digestif_open_records",
        "Records in digests that are not finished.",
        _one(lambda reading: reading.ledger.open),
    ),
    _Family(
        GaugeMetricFamily,
        "digestif_dead_records",
        "Records in dead letters.",
        _one(lambda reading: reading.ledger.dead),
    ),
    _Family(GaugeMetricFamily, "digestif_timelines", "Timelines that are stored, by state.", _states, ("state",)),
    _Family(
        GaugeMetricFamily,
        "digestif_due_timelines",
        "Timelines that may be delivered now.",
        _one(lambda reading: reading.backlog.due),
    ),
    _Family(
        GaugeMetricFamily,
        "digestif_overdue_seconds",
        "How long the most overdue timeline has been due.",
        _one(lambda reading: reading.backlog.late),
    ),
    _Family(
        GaugeMetricFamily,
        "digestif_oldest_record_age_seconds",
        "How long ago the oldest undelivered record arrived.",
        _oldest,
    ),
    _Family(
        GaugeMetricFamily,
        "digestif_channel_closed",
        "1 while a channel is unavailable; a channel that was never closed, or is long back, has no sample.",
        _closed,
        ("channel",),
    ),
    _Family(
        GaugeMetricFamily,
        "digestif_channel_closed_seconds",
        "For how long a channel has been unavailable.",
        _closed_for,
        ("channel",),
    ),
)


class _Stores:
    """The collector of a registry, one for all its stores: a registry takes each metric only once."""

    def __init__(self) -> None:
        self._sources: dict[str, _Source] = {}
        self._lock = threading.Lock()

    def add(self, namespace: str, source: "_Source") -> Remove:
        with self._lock:
            if namespace in self._sources:
                raise ConfigError(f"namespace: {namespace!r} is in this registry already; give another label")
            self._sources[namespace] = source

        def remove() -> None:
            with self._lock:
                if self._sources.get(namespace) is source:
                    del self._sources[namespace]

        return remove

    def describe(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """The metrics, without asking a store."""
        return (family.metric() for family in (_UP, *_FAMILIES))

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        readings = self._read()
        up = _UP.metric()
        for namespace, reading in readings.items():
            up.add_metric([namespace], float(reading is not None))
        yield up
        for family in _FAMILIES:
            metric = family.metric()
            for namespace, reading in readings.items():
                for labels, value in family.samples(reading) if reading else ():
                    metric.add_metric([namespace, *labels], value)
            yield metric

    def _read(self) -> dict[str, Reading | None]:
        """The readings of all stores, which are asked at once; None for one that does not answer."""
        with self._lock:
            sources = dict(self._sources)
        started = {namespace: source.start() for namespace, source in sources.items()}
        return {namespace: scrape.wait() for namespace, scrape in started.items()}


class _Source:
    """A store, read in a thread of its own: one that hangs must not hang the scrape, nor gather threads."""

    def __init__(self, digests: Digests | AsyncDigests, timeout: float) -> None:
        self._digests = digests if isinstance(digests, Digests) else digests.sync
        self._timeout = timeout
        self._scrape: _Scrape | None = None
        self._lock = threading.Lock()

    def start(self) -> "_Scrape":
        with self._lock:
            if self._scrape is None or not self._scrape.is_alive():
                self._scrape = _Scrape(self._digests, self._timeout)
                self._scrape.start()
            return self._scrape


class _Scrape(threading.Thread):
    def __init__(self, digests: Digests, timeout: float) -> None:
        super().__init__(name="digestif-scrape", daemon=True)
        self._digests = digests
        self._deadline = monotonic() + timeout
        self._reading: Reading | None = None

    def run(self) -> None:
        try:
            digests = self._digests
            at = to_seconds(digests.store.time(0))
            self._reading = Reading(digests.ledger(), digests.backlog(), digests.outages(), at)
        except Exception as error:  # noqa: BLE001  # a store that fails must not fail the scrape
            self._digests.events.emit(StoreFailed(operation="scrape", error=error))

    def wait(self) -> Reading | None:
        """The reading, or None after the deadline. A later scrape that finds it hanging does not wait again."""
        self.join(max(0.0, self._deadline - monotonic()))
        return self._reading


_stores: WeakKeyDictionary[CollectorRegistry, _Stores] = WeakKeyDictionary()


# What happens in this process


def watch_events(
    digests: Digests | AsyncDigests,
    *,
    registry: CollectorRegistry = REGISTRY,
    namespace: str | None = None,
    lateness: Sequence[float] = LATENESS,
    sizes: Sequence[float] = SIZES,
    durations: Sequence[float] = DURATIONS,
) -> Remove:
    """Count and measure the events of this process; call the returned function to stop.

    `lateness`, `sizes` and `durations` are the upper bounds of the buckets. Those of the first call hold for a
    registry.
    """
    if registry not in _events:
        _events[registry] = _Events(registry, lateness=lateness, sizes=sizes, durations=durations)
    return digests.subscribe(_events[registry].listener(_label(digests, namespace)))


class _Events:
    """The metrics of a registry about the events of this process."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        lateness: Sequence[float],
        sizes: Sequence[float],
        durations: Sequence[float],
    ) -> None:
        def histogram(name: str, text: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(name, text, ["namespace"], buckets=buckets, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, ["namespace", *labels], registry=registry)

        self._lateness = histogram(
            "digestif_lateness_seconds", "From due to claimed, of digests that were delivered.", lateness
        )
        self._sizes = histogram("digestif_digest_records", "Records in digests that were delivered.", sizes)
        self._durations = histogram("digestif_delivery_seconds", "From claimed to delivered.", durations)
        self._dispatches = histogram(
            "digestif_dispatch_lateness_seconds", "From due to the start of the task, in a task queue.", lateness
        )
        self._undispatched = counter("digestif_failed_dispatches_total", "Tasks that a task queue did not take.")
        self._dispatches_lost = counter(
            "digestif_lost_dispatches_total", "Timelines made ready and not opened in time."
        )
        self._skipped = counter("digestif_skipped_tasks_total", "Tasks that found nothing to deliver.")
        self._failed = counter(
            "digestif_failed_attempts_total", "Attempts to deliver that failed, the last one of a digest included."
        )
        self._put_off = counter("digestif_put_off_attempts_total", "Attempts that did not count.")
        self._unsettled = counter(
            "digestif_unsettled_attempts_total", "Attempts whose ending the store did not answer."
        )
        self._quarantined = counter("digestif_quarantined_records_total", "Records that could not be decoded.")
        self._buried = counter("digestif_buried_digests_total", "Digests that were given up.")
        self._discarded = counter("digestif_discarded_digests_total", "Digests that a handler did not want.")
        self._returned = counter("digestif_returned_digests_total", "Digests that a stopping worker gave back.")
        self._unhandled = counter("digestif_unhandled_timelines_total", "Times that a timeline had no handler.")
        self._expired = counter("digestif_expired_records_total", "Records that this process found too old.")
        self._lapsed = counter("digestif_lapsed_leases_total", "Leases that this process found lapsed.")
        self._lost = counter("digestif_lost_leases_total", "Digests whose lease was gone when they were done.")
        self._unrenewed = counter("digestif_failed_renewals_total", "Renewals of leases without an answer.")
        self._store_failed = counter("digestif_store_failures_total", "Calls without an answer.", "operation")
        self._outages = counter("digestif_channel_outages_total", "Channels that this process closed.", "channel")
        self._labelled = (self._store_failed, self._outages)

    def listener(self, namespace: str) -> Callable[[Event], None]:
        for metric in vars(self).values():
            if metric is not self._labelled and metric not in self._labelled:
                metric.labels(namespace)  # it begins at 0, not at its first event

        def hear(event: Event) -> None:
            self._hear(namespace, event)

        return hear

    def _hear(self, namespace: str, event: Event) -> None:
        match event:
            case Delivered(late=late, records=records, took=took):
                self._lateness.labels(namespace).observe(late)
                self._sizes.labels(namespace).observe(records)
                self._durations.labels(namespace).observe(took)
            case Dispatched(late=late):
                self._dispatches.labels(namespace).observe(late)
            case DispatchFailed():
                self._undispatched.labels(namespace).inc()
            case Failed():
                self._failed.labels(namespace).inc()
            case Buried(error=error):
                self._buried.labels(namespace).inc()
                self._failed.labels(namespace).inc(error is not None)  # not if it was given up without a try
            case PutOff():
                self._put_off.labels(namespace).inc()
            case Quarantined():
                self._quarantined.labels(namespace).inc()
            case Unsettled():
                self._unsettled.labels(namespace).inc()
            case DispatchLost():
                self._dispatches_lost.labels(namespace).inc()
            case Skipped():
                self._skipped.labels(namespace).inc()
            case Discarded():
                self._discarded.labels(namespace).inc()
            case Returned():
                self._returned.labels(namespace).inc()
            case Unhandled(timelines=timelines):
                self._unhandled.labels(namespace).inc(timelines)
            case Expired(records=records):
                self._expired.labels(namespace).inc(records)
            case Lapsed():
                self._lapsed.labels(namespace).inc()
            case LeaseLost():
                self._lost.labels(namespace).inc()
            case LeaseNotRenewed():
                self._unrenewed.labels(namespace).inc()
            case StoreFailed(operation=operation) | PartitionFailed(operation=operation):
                self._store_failed.labels(namespace, operation).inc()
            case ChannelDown(channel=channel):
                self._outages.labels(namespace, channel).inc()
            case StoreChanged():
                self._store_failed.labels(namespace, "changed").inc()


_events: WeakKeyDictionary[CollectorRegistry, _Events] = WeakKeyDictionary()


def _label(digests: Digests | AsyncDigests, namespace: str | None) -> str:
    return digests.store.namespace if namespace is None else namespace
