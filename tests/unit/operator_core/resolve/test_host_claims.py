"""Of services that request one host the oldest one gets it; services whose hosts have changed are returned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isvc_operator.config import IngressConfig, parse_config
from isvc_operator.resolve.hosts import HostClaims, claimed_hosts
from tests.support.builders import a_service_body
from tests.support.yaml_files import documents

GOLDEN = Path(__file__).parents[3] / "golden/cases"
HOST = "bank-pay-team.example.com"
OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
ONE_FOR_ALL = IngressConfig(domain_template="{{ .Labels.host }}.example.com", additional_domain_templates=())


def a_service(namespace: str, name: str, created: str = OLD, **fields: Any) -> dict[str, Any]:
    body = a_service_body(name, namespace=namespace, uid=f"{namespace}-{name}", **fields)
    body["metadata"]["creationTimestamp"] = created
    return body


def claims_of(*services: dict[str, Any], config: IngressConfig | None = None) -> HostClaims:
    claims = HostClaims(config or IngressConfig())
    for body in services:
        claims.put(body)
    return claims


@pytest.mark.parametrize("in_order", [1, -1])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("pay-team", "bank", OLD), ("team", "bank-pay", NEW)),
        (("team", "bank-pay", OLD), ("pay-team", "bank", NEW)),
        (("pay-team", "bank", OLD), ("team", "bank-pay", OLD)),
    ],
    ids=["older", "older, and later by its name", "as old, and first by its namespace"],
)
def test_a_host_is_the_oldest_ones_whoever_was_seen_first(first: Any, second: Any, in_order: int) -> None:
    claims = claims_of(*[a_service(*item) for item in (first, second)][::in_order])

    assert claims.taken_from(*first[:2]) == {}
    taken = claims.taken_from(*second[:2])
    assert taken[HOST] == "/".join(first[:2])
    assert set(taken) == {HOST, "bank-predictor-pay-team.example.com"} & set(taken)


@pytest.mark.parametrize(
    ("older", "younger", "host"),
    [
        (a_service("a", "x-predictor"), a_service("a", "x", NEW), "x-predictor.a.example.com"),
        (
            a_service("a", "x-transformer"),
            a_service("a", "x", NEW, spec={"transformer": {"containers": [{}]}}),
            "x-transformer.a.example.com",
        ),
        (
            a_service("a", "x-explainer"),
            a_service("a", "x", NEW, spec={"explainer": {"containers": [{}]}}),
            "x-explainer.a.example.com",
        ),
        (
            a_service("a", "x", predictor={"name": "b"}),
            a_service("a", "x-b-predictor", NEW),
            "x-b-predictor.a.example.com",
        ),
        (a_service("b-c", "a"), a_service("c", "a-b", NEW), "a-b-c.example.com"),
    ],
    ids=["predictor", "transformer", "explainer", "named predictor", "further template"],
)
def test_hosts_of_components_and_of_every_template_count(older: Any, younger: Any, host: str) -> None:
    holder = f"{older['metadata']['namespace']}/{older['metadata']['name']}"
    claims = claims_of(older, younger)

    taken = claims.taken_from(younger["metadata"]["namespace"], younger["metadata"]["name"])
    assert taken[host] == holder


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({}, True),
        ({"annotations": {"serving.kserve.io/stop": "true"}}, True),
        ({"model": {"modelFormat": {"name": "nothing serves it"}}}, True),
        ({"spec": {"predictor": 5, "transformer": [], "explainer": "x"}}, True),
        ({"labels": {"networking.kserve.io/visibility": "cluster-local"}}, False),
    ],
    ids=["running", "stopped", "not served", "of no shape", "inside the cluster"],
)
def test_a_service_keeps_its_hosts_while_it_is_to_have_an_ingress(fields: dict[str, Any], holds: bool) -> None:
    claims = claims_of(a_service("pay-team", "bank", **fields), a_service("team", "bank-pay", NEW))

    assert (HOST in claims.taken_from("team", "bank-pay")) == holds


def test_two_services_share_a_host_by_their_paths_and_a_path_belongs_to_the_older_one() -> None:
    config = IngressConfig(enable_gateway_api=True, path_template="/of/{{ .Name }}", additional_domain_templates=())
    claims = claims_of(a_service("a", "x"), a_service("a", "y"), a_service("b", "x", NEW), config=config)

    assert claims.taken_from("a", "y") == {}
    assert claims.taken_from("b", "x") == {"example.com/of/x": "a/x"}


def test_hosts_on_additional_domains_count() -> None:
    config = IngressConfig(additional_ingress_domains=("b.test",))
    claims = claims_of(a_service("pay-team", "bank"), a_service("team", "bank-pay", NEW), config=config)

    assert claims.taken_from("team", "bank-pay")["bank-pay-team.b.test"] == "pay-team/bank"


def test_other_templates_make_other_claims() -> None:
    services = [a_service("pay-team", "bank"), a_service("team", "bank-pay", NEW)]
    claims = claims_of(*services)

    claims.use(IngressConfig(additional_domain_templates=()), services)

    assert claims.taken_from("team", "bank-pay") == {}


def test_no_other_service_is_affected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change costs as much with one service as with ten thousand."""
    claims = claims_of(*(a_service("a", f"s{number}") for number in range(50)))
    looked_at = []

    def counted(body: dict[str, Any], config: IngressConfig) -> frozenset[str]:
        looked_at.append(body["metadata"]["name"])
        return claimed_hosts(body, config)

    monkeypatch.setattr("isvc_operator.resolve.hosts.claimed_hosts", counted)
    claims.put(a_service("a", "s7", annotations={"b": "c"}))
    claims.taken_from("a", "s7")

    assert looked_at == ["s7"]


