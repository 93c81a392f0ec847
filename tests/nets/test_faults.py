"""The faults that torture/test_nets.py plants have to fit the code as it is."""

from pathlib import Path

import pytest

import digestif
from tests.nets.faults import FAULTS, Fault

PACKAGE = Path(digestif.__file__).parent


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_a_fault_can_be_planted_in_one_place(fault: Fault) -> None:
    assert (PACKAGE / fault.file).read_text("utf-8").count(fault.old) == 1
