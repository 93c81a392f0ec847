"""What all tests share: which ones run, compiled modules, Ctrl-C, the garbage collector, and Hypothesis' profiles."""

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from digestif.attempts.leases import running

# Tests start hundreds of Python processes, and each would compile the package anew where writing files is forbidden.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that runs the tests in its background lets them ignore Ctrl-C, and every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("quick", max_examples=15, deadline=None, derandomize=True)  # chance is for torture/
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    """Leave out long tests, unless the command line chooses tests: by a path, by -k or by -m."""
    chooses = config.args_source is config.ArgsSource.ARGS or config.option.keyword or config.option.markexpr
    if not chooses:
        config.option.markexpr = "not long"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Turn the garbage collector off while tests are collected, and never look at them later: a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def attempts_forgotten() -> Iterator[None]:
    """Forget attempts that a test has left: later tests of this process expect their own to be alone."""
    yield
    if not running().is_idle:
        gc.collect()
    assert running().is_idle
