"""What is wrong with a file that is not a kubeconfig: of most of that, the Kubernetes client says what Python says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from isvc.limits import KUBECONFIG_BYTES
from isvc_operator.kube.credentials import unusable_kubeconfig

# The lists of a kubeconfig, and what each of their items has beside its name.
_LISTS: Final = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))


def check_kubeconfig(paths: str, context: str | None = None) -> None:
    """Raise ConfigError if none of the paths exists, for a file that is not a kubeconfig, and for a missing plugin.

    Several are separated as on PATH; as with kubectl, those that exist are read. Without the plugin of its user, or
    without the user, the client would ask without credentials, and be refused for other reasons.
    """
    named = [path for path in paths.split(os.pathsep) if path]
    found = [path for path in named if _expanded(path).exists()]
    if not found:
        raise unusable_kubeconfig(paths, "it does not exist" if len(named) == 1 else "none of these files exists")
    configs = []
    for path in found:
        config, problem = _read(_expanded(path))
        if problem:
            raise unusable_kubeconfig(paths, problem if len(named) == 1 else f"{path}: {problem}")
        configs.append(config)
    if problem := _problem_of_user(configs, context):
        raise unusable_kubeconfig(paths, problem)


def _expanded(path: str) -> Path:
    """Return the path with its user's folder, if there is one: a pod's user may have none."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path's raises RuntimeError


def _problem_of_user(configs: Sequence[Mapping[str, Any]], context: str | None) -> str | None:
    """Say what is missing of the user of a context, or of the current one. Of several files, the first one counts."""
    chosen = context or next((config["current-context"] for config in configs if config.get("current-context")), None)
    found = _item(configs, "contexts", chosen)
    name = (found.get("context") or {}).get("user") if found else None
    if not name:
        return None
    user = _item(configs, "users", name)
    if user is None:
        return f"the user {name} of the context {chosen} is not in it"
    plugin = (user.get("user") or {}).get("exec")
    command = plugin.get("command") if isinstance(plugin, Mapping) else None
    if isinstance(command, str) and not shutil.which(command):
        return f"the program {command}, which has the credentials of user {name}, is not on PATH: install it"
    return None


def _item(configs: Sequence[Mapping[str, Any]], name: str, wanted: object) -> Mapping[str, Any] | None:
    return next((item for config in configs for item in config.get(name) or () if item["name"] == wanted), None)


def _read(path: Path) -> tuple[Any, str | None]:
    """Return what a file has, and what is wrong with it."""
    try:
        with path.open("rb") as file:
            content = file.read(KUBECONFIG_BYTES + 1)
        if len(content) > KUBECONFIG_BYTES:
            return None, f"it has more than {KUBECONFIG_BYTES} bytes"
        config = yaml.safe_load(content.decode())
    except OSError as error:
        return None, f"it cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return None, "it is not UTF-8 text"
    except (yaml.YAMLError, ValueError, LookupError, RecursionError) as error:  # also of Python's own types
        mark = getattr(error, "problem_mark", None)
        return None, "it is not YAML" + (f": line {mark.line + 1} cannot be read" if mark else "")
    if not content.strip():
        return None, "it is empty"
    return config, next(_problems_of(config), None)


def _problems_of(config: Any) -> Iterator[str]:
    if not isinstance(config, Mapping):
        yield "it has no fields such as clusters and contexts"
        return
    for name, part in _LISTS:
        items = config.get(name) or []
        if not isinstance(items, list):
            yield f"{name} is not a list"
            return
        for item in items:
            if not (isinstance(item, Mapping) and isinstance(item.get("name"), str)):
                yield f"an item of {name} has no name"
            elif not isinstance(item.get(part) or {}, Mapping):
                yield f"{name}: {part} of {item['name']} has no fields"
            elif part == "cluster" and not _is_url((item.get(part) or {}).get("server")):
                yield f"{name}: the server of {item['name']} is not a URL such as https://10.0.0.1:6443"


def _is_url(server: object) -> bool:
    try:
        parts = urlsplit(server) if isinstance(server, str) else None
        return bool(parts and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:
        return False
