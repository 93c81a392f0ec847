"""The trial of one system: the workload, then a kill in the middle of a stream."""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, NamedTuple

from bench._peers.arrivals import Arrivals, missing_of_all, missing_of_last
from bench._peers.catalog import Peer
from bench._peers.gauge import Gauge
from bench._peers.install import Missing, Runtime
from bench._peers.system import System, SystemFailed, Timing
from bench._peers.workload import Workload
from digestif.testing.processes import ServerFailed, ServerMissing

TIMING = Timing(delay=1.0, poll=0.1)
CALLERS = 32
BATCH = 500


class Scale(NamedTuple):
    """How much is sent, and for how long at most."""

    events: int
    timelines: int
    one: float  # the share of events that one caller sends, one after the other…
    callers: float  # …and that several do at once; the rest goes in batches
    seconds: float  # for each of the three
    stream: int  # events of the stream that is killed…
    rate: int  # …at so many a second
    patience: float  # seconds without a message, after which no more is expected
    recovery: float  # the same after a kill


FULL = Scale(100_000, 1_000, 0.05, 0.15, 12, 2_000, 400, 12, 35)
QUICK = Scale(5_000, 200, 0.2, 0.3, 5, 600, 300, 8, 35)


def tried(peer: Peer, scale: Scale) -> dict[str, Any]:
    """Return the figures of a system, or why there are none."""
    try:
        runtime = peer.runtime()
        with TemporaryDirectory(prefix="digestif-peers-") as name:
            return _tried(peer, runtime, scale, Path(name))
    except (Missing, ServerMissing, ServerFailed, SystemFailed) as error:
        _say(peer, f"failed: {error}")
        return {"name": peer.name, "failed": str(error)}


def _tried(peer: Peer, runtime: Runtime, scale: Scale, folder: Path) -> dict[str, Any]:
    workload = Workload.made(scale.events, scale.timelines)
    workload.write(folder / "events")
    began = monotonic()
    (folder / "load").mkdir()
    with System(peer, runtime, folder / "load", events=folder / "events", timing=TIMING) as system:
        versions = runtime.versions | {"server": system.version()}
        figures = loaded(system, workload, scale)
    (folder / "kill").mkdir()
    with System(peer, runtime, folder / "kill", events=folder / "events", timing=TIMING) as system:
        figures |= killed(system, workload, scale)
    return {"name": peer.name, "versions": versions, **figures, "took": monotonic() - began}


def loaded(system: System, workload: Workload, scale: Scale) -> dict[str, Any]:
    """Send the workload in three ways, one after the other, and wait until all has arrived."""
    arrivals, sent = Arrivals(system.sink), Sent(system)
    with Gauge(system.pids) as gauge:
        began = monotonic()
        first, second = int(scale.events * scale.one), int(scale.events * (scale.one + scale.callers))
        rates = {"one": sent.slice("one", first, scale)}
        rates["callers"] = sent.slice("callers", second, scale, callers=CALLERS)
        if system.peer.batches:
            rates["batches"] = sent.slice("batches", scale.events, scale, size=BATCH)
        else:
            sent.slice("callers", scale.events, scale, callers=CALLERS)
        missing = _missing(system.peer, sent.accepted, workload, together=10 * CALLERS)
        _say(system.peer, f"{len(sent.accepted):,} accepted, waiting for messages")
        arrivals.wait(missing, scale.patience)
        seconds = monotonic() - began
    return {
        "per_second": rates,
        "sent": sent.tried,
        "refused": sent.tried - len(sent.accepted),
        "notifications": arrivals.notifications,
        "delivered": len(arrivals.ids),
        "repeated": arrivals.payloads - len(arrivals.ids),
        "discarded": sent.tried - len(arrivals.ids),
        "missing": missing(arrivals.ids),
        "late_p95": arrivals.late_p95(),
        "cpu_seconds": gauge.seconds,
        "memory_mib": gauge.peak,
        "seconds": seconds,
    }


class Sent:
    """What the producer has sent so far."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._next = 0
        self.tried = 0
        self.accepted: set[int] = set()

    def slice(self, do: str, last: int, scale: Scale, **options: int) -> float:
        """Send the events up to this number; return how many a second were answered."""
        _say(self._system.peer, f"{do}, {last - self._next:,} events")
        answer = self._system.producer.ask(do=do, first=self._next, last=last, seconds=scale.seconds, **options)
        tried = range(self._next, self._next + answer["tried"])
        self.tried += len(tried)
        self.accepted |= set(tried) - set(answer["refused"])
        self._next = last
        rate: float = len(tried) / answer["seconds"]
        return rate


def killed(system: System, workload: Workload, scale: Scale) -> dict[str, Any]:
    """Kill everything in the middle of a stream, start it again, and count what was acknowledged and never comes."""
    acks, arrivals = system.sink.with_name("acks"), Arrivals(system.sink)
    command = {"first": 0, "last": scale.stream, "rate": scale.rate, "acks": str(acks)}
    _say(system.peer, "a stream, and a kill in the middle")
    system.producer.send(do="paced", **command)
    sleep(0.6 * scale.stream / scale.rate)
    system.kill()
    accepted = {int(line) for line in acks.read_text().splitlines()} if acks.exists() else set()
    arrivals.look()
    before = len(arrivals.ids)
    system.start()
    missing = _missing(system.peer, accepted, workload, together=1)
    arrivals.wait(missing, scale.recovery)
    kept = len(accepted) if system.peer.keeps == "all" else len({workload.timelines[each] for each in accepted})
    return {
        "kill": {
            "acknowledged": len(accepted),
            "before": before,
            "expected": kept,
            "lost": missing(arrivals.ids),
            "repeated": arrivals.payloads - len(arrivals.ids),
        }
    }


def _missing(peer: Peer, accepted: set[int], workload: Workload, *, together: int) -> Callable[[set[int]], int]:
    if peer.keeps == "all":
        return missing_of_all(accepted)
    return missing_of_last(accepted, workload.timelines, together=together)


def _say(peer: Peer, text: str) -> None:
    print(f"{peer.name}: {text}", file=sys.stderr, flush=True)
