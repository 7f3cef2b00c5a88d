"""``isvc``: the command line. Only this package reads arguments and environment variables.

Each command is a module, which is imported when the command is named; what it needs beyond Click, it imports when it
runs. So ``--help`` takes no longer than Click does (tests/unit/cli/test_imports.py).
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import click

from isvc.commands.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_INVALID
from isvc_operator import __version__
from isvc_operator.errors import OperatorError
from isvc_operator.text import one_line, unwritten, visible

# The commands as ``--help`` has them; each is a module with a ``command``.
SECTIONS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "Models": ("new", "pack", "inspect"),
        "On this machine": ("run", "render", "validate"),
        "Services, here or in a cluster": ("status", "logs", "diagnose", "predict", "bench", "dashboard"),
        "Clusters": ("diff", "doctor", "migrate"),
        "This program": ("completion", "help", "version"),
    }
)
# `operator` is for manifests, and not among a user's commands.
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: f"{__name__}.{name}" for names in SECTIONS.values() for name in names},
        "operator": "isvc_operator.command",
    }
)


# A disk that is full, and one that has no more room for this user.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class LateCommands(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's signature
        """Return the names in the order of ``--help``."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each kind of command."""
        for title, names in SECTIONS.items():
            commands = [(name, command) for name in names if (command := self.get_command(ctx, name))]
            with formatter.section(title):
                formatter.write_dl([(f"{name:10}", command.get_short_help_str(100)) for name, command in commands])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a name."""
        if cmd_name not in COMMANDS:
            return None
        found: Any = import_module(COMMANDS[cmd_name]).command
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; the error for another one suggests those that there are."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None


@click.group(cls=LateCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="isvc %(version)s")
def isvc() -> None:
    """Serve InferenceServices on Kubernetes or on this machine."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``isvc COMMAND`` and return the exit code; an error is one line on stderr that says what to do."""
    try:
        return isvc.main(argv, "isvc", standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_INVALID
    except click.UsageError as error:
        asked = error.ctx.command_path if error.ctx else _named_in(sys.argv[1:] if argv is None else argv)
        message = error.format_message().replace("\n\t", " ")  # between choices
        return _fail(f"{one_line(message)} See: {asked} --help", EXIT_INVALID)
    except click.ClickException as error:
        return _fail(error.format_message(), EXIT_INVALID)
    except click.Abort:
        return EXIT_INTERRUPTED
    except ModuleNotFoundError as error:
        from isvc.extras import advice

        if (line := advice(error.name)) is None:  # a mistake of ours
            raise
        return _fail(line, EXIT_INVALID)
    except UnicodeError as error:  # of a name or a file that is not UTF-8, where a command does not say which
        return _fail(one_line(f"a text is not UTF-8: {error}"), EXIT_INVALID)
    except OSError as error:
        return _fail(_of_system(error), EXIT_FAILED)
    except OperatorError as error:
        return _fail(str(error), EXIT_FAILED if isinstance(error, _failures()) else EXIT_INVALID)


def _named_in(argv: Sequence[str]) -> str:
    """Return the command that arguments name: Click does not say whose option has a value too many or too few."""
    context = click.Context(isvc, info_name="isvc")
    for name in argv:
        found = context.command.get_command(context, name) if isinstance(context.command, click.Group) else None
        if found is None:
            break
        context = click.Context(found, context, name)
    return context.command_path


def _of_system(error: OSError) -> str:
    """Return what the system refused, and of which file; what is full without a name is the output."""
    if error.filename:
        return one_line(f"{error.filename}: {error.strerror or error}")
    return unwritten(error) if error.errno in _FULL else one_line(error.strerror or str(error))


def _failures() -> tuple[type[OperatorError], ...]:
    """Return the errors of what was asked for correctly, and has failed."""
    from isvc.commands.seen.errors import NoSuchService
    from isvc.dashboard.errors import DashboardFailed
    from isvc.migrate.errors import MigrationFailed
    from isvc.predict.errors import PredictFailed
    from isvc.run.errors import RunFailed
    from isvc.source.errors import NotSeen
    from isvc_operator.kube.errors import KubeError
    from isvc_operator.kube.informer.watching import OlderState

    return RunFailed, MigrationFailed, PredictFailed, KubeError, OlderState, NotSeen, NoSuchService, DashboardFailed


def _fail(message: str, exit_code: int) -> int:
    with suppress(OSError):  # nobody reads it
        sys.stderr.write(f"isvc: {visible(message)}\n")
    return exit_code
