"""What the API server would say of objects of its own kinds: the types of Kubernetes' client, and rules for pods. Pure.

The client's models are made from Kubernetes' own description of its API, which has the names and types of fields, and
few of the rules. Those that people's own containers and pods break are in ``pod_rules``, and, if they concern several
fields, in ``_in_pod``. ``tests/integration/crds/test_mutated.py`` compares all of it with a real API server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from isvc.run.admission import mistakes_of
from isvc.run.mistake import Mistake, missing
from isvc.run.pod_rules import RULES
from isvc_operator.api.core_shapes import quantity
from isvc_operator.manifests import Container, Manifest

if TYPE_CHECKING:
    from jsonschema_rs import Validator

# Where numbers are texts: the client knows quantities as texts only.
_QUANTITIES: Final = frozenset({"limits", "requests", "overhead"})
_QUANTITY: Final = frozenset({"sizeLimit", "divisor"})


def builtin_refusals(body: Manifest) -> Iterator[Mistake]:
    """Yield why the API server would refuse an object; nothing for kinds of a CRD."""
    known = _validator(str(body["apiVersion"]), str(body["kind"]))
    if known is None:
        return
    validator, schema = known
    sent = _as_sent(body)
    if isinstance(sent.get("metadata"), dict):
        sent["metadata"].pop("ownerReferences", None)  # a service in a file has no uid
    found = [mistake for error in validator.iter_errors(sent) for mistake in mistakes_of(error, schema)]
    yield from found
    if not found and body["kind"] == "Service":
        yield from _in_service(sent["spec"])
    if not found and body["kind"] == "Deployment":
        yield from _in_deployment(sent["spec"])


def _as_sent(value: Any, *, quantities: bool = False) -> Any:
    """Return the value without nulls, and with texts for the numbers of quantities."""
    if isinstance(value, Mapping):
        return {
            name: str(item)
            if (quantities or name in _QUANTITY) and _is_number(item)
            else _as_sent(item, quantities=name in _QUANTITIES)
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list | tuple):
        return ["" if item is None else _as_sent(item) for item in value]
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def _validator(api_version: str, kind: str) -> tuple[Validator, Mapping[str, Any]] | None:
    from jsonschema_rs import Draft202012Validator
    from kubernetes.client import models  # here, because it takes half a second

    model = getattr(models, f"{api_version.rpartition('/')[2].capitalize()}{kind}", None)
    if model is None:
        return None
    schema = _with_rules(model.model_json_schema())
    return Draft202012Validator(schema, validate_formats=True), schema


def _with_rules(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a kind with the rules for its parts, and without null: there is none in what is sent."""
    plain: dict[str, Any] = _without_null(schema)
    for name, part in plain["$defs"].items():
        for field, rule in RULES.get(name, {}).items():
            if field:
                part["properties"][field] = rule if "anyOf" in rule else {**part["properties"][field], **rule}
            else:
                part.update(rule)
    return plain


def _without_null(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_null(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {name: _without_null(item) for name, item in schema.items() if name != "anyOf"}
    choices = [_without_null(item) for item in schema.get("anyOf", ()) if item != {"type": "null"}]
    return plain | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})


_NOTHING: Final = (0, "0%")


