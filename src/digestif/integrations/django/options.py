"""The setting DIGESTIF, checked: what is wrong is named by its place, such as `DIGESTIF["EMAIL"]["POLICY"]`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db import connections
from django.utils.module_loading import import_string

from digestif.core.policy import Policy
from digestif.core.texts import did_you_mean, reason_of, shortened
from digestif.dsn import forgetful, redacted_lines
from digestif.errors import ConfigError

BACKEND = "digestif.integrations.django.DigestEmailBackend"
SMTP = "django.core.mail.backends.smtp.EmailBackend"  # Django's own default
ENGINE_KEYS = {"POLICY", "NAMESPACE", "LEASE", "CODEC", "CADENCES", "CLOCK"}  # arguments of Digests
KEYS = ["STORE", "DATABASE", *sorted(ENGINE_KEYS), "ROUTES", "EMAIL", "ADMINS"]
HOOKS = ("keep", "prepare", "split", "weight")  # of a route: functions, which may ask the database
FUNCTIONS = ("links", "to", "wording", "zone")  # of a route: functions or values
ADMINS_POLICY = Policy(capacity=1000)  # of tracebacks; the older ones are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What DIGESTIF says."""

    store: Any = field(repr=False)  # a DSN or a Store; None: in the database
    database: str | None  # the alias of the Django database that the store is in
    engine: dict[str, Any]  # the other arguments of Digests
    routes: dict[str, dict[str, Any]] = field(repr=False)  # with DSNs
    email_backend: str
    email_policy: Any
    can_wait: Callable[[Any], bool] | None
    admins_policy: Any = field(default=ADMINS_POLICY)

    def loaded(self) -> "Options":
        """The same with functions in place of their names. ConfigError with one that can't be imported."""
        return replace(
            self,
            engine=_loaded(self.engine),
            routes={pattern: _loaded(route) for pattern, route in self.routes.items()},
            **_loaded({name: getattr(self, name) for name in ("email_policy", "can_wait", "admins_policy")}),
        )


@forgetful
def read_options() -> Options:
    """Read the setting. ConfigError with what is wrong."""
    given = getattr(settings, "DIGESTIF", None)
    if given is None:
        raise ConfigError('DIGESTIF: the setting is missing; the least is DIGESTIF = {"STORE": "sqlite:///digests.db"}')
    _check_keys("DIGESTIF", given, KEYS)
    email, admins = given.get("EMAIL", {}), given.get("ADMINS", {})
    _check_keys('DIGESTIF["EMAIL"]', email, ["BACKEND", "CAN_WAIT", "POLICY"])
    _check_keys('DIGESTIF["ADMINS"]', admins, ["POLICY"])
    store, database = given.get("STORE"), given.get("DATABASE")
    if store is None and database is None:
        raise ConfigError('DIGESTIF: give "STORE", a DSN, or "DATABASE", the alias of a PostgreSQL database')
    if database is not None:
        _check_database(database)
        if store is not None and not str(store).startswith(("postgresql://", "postgres://")):
            raise ConfigError('DIGESTIF: with "DATABASE" the store is there; leave out "STORE"')
    backend = email.get("BACKEND", SMTP)
    if backend == BACKEND:
        raise ConfigError('DIGESTIF["EMAIL"]["BACKEND"]: that is what sends digests, so it must be another backend')
    return Options(
        store=store,
        database=database,
        engine={name.lower(): given[name] for name in ENGINE_KEYS - {"POLICY"} if name in given}
        | {"policy": _policy('DIGESTIF["POLICY"]', given.get("POLICY"))},
        routes=_routes(given.get("ROUTES", {})),
        email_backend=backend,
        email_policy=_policy('DIGESTIF["EMAIL"]["POLICY"]', email.get("POLICY")),
        can_wait=_function('DIGESTIF["EMAIL"]["CAN_WAIT"]', email.get("CAN_WAIT")),
        admins_policy=_policy('DIGESTIF["ADMINS"]["POLICY"]', admins.get("POLICY")) or ADMINS_POLICY,
    )


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """A function that is imported when it is called: the apps may not be loaded when settings are read.

    It takes any arguments, until the parameters of the function itself are asked for.
    """

    place: str
    path: str

    def __call__(self, *arguments: Any) -> Any:
        return self.load()(*arguments)

    @property
    def __wrapped__(self) -> Any:
        return self.load()

    def load(self) -> Any:
        try:
            found = import_string(self.path)
        except Exception as error:  # whatever its module raises
            reason = redacted_lines(reason_of(error))
            raise ConfigError(f"{self.place}: {self.path!r} can't be imported: {reason}") from error
        if not callable(found):
            raise ConfigError(f"{self.place}: {self.path!r} is not a function")
        return found


def _loaded(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value.load() if isinstance(value, NamedFunction) else value for name, value in given.items()}


@contextmanager
def located(place: str) -> Iterator[None]:
    """Let an error say in which setting it is."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _check_keys(place: str, given: object, known: list[str]) -> None:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}: {shortened(type(given).__name__)} is not a dictionary")
    for name in given:
        if name not in known:
            raise ConfigError(f"{place}: {shortened(name)} is not a setting{did_you_mean(str(name).upper(), known)}")


def _check_database(alias: object) -> None:
    if alias not in list(connections):
        raise ConfigError(
            f'DIGESTIF["DATABASE"]: {shortened(alias)} is not in DATABASES{did_you_mean(str(alias), list(connections))}'
        )
    if connections[alias].vendor != "postgresql":
        raise ConfigError(
            f'DIGESTIF["DATABASE"]: {alias!r} is {connections[alias].display_name}; '
            'only PostgreSQL can hold the store: give "STORE" instead'
        )


def _policy(place: str, given: Any) -> Any:
    """A policy, or a function from timeline to policy. A text is read as a policy, or names a function."""
    if not isinstance(given, str):
        return given
    if _is_path(given):
        return NamedFunction(place, given)
    with located(place):
        return Policy.parse(given)


def _routes(given: object) -> dict[str, dict[str, Any]]:
    place = 'DIGESTIF["ROUTES"]'
    if not isinstance(given, Mapping) or not all(isinstance(options, Mapping) for options in given.values()):
        raise ConfigError(f'{place}: write {{"mail:*": {{"channel": "smtp://…"}}}}')
    return {pattern: _route(f"{place}[{pattern!r}]", options) for pattern, options in given.items()}


def _route(place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(given)
    if "channel" not in options:
        raise ConfigError(f"{place}: has no channel, such as 'smtp://mail.example.org:587?from=digests@example.org'")
    if "policy" in options:
        options["policy"] = _policy(f"{place}['policy']", options["policy"])
    for name, value in given.items():
        if name in HOOKS or (name in FUNCTIONS and _is_path(value)):
            options[name] = _function(f"{place}[{name!r}]", value)
    return options


def _function(place: str, given: Any) -> Any:
    """A function, which may be named by its dotted path."""
    if given is None or callable(given):
        return given
    if not _is_path(given):
        raise ConfigError(f"{place}: {shortened(given)} is neither a function nor the path of one, 'shop.mails.name'")
    return NamedFunction(place, given)


def _is_path(given: object) -> bool:
    """True for a text such as `shop.mails.name`, which is neither a policy nor a time zone."""
    return isinstance(given, str) and "." in given and all(part.isidentifier() for part in given.split("."))
