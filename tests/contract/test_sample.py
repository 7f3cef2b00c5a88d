"""The sample that people apply is the first story: in the goldens, and on the pages that show it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "examples" / "bert" / "inferenceservice.yaml").read_text()


def test_the_samples_service_is_the_one_that_is_rendered_in_the_goldens() -> None:
    sample = yaml.safe_load(SAMPLE)
    story = yaml.safe_load((ROOT / "tests" / "golden" / "cases" / "story-bert-from-a-pvc" / "input.yaml").read_text())

    assert (sample["metadata"]["name"], sample["spec"]) == (story["metadata"]["name"], story["spec"])


@pytest.mark.parametrize("page", ["README.md", "docs/first-model.md"])
def test_a_page_shows_the_sample_as_it_is(page: str) -> None:
    assert f"```yaml\n{SAMPLE}```" in (ROOT / page).read_text()
