"""``isvc help``: the help of a command."""

from __future__ import annotations

from collections.abc import Sequence

import click


@click.command(short_help="print the help of a command")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, *, names: Sequence[str]) -> None:
    """Print the help of COMMAND, or the list of all commands."""
    asked = context.find_root()
    for name in names:
        if not isinstance(asked.command, click.Group):
            raise click.UsageError(f"{asked.command_path} has no commands.", asked)
        _, found, _ = asked.command.resolve_command(asked, [name])
        if found:
            asked = click.Context(found, parent=asked, info_name=name)
    click.echo(asked.get_help())
