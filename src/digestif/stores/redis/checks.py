"""Start-up checks: whether a server may keep records, and what they will survive there."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from digestif.clock import monotonic
from digestif.errors import ConfigError, DigestifError, StoreUnavailable
from digestif.stores.base import Durability
from digestif.stores.redis.client.link import Link, required
from digestif.stores.redis.layout import read_settings

OLDEST = {"redis": (7, 0), "valkey": (7, 2)}

SETTLE_SECONDS = 5.0  # for which servers are asked again while one of them is a replica: a failover may be under way
AGAIN_SECONDS = 0.2  # between two questions

_ORDER = (Durability.NOTHING, Durability.PROCESS_KILL, Durability.POWER_LOSS)


class Findings(NamedTuple):
    """What the checks found out about a server, or about all primaries of a cluster."""

    partitions: int
    layout: bytes  # of the first partition
    durability: Durability
    versions: dict[str, str]  # by host and port, such as "valkey 9.1.2"


def examine(
    link: Link, *, namespace: str, partitions: int | None, clustered: bool, patience: float | None = None
) -> Findings:
    """Check every primary, and the settings of the namespace, which its first use writes.

    Nodes of a cluster that can't be reached are left out, so that the others are served.
    """
    facts = _ask_primaries(link, clustered=clustered, patience=patience)
    for name, known in facts.items():
        _check(name, known, clustered=clustered)
    persistence = link.ask_all("CONFIG", "GET", "*appendfsync*", patience=0)
    durable = [_durability(facts[name], persistence.get(name)) for name in facts]
    number, layout = read_settings(link, namespace, partitions, clustered=clustered)
    return Findings(
        partitions=number,
        layout=layout,
        durability=min(durable, key=_ORDER.index),
        versions={name: "{} {}".format(*_product(known)) for name, known in facts.items()},
    )


def _ask_primaries(link: Link, *, clustered: bool, patience: float | None) -> dict[str, dict[str, str]]:
    """The fields of INFO, by the name of the primary. Replicas are asked again for some seconds, then refused."""
    end = monotonic() + SETTLE_SECONDS
    while True:
        facts = _ask(link, clustered=clustered, patience=patience)
        replica = next((name for name, known in facts.items() if known.get("role") != "master"), None)
        if replica is None:
            return facts
        if monotonic() >= end:
            raise _is_replica(replica, elected=link.topology.elects)
        link.refresh(after=AGAIN_SECONDS)


def _ask(link: Link, *, clustered: bool, patience: float | None) -> dict[str, dict[str, str]]:
    answers = link.ask_all("INFO", patience=0 if clustered else patience)
    if clustered and all(isinstance(answer, StoreUnavailable) for answer in answers.values()):
        answers = link.ask_all("INFO", patience=patience)
    facts = {name: _facts(answer) for name, answer in answers.items() if not isinstance(answer, StoreUnavailable)}
    if not facts:
        raise next(iter(answers.values()))
    return facts


def _is_replica(name: str, *, elected: bool) -> DigestifError:
    """The error for a server that stays a replica. Where primaries are elected, another one will be named."""
    if not elected:
        return ConfigError(f"{name}: this server is a replica, which loses what is written to it; name its primary")
    return StoreUnavailable(
        f"{name}: this server is named as a primary, and has been a replica for {SETTLE_SECONDS:g} s: a failover has "
        "not ended; try again, and if that goes on see CLUSTER NODES or ask the sentinels"
    )


def _check(name: str, known: Mapping[str, str], *, clustered: bool) -> None:
    product, version = _product(known)
    oldest = OLDEST[product]
    if tuple(int(part) for part in version.split(".")[:2]) < oldest:
        raise ConfigError(f"{name}: {product} {version} is too old, {oldest[0]}.{oldest[1]} or later is needed")
    policy = known.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not policy.startswith("volatile-"):  # those spare keys without a TTL: all of ours
        raise ConfigError(
            f"{name}: maxmemory-policy is {policy}: the server would evict records that were accepted; "
            "set it to noeviction or volatile-lru (CONFIG SET maxmemory-policy noeviction, and in its configuration)"
        )
    if known.get("cluster_enabled") == "1" and not clustered:
        raise ConfigError(f"{name}: this server belongs to a cluster; use redis+cluster://{name}")


def _durability(known: Mapping[str, str], configured: Any) -> Durability:
    """What the server's records survive. If its configuration may not be read, the least that is certain."""
    if known.get("aof_enabled") != "1":
        return Durability.NOTHING
    if isinstance(configured, dict):  # the user's client speaks RESP 3
        settings = configured
    else:
        settings = dict(zip(configured[::2], configured[1::2], strict=True)) if isinstance(configured, list) else {}
    always = settings.get(b"appendfsync") == b"always" and settings.get(b"no-appendfsync-on-rewrite") == b"no"
    return Durability.POWER_LOSS if always else Durability.PROCESS_KILL


def _product(known: Mapping[str, str]) -> tuple[str, str]:
    if "valkey_version" in known:
        return "valkey", known["valkey_version"]
    return "redis", known.get("redis_version", "0.0")


def _facts(answer: Any) -> dict[str, str]:
    """The fields of INFO."""
    text = required(answer).decode(errors="replace")
    lines = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name: value for name, _, value in lines}
