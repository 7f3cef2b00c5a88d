"""``isvc completion``: print the script with which a shell completes commands and options."""

from __future__ import annotations

import sys

import click


@click.command(short_help="print the script that completes isvc in a shell")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), metavar="bash|zsh|fish")
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print the script with which a shell completes the commands and options of isvc, and the names of services.

    \b
    bash:  echo 'eval "$(isvc completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(isvc completion zsh)"' >> ~/.zshrc
    fish:  isvc completion fish > ~/.config/fish/completions/isvc.fish
    """
    from click.shell_completion import get_completion_class

    if (completion := get_completion_class(shell)) is None:
        raise click.UsageError(f"Click completes nothing in {shell}.", context)
    sys.stdout.write(completion(context.find_root().command, {}, "isvc", "_ISVC_COMPLETE").source())
