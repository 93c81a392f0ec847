"""Options of a DSN, checked: `redis://host?timeout=2&patience=30`."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from digestif.core.secret import Secret
from digestif.errors import ConfigError

NAMES = (
    *("ca", "connect_timeout", "patience", "replica_timeout", "replicas", "sentinel_password", "sentinel_user"),
    *("timeout", "verify"),
)
LONGEST_PATIENCE = 300.0  # half of what the scripts remember an answer for
_TRUTHS = {"yes": True, "no": False}


class Options(NamedTuple):
    """How a link behaves. Durations in seconds."""

    timeout: float | None = 5.0  # for one reply
    connect_timeout: float | None = 2.0
    patience: float = 10.0  # for all tries of one call
    replicas: int = 0  # that have to confirm what was written…
    replica_timeout: float = 1.0  # …within this time
    ca: str | None = None  # certificates to trust
    verify: bool = True  # the server's certificate and name
    sentinel_user: str | None = None  # if the sentinels want a login of their own
    sentinel_password: Secret | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], *, tls: bool, sentinels: bool = False) -> "Options":
        """Read those that are ours; others are left to others."""
        for name in ("ca", "verify"):
            if name in given and not tls:
                raise ConfigError(f"{name}: only for TLS; write rediss:// (or valkeys://) with two s")
        for name in ("sentinel_password", "sentinel_user"):
            if name in given and not sentinels:
                raise ConfigError(f"{name}: only for sentinels; write redis+sentinel:// (or valkey+sentinel://)")
        patience = _seconds(given, "patience", 10.0)
        password = given.get("sentinel_password")
        return cls(
            timeout=min(_seconds(given, "timeout", 5.0), patience),
            connect_timeout=min(_seconds(given, "connect_timeout", 2.0), patience),
            patience=patience,
            replicas=_count(given, "replicas"),
            replica_timeout=_seconds(given, "replica_timeout", 1.0),
            ca=_file(given, "ca"),
            verify=_truth(given, "verify"),
            sentinel_user=given.get("sentinel_user") or None,
            sentinel_password=Secret(password) if password else None,
        )

    def check(self) -> None:
        """Servers forget in time what they answered, and answer for replicas only when the time of those is over."""
        if self.patience > LONGEST_PATIENCE:
            raise ConfigError(f"patience: {self.patience:g} s is too long, allowed are {LONGEST_PATIENCE:g}")
        if self.replicas and self.timeout is not None and self.replica_timeout >= self.timeout:
            raise ConfigError(
                f"replica_timeout: {self.replica_timeout:g} s is too long: replies have {self.timeout:g} s to come"
            )


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(f"{name}: {text!r} is not a number of seconds above 0")
    return seconds


def _count(given: Mapping[str, str], name: str) -> int:
    text = given.get(name, "0")
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"{name}: {text!r} is not a whole number")
    return int(text)


def _truth(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "yes")
    if text not in _TRUTHS:
        raise ConfigError(f"{name}: {text!r} is neither yes nor no")
    return _TRUTHS[text]


def _file(given: Mapping[str, str], name: str) -> str | None:
    path = given.get(name)
    if path is not None and not Path(path).is_file():
        raise ConfigError(f"{name}: there is no file {path!r}")
    return path
