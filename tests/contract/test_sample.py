"""The sample that people apply is the story that the goldens pin."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_the_samples_service_is_the_one_that_is_rendered_in_the_goldens() -> None:
    sample = yaml.safe_load((ROOT / "examples" / "bert" / "inferenceservice.yaml").read_text())
    story = yaml.safe_load((ROOT / "tests" / "golden" / "cases" / "story-bert-from-a-pvc" / "input.yaml").read_text())

    assert (sample["metadata"]["name"], sample["spec"]) == (story["metadata"]["name"], story["spec"])
