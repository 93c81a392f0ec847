"""A receiver that deduplicates sees every record exactly once, whatever happens to the workers."""

from pathlib import Path

from tests.routes.killing import seen_through_kills


def test_a_receiver_that_deduplicates_sees_every_record_once(tmp_path: Path) -> None:
    found = seen_through_kills(f"sqlite:///{tmp_path}/d.db", kills=3)

    assert found["records"] == found["accepted"] == found["delivered"] == 60
    assert (found["twice"], found["differing"]) == (0, 0)
