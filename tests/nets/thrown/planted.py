"""A pytest plugin for the nets: it plants a fault in this process, and of the suite it keeps the wanted sentences."""

from types import FunctionType

import pytest

from tests.nets.faults import FAULTS
from tests.nets.planting import MISTAKES, exchange, target


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sentence", action="append", default=[], help="a test of the suite; may be given several times")
    parser.addoption("--fault", help="what the fault says")
    parser.addoption("--soundly", action="store_true", help="exchange every function of a fault for itself")


def pytest_configure(config: pytest.Config) -> None:
    for fault in FAULTS:
        if fault.says == config.getoption("fault"):
            fault.plant()
    if config.getoption("soundly"):
        named = [target(of) for of in {fault.of for fault in FAULTS}]
        for function in named:
            if isinstance(function, FunctionType):
                exchange(function, lambda sound, *args, **named: sound(*args, **named))


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str) -> list[pytest.Item] | None:
    """Leave the others out before they cost anything: this is most of the time of a run."""
    unwanted = name.startswith("test_") and name not in collector.config.getoption("sentence")
    return [] if unwanted and isinstance(collector, pytest.Class) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = set(config.getoption("sentence")) - {getattr(item, "originalname", None) for item in items}
    if missing:
        raise pytest.UsageError(f"the suite has no test of that name: {', '.join(sorted(missing))}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A fault that fails by itself proves nothing, even where the engine swallowed its error."""
    if MISTAKES:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for mistake in sorted(set(MISTAKES)):
        terminalreporter.write_line(f"the fault itself failed: {mistake}")
