"""What a container is given beside its own fields: variables, volumes, and the places where they are mounted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isvc_operator.resolve.containers import merge_items

Item = Mapping[str, Any]


@dataclass(frozen=True)
class Provision:
    """Items of a container (``env``, ``mounts``) and of its pod (``volumes``)."""

    env: tuple[Item, ...] = ()
    volumes: tuple[Item, ...] = ()
    mounts: tuple[Item, ...] = ()

    def __add__(self, other: Provision) -> Provision:
        """Both; where both have an item of the same name or place, the other's."""
        return Provision(
            tuple(merge_items(self.env, other.env, "name")),
            tuple(merge_items(self.volumes, other.volumes, "name")),
            tuple(merge_items(self.mounts, other.mounts, "mountPath")),
        )

    def value(self, name: str) -> str:
        """The text of a variable; empty where it has none, or none that is written here."""
        return next((item.get("value", "") for item in self.env if item["name"] == name), "")


def variable(name: str, value: str) -> Item:
    """A variable with its text."""
    return {"name": name, "value": value}


def secret_variable(name: str, secret: str, key: str) -> Item:
    """A variable whose text the kubelet takes from a secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def read_only(volume: Item, path: str) -> Provision:
    """A volume and its mount."""
    return Provision(volumes=(volume,), mounts=({"name": volume["name"], "mountPath": path, "readOnly": True},))
