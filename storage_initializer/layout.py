"""Whether a folder is laid out for TorchServe: ``config/config.properties`` and a model store.

A wrong name that is found before the server starts costs seconds; TorchServe itself would start without a model and
without a message.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

from model_archive.archive import check_archive, is_model
from model_archive.configuration import CONFIG, NO_WORKFLOWS, STORES, Reference, requested_archives, select
from model_archive.errors import InvalidConfiguration
from storage_initializer.errors import LayoutError
from storage_initializer.limits import MAX_CONFIG
from storage_initializer.plan import LayoutName
from storage_initializer.suggest import suggestion

log = logging.getLogger(__name__)

# Where KServe's users expect to find the model, and so what an absolute model_store of theirs starts with.
_MODELS_MOUNT = PurePosixPath("/mnt/models")
_PLACEHOLDER = re.compile(r"\$\$[^$]+\$\$")


def check_layout(layout: LayoutName, root: Path, destination: Path) -> Sequence[str]:
    """Check the layout where it has to be checked; the files are at ``root`` and will be moved to ``destination``.

    Returns a warning for each archive that the servers do without.
    """
    if layout is LayoutName.TORCHSERVE or (layout is LayoutName.AUTO and _looks_like_torchserve(root)):
        return check_torchserve(root, PurePosixPath(destination))
    return ()


def check_torchserve(root: Path, destination: PurePosixPath) -> Sequence[str]:
    """Return warnings; raises LayoutError or InvalidArchive where TorchServe would serve no model as configured."""
    settings = parse_settings(_read_config(root))
    references = requested(settings)
    store = _find_store(root, settings, destination)
    if references is None:
        _check_everything(root / store, store)
        return ()
    return _check_references(root / store, store, references)


def _check_references(folder: Path, store: str, references: Sequence[Reference]) -> Sequence[str]:
    there = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
    served, left_out = select(references, there)
    for reference in served:
        if reference.is_remote:
            continue
        if reference.archive not in there:
            raise LayoutError(not_there(reference, store, there))
        check_archive(folder / reference.archive, f"{store}/{reference.archive}")
        log.info("checked %s/%s (%s)", store, reference.archive, reference.named_by)
    return [
        f"{CONFIG} names {one.archive} ({one.named_by}), but {_why_left_out(one, store)}; the others are served"
        for one in left_out
    ]


def _why_left_out(reference: Reference, store: str) -> str:
    return NO_WORKFLOWS if reference.is_workflow else f"{store} does not hold it"


def not_there(reference: Reference, store: object, there: Iterable[str]) -> str:
    """Return what is wrong where the store does not hold an archive, and the nearest that it holds."""
    if reference.is_workflow:
        return f"{CONFIG} names {reference.archive} ({reference.named_by}), but {NO_WORKFLOWS}"
    return (
        f"{CONFIG} names {reference.archive} ({reference.named_by}), but {store} does not hold it; "
        f"{suggestion(reference.archive, there)}"
    )


def parse_settings(content: bytes, name: str = CONFIG) -> dict[str, str]:
    """Return the settings of a Java properties file, of which one byte more than MAX_CONFIG has been read at most."""
    import javaproperties  # the only dependency, and of this check alone

    if len(content) > MAX_CONFIG:
        raise LayoutError(f"{name} is larger than 1 MiB; it should be a short text file")

    try:
        return dict(javaproperties.load(BytesIO(content)))
    except ValueError as error:
        raise LayoutError(f"{name} is not a Java properties file ({error}); correct it") from error


def requested(settings: Mapping[str, str]) -> tuple[Reference, ...] | None:
    """Return the archives that the configuration requests, None for all that the model store holds.

    A setting with a placeholder counts as unset: it is filled in from the server's environment, which is not ours.
    """
    known = {key: value for key, value in settings.items() if not _PLACEHOLDER.search(value)}
    try:
        return requested_archives(known)
    except InvalidConfiguration as error:
        raise LayoutError(str(error)) from None


def store_below(configured: str, destination: PurePosixPath) -> PurePosixPath | None:
    """Return the model store relative to the model's folder, None where it is elsewhere."""
    path = PurePosixPath(configured)
    for base in (destination, _MODELS_MOUNT):
        if path.is_relative_to(base):
            path = path.relative_to(base)
    return None if path.is_absolute() or ".." in path.parts else path


def _looks_like_torchserve(root: Path) -> bool:
    """A store without configuration is valid: the runtime without Java serves it. A misplaced configuration is not."""
    has_store = any((root / store).is_dir() for store in STORES)
    return (root / CONFIG).is_file() or (has_store and any(root.rglob(PurePosixPath(CONFIG).name)))


def _read_config(root: Path) -> bytes:
    config = root / CONFIG
    if not config.is_file():
        there = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        raise LayoutError(f"there is no {CONFIG}; {suggestion(CONFIG, there)}")
    with config.open("rb") as stream:
        return stream.read(MAX_CONFIG + 1)


def _find_store(root: Path, settings: Mapping[str, str], destination: PurePosixPath) -> str:
    configured = settings.get("model_store", "").strip() or STORES[0]
    candidates = [store_below(configured, destination), *map(PurePosixPath, STORES)]
    for candidate in candidates:
        if candidate is not None and (root / candidate).is_dir():
            if candidate is not candidates[0]:
                log.info("model_store=%s is not there; taking %s", configured, candidate)
            return str(candidate)
    folders = [entry.name for entry in root.iterdir() if entry.is_dir()]
    raise LayoutError(f"there is no model store {configured}; {suggestion(configured, folders)}")


def _check_everything(folder: Path, store: str) -> None:
    archives = sorted(entry for entry in folder.iterdir() if is_model(entry))
    if not archives:
        raise LayoutError(f"{store} holds no archive; put the .mar files there")
    found: dict[str, str] = {}
    for archive in archives:
        manifest = check_archive(archive, f"{store}/{archive.name}")
        model = f"model {manifest.model_name}, version {manifest.model_version}"
        if other := found.get(model):
            raise LayoutError(f"{other} and {archive.name} in {store} both hold {model}; remove one of them")
        found[model] = archive.name
        log.info("checked %s/%s (all are loaded; %s)", store, archive.name, model)
