"""The template forms in hosts and containers (docs/kserve.md)."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.placeholders import fill, fill_container, values_of
from tests.support.builders import a_service

SERVICE = a_service(
    labels={"tier": "gold", "example.com/team": "vision", "html": "a&b+<c>"},
    annotations={"note": "hello", "nested": "{{ .Name }}"},
)
VALUES = values_of(SERVICE.metadata)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{ .Name }}", "torchserve"),
        ("{{.Name}}", "torchserve"),
        ("{{- .Name -}}", "torchserve"),
        ("--model_name={{.Name}} --in={{.Namespace}}", "--model_name=torchserve --in=models"),
        ("{{.Labels.tier}}", "gold"),
        ("{{ .Labels.example.com/team }}", "vision"),
        ("{{.Annotations.note}}", "hello"),
        ('{{ index .Labels "tier" }}', "gold"),
        ('{{index .Labels "example.com/team"}}', "vision"),
        ("{{- index .Annotations `note` -}}", "hello"),
    ],
)
def test_a_form_is_replaced_by_its_value(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


@pytest.mark.parametrize("text", ["[{{.Labels.absent}}]", '[{{ index .Labels "absent" }}]'])
def test_a_missing_label_is_empty_text(text: str) -> None:
    assert fill(text, VALUES) == "[]"


def test_values_are_put_in_as_they_are() -> None:
    assert fill("{{.Labels.html}}", VALUES) == "a&b+<c>"


def test_a_form_inside_a_value_is_not_filled_again() -> None:
    assert fill("{{.Annotations.nested}}", VALUES) == "{{ .Name }}"


@pytest.mark.parametrize(
    "text",
    [
        "{{ .Unknown }}",
        "{{ .Name.x }}",
        "{{ .Labels }}",
        "{{ range .Labels }}",
        "{{ index .Labels }}",
        "{{ index .Labels tier }}",
        '{{ index .Name "x" }}',
        '{{ index .Unknown "x" }}',
        "{ .Name }",
        "{{ Name }}",
        "plain",
        "",
        '{"a": {"b": 1}}',
    ],
)
def test_any_other_text_is_left_alone(text: str) -> None:
    assert fill(text, VALUES) == text


# --- a container that KServe reads as a Go template ------------------------------------------------------


def test_every_field_of_a_container_is_filled() -> None:
    container = {
        "name": "kserve-container",
        "image": "registry.example/{{.Labels.tier}}:1",
        "command": ["serve", "{{.Name}}"],
        "args": ["--team={{ index .Labels `example.com/team` }}"],
        "env": [{"name": "NAMESPACE", "value": "{{.Namespace}}"}],
        "volumeMounts": [{"name": "data", "mountPath": "/mnt/data", "subPath": "{{.Name}}"}],
        "readinessProbe": {"httpGet": {"path": "/v1/models/{{.Name}}", "port": 8080}},
        "ports": [{"containerPort": 8080}],
    }

    assert fill_container(container, VALUES) == {
        "name": "kserve-container",
        "image": "registry.example/gold:1",
        "command": ["serve", "torchserve"],
        "args": ["--team=vision"],
        "env": [{"name": "NAMESPACE", "value": "models"}],
        "volumeMounts": [{"name": "data", "mountPath": "/mnt/data", "subPath": "torchserve"}],
        "readinessProbe": {"httpGet": {"path": "/v1/models/torchserve", "port": 8080}},
        "ports": [{"containerPort": 8080}],
    }


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ('{{ "{{" }} messages }}', "{{ messages }}"),
        ("{{`{{ .Name }}`}}", "{{ .Name }}"),
        ('{{.Name}}{{ "" }}-{{.Namespace}}', "torchserve-models"),
        ("{{.Annotations.nested}}", "{{ .Name }}"),
        ("{ .Name }", "{ .Name }"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
    ],
)
def test_text_in_quotes_and_values_are_inserted_as_they_are(text: str, filled: str) -> None:
    assert fill_container({"args": [text]}, VALUES) == {"args": [filled]}


ODD = {
    "{{ .Unknown }}": "{{ .Unknown }}",
    "--x={{ .Name | upper }}": "{{ .Name | upper }}",
    '{{ printf "%s" .Name }}': '{{ printf "%s" .Name }}',
    "{{ if .Labels.tier }}a{{ end }}": "{{ if .Labels.tier }}",
    "{{ .Labels }}": "{{ .Labels }}",
    '{{ index .Labels "tier" "x" }}': '{{ index .Labels "tier" "x" }}',
    "{{ messages }}": "{{ messages }}",
    "{{.Name}} {{ never closed": "{{ never closed",
    "{{" + "x" * 200 + "}}": "{{" + "x" * 75 + "…",
}


@pytest.mark.parametrize(("text", "shown"), ODD.items())
def test_any_other_template_is_refused_with_what_to_write(text: str, shown: str) -> None:
    container: dict[str, Any] = {"name": "kserve-container", "env": [{"name": "A", "value": text}]}

    with pytest.raises(InvalidSpec) as caught:
        fill_container(container, VALUES)

    assert str(caught.value) == (
        f"env of container kserve-container contains {shown}, which is not supported. Write {{{{.Name}}}}, "
        "{{.Namespace}}, {{.Labels.NAME}}, {{.Annotations.NAME}} or "
        '{{ index .Labels "NAME" }}; for braces themselves, write {{ "{{" }}'
    )
