"""The template forms in hosts and containers (contract §3.4)."""

from __future__ import annotations

import pytest

from isvc_operator.resolve.placeholders import fill, fill_all, values_of
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


def test_every_text_of_a_value_is_filled_and_the_rest_kept() -> None:
    value = {"args": ["--name={{.Name}}"], "env": [{"name": "A", "value": "{{.Labels.tier}}"}], "tty": True, "n": 8080}

    assert fill_all(value, VALUES) == {
        "args": ["--name=torchserve"],
        "env": [{"name": "A", "value": "gold"}],
        "tty": True,
        "n": 8080,
    }
