"""Bounds of the storage-initializer."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_LIMITS = "storage_initializer.limits"
_HOSTILE = "tests/hostile/storage"
_UNIT = "tests/unit/storage_initializer"

BOUNDS = (
    Bound(
        what="time to connect to a server",
        constant=f"{_LIMITS}:CONNECT_TIMEOUT_S",
        unit=Unit.SECONDS,
        setting="`S3_CONNECT_TIMEOUT`",
        beyond="retried; finally exit code 15",
        test=f"{_UNIT}/test_plan.py::test_the_policy_for_requests_has_kserves_names",
    ),
    Bound(
        what="time until the next byte of a server's response",
        constant=f"{_LIMITS}:READ_TIMEOUT_S",
        unit=Unit.SECONDS,
        setting="`S3_READ_TIMEOUT`",
        beyond="retried from the same position; finally exit code 15",
        test=f"{_HOSTILE}/test_endless_responses.py::test_a_server_that_says_nothing_is_not_waited_for",
    ),
    Bound(
        what="attempts for one request",
        constant=f"{_LIMITS}:MAX_ATTEMPTS",
        unit=Unit.COUNT,
        setting="`S3_MAX_ATTEMPTS`",
        beyond="exit code 15 or 17; the next run continues with what has arrived",
        test=f"{_UNIT}/test_retry.py::test_the_last_error_is_the_one_that_is_told",
    ),
    Bound(
        what="maximum value of either timeout",
        constant=f"{_LIMITS}:MAX_TIMEOUT_S",
        unit=Unit.SECONDS,
        beyond="exit code 2",
        test=f"{_UNIT}/test_plan.py::test_wrong_usage_is_explained",
    ),
    Bound(
        what="maximum number of attempts",
        constant=f"{_LIMITS}:MAX_ATTEMPTS_SET",
        unit=Unit.COUNT,
        beyond="exit code 2",
        test=f"{_UNIT}/test_plan.py::test_wrong_usage_is_explained",
    ),
    Bound(
        what="delay between two attempts",
        constant=f"{_LIMITS}:MAX_BACKOFF_S",
        unit=Unit.SECONDS,
        beyond="the next attempt starts",
        test=f"{_UNIT}/test_retry.py::test_what_may_pass_is_tried_again_after_longer_and_longer_waits",
    ),
    Bound(
        what="minimum rate of a web server or a hub, in bytes per second",
        constant=f"{_LIMITS}:MIN_RATE",
        unit=Unit.BYTES,
        beyond="the same as for a server that does not respond",
        test=f"{_HOSTILE}/test_endless_responses.py::test_a_server_that_trickles_counts_as_one_that_does_not_answer",
    ),
    Bound(
        what="period over which that rate is measured, in read timeouts",
        constant=f"{_LIMITS}:TRICKLE_WINDOW",
        unit=Unit.TIMES,
        setting="`S3_READ_TIMEOUT`",
        beyond="the same as for a server that does not respond",
        test=f"{_HOSTILE}/test_endless_responses.py::test_a_server_that_trickles_counts_as_one_that_does_not_answer",
    ),
    Bound(
        what="redirects of one URL",
        constant=f"{_LIMITS}:MAX_REDIRECTS",
        unit=Unit.COUNT,
        beyond="exit code 17",
        test="tests/e2e/stores/test_http.py::test_redirects_end",
    ),
    Bound(
        what="a response of a web server or a hub that is not a file: a token, a commit, an error",
        constant=f"{_LIMITS}:MAX_RESPONSE",
        unit=Unit.BYTES,
        beyond="the rest is not read: exit code 17, or 7 for a token, if the beginning is not valid by itself",
        test=f"{_HOSTILE}/test_endless_responses.py::test_a_response_that_is_no_file_is_not_held_in_memory",
    ),
    Bound(
        what="time to list an object store",
        constant=f"{_LIMITS}:MAX_LISTING_S",
        unit=Unit.SECONDS,
        beyond="exit code 17",
        test=f"{_HOSTILE}/test_endless_responses.py::test_a_listing_without_an_end_is_given_up",
    ),
    Bound(
        what="time for one response of an object store: a page of a listing, 16 MiB of an object",
        constant=f"{_LIMITS}:MAX_REQUEST_S",
        unit=Unit.SECONDS,
        beyond="the same as for a server that does not respond",
        test=f"{_UNIT}/test_store.py::test_a_client_has_the_timeouts_of_the_policy_and_one_for_each_response",
    ),
    Bound(
        what="files of a source",
        constant=f"{_LIMITS}:MAX_FILES",
        unit=Unit.COUNT,
        beyond="exit code 8",
        test=f"{_HOSTILE}/test_local_sources.py::test_links_that_multiply_are_refused",
    ),
    Bound(
        what="nesting depth of folders in a claim or folder",
        constant=f"{_LIMITS}:MAX_DEPTH",
        unit=Unit.COUNT,
        beyond="exit code 8",
        test=f"{_HOSTILE}/test_local_sources.py::test_folders_without_an_end_are_refused",
    ),
    Bound(
        what="a file whose server does not report its length",
        constant=f"{_LIMITS}:MAX_UNSIZED",
        unit=Unit.BYTES,
        beyond="exit code 17; a file with a reported length may use all free disk space",
        test=f"{_HOSTILE}/test_sizes.py::test_a_file_without_a_length_and_without_an_end_is_given_up",
    ),
    Bound(
        what="an object of a store without TLS whose etag is compared as an MD5",
        constant=f"{_LIMITS}:MAX_MD5",
        unit=Unit.BYTES,
        beyond="only the length is compared",
        test=f"{_UNIT}/test_store.py::test_the_etag_of_a_large_object_is_not_compared",
    ),
    Bound(
        what="links in a tar that lead to one another",
        constant=f"{_LIMITS}:MAX_LINKS",
        unit=Unit.COUNT,
        beyond="exit code 14",
        test="tests/integration/storage/test_unpack.py::test_links_that_lead_to_links_end",
    ),
    Bound(
        what="`config/config.properties`",
        constant=f"{_LIMITS}:MAX_CONFIG",
        unit=Unit.BYTES,
        beyond="exit code 13",
        test="tests/integration/storage/test_layouts.py::test_a_wrong_configuration",
    ),
    Bound(
        what="archives of a source that `isvc inspect` looks into",
        constant=f"{_LIMITS}:MAX_INSPECTED",
        unit=Unit.COUNT,
        beyond="the others are not looked into, which is said",
        test=f"{_UNIT}/test_inspection.py::test_only_so_many_archives_are_looked_into",
    ),
    Bound(
        what="time to wait for another pod that fills the node's cache",
        constant=f"{_LIMITS}:CACHE_WAIT_S",
        unit=Unit.SECONDS,
        beyond="the model is downloaded without the cache",
        test=f"{_HOSTILE}/test_shared_folders.py::test_a_lock_that_is_never_released_is_waited_for_no_longer_than_allowed",
    ),
    Bound(
        what="attempts to cache a model that other downloads evict at once",
        constant=f"{_LIMITS}:CACHE_ATTEMPTS",
        unit=Unit.COUNT,
        beyond="it is downloaded without the cache",
        test="tests/integration/storage/test_node_cache.py::test_a_model_that_others_push_out_at_once_is_downloaded_without_the_cache",
    ),
    Bound(
        what="a cache entry that is read completely at each use",
        constant=f"{_LIMITS}:CACHE_READ_ALWAYS",
        unit=Unit.BYTES,
        beyond="it is read completely at its first use after a boot; its size and time are compared at each use",
        test="tests/integration/storage/test_node_cache.py::test_a_large_entry_is_read_whole_once_after_each_boot",
    ),
    Bound(
        what="the reason of a failure",
        constant=f"{_LIMITS}:MAX_REASON",
        unit=Unit.BYTES,
        beyond="it is truncated",
        test=f"{_HOSTILE}/test_forged_lines.py::test_the_words_of_a_store_forge_no_reason_and_are_cut",
    ),
    Bound(
        what="characters of a log line",
        constant=f"{_LIMITS}:MAX_LOG_LINE",
        unit=Unit.COUNT,
        beyond="it is truncated",
        test=f"{_UNIT}/test_lines.py::test_a_very_long_line_is_cut",
    ),
)
