"""What TorchServe's loader would not take of a handler and its weights, found without running either. Pure.

Only what is certain is a problem: a module whose names depend on what it runs is not judged.
"""

from __future__ import annotations

import ast
import tarfile
import zipfile
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from model_archive.contents import Contents
from model_archive.limits import MAX_CHECKED
from model_archive.manifest import STOCK_HANDLERS, Manifest, handler_file
from model_archive.pickles import saved_module
from model_archive.text import quoted
from model_archive.zips import open_zip

WEIGHTS = (".pt", ".pth", ".pt2", ".onnx")
"""The endings by which a folder's weights are found."""
_FUNCTION = "handle"
_SCRIPT = ".pt"
_NO_STATE = (".onnx", ".pt2")
_PICKLE = b"\x80"
_BINDING = {"exec", "globals", "locals", "setattr", "vars"}
# Classes of `ts.torch_handler` whose `initialize` is that of BaseHandler, or calls it.
_BASES = {"BaseHandler", "VisionHandler", "ImageClassifier", "ObjectDetector", "ImageSegmenter", "TextHandler",
          "TextClassifier"}  # fmt: skip
# Those that read requests, and the handler that reads them so.
_READERS = {
    "BaseHandler": "base_handler",
    **dict.fromkeys(("VisionHandler", "ImageClassifier"), "image_classifier"),
    "ObjectDetector": "object_detector",
    "ImageSegmenter": "image_segmenter",
    "TextClassifier": "text_classifier",
}
_CURE = (
    "save TorchScript as .pt, name the network's file as the model file, or write a handler that loads it; a .pt2 or "
    ".onnx is also served without an archive"
)


def entry_problem(handler: str, tree: ast.Module) -> str | None:
    """Return why TorchServe finds no entry point in a handler's module; None if it may find one."""
    names, classes = _bound(tree.body)
    file, _, given = handler.partition(":")
    function = given or _FUNCTION
    if function in names or _is_dynamic(tree):
        return None
    if function in classes:
        return (
            f"TorchServe calls what follows the colon of {quoted(handler)} as a function, and {function} is a class; "
            f"write {quoted(file)}"
        )
    certain = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    # A file without a statement stands for a handler that is written later.
    has_none = (given or tree.body) and not classes and not _may_have_more(tree, names)
    if len(set(certain)) > 1 or has_none:
        return (
            f"its handler {quoted(handler)} has {_listed(certain)}, and no function {function}; write one class, or a "
            f"function `def {function}(data, context)`, which is called once with None as data, to load"
        )
    return _method_problem(handler, next(iter(classes.values()))) if len(classes) == 1 else None


def entry_of(handler: str, tree: ast.Module) -> str:
    """Return what TorchServe calls, such as ``class NAME``; empty where that depends on what the module runs."""
    names, classes = _bound(tree.body)
    function = handler.partition(":")[2] or _FUNCTION
    if function in names:
        return f"function {function}"
    return f"class {next(iter(classes))}" if len(classes) == 1 else ""


def leaves_weights(manifest: Manifest, tree: ast.Module | None) -> bool:
    """Return whether the handler leaves it to TorchServe's BaseHandler to load the weights and to run them."""
    if handler_file(manifest.handler) is None:
        return STOCK_HANDLERS[manifest.handler]
    methods, bases = _only_class(manifest.handler, tree) if tree else (set(), set())
    own = methods & {"initialize", "inference", "handle"} or any(name.startswith("_load") for name in methods)
    return not own and bool(bases & _BASES)


def stock_handler_of(handler: str, tree: ast.Module) -> str:
    """Return which of TorchServe's own handlers reads the requests of this one, its subclass; empty if none does."""
    methods, bases = _only_class(handler, tree)
    found = bases & _READERS.keys()
    return _READERS[min(found)] if found and not methods & {"preprocess", "image_processing", "handle"} else ""


def model_file_problem(file: str, tree: ast.Module) -> str | None:
    """Return why BaseHandler does not find the network in a model file, whose only class it takes."""
    _, classes = _bound(tree.body)
    certain = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if _is_dynamic(tree) or (len(set(certain)) < 2 and (classes or _makes_classes(tree))):
        return None
    return (
        f"its model file {quoted(file)} has {_listed(certain)}, where TorchServe takes the only one; leave the "
        "network's there, and import others from files beside it"
    )


def weights_among(names: Iterable[str]) -> list[str]:
    """Return the files at the top that are weights by their names."""
    return sorted(name for name in names if name.endswith(WEIGHTS) and not name.startswith(".") and "/" not in name)


def weights_problem(manifest: Manifest, there: Iterable[str] = ()) -> str | None:
    """Return why TorchServe's BaseHandler cannot load the weights, by their name; None if it may.

    ``there`` are all files beside the handler.
    """
    if not manifest.model_file and not manifest.serialized_file:
        if len(several := weights_among(there)) > 1:
            return (
                f"TorchServe's {_base(manifest)} loads one of {', '.join(several)}; move the others into a folder "
                f"below the handler, or name one: isvc pack FOLDER --serialized-file {several[0]}"
            )
        return f"TorchServe's {_base(manifest)} has no weights to load; add it, and pack it again"
    file = PurePosixPath(manifest.serialized_file or "")
    if manifest.model_file:
        return _no_state(manifest, file.name) if file.suffix in _NO_STATE else None
    # BaseHandler loads a .so only if the archive's settings say how it was exported.
    is_loaded = file.suffix == _SCRIPT or (file.suffix == ".so" and manifest.config_file)
    if is_loaded:
        return None
    return f"TorchServe's {_base(manifest)} does not load {quoted(file.name)} without a model file; {_CURE}"


