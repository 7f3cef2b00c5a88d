"""Which keys of a bucket a path means, and what one that leads nowhere may have meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from storage_initializer.backends.objects import Listed, choose_files, nearest
from storage_initializer.errors import AccessDeniedError, UnsafeSourceError

KEYS = ("model-hf/a", "model/1/b", "model/a", "model2", "other", "others/model/a")


def bucket_of(sizes: Mapping[str, int]) -> tuple[Callable[[str], list[Listed]], Callable[[str], Listed | None]]:
    """How a store lists a folder, and finds an object."""
    objects = {key: Listed(key, sizes[key], "v") for key in sorted(sizes)}

    def list_folder(folder: str) -> list[Listed]:
        prefix = f"{folder.rstrip('/')}/" if folder else ""
        return [each for key, each in objects.items() if key.startswith(prefix)]

    return list_folder, objects.get


@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        ("", {"model-hf/a", "model/1/b", "model/a", "model2", "other", "others/model/a"}),
        ("model", {"1/b", "a"}),
        ("model/", {"1/b", "a"}),
        ("model/1", {"b"}),
        ("model-", set()),
        ("other", {"other"}),
        ("others", {"model/a"}),
        ("mod", set()),
    ],
)
def test_a_path_is_an_object_or_a_folder_and_never_a_mere_prefix(path: str, chosen: set[str]) -> None:
    found = choose_files(path, *bucket_of(dict.fromkeys(KEYS, 1)))

    assert {str(file.path) for _, file in found} == chosen


@pytest.mark.parametrize("key", ["m/../x", "m//etc/passwd", "m/a/./b", "m/a\0b", "m/a//b"])
def test_a_key_that_is_no_path_below_the_destination_is_refused(key: str) -> None:
    with pytest.raises(UnsafeSourceError, match="cannot be a file below the destination; rename it"):
        choose_files("m/", *bucket_of({key: 1}))


def test_a_marker_of_the_folder_itself_is_no_file() -> None:
    """obstore lists ``m/`` as ``m``."""
    marker = Listed("m", 0, "v")

    found = choose_files("m", lambda _: [marker, Listed("m/a", 1, "v")], lambda _: None)

    assert [str(file.path) for _, file in found] == ["a"]


@pytest.mark.parametrize("keys", [{"m/a": 1}, {}])
def test_who_may_not_read_an_object_of_the_folders_name_reads_the_folder(keys: dict[str, int]) -> None:
    def refuse(key: str) -> Listed:
        raise AccessDeniedError("no")

    if keys:
        assert [str(file.path) for _, file in choose_files("m", bucket_of(keys)[0], refuse)] == ["a"]
    else:
        with pytest.raises(AccessDeniedError):
            choose_files("m", bucket_of(keys)[0], refuse)


def choose(path: str, sizes: Mapping[str, int]) -> dict[str, bool]:
    """Each file that ``path`` means in a bucket of these objects, and whether the path names just this one."""
    return {str(file.path): file.exact for _, file in choose_files(path, *bucket_of(sizes))}


@pytest.mark.parametrize(
    ("path", "sizes", "chosen"),
    [
        ("m", {"m": 1, "m/a": 1}, {"m": True}),
        ("m", {"m": 0, "m/a": 1}, {"a": False}),
        ("m", {"m": 0}, {"m": True}),
        ("m", {"m/a": 0, "m/a/b": 1, "m/a/c/d": 1, "m/a/c": 0}, {"a/b": False, "a/c/d": False}),
        ("m", {"m/__init__.py": 0, "m/a": 1}, {"__init__.py": False, "a": False}),
    ],
    ids=["an object beats a folder", "an empty one does not", "unless it is all there is", "markers", "empty files"],
)
def test_an_object_without_content_gives_way_to_the_folder_of_its_name(
    path: str, sizes: Mapping[str, int], chosen: dict[str, bool]
) -> None:
    assert choose(path, sizes) == chosen


def test_an_object_with_the_name_of_a_folder_is_refused_before_anything_is_brought() -> None:
    with pytest.raises(UnsafeSourceError, match="the object 'm/a' has the name of a folder of others; rename it"):
        choose("m", {"m/a": 1, "m/a/b": 1})


def names_below(prefix: str) -> Iterator[str]:
    folders = {
        "": ("models/", "data/", "note.txt"),
        "models/": ("models/bert/", "models/mnist/", "models/x.mar"),
    }
    return iter(folders.get(prefix, ()))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("modles/bert", "did you mean models?"),
        ("models/brt", "did you mean bert?"),
        ("models/zzz", "there is bert, mnist, x.mar"),
        ("models/x.mar/", "models/x.mar is an object, not a folder; leave out the slash at the end"),
        ("note.txt/1", "note.txt is an object, so nothing can be below it; end the path there"),
    ],
)
def test_the_nearest_names_are_told(path: str, told: str) -> None:
    assert nearest(path, names_below) == told


def test_who_may_not_list_gets_no_names() -> None:
    def refuse(prefix: str) -> Iterator[str]:
        raise AccessDeniedError("no")

    assert nearest("models", refuse) == "correct the path"
