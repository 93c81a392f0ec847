"""What the commands share: the options that name a store, the engine for it, and answers as text or JSON."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from digestif.cli.configuration import FILE, VARIABLE, config_file, settings_reader
from digestif.cli.output import as_json, fitted

if TYPE_CHECKING:
    from digestif import Digests
    from digestif.core.policy import Policy
    from digestif.service.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_STORE = "sqlite:///digestif.db"
SHARED = ("store", "namespace", "app", "config", "as_json")


def shared_options(*, envvar: bool = False) -> Callable[[Function], Function]:
    """The options of every command, which may also stand before it. `envvar` lets the environment set them."""

    def decorate(function: Function) -> Function:
        for option in reversed(
            [
                click.option(
                    "--store",
                    metavar="DSN",
                    envvar="DIGESTIF_STORE" if envvar else None,
                    help=f"The store. Default: DIGESTIF_STORE, else {DEFAULT_STORE}.",
                ),
                click.option(
                    "--namespace",
                    metavar="NAME",
                    envvar="DIGESTIF_NAMESPACE" if envvar else None,
                    help="The namespace in the store. Default: DIGESTIF_NAMESPACE, else d.",
                ),
                click.option(
                    "--app",
                    metavar="APP",
                    help="Take store, namespace, policy and codec from a program: module:digests, or a function.",
                ),
                click.option(
                    "--config",
                    metavar="FILE",
                    envvar=VARIABLE if envvar else None,
                    help=f"Take them, and routes, from a file. Default: {VARIABLE}, else ./{FILE} if it is there.",
                ),
                click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
            ]
        ):
            function = option(function)
        return function

    return decorate


class Session:
    """One call of a command."""

    def __init__(self, context: click.Context, options: dict[str, Any]) -> None:
        outer = context.find_root().params
        given = {name: options.get(name) or outer.get(name) for name in SHARED}
        self.as_json = bool(given["as_json"])
        self._app: str | None = given["app"]
        typed = [name for name in SHARED if options.get(name) or _typed_before(context, name)]
        if self._app and {"store", "namespace"} & {*typed}:
            raise click.UsageError("--app brings its own store and namespace; leave out --store and --namespace")
        if self._app and "config" in typed:
            raise click.UsageError("--app brings its own settings; leave out --config")
        file = None if self._app else config_file(given["config"])
        if file is not None and not given["config"] and "store" in typed:
            file = None  # the file in this folder is about another store
        self.read = settings_reader(file, store=given["store"], namespace=given["namespace"])
        self._settings: Settings | None = None if file is None else self.read()
        self._store: str = given["store"] or DEFAULT_STORE
        self._namespace: str = given["namespace"] or "d"
        if self._settings is not None:
            self._store, self._namespace = self._settings.store.reveal(), self._settings.namespace

    @property
    def knows_policies(self) -> bool:
        """True if the policies of a program or of a file of settings are known."""
        return bool(self._app) or self._settings is not None

    @contextmanager
    def digests(
        self, *, makes: bool = False, reads: bool = False, policy: str | None = None, reaches: bool = True
    ) -> Iterator["Digests"]:
        """The engine. Without `makes`, a SQLite file that does not exist is an error: it is not created.

        With `reads` the command changes nothing, and no file is made beside a SQLite file.
        `policy` is the text of one for this call. A store that does not answer is told at once, because other calls
        try again for seconds; without `reaches` it is not asked.
        """
        import logging

        logging.getLogger("digestif").addHandler(logging.NullHandler())  # errors are reported once, in the answer
        if self._app:
            from digestif.cli.application import opened

            if policy is not None:
                raise click.UsageError("--app brings its own policies; leave out --policy")
            with opened(self._app) as digests:
                if reaches:
                    digests.store.reach()
                yield digests
            return
        with self._opened(makes=makes, reads=reads, policy=policy) as digests:
            if reaches:
                digests.store.reach()
            yield digests

    def _opened(self, *, makes: bool, reads: bool, policy: str | None) -> "Digests":
        from digestif.core.policy import Policy

        parsed = None if policy is None else Policy.parse(policy)
        self._check(makes=makes)
        if self._settings is not None and policy is not None:
            raise click.UsageError(f"{self._settings.source} brings its own policies; leave out --policy")
        if reads and (for_reading := _for_reading(self._store)) is not None:
            from digestif.stores.sqlite.connections import NeedsUpgrade

            with suppress(NeedsUpgrade):  # opening it for writing brings it up to date
                return self._engine(for_reading, parsed)
        return self._engine(self._store, parsed)

    def _engine(self, store: str, policy: "Policy | None") -> "Digests":
        if self._settings is not None:
            from digestif.service.engine import open_digests

            return open_digests(self._settings, store)
        from digestif.digests import Digests

        return Digests(store, policy=policy, namespace=self._namespace)

    def _check(self, *, makes: bool) -> None:
        from digestif.dsn import Dsn
        from digestif.errors import ConfigError

        dsn = Dsn.parse(self._store)
        if dsn.scheme == "memory" or (dsn.scheme == "sqlite" and not dsn.location):
            raise ConfigError(
                f"store: {self.place} is gone when this command ends; name one that stays, such as {DEFAULT_STORE}"
            )
        if dsn.scheme == "sqlite" and dsn.location[0] == "/" and not makes and not Path(dsn.location[1:]).exists():
            raise ConfigError(
                f"there is no store at {dsn.location[1:]}; 'digestif add' makes it, or name another: --store DSN, "
                "DIGESTIF_STORE in the environment, or --app module:digests for that of your program"
            )

    def place_of(self, digests: "Digests") -> str:
        """The store of an engine as it may be shown."""
        return digests.engine.place if self._app else self.place

    def described(self, digests: "Digests") -> str:
        """The store of an engine, and the application that names it."""
        return self.place_of(digests) + (f", of {self._app}" if self._app else "")

    @property
    def place(self) -> str:
        """The store as it may be shown: without its password. Of an application, its name."""
        if self._app:
            return self._app
        from digestif.dsn import redacted

        return redacted(self._store)

    def answer(self, text: str, document: Any, *, exact: bool = False) -> None:
        """Print the text, or with --json the document. An `exact` text is for programs: its lines are left alone."""
        click.echo(as_json(document) if self.as_json else text if exact else fitted(text))


def with_session(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its session as the first argument, and the shared options."""

    @shared_options()
    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        session = Session(click.get_current_context(), {name: options.pop(name) for name in SHARED})
        return function(session, *args, **options)

    return call