def content_problem(manifest: Manifest, weights: Path) -> str | None:
    """Return why BaseHandler cannot load the weights by what is in them; None if it may.

    From a .pt without a model file it takes only TorchScript, and beside a model file only what `torch.save` wrote.
    """
    if manifest.model_file:
        if module := _module_in(weights):
            return (
                f"{quoted(weights.name)} is a whole network, saved with its class {module}, where TorchServe's "
                f"{_base(manifest)} loads only a state_dict; save model.state_dict() in another file, and name that"
            )
        return None if _is_saved(weights) else _no_state(manifest, weights.name)
    if weights.suffix != _SCRIPT or is_script(weights):
        return None
    return f"{quoted(weights.name)} is not TorchScript, which TorchServe's {_base(manifest)} needs; {_CURE}"


def is_script(model: Path) -> bool:
    """Return whether it is TorchScript. A state_dict is a zip as well; only a program has constants."""
    return _holds(model, "constants.pkl")


def _module_in(weights: Path) -> str | None:
    """Return the class of a network that `torch.save` wrote whole."""
    if not zipfile.is_zipfile(weights):
        return None
    with open_zip(weights, _contents(weights)) as members:
        for member in members:
            if member.path.name == "data.pkl" and member.open:
                with member.open() as stream:
                    return saved_module(stream.read(MAX_CHECKED))
    return None


def _is_saved(weights: Path) -> bool:
    """Return whether `torch.save` may have written it: once a tar, then a pickle, and now a zip with a pickle."""
    with weights.open("rb") as stream:
        is_pickle = stream.read(1) == _PICKLE
    return is_pickle or _holds(weights, "data.pkl") or tarfile.is_tarfile(weights)


def _holds(file: Path, name: str) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    with open_zip(file, _contents(file)) as members:
        return any(member.path.name == name for member in members)


def _contents(file: Path) -> Contents:
    return Contents(file.name, size=file.stat().st_size, cure="save it again")


def _no_state(manifest: Manifest, weights: str) -> str:
    return (
        f"{quoted(weights)} is not a state_dict, which TorchServe's {_base(manifest)} loads beside a model file; save "
        "model.state_dict() with torch.save, or write a handler that loads it"
    )


def _listed(classes: Sequence[str]) -> str:
    return f"the classes {', '.join(classes)}" if classes else "no class"


def _base(manifest: Manifest) -> str:
    return manifest.handler if manifest.handler in STOCK_HANDLERS else "BaseHandler"


def _method_problem(handler: str, found: ast.ClassDef) -> str | None:
    methods, _ = _bound(found.body)
    lacking = [name for name in ("initialize", "handle") if name not in methods]
    if not lacking or found.bases or found.keywords or found.decorator_list:
        return None
    return f"the class {found.name} of its handler {quoted(handler)} has no method {' and no '.join(lacking)}; write it"


def _only_class(handler: str, tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the methods of the class that TorchServe calls, and those of its bases that are TorchServe's."""
    names, classes = _bound(tree.body)
    if ":" in handler or len(classes) != 1 or _FUNCTION in names:
        return set(), set()
    (found,) = classes.values()
    methods, _ = _bound(found.body)
    return methods, {base.id for base in found.bases if isinstance(base, ast.Name)} & _of_torchserve(tree)


def _bound(body: Sequence[ast.AST]) -> tuple[set[str], dict[str, ast.ClassDef]]:
    """Return the names that statements bind, but for classes, and the classes; also those in branches."""
    names: set[str] = set()
    classes = {}
    for node in _statements(body):
        match node:
            case ast.ClassDef():
                classes[node.name] = node
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
            case _:
                targets = (each for each in ast.walk(node) if isinstance(each, ast.Name))
                names |= {each.id for each in targets if isinstance(each.ctx, ast.Store)}
    return names, classes


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Return the statements that run where they stand, not those of functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for block in ("body", "orelse", "handlers", "finalbody", "cases"):
                yield from _statements(getattr(node, block, ()))


def _is_dynamic(tree: ast.Module) -> bool:
    """Return whether a `*`, a `del` or a call may bind or unbind names of the module that are not written there."""
    return any(
        isinstance(node, ast.Delete)
        or (isinstance(node, ast.ImportFrom) and node.names[0].name == "*")
        or (isinstance(node, ast.Name) and node.id in _BINDING)
        for node in ast.walk(tree)
    )


def _may_have_more(tree: ast.Module, names: Container[str]) -> bool:
    """Return whether functions, decorators or `sys.modules` may give the module a class or a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "modules":
            return True
        if isinstance(node, ast.Global) and any(name not in names for name in node.names):
            return True
    is_decorated = any(getattr(node, "decorator_list", ()) for node in _statements(tree.body))
    return is_decorated or "__getattr__" in names or _makes_classes(tree)


def _makes_classes(tree: ast.Module) -> bool:
    """Return whether a call at the module's level may make a class, as namedtuple does."""
    assigned = (node for node in _statements(tree.body) if isinstance(node, ast.Assign | ast.AnnAssign))
    return any(isinstance(part, ast.Call) for node in assigned for part in ast.walk(node))


def _of_torchserve(tree: ast.Module) -> set[str]:
    imports = (node for node in _statements(tree.body) if isinstance(node, ast.ImportFrom))
    return {
        alias.name
        for node in imports
        if (node.module or "").startswith("ts.torch_handler")
        for alias in node.names
        if alias.asname is None
    }
