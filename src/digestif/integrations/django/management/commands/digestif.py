"""`manage.py digestif …`: the command line of Digestif, with the engine of the project."""

from argparse import REMAINDER
from typing import Any

from django.core.management.base import BaseCommand

from digestif.cli.program import cli
from digestif.integrations.django.apps import TAG

ENGINE = "digestif.integrations.django.application:digests"
WITHOUT_ENGINE = {"completion", "demo", "move"}  # they name their stores, or have none


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    help = "The command line of Digestif with the store, policies and handlers of this project: digestif worker"
    requires_system_checks = (TAG,)

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("arguments", nargs=REMAINDER, metavar="COMMAND …", help="Such as worker, status, or --help")

    def handle(self, *_: Any, arguments: list[str], **__: Any) -> None:
        try:
            cli.main(with_engine(arguments), prog_name="manage.py digestif")
        except SystemExit as end:
            if end.code:  # without an error, `call_command` goes on
                raise


def with_engine(arguments: list[str]) -> list[str]:
    """The arguments of the command line, with the project's engine named where the command expects it."""
    if not arguments or arguments[0] in WITHOUT_ENGINE or arguments[0].startswith("-"):
        return arguments
    if arguments[0] == "worker":
        return ["worker", ENGINE, *arguments[1:]]
    return ["--app", ENGINE, *arguments]
