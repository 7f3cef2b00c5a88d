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

# The modules that have a ``command``, in the order in which ``--help`` has them.
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "run": f"{__name__}.run",
        "render": f"{__name__}.render",
        "validate": f"{__name__}.validate",
        "diff": f"{__name__}.diff",
        "predict": f"{__name__}.predict",
        "status": f"{__name__}.status",
        "logs": f"{__name__}.logs",
        "diagnose": f"{__name__}.diagnose",
        "dashboard": f"{__name__}.dashboard",
        "doctor": f"{__name__}.doctor",
        "new": f"{__name__}.new",
        "pack": f"{__name__}.pack",
        "inspect": f"{__name__}.inspect",
        "bench": f"{__name__}.bench",
        "migrate": f"{__name__}.migrate",
        "operator": "isvc_operator.command",
        "completion": f"{__name__}.completion",
    }
)


# A disk that is full, and one that has no more room for this user.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class LateCommands(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's signature
        """Return the names in the order of ``--help``."""
        return list(COMMANDS)

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
@click.version_option(__version__, message="isvc %(version)s")
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
        asked = error.ctx.command_path if error.ctx else "isvc"
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
    except UnicodeError as error:  # of a name or a file that is no UTF-8, where a command does not say which
        return _fail(one_line(f"a text is not UTF-8: {error}"), EXIT_INVALID)
    except OSError as error:
        return _fail(_of_system(error), EXIT_FAILED)
    except OperatorError as error:
        return _fail(str(error), EXIT_FAILED if isinstance(error, _failures()) else EXIT_INVALID)


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
