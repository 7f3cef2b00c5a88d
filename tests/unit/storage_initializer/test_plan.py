"""Arguments and environment to a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_initializer.errors import UsageError, exit_codes
from storage_initializer.plan import CachePlan, LayoutName, RequestPolicy, make_plan, termination_log_of


def test_the_environment_is_not_shown_with_the_plan() -> None:
    assert "s3cret" not in repr(make_plan(["/a", "/b"], {"AWS_SECRET_ACCESS_KEY": "s3cret"}))


def test_the_policy_for_requests_has_kserves_names() -> None:
    plan = make_plan(["/a", "/b"], {"S3_CONNECT_TIMEOUT": "5", "S3_READ_TIMEOUT": "2.5", "S3_MAX_ATTEMPTS": "3"})

    assert plan.policy == RequestPolicy(connect_s=5, read_s=2.5, attempts=3)


def test_a_cache_has_a_folder_and_a_size() -> None:
    plan = make_plan(["/a", "/b"], {"STORAGE_CACHE": "/var/cache/models", "STORAGE_CACHE_SIZE": "1073741824"})

    assert plan.cache == CachePlan(Path("/var/cache/models"), 1 << 30)


@pytest.mark.parametrize("size", ["", "10Gi", "-1"])
def test_a_cache_without_a_size_is_refused(size: str) -> None:
    with pytest.raises(UsageError, match=r"^STORAGE_CACHE_SIZE is "):
        make_plan(["/a", "/b"], {"STORAGE_CACHE": "/var/cache/models", "STORAGE_CACHE_SIZE": size})


ENVIRONMENT = {"STORAGE_PVC_ROOT": "/claims", "STORAGE_LAYOUT": "torchserve", "TERMINATION_LOG": "/tmp/reason"}


def test_a_flag_beats_the_environment() -> None:
    flags = ["--pvc-root", "/other", "--layout", "none", "--termination-log", "/tmp/other"]

    plan = make_plan([*flags, "/a", "/b"], ENVIRONMENT)

    assert (plan.pvc_root, plan.layout, plan.termination_log) == (
        Path("/other"),
        LayoutName.NONE,
        Path("/tmp/other"),
    )


def test_an_empty_variable_counts_as_unset() -> None:
    assert make_plan(["/a", "/b"], dict.fromkeys(ENVIRONMENT, "")) == make_plan(["/a", "/b"], {})


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        ([], {}, "the following arguments are required: SRC DEST; see --help"),
        (
            ["/a"],
            {},
            "sources and destinations come in pairs, but 1 arguments were given; write SRC DEST [SRC DEST ...]",
        ),
        (
            ["/a", "/b", "/c"],
            {},
            "sources and destinations come in pairs, but 3 arguments were given; write SRC DEST [SRC DEST ...]",
        ),
        (["--nope", "/a", "/b"], {}, "unrecognized arguments: --nope; see --help"),
        (["--layout", "mlflow", "/a", "/b"], {}, "unknown layout 'mlflow'; choose from auto, torchserve, none"),
        (["/a", "/b"], {"STORAGE_LAYOUT": "TS"}, "unknown layout 'TS'; choose from auto, torchserve, none"),
        (["/a", "/b"], {"S3_MAX_ATTEMPTS": "no"}, "S3_MAX_ATTEMPTS is 'no'; set it to a number of at least 1"),
        (["/a", "/b"], {"S3_MAX_ATTEMPTS": "1001"}, "S3_MAX_ATTEMPTS is '1001'; set it to 1000 at most"),
        (["/a", "/b"], {"S3_READ_TIMEOUT": "86401"}, "S3_READ_TIMEOUT is '86401'; set it to 86400 at most"),
        (["/a", "/b"], {"S3_CONNECT_TIMEOUT": "nan"}, "S3_CONNECT_TIMEOUT is 'nan'; set it to a number of at least 1"),
        (["/a", "/b"], {"S3_READ_TIMEOUT": "0"}, "S3_READ_TIMEOUT is '0'; set it to a number of at least 1"),
        (["/a", "/b"], {"S3_READ_TIMEOUT": "inf"}, "S3_READ_TIMEOUT is 'inf'; set it to 86400 at most"),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        make_plan(arguments, environment)

    assert str(raised.value) == message


def test_help_names_every_flag_variable_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        make_plan(["--help"], {})

    text = capsys.readouterr().out
    assert raised.value.code == 0
    for word in ("--pvc-root", "--layout", "--termination-log", *ENVIRONMENT, *exit_codes().values()):
        assert word in text


def test_the_reason_of_wrong_usage_goes_where_the_environment_says() -> None:
    assert termination_log_of({"TERMINATION_LOG": "/tmp/reason"}) == Path("/tmp/reason")
    assert termination_log_of({}) == Path("/dev/termination-log")
