"""The table of kinds has every kind that is rendered, and that the CRDs define."""

from __future__ import annotations

from pathlib import Path

from isvc.crds import RESOURCES
from isvc_operator.api.kinds import Role, with_role
from tests.support.yaml_files import documents

GOLDENS = Path(__file__).parents[1] / "golden" / "cases"


def test_what_is_rendered_are_the_child_kinds_of_the_table() -> None:
    """A rendered kind without a row would be neither watched nor pruned; a row without a golden case is untested."""
    rendered = {
        (child["apiVersion"], child["kind"]) for file in GOLDENS.glob("*/children.yaml") for child in documents(file)
    }

    assert rendered == {(kind.api_version, kind.name) for kind in with_role(Role.CHILD)}


def test_the_custom_resources_are_those_of_the_table() -> None:
    defined = {(item.kind, item.version, item.plural, item.scope == "Namespaced") for item in RESOURCES}

    assert defined == {
        (kind.name, kind.version, kind.plural, kind.namespaced) for kind in with_role(Role.SERVICE, Role.INPUT)
    }


def test_what_kserve_makes_as_well_is_marked() -> None:
    """`isvc migrate back` deletes the others, which KServe's controller would leave behind."""
    made = {kind.name for kind in with_role(Role.CHILD) if kind.made_by_kserve}

    assert made == {"Deployment", "Service", "Ingress", "HTTPRoute", "HorizontalPodAutoscaler", "ScaledObject"}
