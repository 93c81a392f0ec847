"""A pytest plugin for runs on a copy: the package must be the copy's; of the suite it keeps the wanted sentences."""

from pathlib import Path

import pytest

import digestif


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sentence", action="append", default=[], help="a test of the suite; may be given several times")


def pytest_configure() -> None:
    home = Path(digestif.__file__).parent
    if home != Path.cwd() / "digestif":
        raise pytest.UsageError(f"digestif was imported from {home}, not from the copy in {Path.cwd()}")


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str) -> list[pytest.Item] | None:
    """Leave the others out before they cost anything: this is most of the time of a run."""
    unwanted = name.startswith("test_") and name not in collector.config.getoption("sentence")
    return [] if unwanted and isinstance(collector, pytest.Class) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = set(config.getoption("sentence")) - {getattr(item, "originalname", None) for item in items}
    if missing:
        raise pytest.UsageError(f"the suite has no test of that name: {', '.join(sorted(missing))}")
