"""Bounds of the storage-initializer."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_LIMITS = "storage_initializer.limits"
_HOSTILE = "tests/hostile/test_storage.py"
_UNIT = "tests/unit/storage_initializer"
_HEADS = f"{_HOSTILE}::test_an_answer_whose_head_has_no_end_is_given_up"
_ARCHIVES = (
    "tests/integration/storage/test_hostile_archives.py::test_a_hostile_archive_is_refused_and_writes_nothing_outside"
)

BOUNDS = (
    Bound(
        what="connecting to a server",
        constant=f"{_LIMITS}:CONNECT_TIMEOUT_S",
        unit=Unit.SECONDS,
        setting="`S3_CONNECT_TIMEOUT`",
        beyond="tried again; at last exit code 15",
        test=f"{_UNIT}/test_plan.py::test_patience_has_kserves_names",
    ),
    Bound(
        what="the next byte of a server's answer",
        constant=f"{_LIMITS}:READ_TIMEOUT_S",
        unit=Unit.SECONDS,
        setting="`S3_READ_TIMEOUT`",
        beyond="tried again, from where it was; at last exit code 15",
        test=f"{_HOSTILE}::test_a_server_that_says_nothing_is_not_waited_for",
    ),
    Bound(
        what="attempts of one request",
        constant=f"{_LIMITS}:MAX_ATTEMPTS",
        unit=Unit.COUNT,
        setting="`S3_MAX_ATTEMPTS`",
        beyond="exit code 15 or 17; what has arrived is kept for the next run",
        test=f"{_UNIT}/test_retry.py::test_the_last_error_is_the_one_that_is_told",
    ),
    Bound(
        what="waiting between two attempts",
        constant=f"{_LIMITS}:MAX_BACKOFF_S",
        unit=Unit.SECONDS,
        beyond="the next attempt",
        test=f"{_UNIT}/test_retry.py::test_what_may_pass_is_tried_again_after_longer_and_longer_waits",
    ),
    Bound(
        what="a server's rate in bytes a second",
        constant=f"{_LIMITS}:MIN_RATE",
        unit=Unit.BYTES,
        beyond="as if it did not answer",
        test=f"{_HOSTILE}::test_a_server_that_trickles_counts_as_one_that_does_not_answer",
    ),
    Bound(
        what="the time over which that rate is taken, in read timeouts",
        constant=f"{_LIMITS}:TRICKLE_WINDOW",
        unit=Unit.TIMES,
        setting="`S3_READ_TIMEOUT`",
        beyond="as if it did not answer",
        test=f"{_UNIT}/test_response.py::test_a_server_that_sends_a_byte_now_and_then_gives_no_answer",
    ),
    Bound(
        what="redirects of one address",
        constant=f"{_LIMITS}:MAX_REDIRECTS",
        unit=Unit.COUNT,
        beyond="exit code 17",
        test="tests/integration/storage/stores/test_http.py::test_redirects_end",
    ),
    Bound(
        what="a header of a server's answer",
        constant=f"{_LIMITS}:MAX_HEADER_LINE",
        unit=Unit.BYTES,
        beyond="exit code 15",
        test=_HEADS,
    ),
    Bound(
        what="headers of a server's answer",
        constant=f"{_LIMITS}:MAX_HEADERS",
        unit=Unit.COUNT,
        beyond="exit code 15",
        test=_HEADS,
    ),
    Bound(
        what="answers `100 Continue` before the one that counts",
        constant=f"{_LIMITS}:MAX_INTERIM_ANSWERS",
        unit=Unit.COUNT,
        beyond="exit code 17",
        test=_HEADS,
    ),
    Bound(
        what="an answer that is no file: a page of a listing, a token, an error",
        constant=f"{_LIMITS}:MAX_ANSWER",
        unit=Unit.BYTES,
        beyond="the rest is not read: exit code 17 for what makes no sense then",
        test=f"{_HOSTILE}::test_a_page_of_a_listing_without_an_end_is_not_held_in_memory",
    ),
    Bound(
        what="pages of one listing",
        constant=f"{_LIMITS}:MAX_PAGES",
        unit=Unit.COUNT,
        beyond="exit code 17",
        test=f"{_HOSTILE}::test_a_listing_without_an_end_is_given_up",
    ),
    Bound(
        what="files of a source",
        constant=f"{_LIMITS}:MAX_FILES",
        unit=Unit.COUNT,
        beyond="exit code 8",
        test=f"{_HOSTILE}::test_links_that_multiply_are_refused",
    ),
    Bound(
        what="folders in one another, of a claim or folder",
        constant=f"{_LIMITS}:MAX_DEPTH",
        unit=Unit.COUNT,
        beyond="exit code 8",
        test=f"{_HOSTILE}::test_folders_without_an_end_are_refused",
    ),
    Bound(
        what="a file whose server does not tell its length",
        constant=f"{_LIMITS}:MAX_UNSIZED",
        unit=Unit.BYTES,
        beyond="exit code 17; a file whose length is told may be as long as the disk has room",
        test=f"{_HOSTILE}::test_a_file_without_a_length_and_without_an_end_is_given_up",
    ),
    Bound(
        what="an S3 object whose etag is compared as an MD5",
        constant=f"{_LIMITS}:MAX_MD5",
        unit=Unit.BYTES,
        beyond="only the checksum that the store tells is compared, and the length",
        test=f"{_UNIT}/test_s3_checksums.py::test_the_etag_of_a_large_object_is_not_compared",
    ),
    Bound(
        what="files and folders of an archive",
        constant=f"{_LIMITS}:MAX_ENTRIES",
        unit=Unit.COUNT,
        beyond="exit code 14",
        test=_ARCHIVES,
    ),
    Bound(
        what="what an archive unpacks to, times its own size",
        constant=f"{_LIMITS}:MAX_EXPANSION",
        unit=Unit.TIMES,
        beyond="exit code 14",
        test=f"{_UNIT}/test_contents.py::test_the_size_of_all_files_counts_and_a_large_archive_may_hold_more",
    ),
    Bound(
        what="what an archive may unpack to in any case",
        constant=f"{_LIMITS}:HARMLESS_SIZE",
        unit=Unit.BYTES,
        beyond="the ratio counts",
        test=f"{_HOSTILE}::test_a_bomb_is_refused_whatever_its_address",
    ),
    Bound(
        what="a file's name",
        constant=f"{_LIMITS}:MAX_NAME",
        unit=Unit.BYTES,
        beyond="exit code 8 for an object or a web server's file, 14 in an archive",
        test=f"{_HOSTILE}::test_a_name_that_no_disk_takes_is_refused_before_it_is_asked_for",
    ),
    Bound(
        what="a path in an archive",
        constant=f"{_LIMITS}:MAX_PATH",
        unit=Unit.BYTES,
        beyond="exit code 14",
        test=_ARCHIVES,
    ),
    Bound(
        what="links in a tar that lead to one another",
        constant=f"{_LIMITS}:MAX_LINKS",
        unit=Unit.COUNT,
        beyond="exit code 14",
        test="tests/integration/storage/test_unpack.py::test_links_that_lead_to_links_end",
    ),
    Bound(
        what="the directory of a zip",
        constant=f"{_LIMITS}:MAX_ZIP_DIRECTORY",
        unit=Unit.BYTES,
        beyond="exit code 14",
        test=_ARCHIVES,
    ),
    Bound(
        what="all headers of a tar's member",
        constant=f"{_LIMITS}:MAX_TAR_HEADER",
        unit=Unit.BYTES,
        beyond="exit code 14",
        test=_ARCHIVES,
    ),
    Bound(
        what="`MAR-INF/MANIFEST.json` of an archive",
        constant=f"{_LIMITS}:MAX_MANIFEST",
        unit=Unit.BYTES,
        beyond="exit code 14",
        test="tests/integration/storage/test_archives.py::test_a_manifest_that_torchserve_refuses",
    ),
    Bound(
        what="`config/config.properties`",
        constant=f"{_LIMITS}:MAX_CONFIG",
        unit=Unit.BYTES,
        beyond="exit code 13",
        test="tests/integration/storage/test_layouts.py::test_a_wrong_configuration",
    ),
    Bound(
        what="waiting for another pod that fills the node's cache",
        constant=f"{_LIMITS}:CACHE_WAIT_S",
        unit=Unit.SECONDS,
        beyond="the model is downloaded without the cache",
        test=f"{_HOSTILE}::test_a_lock_that_nobody_lets_go_of_is_waited_for_no_longer_than_the_patience",
    ),
    Bound(
        what="downloads of a model that others push out of the cache at once",
        constant=f"{_LIMITS}:CACHE_ATTEMPTS",
        unit=Unit.COUNT,
        beyond="it is downloaded without the cache",
        test="tests/integration/storage/test_node_cache.py::test_a_model_that_others_push_out_at_once_is_downloaded_without_the_cache",
    ),
    Bound(
        what="an entry of the cache that is read whole at each use",
        constant=f"{_LIMITS}:CACHE_READ_ALWAYS",
        unit=Unit.BYTES,
        beyond="it is read at its first use after a boot; its size and time are compared at each",
        test="tests/integration/storage/test_node_cache.py::test_a_large_entry_is_read_whole_once_after_each_boot",
    ),
    Bound(
        what="the reason of a failure",
        constant=f"{_LIMITS}:MAX_REASON",
        unit=Unit.BYTES,
        beyond="its end is cut off",
        test=f"{_HOSTILE}::test_the_words_of_a_store_forge_no_reason_and_are_cut",
    ),
    Bound(
        what="characters of a line of the log",
        constant=f"{_LIMITS}:MAX_LOG_LINE",
        unit=Unit.COUNT,
        beyond="its end is cut off",
        test=f"{_UNIT}/test_lines.py::test_a_very_long_line_is_cut",
    ),
)
