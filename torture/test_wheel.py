"""The whole conformance suite from the wheel, in an environment with nothing but what the extra `testing` declares."""

from importlib.metadata import Distribution

from tests.test_wheel import Environment, conforming
from tests.test_wheel import environment as environment
from tests.test_wheel import installed as installed
from tests.test_wheel import unpacked as unpacked


def test_the_memory_store_passes_the_conformance_suite(environment: Environment, installed: Distribution) -> None:
    """The awaited face is left to test_conformance.py."""
    assert conforming(environment, installed, "not async") > 500
