"""`digestif demo`: an incident in twenty seconds, delivered by a real worker to the terminal as it would be read."""

import click

from digestif.cli.output import as_json
from digestif.cli.session import outer_json, refuse_store


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(1, 600),
    default=20.0,
    show_default=True,
    help="How long it takes, about; the policy's delays keep pace.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Another one gives another incident.")
@click.option("--json", "as_json_", is_flag=True, help="Print the figures as JSON and nothing else.")
def demo(seconds: float, seed: int, as_json_: bool) -> int:
    """Watch an incident become a few messages.

    A few hundred events arrive in real time, a worker delivers them as digests, one delivery fails and is tried again.
    All in a temporary folder. Exit code 1 if the ledger does not balance, which would be a bug.
    """
    import asyncio
    import logging
    import signal

    from digestif.cli.story import Screen, Silence, play

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left of the temporary folder
    as_json_ = as_json_ or outer_json()
    refuse_store("it makes its own in a temporary folder")
    logging.getLogger("digestif").addHandler(logging.NullHandler())  # what happens is shown
    show = Silence() if as_json_ else Screen()
    result = asyncio.run(play(seconds, seed=seed, show=show))
    if as_json_:
        click.echo(as_json(result.to_dict()))
    return 0 if result.good else 1


COMMANDS = [demo]
