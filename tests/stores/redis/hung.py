"""A cluster of which a node can hang, a worker that delivers, and timelines by the node that has them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from digestif import Digest, Digests, Policy
from digestif.clock import monotonic
from digestif.stores.redis.client.topology import slot_of
from digestif.testing.servers import ClusterServers, RedisServer
from tests.worker.workers import becomes, working

POLICY = Policy(minimum_delay=60)


class Scene:
    """A cluster with a worker, and timelines by the node that has them."""

    def __init__(self, cluster: ClusterServers, digests: Digests) -> None:
        self.cluster = cluster
        self.digests = digests
        self.delivered: dict[str, float] = {}  # when, by timeline
        self._numbers = count()
        digests.handler("*")(self._note)

    def _note(self, digest: Digest) -> None:
        self.delivered[digest.timeline] = monotonic()

    def node_of(self, partition: int) -> RedisServer:
        return self.cluster.node_for_slot(slot_of(self.digests.store.namespace, partition))

    def name(self, accept: Callable[[int], bool]) -> str:
        """A fresh timeline in one of the partitions that are accepted."""
        names = (f"t{number}" for number in self._numbers)
        return next(name for name in names if accept(self.digests.store.partition_of(name)))

    def victim(self, *, first: bool) -> RedisServer:
        """The node that has partition 0, or one that has not."""
        return next(node for node in self.cluster.primaries() if (node is self.node_of(0)) is first)

    def partitions(self, node: RedisServer) -> set[int]:
        return {each for each in range(self.digests.store.partitions) if self.node_of(each) is node}


def divided_cluster() -> ClusterServers:
    """Three primaries without replicas, each of which is served while another one is away."""
    return ClusterServers(primaries=3, replicas=0, cluster_require_full_coverage=False)


@contextmanager
def played(cluster: ClusterServers, *, namespace: str = "d") -> Iterator[Scene]:
    """The scene with its worker running, and a first delivery done in every partition. In the end all nodes go on."""
    with Digests(cluster.url, policy=POLICY, namespace=namespace) as digests:
        scene = Scene(cluster, digests)
        with working(digests):
            partitions = range(digests.store.partitions)
            names = [scene.name(lambda found, each=each: found == each) for each in partitions]  # type: ignore[misc]
            digests.add_many([(name, 1) for name in names])
            assert becomes(lambda: len(scene.delivered) == len(names))
            try:
                yield scene
            finally:
                cluster.heal()
