"""What the tests leave to torture/test_conformance.py, which runs every sentence on every store through both faces."""

import inspect
from typing import Any, cast

import pytest

from digestif.testing import StoreConformance
from digestif.testing.modes import Mode

# There is nothing in memory that could be damaged behind the store's back.
ABOUT_DAMAGE = [
    name
    for name, sentence in inspect.getmembers(StoreConformance, inspect.isfunction)
    if name.startswith("test_") and "damage" in inspect.signature(sentence).parameters
]
Undamaged = type("Undamaged", (StoreConformance,), dict.fromkeys(ABOUT_DAMAGE))


class NothingLarge:
    """Comes before StoreConformance among the bases of a test class: without the sentences that take seconds."""

    test_a_hundred_thousand_due_timelines_are_scheduled: Any = None
    test_fifty_thousand_records_can_be_digested_in_bounded_calls: Any = None


class OneMode(NothingLarge):
    """For stores whose awaited face shows nothing that others do not show."""

    @pytest.fixture(params=["sync"])
    def mode(self, request: pytest.FixtureRequest) -> Mode:
        return cast(Mode, request.param)


class SharedRules(OneMode):
    """For a store that has its rules in common with another one, which shows the sentences that try them for long:

    SQLite and PostgreSQL have those of the store in memory (`stores/rows`), a cluster the scripts of a single server.
    Of a sentence with many parameters, conftest.py keeps the first.
    """

    test_an_outage_counts_against_no_digest_and_ends_with_one_for_each_reader: Any = None
    test_an_outage_does_not_use_up_patience: Any = None
    test_any_two_records_are_apart: Any = None
    test_any_two_timelines_are_apart: Any = None
    test_any_record_reads_back_equal: Any = None
    test_patience_ends: Any = None
    test_the_ledger_balances_at_every_minute_of_a_random_run: Any = None
    test_when_it_answers_digests_return_one_then_two_then_four_in_a_second: Any = None
    test_wherever_a_merge_is_interrupted_the_next_worker_finishes_it: Any = None
    test_wherever_a_process_is_killed_nothing_is_lost_and_no_record_comes_under_two_keys: Any = None
    test_wherever_trimming_is_interrupted_the_next_worker_finishes_it: Any = None
