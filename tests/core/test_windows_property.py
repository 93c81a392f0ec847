"""Windows of all kinds, in zones of all kinds, against a second opinion."""

import pytest
from hypothesis import given

from tests.core.window_properties import Life, check, examples, lives

pytestmark = pytest.mark.long


@examples(100)
@given(lives((1, 1)))
def test_a_window_opens_when_its_rule_says_and_at_no_other_time(life: Life) -> None:
    check(life)


@examples(50)
@given(lives((2, 3)))
def test_a_combined_window_opens_at_the_times_inside_all_hours_and_at_no_other_time(life: Life) -> None:
    check(life)
