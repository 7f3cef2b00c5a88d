"""The parts of a pod's spec that are read here, checked as an API server does: so that what reads them may rely on it.

A check returns the value without fields that are null, which are as if they were not there. Other fields pass. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from isvc.run.errors import UnusableInput
from isvc_operator.text import shortened

Check = Callable[[Any, str], Any]

_MOST: Final = 2**31 - 1
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(r"(?!\.\.)(?!\.\Z)[-._a-zA-Z0-9]{1,253}")


def is_key(key: object) -> bool:
    """Whether this may be a key of a ConfigMap or Secret, whose files have the names of the keys."""
    return isinstance(key, str) and _KEY.fullmatch(key) is not None


def pod_spec(value: Any, name: str) -> Any:
    """Return the spec of a pod; raises UnusableInput that begins with ``name`` and names the field."""
    return _POD(value, f"{name}: ")


def container(value: Any, name: str) -> Any:
    """Return a container of a pod; raises UnusableInput that begins with ``name`` and names the field."""
    return _CONTAINER(value, f"{name}: ")


def _wrong(where: str, value: Any, what: str) -> UnusableInput:
    return UnusableInput(f"{where.removesuffix('.')} is {shortened(repr(value), 80)}; {what}")


def _text(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        raise _wrong(where, value, "it has to be a string; put it in quotes")
    return value


def _matching(pattern: re.Pattern[str], what: str) -> Check:
    def check(value: Any, where: str) -> Any:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise _wrong(where, value, f"it has to be {what}")
        return value

    return check


def _one_of(*words: str) -> Check:
    def check(value: Any, where: str) -> Any:
        if value not in words:
            raise _wrong(where, value, f"it has to be {' or '.join(words)}")
        return value

    return check


def _whole(least: int, most: int = _MOST) -> Check:
    def check(value: Any, where: str) -> Any:
        if type(value) is not int or not least <= value <= most:
            raise _wrong(where, value, f"it has to be a whole number from {least} to {most}")
        return value

    return check


def _port(value: Any, where: str) -> Any:
    """Check a port, which may have a name: that of one of the container's."""
    return value if isinstance(value, str) and value else _whole(1, 65535)(value, where)


def _absolute(value: Any, where: str) -> Any:
    if not isinstance(value, str) or not value.startswith("/") or not value.strip("/"):
        raise _wrong(where, value, "it has to be the whole path of a folder, such as /data")
    return value


def _inside(value: Any, where: str) -> Any:
    if not isinstance(value, str) or value.startswith("/") or ".." in value.split("/"):
        raise _wrong(where, value, "it has to be a path inside of the volume, without ..")
    return value


def _each(check: Check, *, least: int = 0) -> Check:
    def check_all(value: Any, where: str) -> Any:
        if not isinstance(value, list | tuple):
            raise _wrong(where, value, "it has to be a list")
        if len(value) < least:
            raise _wrong(where, value, "it has to have an item")
        return [check(item, f"{where.removesuffix('.')}[{number}].") for number, item in enumerate(value)]

    return check_all


def _fields(required: Mapping[str, Check] | None = None, **optional: Check) -> Check:
    checks, needed = {**(required or {}), **optional}, set(required or {})

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, Mapping):
            raise _wrong(where, value, "it has to be a map of fields")
        given = {name: item for name, item in value.items() if item is not None}
        for name in sorted(needed - given.keys()):
            raise UnusableInput(f"{where}{name} is missing; give it a value")
        return {name: checks[name](item, f"{where}{name}.") if name in checks else item for name, item in given.items()}

    return check


_LABEL_NAME = _matching(_LABEL, "a name of small letters, digits and '-'")
_OBJECT_NAME = _matching(_SUBDOMAIN, "the name of an object")
_VARIABLE = _matching(re.compile(r"[^=\0]+"), "the name of a variable")
_REFERENCE = _fields({"name": _OBJECT_NAME, "key": _matching(_KEY, "a key of the object")})
_HEADER = _fields({"name": _matching(re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"), "the name of a header")}, value=_text)
_PROBE = _fields(
    exec=_fields({"command": _each(_text, least=1)}),
    httpGet=_fields(
        {"port": _port}, path=_text, scheme=_one_of("HTTP", "HTTPS"), host=_text, httpHeaders=_each(_HEADER)
    ),
    tcpSocket=_fields({"port": _port}, host=_text),
    grpc=_fields({"port": _whole(1, 65535)}, service=_text),
    initialDelaySeconds=_whole(0),
    periodSeconds=_whole(0),
    timeoutSeconds=_whole(0),
    successThreshold=_whole(0),
    failureThreshold=_whole(0),
)
_CONTAINER = _fields(
    {"name": _LABEL_NAME},
    image=_text,
    command=_each(lambda item, _: item),  # whether these are strings is said with their values
    args=_each(lambda item, _: item),
    workingDir=_text,
    restartPolicy=_text,
    ports=_each(_fields({"containerPort": _whole(1, 65535)}, name=_text)),
    env=_each(
        _fields(
            {"name": _VARIABLE},
            valueFrom=_fields(secretKeyRef=_REFERENCE, configMapKeyRef=_REFERENCE),
        )
    ),
    volumeMounts=_each(_fields({"name": _LABEL_NAME, "mountPath": _absolute}, subPath=_inside)),
    readinessProbe=_PROBE,
    livenessProbe=_PROBE,
    startupProbe=_PROBE,
)
_POD = _fields(
    {"containers": _each(_CONTAINER, least=1)},
    initContainers=_each(_CONTAINER),
    volumes=_each(
        _fields(
            {"name": _LABEL_NAME},
            emptyDir=_fields(),
            persistentVolumeClaim=_fields({"claimName": _OBJECT_NAME}),
            secret=_fields({"secretName": _OBJECT_NAME}),
            configMap=_fields({"name": _OBJECT_NAME}),
            image=_fields({"reference": _text}),
        )
    ),
    terminationGracePeriodSeconds=_whole(0),
)
