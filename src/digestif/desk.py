"""The desk: what it takes to deliver from one store, shared by everything that does so."""

from collections.abc import Callable
from dataclasses import dataclass

from digestif.core.policy import Policy
from digestif.core.times import Millis
from digestif.events import Events
from digestif.stores.base import Store
from digestif.stores.codec import Sealer

Now = Callable[[], Millis | None]  # None leaves it to the store's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A store, and how its digests are read and their leases are held."""

    store: Store
    policy_for: Callable[[str], Policy]  # by timeline
    sealer: Sealer
    lease: Millis
    now: Now
    events: Events
