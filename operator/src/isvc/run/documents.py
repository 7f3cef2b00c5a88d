"""Parses YAML files with services and the objects that they are made from. Pure: ``files`` reads the files."""

from __future__ import annotations

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml
from pydantic import ValidationError

from isvc.run import objects
from isvc.run.errors import UnusableInput
from isvc.run.mistake import Mistake, parsed, unknown
from isvc.run.place import Located, Place, refused
from isvc.run.yaml_errors import explained
from isvc_operator.api import inference_service, storage_container
from isvc_operator.api.inference_service import InferenceService, InferenceServiceSpec
from isvc_operator.api.kinds import ResourceKind, Role, with_role
from isvc_operator.api.parsing import (
    InvalidObject,
    excess,
    parse_inference_service,
    parse_serving_runtime,
    parse_storage_container,
    path_of,
)
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.ignored.walker import belongs_in, fields_of, meant
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Manifest
from isvc_operator.resolve.storage.plan import ObjectReference, Objects
from isvc_operator.text import one_line
from model_archive.archive import ENDINGS
from model_archive.formats import SUFFIXES

# Says why the API server would refuse an object.
_Check = Callable[[Manifest], Iterable[Mistake]]
_KINDS: Mapping[str, ResourceKind] = {kind.name: kind for kind in with_role(Role.SERVICE, Role.INPUT, Role.REFERENCE)}


@dataclass(frozen=True)
class YamlText:
    """A YAML text and the name of the file that it came from.

    ``instead`` is what to do if an object of it is given elsewhere as well.
    """

    source: str
    content: str
    instead: str = "remove one of them"


