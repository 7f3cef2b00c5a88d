"""Services, runtimes and the ConfigMap as KServe's documentation has them; makes docs/compatibility.md.

`--rewrite-goldens` writes the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isvc_operator.api.parsing import parse_serving_runtime
from tests.contract.effects import Effect, Field, fields_of, fields_of_config_map
from tests.support.outcomes import Manifest, outcome_of
from tests.support.yaml_files import documents

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "compatibility.md"
SHIPPED = HERE.parents[1] / "manifests" / "runtimes"

HEAD = """\
# Compatibility with KServe, field by field

This page shows what the operator does with every field that KServe's samples and documentation use.
`tests/contract/test_samples.py` writes it: it renders services with these fields and with KServe's runtimes beside
ours, removes each field once, and compares the results.

- **supported**: the rendered objects change, or the value is what the operator does anyway.
- **supported differently**: the rendered objects change, and `FieldsIgnored` says how they differ from KServe's.
- **reported as not supported**: `FieldsIgnored` names the field; for the ConfigMap, an Event and the operator's log do.

No field is ignored silently. `tests/contract/test_every_field.py` shows the same for all fields of the API.
"""


SERVICES = [
    {**item, "metadata": {**item["metadata"], "namespace": "default"}}
    for item in documents(HERE / "samples" / "services.yaml")
]
RUNTIMES = documents(HERE / "samples" / "runtimes.yaml")
CONFIG_MAP = documents(HERE / "samples" / "config.yaml")[0]
OURS = [item for path in sorted(SHIPPED.glob("*.yaml")) for item in documents(path) if item["kind"] != "Kustomization"]
STORAGE = documents(HERE / "samples" / "storage.yaml")
# Ours are installed over KServe's of the same name.
INSTALLED = [*map(parse_serving_runtime, {item["metadata"]["name"]: item for item in (*RUNTIMES, *OURS)}.values())]


@pytest.fixture(scope="module")
def refused() -> dict[str, str]:
    outcomes = {item["metadata"]["name"]: outcome_of([item, *STORAGE], INSTALLED) for item in SERVICES}
    return {name: outcome.refused for name, outcome in outcomes.items() if outcome.refused}


@pytest.fixture(scope="module")
def fields(refused: dict[str, str]) -> list[Field]:
    served = [item for item in SERVICES if item["metadata"]["name"] not in refused]
    return [field for service in served for field in fields_of(service, STORAGE, INSTALLED)]


@pytest.fixture(scope="module")
def fields_of_runtimes() -> list[Field]:
    return [field for runtime in RUNTIMES for field in fields_of_runtime(runtime)]


def test_no_field_of_a_sample_is_silent(fields: list[Field], fields_of_runtimes: list[Field]) -> None:
    assert [field for field in (*fields, *fields_of_runtimes) if field.effect is Effect.SILENT] == []


def test_the_page_says_what_becomes_of_each_field(
    fields: list[Field],
    fields_of_runtimes: list[Field],
    refused: dict[str, str],
    request: pytest.FixtureRequest,
) -> None:
    page = "\n".join(page_of(fields, fields_of_runtimes, refused))

    if request.config.getoption("--rewrite-goldens"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page


def page_of(fields: list[Field], fields_of_runtimes: list[Field], refused: dict[str, str]) -> Iterator[str]:
    yield HEAD
    served = len(SERVICES) - len(refused)
    yield f"## Services\n\n{served} of {len(SERVICES)} services are served. The others are refused:\n"
    yield "| service | message |\n|---|---|"
    yield from (f"| {name} | {cell(message)} |" for name, message in refused.items())
    yield "\n| field | services | result |\n|---|---|---|"
    yield from rows(fields)
    yield "\n## Runtimes\n\n| field | runtimes | result |\n|---|---|---|"
    yield from rows(fields_of_runtimes)
    yield "\n## The ConfigMap `inferenceservice-config`\n\n| field | | result |\n|---|---|---|"
    yield from rows(fields_of_config_map(CONFIG_MAP["data"]))
    yield ""


def fields_of_runtime(runtime: Manifest) -> Iterator[Field]:
    """Yield what becomes of the fields of a runtime for a service that names it; the choice of one needs no runtime."""
    model: dict[str, Any] = {"runtime": runtime["metadata"]["name"], "storageUri": "gs://models/model"}
    model["modelFormat"] = {"name": runtime["spec"]["supportedModelFormats"][0]["name"]}
    service = {
        **SERVICES[0],
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": {"predictor": {"model": model}},
    }
    if outcome_of([service, runtime]).refused is None:
        kept = {
            name: value
            for name, value in runtime["spec"].items()
            if name not in ("supportedModelFormats", "protocolVersions")
        }
        yield from fields_of({**runtime, "spec": {**kept, "supportedModelFormats": [model["modelFormat"]]}}, [service])


def rows(fields: Iterable[Field]) -> Iterator[str]:
    """Yield a row for each path; a path with several effects has them all."""
    by_path: defaultdict[str, dict[str, None]] = defaultdict(dict)
    count: defaultdict[str, int] = defaultdict(int)
    for field in fields:
        count[field.path] += 1
        by_path[field.path][f"{field.effect}{f': {field.said}' if field.said else ''}"] = None
    for path in sorted(by_path):
        yield f"| `{path}` | {count[path]} | {'<br>'.join(cell(text) for text in sorted(by_path[path]))} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
