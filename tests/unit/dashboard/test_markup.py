"""How texts and values are written in pages."""

from __future__ import annotations

import re

import pytest

from isvc import limits
from isvc.dashboard import markup
from isvc.dashboard.markup import HopShare
from isvc.dashboard.tabs import TABS
from isvc.view.service import view_of
from isvc.view.values import Hop
from isvc_operator.manifests import ServiceKey
from tests.support.fake_services import FakeServices
from tests.support.source_tree import ROOT


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.44, "0.4 s"), (9.94, "9.9 s"), (12, "12 s"), (59.6, "1 min"), (185, "3 min 5 s"),
        (7200, "2 h"), (7380, "2 h 3 min"), (400_000, "4 d"),
    ],
)  # fmt: skip
def test_a_duration_is_written_as_people_do(seconds: float, text: str) -> None:
    assert markup.duration(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0, "0"), (0.25, "0.25"), (12.34, "12.3"), (4321, "4,321")])
def test_an_amount_has_two_or_three_digits(value: float | None, text: str) -> None:
    assert markup.amount(value) == text


def test_text_from_outside_is_escaped_and_its_control_characters_are_visible() -> None:
    template = markup.templates(where="here").from_string("{{ text }}")

    assert template.render(text="<b>\x1b[31m\u202e'\"&") == "&lt;b&gt;\\x1b[31m\\u202e&#39;&#34;&amp;"


@pytest.mark.parametrize(
    ("where", "of"), [("all namespaces", "isvc-mar of the cluster"), (markup.THIS_MACHINE, "isvc-mar of this machine")]
)
def test_a_runtime_of_isvc_run_is_not_called_the_clusters(where: str, of: str) -> None:
    template = markup.templates(where=where).get_template("parts/yaml.html")
    page = template.render(service=view_of(FakeServices().ready()), applied={}, status={}, children=[])

    assert of in re.sub("<[^>]+>", "", page)


def test_the_docs_have_the_keys() -> None:
    table = (ROOT / "docs/dashboard.md").read_text().partition("## Keys\n")[2].partition("\n## ")[0]

    assert [re.sub("[`,]", "", row) for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)] == [*markup.KEYS]


def test_the_docs_have_the_pages() -> None:
    table = (ROOT / "docs/dashboard.md").read_text().partition("## Pages\n")[2].partition("\n\n| state")[0]

    pages = ["services", *(tab.title.lower() for tab in TABS.values())]
    assert [row.lower() for row in re.findall(r"^\| (\w+) \|", table, re.MULTILINE)[1:]] == pages


def test_no_tab_has_the_path_of_another_route() -> None:
    """Its page would never end, as a stream's: the other route comes first."""
    sources = "".join(path.read_text() for path in (ROOT / "operator/src/isvc/dashboard").glob("*.py"))
    others = set(re.findall(r'web\.get\("/services/{namespace}/{name}/(\w+)"', sources))

    assert "events" in others
    assert others & TABS.keys() == set()


def test_a_path_quotes_any_name() -> None:
    assert markup.path(ServiceKey("a/b", "c?d#"), "logs") == "/services/a%2Fb/c%3Fd%23/logs"


def test_an_id_has_no_character_that_means_something() -> None:
    assert markup.anchor(['a"> b', "c"]).isalnum()
    assert markup.anchor(["a", "bc"]) != markup.anchor(["ab", "c"])


def test_yaml_leaves_out_what_nobody_wrote_and_hides_secrets() -> None:
    secret = {
        "kind": "Secret",
        "metadata": {
            "name": "a",
            "uid": "1",
            "managedFields": [],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "data": {"key": "c2VjcmV0"},
    }

    assert markup.as_yaml(secret) == "kind: Secret\nmetadata:\n  name: a\ndata:\n  key: (hidden)\n"


def test_yaml_leaves_out_what_the_api_server_writes() -> None:
    kept = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 1}}
    added = {"creationTimestamp": "2026-01-01T12:00:00Z", "generation": 2, "ownerReferences": [{}], "labels": {}}

    assert markup.as_yaml({**kept, "metadata": {"name": "a", **added}, "status": {"replicas": 1}}) == (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n  replicas: 1\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- a: 5\n", '<span class="of-key">- a</span>: <span class="of-value">5</span>\n'),
        ("a: 'b: 5'\n", '<span class="of-key">a</span>: <span class="of-text">&#39;b: 5&#39;</span>\n'),
        ('{\n  "a": [1, "x"]\n}', '{\n  <span class="of-key">"a"</span>: [1, <span class="of-text">"x"</span>]\n}'),
        ("# too large", '<span class="of-comment"># too large</span>'),
        (
            "a:\n  b: |-\n    c: d\n\n      e\n  f: 5\n",
            '<span class="of-key">a</span>:\n<span class="of-key">  b</span>: |<span class="of-text">-\n    c: d\n\n'
            '      e\n</span><span class="of-key">  f</span>: <span class="of-value">5</span>\n',
        ),
        ('a: "<b>\n', '<span class="of-key">a</span>: <span class="of-text">"&lt;b&gt;</span>\n'),
    ],
    ids=["a list", "a text", "JSON", "a comment", "a block", "no end"],
)
def test_keys_texts_and_values_are_marked(text: str, shown: str) -> None:
    assert markup.colored(text) == shown.replace('"a"', "&#34;a&#34;").replace('"x"', "&#34;x&#34;").replace(
        '>"&lt;', ">&#34;&lt;"
    )


def test_a_text_of_quotes_takes_no_longer_than_another() -> None:
    text = 'a: "' + '\\"' * limits.DASHBOARD_OBJECT_BYTES

    assert len(markup.colored(text)) > len(text)


def test_a_text_of_several_lines_is_a_block_of_them() -> None:
    assert markup.as_yaml({"message": "no such layer:\n\tfc1\n", "reason": "a\r\nb"}) == (
        'message: |\n  no such layer:\n  \tfc1\nreason: "a\\r\\nb"\n'
    )


def test_an_object_that_is_too_large_is_not_written() -> None:
    large = {"kind": "Service", "metadata": {"annotations": {"a": "x" * limits.DASHBOARD_OBJECT_BYTES}}}

    assert markup.as_yaml(large) == "# 131,131 bytes are too many to be shown; kubectl get --output=yaml writes them\n"


def test_a_container_that_was_restarted_says_how_it_has_ended() -> None:
    (pod,) = view_of(FakeServices().crashed("OOMKilled", 137)).components[0].pods

    copied, server = pod.containers
    assert markup.container_text(server) == "ready"
    assert markup.container_end(server) == "last ended: OOMKilled, exit code 137"
    assert markup.container_end(copied) == ""


def test_places_that_share_the_requests_are_one_step() -> None:
    way = [
        Hop(name="host", kind="HTTPRoute", target="a-predictor", weight=90),
        Hop(name="host", kind="HTTPRoute", target="a-predictor-canary", weight=10),
        Hop(name="a-predictor", kind="predictor"),
        Hop(name="a-predictor-canary", kind="predictor"),
    ]

    assert markup.steps(way) == [
        [HopShare("host", "HTTPRoute", None)],
        [HopShare("a-predictor", "predictor", 90), HopShare("a-predictor-canary", "predictor", 10)],
    ]


def test_a_way_in_a_circle_ends() -> None:
    way = [Hop(name="a", kind="x", target="b"), Hop(name="b", kind="x", target="a")]

    assert markup.steps(way) == [[HopShare("a", "x", None)], [HopShare("b", "x", None)]]
