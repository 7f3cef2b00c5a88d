"""``isvc diff``: what applying files would change in a cluster, and what the operator would then change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from isvc.commands.cluster import ClusterFlags, cluster_flags
from isvc.commands.exit_codes import EXIT_FAILED
from isvc.commands.files import files_argument, read_yaml
from isvc.commands.names import Namespace
from isvc.commands.output import OutputFormat, Style, Styled, output_flag, stderr_note, write_data, write_line

if TYPE_CHECKING:
    from isvc.diff.changes import Change
    from isvc.run.documents import Documents, YamlText
    from isvc.run.place import Located

# What an API server says of a field twice, and that there may be more: that is left out.
_REPEATED = re.compile(r"(?<=: )\S+ in body (?=must|should)")
_MORE = re.compile(r", <nil>: Invalid value: null: some validation rules were not checked[^\]]*")
_STYLES = {"+": Style.OK, "-": Style.ERROR, "@": Style.FAINT, "!": Style.WARNING}


@click.command(short_help="say what applying files would change in a cluster")
@files_argument
@cluster_flags
@click.option(
    "--home",
    default="isvc-system",
    type=Namespace(),
    metavar="NAME",
    help="the operator's own namespace, with inferenceservice-config (default: isvc-system)",
)
@output_flag
def command(*, files: tuple[Path, ...], cluster: ClusterFlags, home: str, output: OutputFormat) -> int:
    """Say what applying FILE would change of services and runtimes, and what the operator would then change.

    FILE is YAML with services and what they are made from; a folder of such files, or - for the standard input. Nothing
    is changed: the API server is asked by dry runs.

    Exit code 0: nothing differs; 1: something does; 2: there is an error.
    """
    import asyncio

    return asyncio.run(_diff(files, cluster, home, output))


async def _diff(files: tuple[Path, ...], cluster: ClusterFlags, home: str, output: OutputFormat) -> int:
    import time

    from isvc.diff.dry_run import DryRun
    from isvc.diff.errors import DiffFailed
    from isvc.run.documents import NO_OBJECT, Documents, ignored_lines
    from isvc.run.errors import UnusableInput
    from isvc.source.errors import NotInstalled
    from isvc_operator.kube.errors import KubeError
    from isvc_operator.kube.objects import ObjectReader
    from isvc_operator.text import one_line

    texts = read_yaml(files)
    if _parsed(texts, cluster.namespace or "default") == Documents():  # before the cluster is asked
        raise UnusableInput(NO_OBJECT)
    changes: list[Change] = []
    notes: list[str] = []
    try:
        async with cluster.connect() as (api, namespace):
            given = _parsed(texts, namespace)
            notes += (one_line(line.text) for line in ignored_lines(given))
            reader = ObjectReader(api, time.monotonic)
            asked = DryRun(api, reader, home, notes)
            async for change in asked.changes(given):
                changes.append(change)
                if output is OutputFormat.TEXT:
                    _write(change)
            _raise(asked.refused, texts)
    except (DiffFailed, KubeError, NotInstalled) as error:
        raise DiffFailed(_REPEATED.sub("", _MORE.sub("", str(error)))) from error
    finally:
        for note in notes:
            stderr_note(note)
    if output is not OutputFormat.TEXT:
        write_data({"differs": bool(changes), "changes": [change.as_data() for change in changes]}, output)
    return EXIT_FAILED if changes else 0


def _parsed(texts: Sequence[YamlText], namespace: str) -> Documents:
    """Return the objects in the files; raises UnusableInput with all that is wrong with them."""
    from isvc.run.documents import read_documents

    given, problems = read_documents(texts, namespace)
    _raise(problems, texts)
    return given


def _raise(problems: Sequence[Located], texts: Sequence[YamlText]) -> None:
    """Raise UnusableInput with all that is wrong, if anything is."""
    from isvc.commands.mistakes import in_plain_words
    from isvc.run.check import CheckFinding, Severity
    from isvc.run.errors import unusable_because

    if problems:
        findings = [CheckFinding(Severity.ERROR, problem.text, problem.place, problem.mistake) for problem in problems]
        raise unusable_because(finding.text for finding in in_plain_words(findings, texts))


def _write(change: Change) -> None:
    if change.lines[0].startswith("!"):
        write_line(Styled(f"{change.kind} {change.namespace}/{change.name} (after {change.actor})", Style.STRONG))
    for number, line in enumerate(change.lines):
        is_head = number < 2 and line.startswith(("---", "+++"))
        style = Style.STRONG if is_head else _STYLES.get(line[:1])
        write_line(Styled(line, style) if style else line)
