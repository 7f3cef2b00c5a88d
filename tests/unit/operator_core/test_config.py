"""The operator's configuration: KServe's ConfigMap, its keys and ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from isvc_operator.config import OperatorConfig, parse_config

ROOT = Path(__file__).parents[3]
# The chart's is a template around that of base/.
SHIPPED = sorted(path for path in (ROOT / "manifests").glob("**/config.yaml") if "templates" not in path.parts)


def test_no_key_at_all_gives_the_defaults() -> None:
    assert parse_config({}) == OperatorConfig()


@pytest.mark.parametrize(
    ("written", "read"), [("1", "1"), ("0.5", "0.5"), ("2e-1", "0.2"), ('"500m"', "500m"), ("null", "1")]
)
def test_a_quantity_may_be_a_number_and_null_is_the_default(written: str, read: str) -> None:
    config = parse_config({"storageInitializer": f'{{"cpuLimit": {written}}}'})

    assert config.storage_initializer.cpu_limit == read


def test_a_cache_may_have_its_size_in_bytes() -> None:
    config = parse_config({"storageInitializer": '{"cache": {"hostPath": "/cache", "maxSize": 2e9}}'})

    assert config.storage_initializer.cache is not None
    assert config.storage_initializer.cache.max_bytes == 2_000_000_000


@pytest.mark.parametrize("path", SHIPPED, ids=[str(path.relative_to(ROOT)) for path in SHIPPED])
def test_the_configurations_that_are_shipped_can_be_used(path: Path) -> None:
    data = yaml.safe_load(path.read_text())["data"]

    assert parse_config(data).ingress.ingress_domain == "example.com"


def test_what_is_shipped_for_any_cluster_are_the_defaults() -> None:
    data = yaml.safe_load((ROOT / "manifests" / "base" / "config.yaml").read_text())["data"]

    assert parse_config(data) == OperatorConfig()
