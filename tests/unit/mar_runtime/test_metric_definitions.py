"""Which file defines the metrics that handlers look up, and what it must be."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_plane.model_server.errors import ConfigurationError
from mar_runtime.metrics.definitions import find

GOOD = "model_metrics:\n  gauge:\n    - {name: Confidence, unit: percent, dimensions: [ModelName]}\n"


def test_without_a_word_they_are_torchserves_own(tmp_path: Path) -> None:
    assert find({}, tmp_path) is None
    assert find({"metrics_config": " "}, tmp_path) is None


def test_a_file_is_named_by_its_path_or_from_the_model_directory(tmp_path: Path) -> None:
    file = tmp_path / "config/metrics.yaml"
    file.parent.mkdir()
    file.write_text(GOOD)

    assert find({"metrics_config": str(file)}, Path("/nowhere")) == file
    assert find({"metrics_config": "config/metrics.yaml "}, tmp_path) == file


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        ("a: [", "while parsing a flow node"),
        ("released: 2024-13-45", "month must be in 1..12"),
        ("", "Expected `object`, got `null`"),
        ("ts_metrics: {}", "Object missing required field `model_metrics`"),
        (GOOD.replace("gauge", "guess"), "Invalid enum value 'guess'"),
        (GOOD.replace("unit: percent, ", ""), "Object missing required field `unit`"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, content: str | None, why: str) -> None:
    if content is not None:
        (tmp_path / "metrics.yaml").write_text(content)

    with pytest.raises(ConfigurationError) as raised:
        find({"metrics_config": "metrics.yaml"}, tmp_path)

    assert str(raised.value).startswith("metrics_config in config.properties is 'metrics.yaml', which cannot be used: ")
    assert why in str(raised.value)
