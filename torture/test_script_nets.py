"""The arithmetic finds every fault in a script that is named for it, also those that sentences find."""

import pytest

from tests.nets.arithmetic import arithmetic_finds
from tests.nets.patches import ScriptFault
from tests.nets.script_faults import FAULTS


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.vectors], ids=lambda fault: fault.says)
def test_the_arithmetic_finds_it_too(fault: ScriptFault) -> None:
    assert arithmetic_finds(fault)
