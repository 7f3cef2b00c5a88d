"""What an upgrade from the last release changes: the pod templates that the changelog lists, and no others."""

from __future__ import annotations

import pytest

from tests.golden.templates import CHANGELOG, changed_paths, deployments, listed_paths, lists, outcomes

CASES = sorted(outcomes())


def test_each_change_of_a_pod_template_is_in_the_changelog() -> None:
    listed = listed_paths(CHANGELOG.read_text())

    unlisted = {path: cases for path, cases in changed_paths().items() if not any(lists(one, path) for one in listed)}
    assert unlisted == {}, 'list these under "### Pod templates" in CHANGELOG.md, or render what was rendered'


def test_the_changelog_lists_no_other_changes() -> None:
    changed = changed_paths()

    assert [one for one in listed_paths(CHANGELOG.read_text()) if not any(lists(one, path) for path in changed)] == []


@pytest.mark.parametrize("name", CASES)
def test_every_service_of_the_last_release_is_served_by_the_same_deployments(name: str) -> None:
    case, outcome = outcomes()[name]
    before, after = (deployments(children) for children in (case.children, outcome.children))

    assert outcome.refused is None
    assert {name: item["spec"]["selector"] for name, item in after.items()} == {
        name: item["spec"]["selector"] for name, item in before.items()
    }, "a selector cannot be changed, and another name replaces the pods"


@pytest.mark.parametrize("name", CASES)
def test_what_was_written_has_the_digest_that_was_recorded(name: str) -> None:
    case, outcome = outcomes()[name]

    assert outcome.inputs == case.inputs, "an upgrade would take this for a change of the service, and roll it"


# --- how the changelog is read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "stands_for_it"),
    [
        ("spec.volumes", "spec.volumes", True),
        ("spec.volumes", "spec.volumes[model].emptyDir", True),
        ("spec.containers[*].env[X]", "spec.containers[kserve-container].env[X].value", True),
        ("spec.containers[*].env[X]", "spec.containers[kserve-container].env[Y]", False),
        ("spec.volume", "spec.volumes", False),
        ("spec.volumes[model]", "spec.volumes", False),
    ],
)
def test_a_listed_path_stands_for_what_is_inside_it(pattern: str, path: str, stands_for_it: bool) -> None:
    assert lists(pattern, path) is stands_for_it
