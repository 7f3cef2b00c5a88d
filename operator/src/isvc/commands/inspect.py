"""``isvc inspect``: say what an archive, a folder or a bucket holds, and what the runtimes would say of it.

The storage-initializer looks, as a process of its own: the two know nothing of each other but this command line, as
when a pod or `isvc run` downloads a model.
"""

from __future__ import annotations

import os
from typing import Any, Final

import click

from isvc.commands.exit_codes import EXIT_FAILED
from isvc.commands.output import OutputFormat, Style, Styled, output_flag, write_data, write_line, write_table
from isvc.run.errors import RunFailed, UnusableInput

_PROGRAM = "storage_initializer.inspection"
_WAYS: Final = {"inputs": "takes", "outputs": "gives"}
_USAGE = (2, 3)  # of its exit codes: the source is not written as one


@click.command(short_help="look into an archive, a folder or a bucket")
@click.argument("source", metavar="SOURCE")
@output_flag
def command(*, source: str, output: OutputFormat) -> int:
    """Say which models, versions and handlers SOURCE holds, and what the runtimes would say of them.

    SOURCE is an archive, a folder as it is on a claim, or a URI: s3://, gs://, hf://, https://. Credentials come from
    the environment, as for the storage-initializer. Of an archive in a bucket only the parts that tell are read.
    """
    if source.startswith("pvc://"):
        raise UnusableInput(f"{source} is a claim of a cluster; name a folder with a copy of it")
    if "://" not in source and not os.path.lexists(source):
        raise UnusableInput(f"{source} does not exist; name an archive, a folder or a URI")
    found = _look(source)
    found["problems"] += [line for line in _without_effect(found) if line not in found["problems"]]
    found["notes"] += _of_one_runtime(found)
    if output is OutputFormat.TEXT:
        _write(found)
    else:
        write_data(found, output)
    return EXIT_FAILED if found["problems"] else 0


def _look(source: str) -> dict[str, Any]:
    import json
    import subprocess
    import sys

    from isvc.extras import advice
    from isvc.view.headlines import missing_module

    # -P: the working folder may be what is inspected, and a stranger's.
    done = subprocess.run([sys.executable, "-P", "-m", _PROGRAM, "--", source], capture_output=True, check=False)
    if done.returncode:
        message = (done.stderr.decode(errors="replace").strip().splitlines() or ["no reason was given"])[-1]
        if line := advice(missing_module(message)):
            raise UnusableInput(f"{source}: {line}")
        raise (UnusableInput if done.returncode in _USAGE else RunFailed)(message)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _without_effect(found: dict[str, Any]) -> list[str]:
    from isvc.commands.settings import without_effect

    archives = [archive for archive in found["archives"] if "settings" in archive]
    is_folder = any(map(_is_folder, found["archives"]))
    named = {archive["configFile"] if _is_folder(archive) else archive["path"]: archive for archive in archives}
    settings = {name: archive["settings"] for name, archive in named.items()}
    return without_effect(found["configuration"] or {}, settings, is_folder=is_folder)


def _of_one_runtime(found: dict[str, Any]) -> list[str]:
    from isvc.commands.settings import of_one_runtime

    is_folder = any(map(_is_folder, found["archives"]))
    return of_one_runtime(found["configuration"] or {}, found["problems"], is_folder=is_folder)


def _is_folder(archive: dict[str, Any]) -> bool:
    return bool(archive["path"] == ".")


def _write(found: dict[str, Any]) -> None:
    from model_archive.text import format_size

    settings = found["configuration"]
    files = "1 file" if found["files"] == 1 else f"{found['files']} files"
    write_line(Styled(found["source"], Style.STRONG), f"{files}, {format_size(found['bytes'])}")
    archives = found["archives"]
    is_folder = bool(archives) and _is_folder(archives[0])
    if settings is not None:
        file = "config.properties" if is_folder else "config/config.properties"
        write_line(f"{file}: {', '.join(settings) or 'no setting'}")
    if is_folder and "model" not in archives[0]:
        _write_folder(archives[0])
    elif archives:
        write_line("")
        header = ["ARCHIVE", "MODEL", "VERSION", "HANDLER", "SIZE", "UNPACKED", "SERVED", "REQUIREMENTS"]
        write_table(header, [_row(archive, format_size) for archive in archives])
    if models := found["models"]:
        write_line("")
        rows = [[model["path"], format_size(model["bytes"]), model["format"] or "?"] for model in models]
        write_table(["MODEL FILE", "SIZE", "FORMAT"], rows)
    if tensors := [_tensor(model, way, each) for model in models for way in _WAYS for each in model.get(way, ())]:
        write_line("")
        write_table(["MODEL FILE", "", "TENSOR", "DATATYPE", "SHAPE"], tensors)
    if found["problems"] or found["notes"]:
        write_line("")
    for problem in found["problems"]:
        write_line(Styled("problem:", Style.ERROR), problem)
    for note in found["notes"]:
        write_line("note:", note)


def _write_folder(found: dict[str, Any]) -> None:
    """Print what is found in a folder with a handler, which has the name of its service."""
    what = {
        "handler": found.get("entry", "handler"),
        "serializedFile": "weights",
        "modelFile": "network",
        "configFile": "settings",
        "requirementsFile": f"requirements: {', '.join(found['requirements']) or 'none'}",
    }
    if rows := [[found[name], words] for name, words in what.items() if name in found]:
        write_line("")
        write_table(["FILE", "FOUND AS"], rows)


def _tensor(model: dict[str, Any], way: str, tensor: dict[str, Any]) -> list[str]:
    shape = "?" if tensor["shape"] is None else str(tensor["shape"])
    return [model["path"], _WAYS[way], tensor["name"], tensor["datatype"] or "?", shape]


def _row(archive: dict[str, Any], format_size: Any) -> list[str]:
    return [
        archive["path"],
        archive.get("model", "?"),
        archive.get("version", "?"),
        archive.get("handler", "?"),
        format_size(archive["bytes"]),
        format_size(archive["unpackedBytes"]) if archive["files"] else "?",
        "yes" if archive["served"] else "no",
        ", ".join(archive["requirements"]) or "none",
    ]
