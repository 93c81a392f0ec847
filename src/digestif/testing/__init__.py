"""For tests: a clock that obeys, the suites that prove a store, and what they are made of.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self) -> Iterator[Store]:
            yield MyStore(…)  # fresh and empty

    TestMyStoreAgainstTheModel = store_machine(lambda: MyStore(…)).TestCase

The suites need pytest and Hypothesis: `pip install 'digestif[testing]'`. The pytest plugin, with the fixtures
`digestif_clock` and `digestif_digests`, is found by itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from digestif.testing.clock import FakeClock

if TYPE_CHECKING:
    from digestif.testing.channels import ChannelConformance
    from digestif.testing.conformance import StoreConformance, TransferConformance
    from digestif.testing.footprint import assert_nothing_left
    from digestif.testing.model import Model
    from digestif.testing.partitioned import Partitioned
    from digestif.testing.stateful import store_machine

__all__ = [
    "ChannelConformance",
    "FakeClock",
    "Model",
    "Partitioned",
    "StoreConformance",
    "TransferConformance",
    "assert_nothing_left",
    "store_machine",
]

# Loaded on first use: the plugin lives in this package, and must not cost every pytest run the import of all this.
_HOMES = {
    "ChannelConformance": "digestif.testing.channels",
    "Model": "digestif.testing.model",
    "Partitioned": "digestif.testing.partitioned",
    "StoreConformance": "digestif.testing.conformance",
    "TransferConformance": "digestif.testing.conformance",
    "assert_nothing_left": "digestif.testing.footprint",
    "store_machine": "digestif.testing.stateful",
}
_EXTRA = ("hypothesis", "pytest")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        message = f"digestif.testing.{name} needs {missing.name}: pip install 'digestif[testing]'"
        raise ModuleNotFoundError(message, name=missing.name) from missing


def __dir__() -> list[str]:
    return sorted(__all__)
