"""What all tests share: compiled modules, Ctrl-C, the garbage collector, and the profiles of Hypothesis."""

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Tests start hundreds of Python processes, and each would compile the package anew where writing files is forbidden.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that runs the tests in its background lets them ignore Ctrl-C, and every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("quick", max_examples=15, deadline=None, derandomize=True)  # chance is for torture/
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Turn the garbage collector off while tests are collected, and never look at them later: a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
