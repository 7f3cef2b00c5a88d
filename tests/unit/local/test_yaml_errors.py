"""What is said of a text that is not YAML: the line, what is wrong in it, and what to write."""

from __future__ import annotations

import pytest

from isvc.run.documents import YamlText, parse_documents
from isvc.run.errors import UnusableInput


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a:\n  b: 1\n c: 2\n",
         "3:2: the line is indented by 1 space, as no line above it; write 2 spaces, as in line 2, or 0 spaces, as in "
         "line 1"),
        ("a:\n   b: 1\n  c: 2\n",
         "3:3: the line is indented by 2 spaces, as no line above it; write 3 spaces, as in line 2, or 0 spaces, as in "
         "line 1"),
        ("a:\n- b: 1\n c: 2\n",
         "3:2: the line is indented by 1 space, as no line above it; write 2 spaces, as in line 2, or 0 spaces, as in "
         "line 2"),
        ("x: 1\n---\na:\n\n  b: 1\n# note\n c: 2\n",
         "7:2: the line is indented by 1 space, as no line above it; write 2 spaces, as in line 5, or 0 spaces, as in "
         "line 3"),
        ("a: 1\n  b: 2\n",
         "2:4: the line is indented deeper than line 1, which has a value already; write 0 spaces, as in line 1"),
        ("a\n  b: 1\n", "2:4: line 1 ends without a colon; write a:"),
        ("a: b: c\n", '1:5: a value that contains a colon and a space needs quotes; write a: "b: c"'),
        ("a: 1\nb\n", "3:1: line 2 has no colon; write NAME: VALUE, with a space after the colon"),
        ("a:\n\tb: 1\n", "2:1: the line is indented by a tab; write spaces instead"),
        ("a: @b\n", '1:4: a value cannot begin with @; write it in quotes: a: "@…"'),
        ("a: *b\n", "1:4: a value that begins with * refers to an anchor, and there is none; write it in quotes"),
        ('a: "b\n', "2:1: the quote that opens in line 1 is not closed; write another one where its text ends"),
        ('a: "b" c\n', "1:8: a text follows a value in quotes; write all of it in the quotes, or remove it"),
        ("a: {b: c\n", "2:1: the list or object that begins in line 1 is not closed; write its ] or } at its end"),
        ("a:\n  - b\n  c: 1\n",
         "3:3: fields and items with a dash cannot stand beside each other; indent this line otherwise"),
    ],
)  # fmt: skip
def test_a_mistake_in_yaml_is_told_with_what_to_write(content: str, said: str) -> None:
    where, _, why = said.partition(": ")
    with pytest.raises(UnusableInput) as raised:
        parse_documents([YamlText("my.yaml", content)], "default")

    assert str(raised.value) == f"my.yaml:{where}: this is not YAML: {why}"


@pytest.mark.parametrize(
    "text",
    ["a: {{ .Values.a }}\n", "a:\n  {{- if .b }}\n  b: c\n  {{- end }}\n", "{% if a %}\na: b\n{% endif %}\n"],
)
def test_a_template_is_told_to_be_rendered_first(text: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        parse_documents([YamlText("a.yaml", text)], "default")

    assert str(caught.value).partition("this is not YAML: ")[2] == (
        "the line is of a template, with {{ … }} or {% … %}; render it first, such as by helm template"
    )


def test_a_name_without_a_space_after_its_colon_is_told_so() -> None:
    text = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata:\n  name:m\n"
    with pytest.raises(UnusableInput) as caught:
        parse_documents([YamlText("a.yaml", text)], "default")

    assert str(caught.value) == (
        "a.yaml: InferenceService has no name; metadata is the text 'name:m'; write a space after the colon"
    )