CLOSED = "closed-to-other-namespaces"


@pytest.mark.parametrize("case", sorted({path.name for path in GOLDEN.iterdir()} - {CLOSED}))
def test_a_service_claims_exactly_the_hosts_that_its_ingress_has(case: str) -> None:
    claimed, routed = claimed_and_routed(case)

    assert claimed == routed


def test_a_predictor_that_only_its_transformer_reaches_keeps_its_hosts_from_others() -> None:
    claimed, routed = claimed_and_routed(CLOSED)

    assert claimed - routed == {"digits-predictor.default.example.com", "digits-predictor-default.example.com"}
    assert not routed - claimed


def claimed_and_routed(case: str) -> tuple[set[str], set[str]]:
    objects = documents(GOLDEN / case / "input.yaml")
    children = documents(GOLDEN / case / "children.yaml")
    (body,) = [item for item in objects if item["kind"] == "InferenceService"]
    config = parse_config({k: v for item in objects if item["kind"] == "ConfigMap" for k, v in item["data"].items()})
    rules = [rule for child in children if child["kind"] == "Ingress" for rule in child["spec"]["rules"]]
    return {*claimed_hosts(body, config.ingress)}, {
        *(rule["host"] + prefix_of(rule) for rule in rules),
        *(place for child in children if child["kind"].endswith("Route") for place in places(child)),
    }


def prefix_of(rule: dict[str, Any]) -> str:
    """The path that a controller removes, as it is before the pattern of the rest."""
    path: str = rule["http"]["paths"][-1]["path"]
    return path.partition("(")[0].rstrip("/")


def places(route: dict[str, Any]) -> list[str]:
    """The hosts of an HTTPRoute, with the path of one that rewrites it."""
    (path,) = [
        rule["matches"][0]["path"]["value"] if "URLRewrite" in str(rule) else "" for rule in route["spec"]["rules"][-1:]
    ]
    return [host + path for host in route["spec"]["hostnames"]]


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "remove"]), st.sampled_from("xy"), st.integers(0, 2)),
    max_size=12,
)


@given(STEPS)
def test_whatever_happens_the_claims_are_those_of_the_services_that_there_are(steps: list[Any]) -> None:
    """And whoever has lost or got a host in a step is named after it."""
    claims, there = HostClaims(ONE_FOR_ALL), dict[str, dict[str, Any]]()
    for name, what, host, age in steps:
        before = {other: claims.taken_from("n", other) for other in there if other != name}
        body = a_service("n", name, f"2026-01-0{age + 1}T00:00:00Z", labels={"host": host})
        if what == "put":
            there[name] = body
            claims.put(body)
        else:
            there.pop(name, None)
            claims.remove(body)
        after = {other: claims.taken_from("n", other) for other in there}
        afresh = claims_of(*there.values(), config=ONE_FOR_ALL)
        assert after == {other: afresh.taken_from("n", other) for other in there}
        changed = {("n", other) for other in before if before[other] != after[other]}
        assert changed <= claims.take_changed()
