"""What the commands that read YAML say to somebody who has mistyped: the place once, and what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isvc.commands import main

SERVICE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {{name: {name}{metadata}}}
spec:
  predictor:
    {predictor}
    model:
      modelFormat: {{name: pytorch}}
      storageUri: pvc://models
      {model}
"""
RUNTIME = """
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata: {name: mine}
spec:
  supportedModelFormats: [{name: abc, version: "1"}]
  containers: [{name: kserve-container, image: x, resources: {limit: {cpu: 1}}}]
"""


def written(*, name: str = "first", metadata: str = "", predictor: str = "", model: str = "") -> str:
    return SERVICE.format(name=name, metadata=metadata, predictor=predictor, model=model)


@pytest.fixture
def validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what `isvc validate` prints of files, which are called a.yaml, b.yaml, …"""
    monkeypatch.chdir(tmp_path)

    def validate(*contents: str) -> list[str]:
        files = [f"{letter}.yaml" for letter, _ in zip("abcdef", contents, strict=False)]
        for file, content in zip(files, contents, strict=True):
            Path(file).write_text(content)
        main(["validate", *files])
        return capsys.readouterr().out.splitlines()

    return validate


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"model": "env: [{name: A, value: 3}]"},
         'spec.predictor.model.env[0].value: must be of type string, not integer; write "3"'),
        ({"model": "env: [{name: A, value: yes}]"},
         'spec.predictor.model.env[0].value: must be of type string, not boolean; write "yes"'),
        ({"model": "env: {A: b}"},
         "spec.predictor.model.env: must be of type array, not object; write a list, with a dash before each item"),
        ({"model": "args: --fast"}, 'spec.predictor.model.args: must be of type array, not string; write ["--fast"]'),
        ({"model": 'ports: [{containerPort: "80"}]'},
         "spec.predictor.model.ports[0].containerPort: must be of type integer; write 80, without quotes"),
        ({"model": "resources: {limits: {cpu: 2 cores}}"},
         'spec.predictor.model.resources.limits.cpu: Invalid value: "2 cores": not a quantity; write one such as 500m '
         "or 2Gi"),
        ({"model": "lifecycle: {postStart: {exec: sleep}}"},
         "spec.predictor.model.lifecycle.postStart.exec: must be of type object, not string; write its fields, each as "
         "NAME: VALUE"),
        ({"model": "env: [A]"},
         "spec.predictor.model.env[0]: must be of type object, not string; write it as {name: A, …}"),
        ({"model": "env: [A=1]"},
         "spec.predictor.model.env[0]: must be of type object, not string; write its fields, each as NAME: VALUE"),
        ({"model": "envFrom: [{secretRef: keys}]"},
         "spec.predictor.model.envFrom[0].secretRef: must be of type object, not string; write it as {name: keys}"),
        ({"predictor": 'minReplicas: "1"'},
         "spec.predictor.minReplicas: must be of type integer, not string; write 1, without quotes"),
        ({"predictor": "minReplicas: 1.5"},
         "spec.predictor.minReplicas: must be of type integer, not number; write a whole number"),
        ({"predictor": 'hostIPC: "True"'},
         "spec.predictor.hostIPC: must be of type boolean, not string; write true, without quotes"),
        ({"predictor": "hostIPC: maybe"},
         "spec.predictor.hostIPC: must be of type boolean, not string; write true or false"),
        ({"predictor": "containers: {name: kserve-container}"},
         "spec.predictor.containers: must be of type array, not object; write a list, with a dash before each item"),
        ({"predictor": "labels: [a]"},
         "spec.predictor.labels: must be of type object, not array; write its fields without dashes"),
        ({"predictor": "scaleMetric: cpuu"},
         'spec.predictor.scaleMetric: Unsupported value: "cpuu" (did you mean cpu?): supported values: "cpu", '
         '"memory", "concurrency", "rps"'),
        ({"predictor": "name: A"},
         "spec.predictor.name: Invalid value: \"A\": should match '^[a-z]([-a-z0-9]*[a-z0-9])?$'"),
        ({"predictor": "minReplicas: 2\n    maxReplicas: 1"},
         "spec.predictor.minReplicas: greater than maxReplicas; raise maxReplicas or lower minReplicas"),
        ({"metadata": ", labels: {a: 1}"}, 'metadata.labels.a: must be of type string; write "1"'),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_line_with_its_field_once_and_what_to_write(
    validated: Any, parts: dict[str, str], said: str
) -> None:
    lines = validated(written(**parts))

    assert [line.removeprefix("error: ").removeprefix("a.yaml: ") for line in lines] == [
        f"InferenceService first: {said}"
    ]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"model": "resources: {limit: {cpu: 1}}"}, ["model.resources.limit: unknown field (did you mean limits?)"]),
        ({"model": "env: [{name: A, vale: b}, {name: B, vale: c}]"},
         ["model.env[0].vale: unknown field (did you mean value?)",
          "model.env[1].vale: unknown field (did you mean value?)"]),
        ({"model": "env: [{name: A, value: b, type: c}]"}, ["model.env[0].type: unknown field"]),
        ({"model": "readinessProbe: {htpGet: {path: /}}"},
         ["model.readinessProbe.htpGet: unknown field (did you mean httpGet?)"]),
        ({"predictor": "securityContext: {runAsUsr: 1}"},
         ["securityContext.runAsUsr: unknown field (did you mean runAsUser?)"]),
        ({"predictor": "containers: [{name: other, image: x, env: [{nme: A}]}]"},
         ["containers[0].env[0].nme: unknown field (did you mean name?)"]),
        ({"predictor": "topologySpreadConstraints: [{maxSkw: 1, topologyKey: a}]"},
         ["topologySpreadConstraints[0].maxSkw: unknown field (did you mean maxSkew?)",
          "topologySpreadConstraints[0].whenUnsatisfiable: Required value"]),
    ],
)  # fmt: skip
def test_a_misspelt_field_of_kubernetes_own_types_is_named_as_in_the_service(
    validated: Any, parts: dict[str, str], said: list[str]
) -> None:
    lines = validated(written(**parts))

    assert [line.removeprefix("error: ").removeprefix("a.yaml: ") for line in lines] == [
        f"InferenceService first: spec.predictor.{one}" for one in said
    ]


def test_a_misspelt_field_of_a_runtime_and_of_a_secret_is_found_as_well(validated: Any) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringdata: {a: b}\n"

    assert validated(f"{written()}---{RUNTIME}---\n{secret}") == [
        "error: a.yaml: Secret keys: stringdata: unknown field (did you mean stringData?)",
        "error: ClusterServingRuntime mine: spec.containers[0].resources.limit: unknown field (did you mean limits?)",
    ]


def test_what_is_missing_because_its_name_is_misspelt_is_said_once(validated: Any) -> None:
    assert validated(written().replace("predictor:", "predictr:")) == [
        "error: a.yaml: InferenceService first: spec.predictr: unknown field (did you mean predictor?)"
    ]


HEAD = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: first}\n"
MODEL = "modelFormat: {name: pytorch}, storageUri: pvc://models"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (f"spec:\n  predictor:\n  model: {{{MODEL}}}\n",
         ["error: spec.predictor: it is empty; indent model under it"]),
        (f"spec:\npredictor: {{model: {{{MODEL}}}}}\n", ["error: spec: it is empty; indent predictor under it"]),
        ("spec:\n  predictor:\n", ["error: spec.predictor: it is empty; indent its fields under it"]),
        (f"spec: {{predictor: {{{MODEL}}}}}\n",
         ["error: spec.predictor.modelFormat: unknown field (it belongs in spec.predictor.model)",
          "error: spec.predictor.storageUri: unknown field (it belongs in spec.predictor.model)"]),
        ("spec: {containers: [{image: a}]}\n",
         ["error: spec.predictor: Required value",
          "error: spec.containers: unknown field (it belongs in spec.predictor)"]),
        ("spec: {predictor: {pytorch: {storageUri: pvc://m}, protocolVersion: v1}}\n",
         ["no effect: spec.predictor.protocolVersion (it belongs in spec.predictor.pytorch)"]),
        (f"spec: {{predictor: {{model: {{{MODEL}, minReplicas: 1}}}}}}\n",
         ["no effect: spec.predictor.model.minReplicas (it belongs in spec.predictor)"]),
        (f"spec: {{minReplicas: 1, predictor: {{model: {{{MODEL}}}}}, transformer: {{containers: [{{image: a}}]}}}}\n",
         ["no effect: spec.minReplicas"]),
    ],
)  # fmt: skip
def test_a_field_one_level_too_deep_or_too_high_is_told_where_it_belongs(
    validated: Any, written: str, said: list[str]
) -> None:
    lines = validated(HEAD + written)

    assert [line.replace("a.yaml: ", "").replace("InferenceService first: ", "") for line in lines] == said


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("https:/user:secret@host/m", "error: InferenceService first: storageUri 'https:/…@host/m' has other slashes "
         "than a URI; write https://…"),
        ("my-bucket/m", "missing: InferenceService first: storageUri 'my-bucket/m' (it has no scheme, so it "
         "is a path in the image of the storage-initializer; for another place, write pvc://CLAIM/PATH, "
         "s3://BUCKET/PATH or the like)"),
        ("/models/m", "note: InferenceService first: storageUri '/models/m' is a path in the container of the "
         "storage-initializer, which has no files of this machine; for a cluster, copy the model to a claim or a "
         "bucket, and name that"),
    ],
)  # fmt: skip
def test_a_uri_without_its_scheme_is_told_before_anything_starts(validated: Any, uri: str, said: str) -> None:
    assert validated(written().replace("pvc://models", uri)) == [said]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"name": "My_Model", "predictor": "minReplicas: 2\n    maxReplicas: 1"},
         ["metadata.name: the name of an InferenceService must",
          "spec.predictor.minReplicas: greater than maxReplic"]),
        ({"name": "My_Model", "predictor": "minReplicas: x"},
         ["spec.predictor.minReplicas: must be of type integer",
          "metadata.name: the name of an InferenceService must"]),
        ({"model": "env: [{name: A, value: 3}, {name: B, value: 4}]"},
         ["spec.predictor.model.env[0].value: must be", "spec.predictor.model.env[1].value: must be"]),
        ({"predictor": "logger: {url: message-dumper}"}, ["spec.predictor.logger.mode: Required value"]),
    ],
)  # fmt: skip
def test_all_that_is_wrong_with_a_refused_service_is_told_in_one_round(
    validated: Any, parts: dict[str, str], said: list[str]
) -> None:
    of_model = f"{parts.get('model', '')}\n      protocolVersion: v3"
    of_predictor = f"{parts.get('predictor', '')}\n    batcher: {{maxBatchsize: 3}}"

    lines = validated(written(**{**parts, "model": of_model, "predictor": of_predictor}))

    name = f"InferenceService {parts.get('name', 'first')}: "
    expected = [
        *said,
        "no runtime serves model format 'pytorch' with protocol v3; available:",
        "spec.predictor.batcher.maxBatchsize (did you mean maxBatchSize?)",
    ]
    found = [line.partition(name)[2] for line in lines]
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


def test_a_misspelt_field_has_no_effect_whatever_else_is_refused(validated: Any) -> None:
    misspelt = "no effect: InferenceService first: spec.predictor.minReplica (did you mean minReplicas?)"

    alone = validated(written(predictor="minReplica: 1"))
    beside = validated(written(predictor="minReplica: 1", model="env: [{name: A, value: 3}]"))

    assert (alone, beside[1:]) == ([misspelt], [misspelt])
    assert beside[0].startswith("error: a.yaml: InferenceService first: spec.predictor.model.env[0].value: must be")


@pytest.mark.parametrize("containers", ["3", "[a]", "{name: a}"])
def test_a_field_at_a_wrong_place_has_no_effect_whatever_its_type(validated: Any, containers: str) -> None:
    assert validated(written(model=f"containers: {containers}")) == [
        "no effect: InferenceService first: spec.predictor.model.containers (it belongs in spec.predictor)"
    ]


def test_what_follows_from_a_refused_value_is_not_told(validated: Any) -> None:
    assert validated(written().replace("{name: pytorch}", "pytorch")) == [
        "error: a.yaml: InferenceService first: spec.predictor.model.modelFormat: must be of type object, not string; "
        "write it as {name: pytorch}"
    ]


def test_amounts_that_nobody_means_are_noted_with_what_may_be_meant(validated: Any) -> None:
    amounts = "resources: {limits: {cpu: 100M, memory: 512m}, requests: {memory: 0.1}}"

    where = "note: InferenceService first: spec.predictor.model.resources."
    assert validated(written(model=amounts)) == [
        f"{where}limits.cpu: 100M is 100000000 CPUs; write 100m for thousandths of one",
        f"{where}limits.memory: 512m is 0.512 bytes; write 512Mi if that is meant",
        f"{where}requests.memory: 0.1 is 0.1 bytes; write 0.1Gi if that is meant",
    ]


def test_a_model_whose_field_is_misspelt_and_a_name_that_is_none_are_one_mistake_each(validated: Any) -> None:
    assert validated(written().replace("model:\n", "modle:\n"), written(name="Second")) == [
        "error: a.yaml: InferenceService first: spec.predictor.modle: unknown field (did you mean model?)",
        "error: b.yaml: InferenceService Second: metadata.name: the name of an InferenceService must start with a "
        "letter and contain only lower-case letters, digits and '-', because Services are named after it; rename the "
        "InferenceService",
    ]


def test_a_service_whose_runtime_in_the_files_is_refused_has_no_mistake_of_its_own(validated: Any) -> None:
    broken = RUNTIME.replace("image: x, resources: {limit: {cpu: 1}}", "image: [x]")

    assert validated(f"{written().replace('name: pytorch', 'name: abc')}---{broken}") == [
        "error: a.yaml: ClusterServingRuntime mine: spec.containers[0].image: must be of type string"
    ]


def test_a_mistake_in_a_runtime_is_not_one_of_the_services_that_it_serves(validated: Any) -> None:
    of_runtime = RUNTIME.replace("resources: {limit: {cpu: 1}}", "command: [serve, --port=80], workingDir: [/data]")
    of_runtime = of_runtime.replace("spec:", "spec:\n  protocolVersions: [v1]")
    service = written(model="runtime: mine").replace("name: pytorch", 'name: abc, version: "1"')

    assert validated(f"{service}---{of_runtime}") == [
        "error: ClusterServingRuntime mine: spec.containers[0].workingDir: must be of type string, not array"
    ]


def test_a_name_that_would_move_the_cursor_is_escaped(validated: Any) -> None:
    (line,) = validated(written(model='env: [{name: A, "b\\x1b[31m": c}]'))

    assert line == "error: InferenceService first: spec.predictor.model.env[0].b\\x1b[31m: unknown field"


def test_a_file_of_shared_parts_within_parts_is_read_in_time(validated: Any) -> None:
    """Each list has the one before it ten times; written out, there would be 10^9 values."""
    lists = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10))

    lines = validated(f"{written(predictor='minReplicas: x')}---\nkind: Secret\nl0: &l0 [a]\n{lists}\n")

    assert [line.split(": ")[1:3] for line in lines] == [
        ["a.yaml", "InferenceService first"],
        ["a.yaml", "l9[9][9][9][9][9][0][5][6][0]"],
    ]


def test_diff_says_all_that_is_wrong_with_files_before_it_asks_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(written(predictor='minReplicas: "1"'))
    Path("b.yaml").write_text(written(name="second", predictor="containers: [{name: other, env: [{nme: A}]}]"))

    assert main(["diff", "a.yaml", "b.yaml"]) == 2

    assert capsys.readouterr().err == (
        "isvc: a.yaml: InferenceService first: spec.predictor.minReplicas: must be of type integer; write 1, without "
        "quotes\n"
        "isvc: b.yaml: InferenceService second: spec.predictor.containers[0].env[0].nme: unknown field (did you mean "
        "name?)\n"
    )


def test_with_several_files_each_line_names_its_own(validated: Any) -> None:
    unserved = written(name="second", model="runtime: absent")
    ignored = written(name="third", predictor="minReplica: 1")

    assert [line.partition("absent")[0] for line in validated(written(), unserved, ignored)] == [
        "no effect: c.yaml: InferenceService third: spec.predictor.minReplica (did you mean minReplicas?)",
        "error: b.yaml: InferenceService second: runtime '",
    ]
