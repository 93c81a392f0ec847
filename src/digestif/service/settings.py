"""The settings of a service, as values: what `digestif.toml` says after it was read and checked."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from digestif.core.secret import Secret

LISTEN = "127.0.0.1:8321"


class Scope(StrEnum):
    """What a token may do. `admin` may do everything that the others may."""

    INGEST = "ingest"  # add records
    READ = "read"  # look
    ADMIN = "admin"  # change


class Token(Struct, frozen=True, kw_only=True):
    """A token that the service knows by its hash."""

    name: str
    hash: str  # sha256:…
    scopes: frozenset[Scope]
    prefix: str = ""  # only timelines whose names begin so


class Limits(Struct, frozen=True, kw_only=True):
    """What one caller may ask for."""

    body: int = 8 << 20  # bytes of a request, unpacked
    bodies: int = 64 << 20  # bytes of all requests under way, beyond the first 32 KiB of each
    items: int = 1_000  # records in a request
    depth: int = 64  # of nested values
    rate: float = 0  # requests a second and token; 0: no limit
    timelines: int = 0  # stored, that a token reaches; records for new ones are refused beyond it; 0: no limit
    streams: int = 100  # connections of a token to the stream of events

    @property
    def memory(self) -> int:
        """Bytes that all bodies may take: at least one of the largest has room."""
        return max(self.bodies, self.body)


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """The worker of a service: options of `Worker`."""

    concurrency: int = 100  # coroutines at once
    threads: int = 16  # functions at once
    memory: int = 128  # MiB of records that it holds at once, as decoded values
    poll: float = 1.0  # seconds between two looks at a store that gives no hints
    grace: float = 25.0  # seconds for deliveries and requests to finish when the service stops

    def options(self) -> dict[str, Any]:
        """As `Worker` takes them."""
        return {**asdict(self), "memory": self.memory << 20}


class RouteSettings(Struct, frozen=True, kw_only=True):
    """A route: the options are those of `Digests.route`, with texts resolved."""

    pattern: str
    channel: Secret  # a DSN
    options: Mapping[str, Any]


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that a service needs to know."""

    store: Secret  # a DSN
    namespace: str = "d"
    codec: str = "json"
    lease: float = 30.0  # seconds
    policy: str | None = None  # in the text form, as all policies here
    cadences: Mapping[str, str] = {}
    channels: Mapping[str, Secret] = {}  # DSNs by name
    routes: tuple[RouteSettings, ...] = ()
    tokens: tuple[Token, ...] = ()
    listen: str = LISTEN
    public: str | None = None  # the address under which people reach the service
    hosts: tuple[str, ...] = ()  # further names that it answers to
    limits: Limits = Limits()
    worker: WorkerSettings = WorkerSettings()
    keep_messages: bool = False
    source: str | None = None  # the file that this was read from
