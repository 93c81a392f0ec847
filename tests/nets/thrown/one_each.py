"""A pytest plugin for runs on a copy: the package must be the copy's, and each net stops at its first find."""

from collections.abc import Generator
from pathlib import Path

import pytest

import digestif

found: set[Path] = set()  # the nets that have found something


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first", help="the sentence to begin with")


def pytest_configure() -> None:
    home = Path(digestif.__file__).parent
    if home != Path.cwd() / "digestif":
        raise pytest.UsageError(f"digestif was imported from {home}, not from the copy in {Path.cwd()}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first = config.getoption("first")
    names = [getattr(item, "originalname", item.name) for item in items]
    if first is not None and first not in names:
        raise pytest.UsageError(f"no sentence is called {first}")
    items.sort(key=lambda item: getattr(item, "originalname", item.name) != first)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.path in found:
        pytest.skip("this net has found something")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        found.add(item.path)
    return report
