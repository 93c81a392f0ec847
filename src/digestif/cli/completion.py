"""`digestif completion`: the lines that teach a shell to complete our commands."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that teach SHELL to complete commands.

    \b
    eval "$(digestif completion bash)"        in ~/.bashrc
    eval "$(digestif completion zsh)"         in ~/.zshrc
    digestif completion fish | source         in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    program = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None  # click knows all three
    click.echo(kind(program, {}, "digestif", "_DIGESTIF_COMPLETE").source())


COMMANDS = [completion]
