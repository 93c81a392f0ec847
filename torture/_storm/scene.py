"""The scene of a storm: which stores its processes use. A place is a store, written as DSN#NAMESPACE."""

from dataclasses import asdict, dataclass
from typing import Any

from digestif import Policy, Retry
from digestif.stores.registry import open_store

PARTS = ("strikes", "overrides", "off", "moves", "outages", "clocks", "upgrades")  # of the mix

LEASE = 2.0  # seconds
POLICY = Policy(
    minimum_delay=0.05,
    increment_delay=0.01,
    maximum_delay=0.3,
    capacity=None,
    attempts=4,
    lapses=6,
    retry=Retry(initial=0.05, factor=1),
)

# Families of timelines, by what may happen to their records besides being delivered, and how many there are.
FAMILIES = {
    "plain": 20,
    "coroutine": 8,
    "batch": 8,
    "bad": 4,  # most attempts fail, so that they end as dead letters, which are replayed
    "small": 4,  # capacity drops
    "gone": 10,  # records are retracted, replaced by others of the same key, discarded, or deleted with their timeline
    "choosy": 12,  # people choose their policies, and switch them off
    "post": 12,  # the channel is away, or a part of it
}
TIMELINES = [f"{family}:{number}" for family, many in FAMILIES.items() for number in range(many)]


def family_of(timeline_or_id: str) -> str:
    return timeline_or_id.partition(":")[0]


@dataclass(frozen=True)
class Scene:
    """The stores that a process uses from its start to its end."""

    parts: frozenset[str]
    produce: str  # the place that records are added to
    serve: tuple[str, ...]  # the places that workers deliver from, and that are operated
    move: tuple[str, str] | None = None  # source and target of the move that is under way
    finishing: bool = False  # nothing is added to the source any more
    builds: tuple[str, ...] = ("",)  # of this package, as folders; "" is the package itself

    @classmethod
    def read(cls, fields: dict[str, Any]) -> "Scene":
        """Read a scene from the form that `written` gives."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
        }
        return cls(**{**values, "parts": frozenset(fields["parts"])})

    def written(self) -> dict[str, Any]:
        """Return the fields in a form that can be written as JSON."""
        return {**asdict(self), "parts": sorted(self.parts)}

    @property
    def may_delete(self) -> bool:
        """False during a move: nothing may be deleted in its source."""
        return self.move is None


def split_place(place: str) -> tuple[str, str]:
    dsn, _, namespace = place.rpartition("#")
    return dsn, namespace


def store_of(place: str) -> Any:
    dsn, namespace = split_place(place)
    return open_store(dsn, namespace=namespace)
