"""`interlingua completion`: the shell completion script."""

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script: `eval "$(interlingua completion bash)"`."""
    from . import group

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(group, {}, "interlingua", "_INTERLINGUA_COMPLETE").source())