def complete_timeline(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of timelines for the shell's completion; none if the store does not answer."""
    from digestif.errors import DigestifError

    try:
        with Session(context, context.params).digests(reads=True) as digests:
            return [timeline.key for timeline in digests.timelines(prefix=incomplete, limit=50)]
    except (DigestifError, click.ClickException):
        return []


def timeline_argument(**options: Any) -> Callable[[Function], Function]:
    return click.argument("timeline", shell_complete=complete_timeline, **options)


def help_if_alone() -> int:
    """Print the help of a group that was called without a command, and return the code for wrong usage."""
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        return 0
    click.echo(context.get_help())
    return 2


def _for_reading(store: str) -> str | None:
    """The DSN of a SQLite file that is only read; None for other stores, which make no files."""
    from digestif.dsn import Dsn

    dsn = Dsn.parse(store)
    if dsn.scheme != "sqlite" or "mode" in dsn.options:
        return None
    return f"{store}{'&' if '?' in store else '?'}mode=ro"


# For commands that have a store of their own


def outer_json() -> bool:
    """True if --json was given before the command."""
    return bool(click.get_current_context().find_root().params.get("as_json"))


def refuse_store(reason: str) -> None:
    """Refuse a store that was typed before a command that ignores it. One from the environment is fine."""
    context = click.get_current_context()
    if typed := _typed_before(context, "store", "namespace", "app"):
        raise click.UsageError(f"{context.info_name} takes no --{typed[0]}: {reason}")


def refuse_app(reason: str) -> None:
    """Refuse an --app that was typed before a command that has no use for it."""
    context = click.get_current_context()
    if _typed_before(context, "app"):
        raise click.UsageError(f"{context.info_name} takes no --app: {reason}")


def _typed_before(context: click.Context, *names: str) -> list[str]:
    """The options, out of `names`, that were typed before the command."""
    root = context.find_root()
    return [name for name in names if root.get_parameter_source(name) is ParameterSource.COMMANDLINE]