def _in_service(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    ports = spec.get("ports", ())
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield missing(f"spec.ports[{index}].name")


def _in_deployment(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield the rules that parts of a Deployment break together."""
    update = spec["strategy"].get("rollingUpdate") or {}
    if update.get("maxSurge") in _NOTHING and update.get("maxUnavailable") in _NOTHING:
        yield Mistake("spec.strategy.rollingUpdate.maxUnavailable", "Invalid value: may not be 0 when `maxSurge` is 0")
    yield from _in_pod(spec["template"]["spec"], "spec.template.spec")


def _in_pod(pod: Mapping[str, Any], path: str) -> Iterator[Mistake]:
    volumes, containers, inits = pod.get("volumes", ()), pod["containers"], pod.get("initContainers", ())
    for index, volume in enumerate(volumes):
        if len(volume) > 1:  # without a type it is an emptyDir
            yield from _one_of(volume.keys() - {"name"}, f"{path}.volumes[{index}]", "volume type")
    yield from _twice([volume["name"] for volume in volumes], f"{path}.volumes")
    yield from _twice([item["name"] for item in (*containers, *inits)], f"{path}.containers")
    for field, items in (("containers", containers), ("initContainers", inits)):
        for index, container in enumerate(items):
            yield from _in_container(container, pod, f"{path}.{field}[{index}]")
    spread = [(item["topologyKey"], item["whenUnsatisfiable"]) for item in pod.get("topologySpreadConstraints", ())]
    yield from _twice(map(", ".join, spread), f"{path}.topologySpreadConstraints")


_HANDLERS: Final = frozenset({"exec", "grpc", "httpGet", "tcpSocket"})
_SOURCES: Final = frozenset({"configMapRef", "secretRef"})
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def _in_container(container: Container, pod: Mapping[str, Any], path: str) -> Iterator[Mistake]:
    if "image" not in container:
        yield missing(f"{path}.image")
    names = {volume["name"] for volume in pod.get("volumes", ())}
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if mount["name"] not in names:
            yield Mistake(f"{path}.volumeMounts[{index}].name", f'Not found: "{mount["name"]}"')
    yield from _twice([mount["mountPath"] for mount in container.get("volumeMounts", ())], f"{path}.volumeMounts")
    yield from _twice([port["name"] for port in container.get("ports", ()) if port.get("name")], f"{path}.ports")
    for name in _PROBES:
        if name in container:
            yield from _one_of(container[name].keys() & _HANDLERS, f"{path}.{name}", "handler type")
            if name != "readinessProbe" and container[name].get("successThreshold", 1) > 1:
                yield Mistake(f"{path}.{name}.successThreshold", "Invalid value: must be 1")
    for index, variable in enumerate(container.get("env", ())):
        if "valueFrom" in variable:
            yield from _one_of(variable["valueFrom"].keys(), f"{path}.env[{index}].valueFrom", "source")
            if variable.get("value"):
                yield Mistake(f"{path}.env[{index}].valueFrom", "may not be specified when `value` is not empty")
    for index, source in enumerate(container.get("envFrom", ())):
        yield from _one_of(source.keys() & _SOURCES, f"{path}.envFrom[{index}]", "source")
    for name in ("postStart", "preStop"):
        if name in container.get("lifecycle", {}):
            hook = container["lifecycle"][name]
            yield from _one_of(hook.keys(), f"{path}.lifecycle.{name}", "handler type")
            if hook.get("sleep", {}).get("seconds", 0) > pod.get("terminationGracePeriodSeconds", 30):
                yield Mistake(
                    f"{path}.lifecycle.{name}.sleep", "Invalid value: must be less than terminationGracePeriodSeconds"
                )
    yield from _of_privileges(container.get("securityContext", {}), f"{path}.securityContext")
    yield from _of_resources(container.get("resources", {}), f"{path}.resources")


def _one_of(given: Collection[str], path: str, what: str) -> Iterator[Mistake]:
    if not given:
        yield Mistake(path, f"Required value: must specify a {what}")
    elif len(given) > 1:
        yield Mistake(path, f"Forbidden: may not specify more than 1 {what}: {', '.join(sorted(given))}")


def _twice(names: Iterable[str], path: str) -> Iterator[Mistake]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Mistake(path, f'Duplicate value: "{name}"')


def _of_privileges(context: Mapping[str, Any], path: str) -> Iterator[Mistake]:
    if context.get("allowPrivilegeEscalation") is not False:
        return
    refused = "Invalid value: cannot set `allowPrivilegeEscalation` to false and"
    if context.get("privileged"):
        yield Mistake(path, f"{refused} `privileged` to true")
    if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
        yield Mistake(path, f"{refused} `capabilities.Add` CAP_SYS_ADMIN")


def _of_resources(resources: Mapping[str, Any], path: str) -> Iterator[Mistake]:
    """A request above its limit is refused by the operator, which names the place (``resolve.defaults``)."""
    for field, amounts in resources.items():
        for name, amount in amounts.items() if isinstance(amounts, Mapping) else ():
            if "/" in name and (quantity(amount) or 0) % 1:
                yield Mistake(f"{path}.{field}[{name}]", "Invalid value: must be an integer")
