"""The faults that torture/test_nets.py plants fit the code as it is, and planting reaches every call."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

import pytest

from tests.nets import faults
from tests.nets.faults import FAULTS
from tests.nets.planting import MISTAKES, Fault, exchange, misfit, texts
from tests.nets.thrown import directed

EVERY_FAULT = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)


@EVERY_FAULT
def test_a_fault_fits_what_it_names(fault: Fault) -> None:
    assert misfit(fault) is None


@EVERY_FAULT
def test_a_sentence_of_the_suite_is_meant_for_a_fault(fault: Fault) -> None:
    assert hasattr(directed.TestMemory, fault.directed)


@EVERY_FAULT
def test_a_fault_quotes_no_source(fault: Fault) -> None:
    quoted = texts(fault.instead.__code__) if isinstance(fault.instead, FunctionType) else [str(fault.instead)]

    assert [text for text in quoted if re.search(r"[\s()=]", text)] == []


def test_no_two_faults_say_the_same() -> None:
    assert len({fault.says for fault in FAULTS}) == len(FAULTS)


def test_the_faults_of_every_subject_are_imported() -> None:
    """Those of a file that nothing imports would be planted nowhere."""
    files = {file.stem for file in Path(faults.__file__).parent.glob("*.py")}

    assert files - {"__init__"} == set(faults.__all__) - {"FAULTS"}


def of(name: str, instead: object) -> Fault:
    return Fault(says="…", of=name, instead=instead, directed="test_…")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (of("core.machines:is_off", lambda sound, slot: False), "No module named"),
        (of("core.machine:is_of", lambda sound, slot: False), "no attribute 'is_of'"),
        (of("core.machine:is_off", lambda sound, slot, now: False), "missing a required argument: 'now'"),
        (of("core.machine:is_off", lambda slot, sound: False), "slot is its sound"),
        (of("core.machine:is_off", lambda sound: False), "too many positional arguments"),
        (of("core.machine:is_off", lambda sound, timeline: False), "timeline is its slot"),
        (of("core.machine:is_live", lambda sound, slot: False), "unexpected keyword argument 'now'"),
        (of("core.machine:is_live", lambda sound, slot, *, at, **facts: False), "argument: 'at'"),
        (of("core.machine:is_live", 1), "is a function"),
        (of("core.machine:Slot", 1), "neither a function nor a constant"),
        (of("core.outages:WITNESSES", 3), "is 3"),
        (of("core.outages:WITNESSES", "3"), "is 3"),
    ],
)
def test_a_fault_that_does_not_fit_is_told_why(fault: Fault, reason: str) -> None:
    assert reason in str(misfit(fault))


class TestExchange:
    @pytest.fixture
    def add(self) -> FunctionType:
        def add(first: int, *, second: int = 2) -> int:
            return first + second

        assert isinstance(add, FunctionType)
        return add

    def test_it_reaches_callers_that_hold_the_function_itself(self, add: FunctionType) -> None:
        held: dict[str, Callable[..., int]] = {"add": add}

        exchange(add, lambda sound, first, *, second: -sound(first, second=second))

        assert held["add"](1) == -3

    def test_the_sound_function_is_as_it_was(self, add: FunctionType) -> None:
        exchange(add, lambda sound, first, *, second: sound(first))

        assert add(1, second=5) == 3

    def test_an_error_of_the_fault_itself_is_noted(self, add: FunctionType) -> None:
        exchange(add, lambda sound, first, *, second: first.nothing)

        with pytest.raises(AttributeError):
            add(1)

        assert MISTAKES.pop() == "AttributeError: 'int' object has no attribute 'nothing'"

    def test_an_error_from_below_the_fault_is_not(self, add: FunctionType) -> None:
        exchange(add, lambda sound, first, *, second: json.loads(""))

        with pytest.raises(json.JSONDecodeError):
            add(1)

        assert MISTAKES == []
