"""Every store can be moved into another, and another into it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif import Store
from digestif.testing import TransferConformance
from tests.transfer.stores import KINDS, store_of

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", KINDS)
class TestStores(TransferConformance):
    @pytest.fixture
    def store(self, kind: str, tmp_path: Path) -> Iterator[Store]:
        with store_of(kind, tmp_path) as store:
            yield store
