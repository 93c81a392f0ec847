"""Makes the engine that settings describe."""

from typing import TYPE_CHECKING, TypeVar

from digestif.core.policy import Policy
from digestif.dsn import forgetful, redacted

if TYPE_CHECKING:
    from digestif.aio import AsyncDigests
    from digestif.digests import Digests
    from digestif.service.settings import Settings
    from digestif.stores.base import Store

Face = TypeVar("Face", "Digests", "AsyncDigests")


def open_engine(settings: "Settings", store: "Store") -> "AsyncDigests":
    """An engine with the routes of the settings, on a store that outlives it."""
    from digestif.aio import AsyncDigests

    made = _engine(AsyncDigests, settings, store)
    store.name_tenants(token.prefix for token in settings.tokens)
    made.engine.place = redacted(settings.store.reveal())  # as the log names the store
    return made


def open_digests(settings: "Settings", store: str | None = None) -> "Digests":
    """The same for a command, on the store of the settings or of another DSN; closing the engine closes the store."""
    from digestif.digests import Digests

    return _engine(Digests, settings, store or settings.store.reveal())


@forgetful
def _engine(kind: type[Face], settings: "Settings", store: "Store | str") -> Face:
    engine = kind(
        store,
        namespace=settings.namespace,
        codec=settings.codec,
        lease=settings.lease,
        policy=None if settings.policy is None else Policy.parse(settings.policy),
        cadences=_cadences(settings),
    )
    for route in settings.routes:
        engine.route(route.pattern, channel=route.channel.reveal(), **route.options)
    if settings.keep_messages:
        engine.keep_messages()
    return engine


def _cadences(settings: "Settings") -> "dict[str, object]":
    from digestif.core.cadences import Cadences

    return {name: Cadences.OFF if text == "off" else text for name, text in settings.cadences.items()}
