"""The flags of `isvc migrate`, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from isvc.commands import main


@pytest.mark.parametrize("flag", ["--timeout=0", "--timeout=571", "--timeout=soon", "--parallel=0", "--parallel=21"])
def test_a_number_beyond_its_bounds_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "apply", flag]) == 2
    assert flag.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a: [", ":1:5: this is not YAML: "),
        ("[]", ": a document is not a Kubernetes object"),
        ("kind: Service", ": a document is not a Kubernetes object"),
        ("{apiVersion: v1, kind: Service, metadata: {generateName: x}}", ": a document is not a Kubernetes object"),
        ("{apiVersion: v1, kind: Service, metadata: x}", ": a document is not a Kubernetes object"),
        ("{apiVersion: v1, kind: [a], metadata: {name: x}}", ": a document is not a Kubernetes object"),
    ],
    ids=["no YAML", "a list", "no metadata", "no name", "text", "no kind"],
)
def test_a_manifest_that_is_no_object_is_refused_with_its_file(
    tmp_path: Path, content: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "operator.yaml"
    file.write_text(content)

    assert main(["migrate", "plan", f"--manifests={file}"]) == 2
    assert capsys.readouterr().err.startswith(f"isvc: {file}{reason}")
