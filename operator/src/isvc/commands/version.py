"""``isvc version``."""

from __future__ import annotations

import click

from isvc_operator import __version__


@click.command(short_help="print the version")
def command() -> None:
    """Print the version of isvc, which is that of the operator, its manifests and its images."""
    click.echo(f"isvc {__version__}")
