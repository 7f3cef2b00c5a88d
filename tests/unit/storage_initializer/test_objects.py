"""Which keys of a bucket a path means, and what one that leads nowhere may have meant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage_initializer.backends.objects import Listed, choose_files, nearest
from storage_initializer.errors import AccessDeniedError, UnsafeSourceError

KEYS = ("model", "model-hf/a", "model/", "model/1/b", "model/a", "model2", "other/model/a")


def bucket_of(*keys: str) -> Iterator[Listed]:
    return iter([Listed(key, 1, "v") for key in sorted(keys)])


@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        ("", {"model", "model-hf/a", "model/1/b", "model/a", "model2", "other/model/a"}),
        ("model", {"model"}),
        ("model/", {"1/b", "a"}),
        ("model/1", {"b"}),
        ("model-", set()),
        ("other", {"model/a"}),
        ("mod", set()),
    ],
)
def test_a_path_is_an_object_or_a_folder_and_never_a_mere_prefix(path: str, chosen: set[str]) -> None:
    found = choose_files(path, lambda prefix: bucket_of(*(key for key in KEYS if key.startswith(prefix))))

    assert {str(file.path) for _, file in found} == chosen


@pytest.mark.parametrize("key", ["m/../x", "m//etc/passwd", "m/a/./b", "m/a\0b", "m/a//b"])
def test_a_key_that_is_no_path_below_the_destination_is_refused(key: str) -> None:
    with pytest.raises(UnsafeSourceError, match="cannot be a file below the destination; rename it"):
        choose_files("m/", lambda prefix: bucket_of(key))


def names_below(prefix: str) -> Iterator[str]:
    folders = {"": ("models/", "data/", "note.txt"), "models/": ("models/bert/", "models/mnist/")}
    return iter(folders.get(prefix, ()))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("modles/bert", "did you mean models?"),
        ("models/brt", "did you mean bert?"),
        ("models/zzz", "there is bert, mnist"),
        ("note.txt/1", "note.txt is an object, so nothing can be below it; end the path there"),
    ],
)
def test_the_nearest_names_are_told(path: str, told: str) -> None:
    assert nearest(path, names_below) == told


def test_who_may_not_list_gets_no_names() -> None:
    def refuse(prefix: str) -> Iterator[str]:
        raise AccessDeniedError("no")

    assert nearest("models", refuse) == "correct the path"
