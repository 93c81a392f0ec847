"""What the connections of a server share: a number of places, and memory for the bodies of requests."""

from collections import Counter, deque
from heapq import nsmallest
from ipaddress import IPv6Address
from typing import Protocol

SLOW_AFTER = 1.0  # seconds after which a body that has not arrived may have to make room for others
FOUND_TOGETHER = 64  # connections to give up, so that not every newcomer looks through all
LOOKED_AGAIN = 0.1  # seconds after a look that found none


class Occupant(Protocol):
    """A connection that holds a place."""

    address: str

    def waits_since(self) -> float | None:
        """Return since when the server waits for the client; None while the server works for it."""

    def give_up(self) -> None: ...


class Places:
    """Places for connections. An address may take all of them, as a proxy does, until others come.

    If all are taken, a newcomer gets the place of a connection that waits for its client: of those from the address
    that has most, the one that has waited longest. An address with more places than any other gets no further one
    at the cost of others.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._count = 0
        self._by_address: dict[str, set[Occupant]] = {}
        self._waiting: deque[tuple[Occupant, float]] = deque()  # those to give up next, if they still wait since then
        self._look_at = 0.0

    def enter(self, newcomer: Occupant, *, now: float) -> bool:
        """Take a place. False if there is none."""
        mates = self._by_address.get(newcomer.address, set())
        if self._most is not None and self._count >= self._most and not self._make_room(len(mates), now):
            return False
        self._by_address.setdefault(newcomer.address, set()).add(newcomer)
        self._count += 1
        return True

    def leave(self, occupant: Occupant) -> None:
        """Free the place of a connection, unless it has none."""
        mates = self._by_address.get(occupant.address, set())
        if occupant in mates:
            mates.remove(occupant)
            self._count -= 1
            if not mates:
                del self._by_address[occupant.address]

    def _make_room(self, mates: int, now: float) -> bool:
        while self._waiting or self._find_waiting(mates, now):
            occupant, since = self._waiting.popleft()
            others = self._by_address.get(occupant.address, set())
            if occupant in others and occupant.waits_since() == since and len(others) >= mates:
                self.leave(occupant)
                occupant.give_up()
                return True
        return False

    def _find_waiting(self, mates: int, now: float) -> bool:
        """Look for connections to give up, at addresses with at least as many as the newcomer's. False if none wait."""
        if now < self._look_at:
            return False
        found = [
            (-len(others), since, occupant)
            for others in self._by_address.values()
            if len(others) >= mates
            for occupant in others
            if (since := occupant.waits_since()) is not None
        ]
        first = nsmallest(FOUND_TOGETHER, found, key=lambda each: each[:2])
        self._waiting.extend((occupant, since) for _, since, occupant in first)
        if not first:
            self._look_at = now + LOOKED_AGAIN
        return bool(first)


class Holder(Protocol):
    """A request whose body is under way."""

    @property
    def address(self) -> str: ...

    more_body: bool
    held: int  # bytes of the shared memory

    def give_up_body(self) -> None: ...


class Bodies:
    """Memory for what is beyond the first part of each body, until its request has ended.

    If all of it is taken, a body makes room that has not arrived yet: one from the address that holds most, if that is
    more than the newcomer's would hold; or the one that has been arriving for longest, if that is more than a moment.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._used = 0
        self._holders: dict[Holder, float] = {}  # since when, the first one first
        self._by_address: Counter[str] = Counter()

    def take(self, holder: Holder, size: int, *, now: float) -> bool:
        """Take memory for a further part. False if there is none."""
        while self._used + size > self.most:
            other = self._gives_way(holder, size, now)
            if other is None:
                return False
            self.free(other)
            other.give_up_body()
        self._holders.setdefault(holder, now)
        holder.held += size
        self._used += size
        self._by_address[holder.address] += size
        return True

    def _gives_way(self, holder: Holder, size: int, now: float) -> Holder | None:
        arriving = [each for each in self._holders if each.more_body]
        if not arriving:
            return None
        most = max(arriving, key=lambda each: self._by_address[each.address])
        if self._by_address[most.address] > self._by_address[holder.address] + size:
            return most
        slow = arriving[0]
        return slow if slow is not holder and self._holders[slow] <= now - SLOW_AFTER else None

    def free(self, holder: Holder) -> None:
        """Free what a request holds."""
        self._holders.pop(holder, None)
        self._used -= holder.held
        self._by_address[holder.address] -= holder.held
        if not self._by_address[holder.address]:
            del self._by_address[holder.address]
        holder.held = 0


def network_of(host: str) -> str:
    """Return what counts as one address: of IPv6 the network, since each client has as many addresses as it likes."""
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))
