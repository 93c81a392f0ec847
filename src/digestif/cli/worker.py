"""`digestif worker`: runs the handlers of one or more applications until SIGTERM or SIGINT, or until nothing is due."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from digestif.cli.configuration import config_file, outer, settings_reader
from digestif.cli.output import as_json
from digestif.cli.session import outer_json, refuse_app, refuse_store

if TYPE_CHECKING:
    from digestif import Event
    from digestif.worker.signals import Runs

START_SECONDS = 60.0  # for the store to answer for the first time
LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.argument("apps", metavar="[APP…]", nargs=-1)
@click.option("--config", metavar="FILE", help="Deliver by the routes of a file of settings, instead of an APP.")
@click.option("--concurrency", type=click.IntRange(1), default=100, show_default=True, help="Coroutines at once.")
@click.option("--threads", type=click.IntRange(1), default=16, show_default=True, help="Functions at once.")
@click.option(
    "--memory",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    metavar="MIB",
    callback=lambda _context, _option, mebibytes: mebibytes << 20,
    help="Of records that it holds at once, as decoded values.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0.001),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks at a store that gives no hints.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=25.0,
    show_default=True,
    metavar="SECONDS",
    help="For handlers to finish when the worker stops.",
)
@click.option("--drain", is_flag=True, help="Deliver what is due now, then end: for cron.")
@click.option(
    "--wait", is_flag=True, help="Wait for a store that does not answer; otherwise one minute, if it never did."
)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What is logged.")
@click.option("--json", "as_json_", is_flag=True, help="Print events as JSON lines instead of a log.")
def worker(apps: Sequence[str], config: str | None, wait: bool, log_level: str, as_json_: bool, **options: Any) -> None:
    """Deliver the digests of APP through its handlers.

    Or, with --config, those of a file of settings by its routes.

    APP is a module and a Digests in it, module:digests, or a function that returns one; the working directory is
    looked in too, and :digests may be left out. Several APPs are served side by side. SIGTERM and Ctrl-C let running
    handlers finish, for the seconds of --grace; a second one ends at once. A store that has not answered once in a
    minute ends it with code 3. Without an APP, DIGESTIF_CONFIG or ./digestif.toml is the file of settings; SIGHUP reads
    it again.
    """
    as_json_ = as_json_ or outer_json()
    options["start_timeout"] = None if wait else START_SECONDS
    if not apps:
        _serve_settings(config, log_level, as_json_, options)
        return
    if config:
        raise click.UsageError("an APP brings its own settings; leave out --config, or the APP")
    refuse_store("it has the store of its APP")
    log_to_stderr(log_level, as_json_)
    _serve_apps(apps, as_json_, options)


def _serve_apps(apps: Sequence[str], as_json_: bool, options: dict[str, Any]) -> None:
    from digestif.cli.application import load_served
    from digestif.worker.signals import run
    from digestif.worker.worker import Worker

    with ExitStack() as opened:
        loaded = []
        for app in dict.fromkeys(apps):
            served = load_served(app)
            opened.callback(served.close)
            loaded.append(served.digests)
        workers = [Worker(digests, **options) for digests in loaded]
        if as_json_:
            for digests in loaded:
                digests.subscribe(_printer(workers))
        run(*workers)


def _serve_settings(config: str | None, log_level: str, as_json_: bool, options: dict[str, Any]) -> None:
    from digestif.worker.signals import run

    refuse_app("name it as its APP")
    file = config_file(config or outer("config"))
    if file is None:
        raise click.UsageError("Missing argument 'APP…'; or name a file of settings with --config")
    from digestif.service.reload import ignore_hangup
    from digestif.service.worker import SettingsWorker

    ignore_hangup()
    log_to_stderr(log_level, as_json_)
    workers: list[SettingsWorker] = []
    workers.append(
        SettingsWorker(
            settings_reader(file, store=outer("store"), namespace=outer("namespace")),
            options=_typed(options),
            prepare=(lambda digests: digests.subscribe(_printer(workers))) if as_json_ else lambda _: None,
        )
    )
    run(*workers)


def _typed(options: dict[str, Any]) -> dict[str, Any]:
    """Without those that have their default: the file says them."""
    source = click.get_current_context().get_parameter_source
    return {name: value for name, value in options.items() if source(name) is not ParameterSource.DEFAULT}


def log_to_stderr(level: str, as_json_: bool) -> None:
    """Log to standard error, unless the application has configured logging."""
    import logging

    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr)
    logging.getLogger("digestif").setLevel("ERROR" if as_json_ else level.upper())


def _printer(workers: "Sequence[Runs]") -> "Callable[[Event], None]":
    from dataclasses import fields

    from digestif.clock import wall_clock

    def report(event: "Event") -> None:
        facts = {field.name: _plain(getattr(event, field.name)) for field in fields(event)}
        try:
            click.echo(as_json({"event": type(event).__name__, "at": wall_clock(), **facts}))
        except BrokenPipeError:  # the reader has ended
            for worker in workers:
                worker.stop()

    return report


def _plain(value: Any) -> Any:
    from digestif.core.texts import reason_of

    return reason_of(value) if isinstance(value, BaseException) else value


COMMANDS = [worker]
