"""Environment variables, volumes and mounts that a container gets in addition to its own."""

from __future__ import annotations

from dataclasses import dataclass

from isvc_operator.manifests import NamedItem, Volume
from isvc_operator.resolve.containers import merge_items


@dataclass(frozen=True)
class Provision:
    """Items of a container (``env``, ``mounts``) and of its pod (``volumes``)."""

    env: tuple[NamedItem, ...] = ()
    volumes: tuple[Volume, ...] = ()
    mounts: tuple[NamedItem, ...] = ()

    def __add__(self, other: Provision) -> Provision:
        """Combine both; of two items with the same name or mount path, the other's wins."""
        return Provision(
            tuple(merge_items(self.env, other.env, "name")),
            tuple(merge_items(self.volumes, other.volumes, "name")),
            tuple(merge_items(self.mounts, other.mounts, "mountPath")),
        )

    def value(self, name: str) -> str:
        """Return the value of a variable; empty if it is not set, or taken from a secret."""
        return next((item.get("value", "") for item in self.env if item["name"] == name), "")


def variable(name: str, value: str) -> NamedItem:
    """Return an environment variable with a value."""
    return {"name": name, "value": value}


def secret_variable(name: str, secret: str, key: str) -> NamedItem:
    """Return an environment variable whose value the kubelet takes from a secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def read_only(volume: Volume, path: str) -> Provision:
    """Return a volume and its read-only mount."""
    return Provision(volumes=(volume,), mounts=({"name": volume["name"], "mountPath": path, "readOnly": True},))
