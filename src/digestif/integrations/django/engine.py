"""The engine of a project: made from its settings at first use, with all handlers and routes, and shared by threads."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from threading import RLock
from typing import Any, TypeVar

from django.core.signals import setting_changed
from django.db import close_old_connections, connections
from django.utils.module_loading import autodiscover_modules

from digestif.core.secret import Secret
from digestif.digests import Digests
from digestif.dsn import Dsn, forgetful, load_opener, option_names
from digestif.integrations.django import admins, mail
from digestif.integrations.django.options import FUNCTIONS, HOOKS, Options, located, read_options
from digestif.routes.route import check_hooks
from digestif.stores.base import Store
from digestif.stores.registry import BUILT_IN, ENTRY_POINTS, EXTRAS, MEANT

HandlerFunction = TypeVar("HandlerFunction", bound=Callable[..., Any])
Registration = Callable[[Digests], object]

MODULE = "digests"  # of each app: its handlers and routes
MADE_FROM = {"DATABASES", "DIGESTIF"}  # settings; when a test changes one, the next call makes another engine

_lock = RLock()
_registered: list[Registration] = []  # they outlive an engine: modules are imported once
_current: "Project | None" = None


@dataclass(frozen=True, slots=True)
class Project:
    """What was made from the settings."""

    options: Options
    engine: Digests


def digests() -> Digests:
    """The engine of this project. The first call makes it, and imports the module `digests` of each app."""
    return project().engine


@forgetful
def project() -> Project:
    """The engine and the settings that it was made from."""
    global _current
    if _current is not None:
        return _current
    autodiscover_modules(MODULE)  # without the lock: another thread may be importing one of them, and registers with it
    with _lock:
        if _current is None:  # one of those modules may have asked for it
            options = read_options()
            _current = Project(options, _made(options))
        return _current


def handler(pattern: str, **options: Any) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function for timelines of a pattern, as `Digests.handler` does, in every engine.

    Database connections that are too old or broken are closed around each call, as Django does around a request.
    """

    def register(call: HandlerFunction) -> HandlerFunction:
        _register(lambda engine: engine.handler(pattern, **options)(_between_requests(call)))
        return call

    return register


@forgetful
def route(pattern: str, **options: Any) -> None:
    """Let a channel deliver the timelines of a pattern, as `Digests.route` does, in every engine."""
    _register(lambda engine: engine.route(pattern, **_with_connections(options)))


@forgetful
def rehearse() -> None:
    """Raise ConfigError if an engine can't be made from the settings. The store is not opened."""
    options = read_options().loaded()
    if isinstance(options.store, str):
        with located('DIGESTIF["STORE"]'):
            scheme = Dsn.parse(options.store).scheme
            load_opener(scheme, what="store", built_in=BUILT_IN, extras=EXTRAS, group=ENTRY_POINTS, meant=MEANT)
    with located("DIGESTIF"):
        engine = Digests("memory://", **options.engine)
    with engine:
        _equip(engine, options)


def _made(options: Options) -> Digests:
    engine = Digests(options.store or _store_in(options), **options.engine)
    _equip(engine, options)
    for register in _registered:
        register(engine)
    return engine


def _equip(engine: Digests, options: Options) -> None:
    """Register what the settings ask for."""
    for pattern, route_options in options.routes.items():
        with located(f'DIGESTIF["ROUTES"][{pattern!r}]'):
            engine.route(pattern, **_with_connections(route_options))
    mail.register(engine, options)
    admins.register(engine, options)


def _register(register: Registration) -> None:
    with _lock:
        _registered.append(register)
        if _current is not None:
            register(_current.engine)


def _with_connections(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a route, with functions that may use the database. ConfigError if one takes other arguments."""
    check_hooks(options)  # here: what they become takes any arguments
    names = (*HOOKS, *FUNCTIONS)
    return options | {name: _between_requests(options[name]) for name in names if callable(options.get(name))}


def _between_requests(call: HandlerFunction) -> HandlerFunction:
    if iscoroutinefunction(call):
        return call

    @wraps(call)
    def called(*arguments: Any) -> Any:
        close_old_connections()
        try:
            return call(*arguments)
        finally:
            close_old_connections()

    return called  # type: ignore[return-value]


def _store_in(options: Options) -> Store:
    """The store in a database of Django's, with its address. Its connections are its own."""
    from digestif.stores.postgres import LibpqOptions, PostgresStore

    given = connections[options.database].settings_dict
    address: dict[str, Any] = {
        "user": given["USER"],
        "password": Secret(given["PASSWORD"]) if given["PASSWORD"] else "",
        "host": given["HOST"],
        "port": str(given["PORT"]),
        "dbname": given["NAME"],
        **{name: str(value) for name, value in given["OPTIONS"].items() if name in option_names(LibpqOptions)},
    }
    namespace = options.engine.get("namespace", "d")
    return PostgresStore({name: value for name, value in address.items() if value}, namespace=namespace)


def _forget(*, setting: str, **_: Any) -> None:
    """Close the engine when a test changes the settings that it was made from."""
    global _current
    if setting in MADE_FROM:
        with _lock:
            past, _current = _current, None
        if past is not None:
            past.engine.close()
            if past.options.store is None:
                past.engine.store.close()


setting_changed.connect(_forget)