class DocumentKey(NamedTuple):
    """The identity of an object in the files; ``namespace`` is empty for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Documents:
    """The objects in the files. ``ignored`` are those of other kinds, ``files`` names the file of each other one.

    ``bodies`` are the services, runtimes and storage containers as they are written, with their namespace. ``partial``
    are services without what is refused of them, each with its place.
    """

    services: tuple[InferenceService, ...] = ()
    runtimes: tuple[ServingRuntime, ...] = ()
    storage_containers: tuple[ClusterStorageContainer, ...] = ()
    objects: tuple[Manifest, ...] = ()
    bodies: tuple[Manifest, ...] = ()
    ignored: tuple[Place, ...] = ()
    partial: tuple[tuple[InferenceService, Place], ...] = ()
    files: Mapping[DocumentKey, str] = field(default_factory=dict)

    def place(self, kind: str, namespace: str | None, name: str) -> Place:
        """Return where an object is; its file is unknown if it is in none of them."""
        file = self.files.get(DocumentKey(kind, namespace or "", name), "")
        return Place(file=file, kind=kind, namespace=namespace or "", name=name)

    def objects_in(self, namespace: str | None) -> Objects:
        """Return the objects of a namespace that services refer to."""
        return {
            ObjectReference(body["kind"], body["metadata"]["name"]): body
            for body in self.objects
            if body["metadata"]["namespace"] == namespace
        }


NO_OBJECT: Final = "the files contain no object; write an InferenceService, or name other files"
NO_SERVICE: Final = "the files contain no InferenceService; name the file that has it, or add --no-services"
_REMOVABLE: Final = 2  # steps to a field of a spec
_MISSPELT: Final = 0.9  # difflib's ratio
_MERGE = "tag:yaml.org,2002:merge"
_FLOAT = "tag:yaml.org,2002:float"
_INTEGER = "tag:yaml.org,2002:int"
_STRING = "tag:yaml.org,2002:str"
_TEXTS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")  # to kubectl
_INTEGERS = 2**63  # of JSON in Go; what is larger stays a float


class _Loader(yaml.SafeLoader):
    """Reads what an API server gets from kubectl and keeps: dates as texts, 2.0 as 2, and no fields that are null.

    The keys of mappings are texts, those that are numbers or booleans as well.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name is the library's
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _TEXTS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Compose a mapping; raises ComposerError for a key that occurs twice, which kubectl refuses.

        Later, merged mappings (``<<``) are part of the node.
        """
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key {key.value} occurs twice", key.start_mark)
                seen.add(key.value)
        return node

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        """Return the tag of a scalar: 12:30 is a text, not a number to the base of 60."""
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return _STRING if tag in (_INTEGER, _FLOAT) and ":" in value else tag

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        given = super().construct_mapping(node, deep)
        read = {_as_text(key): value for key, value in given.items() if value is not None}
        if None in read:
            raise yaml.constructor.ConstructorError(None, None, "a key is null; write it in quotes", node.start_mark)
        return read

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError) as error:  # of Python's own types
            problem = f"this is not a valid {node.tag.rpartition(':')[2]}; write a text in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        number: float = super().construct_yaml_float(node)
        return int(number) if number.is_integer() and abs(number) < _INTEGERS else number


def _as_text(key: Any) -> Any:
    """Return a key as kubectl writes it in JSON; null and bytes, which it does not write there, stay."""
    return json.dumps(key) if isinstance(key, bool | int | float) else key


_Loader.add_constructor(_FLOAT, _Loader.construct_yaml_float)
# As YAML reads 1e3 and 1.5e0 in Go; in YAML 1.1, an exponent needs a sign.
_Loader.add_implicit_resolver(
    _FLOAT, re.compile(r"[-+]?([0-9]+\.?|\.[0-9])[0-9]*[eE][-+]?[0-9]+\Z"), list("-+.0123456789")
)


def parse_documents(texts: Iterable[YamlText], namespace: str) -> Documents:
    """Parse every document; ``namespace`` is for objects that name none. Raises UnusableInput."""
    documents, problems = read_documents(texts, namespace)
    if problems:
        raise UnusableInput(problems[0].text)
    return documents


def ignored_lines(given: Documents) -> Iterator[Located]:
    """Yield a line for each object that is of no use here."""
    for place in given.ignored:
        called = " ".join(filter(None, (place.kind, place.name)))
        yield Located(f"{called}: not an object that services are made from; ignored", place)


def read_documents(
    texts: Iterable[YamlText], namespace: str, refusals: _Check = lambda _: ()
) -> tuple[Documents, list[Located]]:
    """Parse every document that can be used, and return what is wrong with the others.

    ``refusals`` is asked about an object before it is parsed.
    """
    found: defaultdict[str, list[Any]] = defaultdict(list)
    problems: list[Located] = []
    places: dict[DocumentKey, str] = {}
    files: dict[DocumentKey, str] = {}
    for text in texts:
        try:
            documents = documents_in(text)
        except UnusableInput as error:
            problems.append(Located(str(error), Place(file=text.source)))
            continue
        for number, document in enumerate(documents, start=1):
            try:
                group, item = _read(document, text, namespace, refusals)
                if group not in ("ignored", "refused"):
                    key = _key_of(_placed(document, namespace))
                    _check_once(key, f"object {number} of {text.source}", places, text.instead)
                    files[key] = text.source
            except UnusableInput as error:
                problems.append(Located(str(error), _place(document, text)))
                continue
            if group == "refused":
                placed = _placed(document, namespace)
                place = _place(placed, text)
                rest, further = _rest(placed, refusals, item)
                found["partial"] += [(service, place) for service in rest]
                invalid = {mistake.path for mistake in item}
                # One of an object that is valid has no effect, as where all else is valid.
                names = [it for it in unknown_names(placed) if not rest or it.path.rpartition(".")[0] in invalid]
                mistakes = (*item, *names[:NAMED], *further)
                problems += refused(f"{text.source}: {place.kind} {place.name}", mistakes, place)
            else:
                found[group].append(item)
                if group not in ("ignored", "objects"):
                    found["bodies"].append(_placed(document, namespace))
    return Documents(**{group: tuple(items) for group, items in found.items()}, files=files), problems


def _read(body: Any, text: YamlText, namespace: str, refusals: _Check) -> tuple[str, Any]:
    """Return the field of ``Documents`` that the object belongs to, and the parsed object; or ``refused``, and why."""
    if not isinstance(body, Mapping) or not body.get("kind"):
        raise UnusableInput(f"{text.source}: a document has no `kind`; is this a Kubernetes object?")
    if too_much := excess(body):
        raise UnusableInput(f"{text.source}: {too_much}")
    kind = body["kind"]
    try:
        json.dumps(body, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnusableInput(f"{text.source}: {kind} has a value that JSON has no type for: {error}") from error
    if not _is_ours(body, text):
        return "ignored", _place(body, text)
    placed = _placed(body, namespace)
    if mistakes := list(refusals(placed)):
        return "refused", mistakes
    try:
        if kind == inference_service.KIND:
            return "services", parse_inference_service(placed)
        if kind == storage_container.KIND:
            return "storage_containers", parse_storage_container(placed)
        if _KINDS[kind].role is Role.REFERENCE:
            return "objects", objects.as_stored(placed)
        return "runtimes", parse_serving_runtime(placed)
    except InvalidObject as error:
        return "refused", list(map(parsed, error.problems))


def _rest(
    body: Mapping[str, Any], refusals: _Check, known: Collection[Mistake]
) -> tuple[list[InferenceService], list[Mistake]]:
    """Return a refused service without what is invalid in it, if that can be read, and what the API server says next.

    That is what it evaluates only for an object of the right types, unless it may come of what is left out.
    """
    if body["kind"] != inference_service.KIND or excess(body):
        return [], []
    left_out: list[str] = []
    rest = json.loads(json.dumps(body))
    service = None
    while service is None:
        try:
            service = parse_inference_service(rest)
        except InvalidObject as error:
            invalid = error.__cause__.errors() if isinstance(error.__cause__, ValidationError) else []
            removed = _remove(rest, invalid[0]["loc"]) if invalid and len(left_out) < NAMED else ""
            if not removed:
                return [], []
            left_out.append(removed)
    further = [mistake for mistake in refusals(rest) if mistake not in known]
    return [service], [mistake for mistake in further if not any(_is_in(path, mistake.path) for path in left_out)]


def _remove(body: dict[str, Any], location: Sequence[Any]) -> str:
    """Remove what is at a place, or the object that lacks it, and return its path; empty for a whole spec."""
    part: Any = body
    steps: list[tuple[Any, Any]] = []
    for step in location:
        if not (step in part if isinstance(part, dict) else isinstance(part, list) and step in range(len(part))):
            break
        steps.append((part, step))
        part = part[step]
    if len(steps) < _REMOVABLE:
        return ""
    parent, last = steps[-1]
    if isinstance(parent, list):  # the others keep their numbers
        return _remove(body, location[: len(steps) - 1])
    del parent[last]
    return path_of([step for _, step in steps])


def _is_in(path: str, field: str) -> bool:
    return path == field or not field or path.startswith((f"{field}.", f"{field}["))


def unknown_names(body: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield the unknown fields of a service, its spec and its components, of a body that may not be valid.

    A component or a model whose name is misspelt is missing, which is all that the API server says.
    """
    spec, known = body.get("spec"), fields_of(InferenceServiceSpec)
    if body.get("kind") != inference_service.KIND:
        return
    given = spec if isinstance(spec, Mapping) else {}
    components = {f"spec.{name}.": (given.get(name), fields_of(model)) for name, model in known.items() if model}
    for at, (part, names) in {"": (body, fields_of(InferenceService)), "spec.": (given, known), **components}.items():
        for name in part if isinstance(part, Mapping) else ():
            path = f"{at}{name}"
            if name not in names:
                yield unknown(one_line(path), meant(path, names, body), belongs_in(path, body))


