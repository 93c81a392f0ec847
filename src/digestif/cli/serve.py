"""`digestif serve`: HTTP API, dashboard and worker in one process."""

import gc
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from digestif.cli.configuration import config_file, outer, settings_reader
from digestif.cli.output import as_json
from digestif.cli.session import outer_json, refuse_app
from digestif.cli.worker import LEVELS, log_to_stderr

if TYPE_CHECKING:
    from digestif.service.runtime import Runtime

EXTRA = ("starlette", "uvicorn", "httptools", "prometheus_client")


@click.command()
@click.option("--config", metavar="FILE", help="The settings. Default: DIGESTIF_CONFIG, else ./digestif.toml if there.")
@click.option("--listen", metavar="HOST:PORT", help="Default: DIGESTIF_LISTEN, the file, else 127.0.0.1:8321.")
@click.option("--store", metavar="DSN", help="Default: DIGESTIF_STORE, the file, else sqlite:///digestif.db.")
@click.option("--namespace", metavar="NAME", help="Default: DIGESTIF_NAMESPACE, the file, else d.")
@click.option("--no-worker", is_flag=True, help="Deliver nothing here: digestif worker --config FILE does.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What is logged.")
@click.option("--json", "as_json_", is_flag=True, help="Print the address as JSON, and log errors only.")
def serve(config: str | None, no_worker: bool, log_level: str, as_json_: bool, **given: str | None) -> None:
    """Run the service: HTTP API, dashboard and worker.

    In an empty folder it makes a SQLite store there and listens on this computer alone. SIGTERM and Ctrl-C finish
    requests and deliveries first, a second one ends at once; SIGHUP reads the file again.
    """
    from digestif.service.reload import ignore_hangup
    from digestif.worker.signals import run

    as_json_ = as_json_ or outer_json()
    refuse_app("the file of settings describes its engine")
    log_to_stderr(log_level, as_json_)
    ignore_hangup()
    typed = {name: value or outer(name) for name, value in given.items()}
    read = settings_reader(config_file(config or outer("config")), looks=True, **typed)
    runtime = load_runtime()(read(), works=not no_worker, read=read, ready=_announcer(as_json_))
    run(runtime)
    if runtime.is_held_up:
        leave_threads()


def load_runtime() -> "type[Runtime]":
    """What runs a service. ConfigError without the extra."""
    from digestif.errors import ConfigError
    from digestif.exports import explain_missing

    try:
        from digestif.service.runtime import Runtime
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        raise ConfigError(f"serve {explain_missing(error.name, extra='service')}") from error
    return Runtime


def _announcer(as_json_: bool) -> Callable[[str], None]:
    def announce(address: str) -> None:
        collect_less_often()
        sys.setswitchinterval(SWITCH)
        click.echo(as_json({"address": address}) if as_json_ else f"Digestif is at {address}")

    return announce


def leave_threads() -> None:
    """End the process. Its interpreter would wait for threads that wait for the store."""
    import logging

    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


SWITCH = 0.0005  # seconds, after which a thread that computes lets the event loop in. Python's own 5 ms add up
YOUNG_OBJECTS = 10_000  # Python's own 700 cost a request or a record a tenth of its time
NEVER = 1_000_000  # collections of the middle generation before a full one: `service.garbage` collects instead


def collect_less_often() -> None:
    """Let the garbage collector run more rarely, never fully by itself, and not look at what the start has loaded.

    A full collection looks at every value that is being delivered, and everything waits for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 10, NEVER)


COMMANDS = [serve]
