"""Limits of model archives, for the storage-initializer and for both runtimes."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_LIMITS = "model_archive.limits"
_HOSTILE = "tests/hostile/storage"
_PACKAGES = "tests/unit/torchserve_compat/packages"
_UNIT = "tests/unit/model_archive"
_ARCHIVES = (
    "tests/integration/storage/test_hostile_archives.py::test_a_hostile_archive_is_refused_and_writes_nothing_outside"
)
_BOTH_SIDES = "tests/contract/test_model_archives.py::test_both_sides_say_the_same"
_REFUSED = "exit code 14 of the storage-initializer, 4 of a runtime"

BOUNDS = (
    Bound(
        what="files and folders of an archive",
        constant=f"{_LIMITS}:MAX_ENTRIES",
        unit=Unit.COUNT,
        beyond=_REFUSED,
        test=_BOTH_SIDES,
    ),
    Bound(
        what="expanded size of an archive, as a multiple of its own size",
        constant=f"{_LIMITS}:MAX_EXPANSION",
        unit=Unit.TIMES,
        beyond=_REFUSED,
        test=f"{_UNIT}/test_contents.py::test_the_size_of_all_files_counts_and_a_large_archive_may_hold_more",
    ),
    Bound(
        what="expanded size of an archive that is always allowed",
        constant=f"{_LIMITS}:HARMLESS_SIZE",
        unit=Unit.BYTES,
        beyond="the multiple applies",
        test=f"{_HOSTILE}/test_disks.py::test_a_bomb_is_refused_whatever_its_address",
    ),
    Bound(
        what="length of a file's name",
        constant=f"{_LIMITS}:MAX_NAME",
        unit=Unit.BYTES,
        beyond="exit code 8 of the storage-initializer for an object or a web server's file; in an archive as above",
        test=f"{_HOSTILE}/test_sizes.py::test_a_name_that_no_disk_takes_is_refused_before_it_is_asked_for",
    ),
    Bound(
        what="length of a path in an archive",
        constant=f"{_LIMITS}:MAX_PATH",
        unit=Unit.BYTES,
        beyond=_REFUSED,
        test=_ARCHIVES,
    ),
    Bound(
        what="a handler or settings in an archive that `isvc inspect` checks",
        constant=f"{_LIMITS}:MAX_CHECKED",
        unit=Unit.BYTES,
        beyond="it is not checked",
        test="tests/unit/storage_initializer/test_inspection.py::test_what_is_too_long_is_not_checked",
    ),
    Bound(
        what="inputs and outputs of a model file, and sizes of each, that `isvc inspect` shows",
        constant=f"{_LIMITS}:MAX_TENSORS",
        unit=Unit.COUNT,
        beyond="the others are not shown",
        test=f"{_UNIT}/test_signatures.py::test_only_so_many_tensors_are_told",
    ),
    Bound(
        what="fields of an ONNX file among which `isvc inspect` looks for its inputs",
        constant=f"{_LIMITS}:MAX_FIELDS",
        unit=Unit.COUNT,
        beyond="the inputs and outputs are not shown",
        test=f"{_UNIT}/test_signatures.py::test_only_so_many_fields_are_passed_over",
    ),
    Bound(
        what="requirements of an archive that `isvc inspect` shows",
        constant=f"{_LIMITS}:MAX_REQUIREMENTS",
        unit=Unit.BYTES,
        beyond="the rest is not shown",
        test="tests/unit/storage_initializer/test_inspection.py::test_long_requirements_are_cut",
    ),
    Bound(
        what="directory of a zip",
        constant=f"{_LIMITS}:MAX_ZIP_DIRECTORY",
        unit=Unit.BYTES,
        beyond=_REFUSED,
        test=_ARCHIVES,
    ),
    Bound(
        what="all headers of one member of a tar",
        constant=f"{_LIMITS}:MAX_TAR_HEADER",
        unit=Unit.BYTES,
        beyond=_REFUSED,
        test=_ARCHIVES,
    ),
    Bound(
        what="memory that a `.tar.xz` requires by its first block",
        constant=f"{_LIMITS}:MAX_XZ_MEMORY",
        unit=Unit.BYTES,
        beyond="exit code 14 of the storage-initializer; no runtime opens such an archive",
        test="tests/integration/storage/test_unpack.py::test_a_tar_that_asks_for_gigabytes_of_memory_is_refused",
    ),
    Bound(
        what="`MAR-INF/MANIFEST.json` of an archive",
        constant=f"{_LIMITS}:MAX_MANIFEST",
        unit=Unit.BYTES,
        beyond="exit code 14 of the storage-initializer, 3 of a runtime",
        test=f"{_UNIT}/test_archive.py::test_a_manifest_that_torchserve_refuses",
    ),
    Bound(
        what="time to install the packages that an archive requires",
        constant="torchserve_compat.limits:INSTALL_TIME",
        unit=Unit.SECONDS,
        beyond="exit code 4 of a runtime; a model that was loaded at run time becomes unavailable instead",
        test=f"{_PACKAGES}/test_installation.py::test_an_index_that_does_not_answer_is_given_up_in_time",
    ),
    Bound(
        what="packages of archives that the pods of a service account keep on a node",
        constant="torchserve_compat.limits:MAX_PACKAGES",
        unit=Unit.BYTES,
        beyond="those that were not used for longest are removed, unless a server uses them",
        test=f"{_PACKAGES}/test_cache.py::test_what_was_not_used_for_longest_is_evicted",
    ),
)