def _key_of(body: Mapping[str, Any]) -> DocumentKey:
    metadata = body["metadata"]
    return DocumentKey(body["kind"], metadata.get("namespace") or "", metadata["name"])


def _place(body: Any, text: YamlText) -> Place:
    """Return where a document is, whatever it is."""
    if not isinstance(body, Mapping):
        return Place(file=text.source)
    metadata = _metadata(body)
    kind, namespace, name = (
        str(it or "") for it in (body.get("kind"), metadata.get("namespace"), metadata.get("name"))
    )
    return Place(file=text.source, kind=kind, namespace=namespace, name=name)


def _check_once(key: DocumentKey, place: str, places: dict[DocumentKey, str], instead: str) -> None:
    """Raise UnusableInput for an object that was given before, at another of the ``places``."""
    if first := places.get(key):
        namespace = f" of namespace {key.namespace}" if key.namespace else ""
        instead = YamlText.instead if first == place else instead
        raise UnusableInput(f"{key.kind} {key.name}{namespace} is given twice: {first}, and {place}; {instead}")
    places[key] = place


def documents_in(text: YamlText) -> list[Any]:
    """Return every document, and the objects of lists; raises UnusableInput for what is not YAML."""
    try:
        documents = list(yaml.load_all(text.content, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise UnusableInput(f"{text.source}{line}: this is not YAML: {explained(error, text.content)}") from error
    except yaml.reader.ReaderError as error:
        raise UnusableInput(
            f"{text.source}: this is not YAML: it has the character #x{error.character:04x} at position "
            f"{error.position}, as binary files do; a model's file ends with {', '.join((*SUFFIXES, *ENDINGS))}"
        ) from error
    except yaml.YAMLError as error:
        raise UnusableInput(f"{text.source}: this is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise UnusableInput(f"{text.source}: nested deeper than any object that can be used") from error
    return [item for document in documents if document is not None for item in _items(document)]


def _items(document: Any) -> list[Any]:
    """Return the objects of a list, such as ``kubectl get -o yaml`` prints, or the document itself."""
    if not isinstance(document, Mapping) or not str(document.get("kind")).endswith("List"):
        return [document]
    items = document.get("items")
    return items if isinstance(items, list) else [document]


def _is_ours(body: Mapping[str, Any], text: YamlText) -> bool:
    """Whether the object's kind is known.

    Raises UnusableInput for one that is nearly known, without a name or of another API version.
    """
    kind, version, name = str(body["kind"]), body.get("apiVersion"), _metadata(body).get("name")
    known = _KINDS.get(kind)
    if known is None:
        for meant in difflib.get_close_matches(kind, _KINDS, 1, _MISSPELT):
            raise UnusableInput(f"{text.source}: there is no kind {kind}; did you mean {meant}?")
        return False
    if not name:
        given = body.get("metadata")
        instead = (
            f"metadata is the text {one_line(str(given))!r}; write a space after the colon" if _is_glued(given) else ""
        )
        raise UnusableInput(f"{text.source}: {kind} has no name; {instead or 'give it one in metadata.name'}")
    if version != known.api_version:
        raise UnusableInput(
            f"{text.source}: {kind} {name} has apiVersion {version}; write apiVersion: {known.api_version}"
        )
    return True


def _is_glued(value: Any) -> bool:
    """Whether a value is a text that would be a field, had it a space after its colon."""
    return isinstance(value, str) and re.match(r"[A-Za-z]+:\S", value) is not None


def _placed(body: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    metadata = _metadata(body)
    if not _KINDS[body["kind"]].namespaced or metadata.get("namespace"):
        return body
    return {**body, "metadata": {**metadata, "namespace": namespace}}


def _metadata(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = body.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
