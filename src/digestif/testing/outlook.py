"""The state of a Redis cluster as each of its nodes sees it."""

from typing import Any, NamedTuple

SLOTS = 16384


class Outlook(NamedTuple):
    """The cluster as one node sees it. Nodes are named by their ports."""

    state: str
    known: set[int]
    doubted: set[int]  # fail? or fail: this node suspects them
    dead: set[int]  # fail: most nodes suspect them
    owners: dict[int, int]  # the first slot of a range → its owner
    slots: int  # that have an owner
    primary_of: dict[int, int]  # replica → primary
    linked: bool  # for a replica: it has caught up

    @classmethod
    def of(cls, client: Any) -> "Outlook":
        """Ask a node, through a client that decodes answers."""
        info = _facts(client.execute_command("CLUSTER", "INFO"))
        lines = [line.split() for line in client.execute_command("CLUSTER", "NODES").splitlines()]
        role = client.execute_command("ROLE")
        ports = {line[0]: int(line[1].split("@")[0].rpartition(":")[2]) for line in lines}
        ranges = [(ports[line[0]], *_bounds(words)) for line in lines for words in line[8:] if words[0] != "["]
        return cls(
            state=info["cluster_state"],
            known={ports[line[0]] for line in lines if "handshake" not in line[2]},
            doubted={ports[line[0]] for line in lines if {"fail", "fail?"} & set(line[2].split(","))},
            dead={ports[line[0]] for line in lines if "fail" in line[2].split(",")},
            owners={first: port for port, first, _ in ranges},
            slots=sum(last - first + 1 for _, first, last in ranges),
            primary_of={ports[line[0]]: ports[line[3]] for line in lines if line[3] in ports},
            linked=role[0] == "master" or role[3] == "connected",
        )

    def owner_of(self, slot: int) -> int:
        return self.owners[max(first for first in self.owners if first <= slot)]


def trouble_at(port: int, outlooks: dict[int, Outlook], excused: set[int]) -> str | None:
    """The first problem that this node sees, in words; nodes in `excused` are known to be dead."""
    mine = outlooks[port]
    owners = set(mine.owners.values())
    if mine.state != "ok":
        return f"{port} says {mine.state}"
    if wrongly := mine.doubted & outlooks.keys():
        return f"{port} thinks that {wrongly} are down"
    if wrongly := excused - mine.dead:
        return f"{port} does not know yet that {wrongly} are down"
    if any(mine.owners != other.owners for other in outlooks.values()):
        return f"{port} and others disagree on who owns what: {mine.owners}"
    if unserved := owners - outlooks.keys() - excused:
        return f"{unserved} own slots and are down"
    if mine.slots != SLOTS:
        return f"{port} knows the owners of {mine.slots} slots only"
    if port not in owners and mine.primary_of.get(port) not in owners:
        return f"{port} is neither an owner of slots nor a replica of one"
    if mine.primary_of.get(port) in outlooks and not mine.linked:
        return f"{port} has not caught up with its primary"
    return None


def _facts(text: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text.split())


def _bounds(words: str) -> tuple[int, int]:
    first, _, last = words.partition("-")
    return int(first), int(last or first)
