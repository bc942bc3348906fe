"""Command groups that suggest the nearest command. Imports little: `logs` must start as fast as a shell history."""

import click

from ..values.spelling import unknown


class Group(click.Group):
    """A command group that suggests the nearest command."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = arguments[0], self.list_commands(context)
        if name not in known and not name.startswith("-"):
            listed = f"`{context.command_path} --help` lists them"
            context.fail(unknown("command", name, known, listed=listed))
        return super().resolve_command(context, arguments)


Group.group_class = Group  # of nested groups
