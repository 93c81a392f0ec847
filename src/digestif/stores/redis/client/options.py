"""Options of a link, in a DSN: `redis://host?timeout=2&patience=30`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from digestif.core.secret import Secret
from digestif.dsn import existing_file, number, option, read_options, whole_number, yes_or_no
from digestif.errors import ConfigError

LONGEST_PATIENCE = 300.0  # half of the time for which the scripts remember an answer
_SECONDS = number("seconds", above=0)


@dataclass(frozen=True, slots=True)
class Options:
    """How a link behaves. Durations in seconds."""

    timeout: float | None = option(_SECONDS, 5.0)  # for one reply
    connect_timeout: float | None = option(_SECONDS, 2.0)
    patience: float = option(_SECONDS, 10.0)  # for all tries of one call
    replicas: int = option(whole_number(0), 0)  # that have to confirm a write…
    replica_timeout: float = option(_SECONDS, 1.0)  # …within this time
    ca: str | None = option(existing_file, None)  # certificates to trust
    verify: bool = option(yes_or_no, True)  # the server's certificate and name
    sentinel_user: str | None = option(str, None)  # if the sentinels have a login of their own
    sentinel_password: Secret | None = option(Secret, None)

    @classmethod
    def of(cls, given: Mapping[str, str], *, tls: bool, sentinels: bool = False) -> "Options":
        """Read the link's options; those of the store are ignored."""
        for name in ("ca", "verify"):
            if name in given and not tls:
                raise ConfigError(f"{name}: only for TLS; write rediss:// (or valkeys://) with two s")
        for name in ("sentinel_password", "sentinel_user"):
            if name in given and not sentinels:
                raise ConfigError(f"{name}: only for sentinels; write redis+sentinel:// (or valkey+sentinel://)")
        options = read_options(cls, given, scheme="redis")
        patience = options.patience
        return replace(
            options,
            timeout=min(options.timeout or patience, patience),
            connect_timeout=min(options.connect_timeout or patience, patience),
        )

    def check(self) -> None:
        """Refuse a patience that outlasts the scripts' memory, and replicas that may be slower than a reply."""
        if self.patience > LONGEST_PATIENCE:
            raise ConfigError(f"patience: {self.patience:g} s is too long, allowed are {LONGEST_PATIENCE:g}")
        if self.replicas and self.timeout is not None and self.replica_timeout >= self.timeout:
            raise ConfigError(
                f"replica_timeout: {self.replica_timeout:g} s is too long: replies have {self.timeout:g} s to come"
            )
