"""Sentences that run with a fault have to fail: here a test passes if its sentence finds the fault."""

import re
from collections.abc import Generator

import pytest

from digestif.errors import DigestifError
from tests.nets.patches import ScriptFault

# A statement did not hold, or a call was refused, or there was nothing where something had to be.
FOUND = (AssertionError, pytest.fail.Exception, DigestifError, ValueError)
NO_SCRIPT = ("Error compiling script", "nonexistent global variable")
PLANTED = pytest.StashKey[set[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    fault = fault_of(pyfuncitem)
    if fault is None:
        return (yield)
    try:
        yield
    except FOUND as error:
        if is_no_script(error):
            raise
        return True
    pytest.fail(f"{sentence_of(pyfuncitem)} does not find that {fault.says}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a sentence with many parameters, keep those that are named for the fault."""
    wanted = [item for item in items if (fault := fault_of(item)) is None or sentence_of(item) in fault.found_by]
    config.stash[PLANTED] = {sentence_of(item) for item in wanted if fault_of(item) is not None}
    items[:] = wanted


def is_no_script(error: BaseException | None) -> bool:
    """Return True if the server refused the script itself: its fault does not compile, or names what is not there."""
    if error is None:
        return False
    return any(text in str(error) for text in NO_SCRIPT) or is_no_script(error.__cause__ or error.__context__)


def fault_of(item: pytest.Item) -> ScriptFault | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("fault_planted")


def sentence_of(item: pytest.Item) -> str:
    """The name of a test, with its parameters but for the fault."""
    assert isinstance(item, pytest.Function)
    parameters = re.sub("(^|-)@.*?@", "", item.callspec.id).removeprefix("-")
    return f"{item.originalname}[{parameters}]" if parameters else item.originalname
