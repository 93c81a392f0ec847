"""Which net finds which fault of the scripts, by hand: `python -m tests.nets.matrix [part of what a fault says]`.

Minutes for each fault: the whole conformance suite runs on a server, then the arithmetic, then the model until it finds
something or its time is up. Stars mark what tests/nets/script_faults.py promises; broken promises are reported.
"""

import io
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from digestif import Store
from digestif.clock import monotonic
from digestif.errors import DigestifError
from digestif.stores.registry import open_store
from digestif.testing.stateful import store_machine
from tests.nets.arithmetic import arithmetic_finds
from tests.nets.patches import ScriptFault, planted
from tests.nets.script_faults import FAULTS
from tests.servers import empty_server

ENOUGH = 3  # sentences that fail
SECONDS = 30.0  # for the model
HANGS = 120.0  # seconds after which lives do not end …
MEMORY = 2**30  # … or bytes: with some faults the engine reads page after page for ever
LIVES = settings(
    max_examples=4,
    stateful_step_count=150,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def main(*parts: str) -> int:
    broken = 0
    for fault in FAULTS:
        if not parts or any(part in fault.says for part in parts):
            found = {"directed": suite_finds(fault), "vectors": vectors_find(fault), "model": model_finds(fault)}
            promised = {"directed": False, "vectors": fault.vectors, "model": fault.model}
            broken += sum(promised[net] and not found[net] for net in found)
            tell(fault, found, promised)
    return 1 if broken else 0


def tell(fault: ScriptFault, found: dict[str, str], promised: dict[str, bool]) -> None:
    sys.stdout.write(f"{fault.says}\n")
    for net, what in found.items():
        sys.stdout.write(f"  {'*' if promised[net] else ' '} {net:9} {what or '-'}\n")
    sys.stdout.flush()


class Failures:
    """A plugin that notes what failed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.names.append(report.nodeid.rpartition("::")[2])


def suite_finds(fault: ScriptFault) -> str:
    failures, suite = Failures(), ["tests/conformance/test_redis.py", "-k", "TestRedisServer and not async"]
    with planted(fault), redirect_stdout(io.StringIO()):
        pytest.main(["-q", "--assert=plain", f"--maxfail={ENOUGH}", *suite], plugins=[failures])
    return ", ".join(failures.names)


def vectors_find(fault: ScriptFault) -> str:
    return "found" if arithmetic_finds(fault) else ""


def model_finds(fault: ScriptFault) -> str:
    began = monotonic()
    with planted(fault), namespaces() as make, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        for number in count():
            try:
                with limited(HANGS):
                    run_state_machine_as_test(seed(number)(store_machine(make)), settings=LIVES)
            except (AssertionError, DigestifError, LookupError, ValueError, MemoryError, TimeoutError) as error:
                return f"after {monotonic() - began:.0f} s ({type(error).__name__})"
            if monotonic() - began > SECONDS:
                return ""
    raise AssertionError("counting has no end")


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TimeoutError

    before, bounds = signal.signal(signal.SIGALRM, give_up), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, bounds[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, bounds)


@contextmanager
def namespaces() -> Iterator[Callable[[], Store]]:
    """Stores in namespaces of their own, all closed in the end."""
    url, numbers, opened = empty_server().url, count(), list[Store]()

    def make() -> Store:
        opened.append(open_store(url, namespace=f"m{next(numbers)}"))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
