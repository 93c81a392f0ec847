"""The server's own figures: the times of its scripts, the slow ones, and its memory meanwhile."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from threading import Event, Thread
from typing import Any

from bench._redis_memory import steady_memory
from digestif.stores.redis.client.scripts import load
from digestif.testing.servers import RedisServer

SLOW = 10  # milliseconds
NOTED = 1  # milliseconds: longer calls are listed by script
KEPT = 1_000  # calls in the server's log…
SAMPLES = 0.1  # …which is read every so many seconds, before it can fill up
PERCENTILES = "50 99 99.9 100"
MIB = 1024 * 1024


@dataclass
class Script:
    """The calls of one script that took long enough to be noted, in milliseconds."""

    times: list[float] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return statistics.median(self.times)

    @property
    def longest(self) -> float:
        return max(self.times)

    @property
    def slow(self) -> int:
        return sum(1 for time in self.times if time > SLOW)

    def to_dict(self) -> dict[str, float]:
        return {"noted": len(self.times), "p50": self.p50, "longest": self.longest, "slow": self.slow}


@dataclass
class Reading:
    """The server's figures for a phase. Times in milliseconds, memory in MiB."""

    calls: int = 0  # of scripts
    cpu: float = 0.0  # of the server per call, with its overhead; if p50 is much more, the server had to wait
    p50: float = 0.0
    p99: float = 0.0
    p999: float = 0.0
    longest: float = 0.0
    scripts: dict[str, Script] = field(default_factory=dict)  # by name
    before: float = 0.0
    peak: float = 0.0
    after: float = 0.0

    @property
    def slow(self) -> int:
        return sum(script.slow for script in self.scripts.values())

    def to_dict(self) -> dict[str, Any]:
        scripts = {name: script.to_dict() for name, script in self.scripts.items()}
        return {**vars(self), "slow": self.slow, "scripts": scripts}


class Gauge:
    """Reads a server whose clients run scripts."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client = server.client()
        self._client.config_set("latency-tracking-info-percentiles", PERCENTILES)
        self._client.config_set("slowlog-log-slower-than", NOTED * 1000)
        self._client.config_set("slowlog-max-len", KEPT)
        self._scripts = {load(name).sha: name for name in _script_names()}
        self.close = self._client.close

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Measure the block; the figures are complete when it has ended."""
        reading = Reading(before=self.memory())
        self._client.config_resetstat()
        self._noted_calls()
        cpu_before = self._cpu()
        with self._watching(reading):
            yield reading
        self._read_times(reading)
        reading.cpu = (self._cpu() - cpu_before) / reading.calls
        reading.after = self.memory()
        reading.peak = max(reading.before, reading.peak, reading.after)

    def memory(self) -> float:
        """Return the server's MiB, once it has freed memory in the background."""
        return steady_memory(self._server) / MIB

    @contextmanager
    def _watching(self, reading: Reading) -> Iterator[None]:
        done = Event()

        def watch() -> None:
            while not done.wait(SAMPLES):
                self._sample(reading)

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            self._sample(reading)

    def _sample(self, reading: Reading) -> None:
        reading.peak = max(reading.peak, self._client.info("memory")["used_memory"] / MIB)
        for call in self._noted_calls():
            command, *rest = call["command"].split(b" ", 2)
            if command.upper() in (b"EVALSHA", b"EVAL"):  # the commands of a script are logged as well
                script = self._scripts.get(rest[0].decode(errors="replace"), "an unknown script")
                reading.scripts.setdefault(script, Script()).times.append(call["duration"] / 1000)

    def _noted_calls(self) -> list[dict[str, Any]]:
        """Return the calls since the last time."""
        pipeline = self._client.pipeline(transaction=True)
        pipeline.slowlog_get(-1)
        pipeline.slowlog_reset()
        calls: list[dict[str, Any]] = pipeline.execute()[0]
        return calls

    def _cpu(self) -> float:
        """Return the milliseconds of the thread that runs scripts, so far."""
        used: dict[str, float] = self._client.info("cpu")
        return (used["used_cpu_user_main_thread"] + used["used_cpu_sys_main_thread"]) * 1000

    def _read_times(self, reading: Reading) -> None:
        counts: dict[str, Any] = self._client.info("commandstats")
        times: dict[str, Any] = self._client.info("latencystats")
        reading.calls = counts["cmdstat_evalsha"]["calls"]
        found = times["latency_percentiles_usec_evalsha"]
        reading.p50, reading.p99, reading.p999, reading.longest = (
            found[name] / 1000 for name in ("p50", "p99", "p99.9", "p100")
        )


def _script_names() -> list[str]:
    folder = files("digestif.stores.redis").joinpath("lua")
    return [file.name.removesuffix(".lua") for file in folder.iterdir() if file.name.endswith(".lua")]
