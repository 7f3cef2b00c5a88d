"""docs/uninstall.md names every kind of object that the operator may create and that no service owns."""

from __future__ import annotations

import re

import yaml

from isvc_operator.api.kinds import Role, with_role
from tests.support.permissions import granted_by, shipped_roles
from tests.support.source_tree import ROOT

PAGE = (ROOT / "docs/uninstall.md").read_text()


def test_each_kind_that_stays_is_named() -> None:
    (election, _) = yaml.safe_load_all((ROOT / "manifests/ha/lease-role.yaml").read_text())
    children = {kind.plural for kind in with_role(Role.CHILD)}
    created = {resource for _, resource, verb in granted_by(*shipped_roles(), election) if verb == "create"}

    assert created - children == set(re.findall(r"^\| .*?\(`(\w+)`\) \|", PAGE, re.MULTILINE))
