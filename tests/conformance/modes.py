"""For stores whose awaited face shows nothing that others do not show: torture/test_conformance.py runs both."""

from typing import cast

import pytest

from digestif.testing.modes import Mode


class OneMode:
    """Comes before StoreConformance among the bases of a test class."""

    @pytest.fixture(params=["sync"])
    def mode(self, request: pytest.FixtureRequest) -> Mode:
        return cast(Mode, request.param)
