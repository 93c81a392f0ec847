"""For tests of applications, stores and channels: a fake clock, conformance suites, a model, servers.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self) -> Iterator[Store]:
            yield MyStore(…)  # fresh and empty

    TestMyStoreAgainstTheModel = store_machine(lambda: MyStore(…)).TestCase

The suites need pytest and Hypothesis, which the extra `testing` brings. pytest finds the plugin with the fixtures
`digestif_clock` and `digestif_digests` by itself.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from digestif.testing import vectors
    from digestif.testing.channels import ChannelConformance, Failure, a_message, huge
    from digestif.testing.clock import FakeClock
    from digestif.testing.conformance import StoreConformance, TransferConformance
    from digestif.testing.conformance.base import Harm
    from digestif.testing.footprint import assert_nothing_left
    from digestif.testing.model import Model
    from digestif.testing.partitioned import Partitioned
    from digestif.testing.processes import ServerFailed, ServerMissing, becomes_true, free_port
    from digestif.testing.servers import ClusterServers, LoneCluster, RedisServer, find_server, lone_cluster
    from digestif.testing.stateful import store_machine

__all__ = [
    "ChannelConformance",
    "ClusterServers",
    "Failure",
    "FakeClock",
    "Harm",
    "LoneCluster",
    "Model",
    "Partitioned",
    "RedisServer",
    "ServerFailed",
    "ServerMissing",
    "StoreConformance",
    "TransferConformance",
    "a_message",
    "assert_nothing_left",
    "becomes_true",
    "find_server",
    "free_port",
    "huge",
    "lone_cluster",
    "store_machine",
    "vectors",
]

_HOMES = {  # where each name is defined
    "digestif.testing.channels": "ChannelConformance Failure a_message huge",
    "digestif.testing.clock": "FakeClock",
    "digestif.testing.conformance": "StoreConformance TransferConformance",
    "digestif.testing.conformance.base": "Harm",
    "digestif.testing.partitioned": "Partitioned",
    "digestif.testing.footprint": "assert_nothing_left",
    "digestif.testing.model": "Model",
    "digestif.testing.processes": "ServerFailed ServerMissing becomes_true free_port",
    "digestif.testing.servers": "ClusterServers LoneCluster RedisServer find_server lone_cluster",
    "digestif.testing.stateful": "store_machine",
    "digestif.testing.vectors": "vectors",
}

if not _TYPE_CHECKING:
    from digestif.exports import lazy as _lazy

    __getattr__, __dir__ = _lazy(__name__, _HOMES, hypothesis="testing", pytest="testing", redis="redis")
