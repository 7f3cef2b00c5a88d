"""The variable with the payload logger's settings."""

from __future__ import annotations

import pytest

from data_plane.payload_logger.settings import VARIABLE, BadSettings, LoggerSettings, Mode, settings_of


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}, {VARIABLE: " "}])
def test_nothing_is_logged_unless_the_variable_is_set(environment: dict[str, str]) -> None:
    assert settings_of(environment) is None


def test_a_url_is_enough() -> None:
    assert settings_of({VARIABLE: '{"url": "http://sink"}'}) == LoggerSettings(url="http://sink")


def test_all_settings_are_read() -> None:
    text = (
        '{"url": "https://sink:8443/in?a=b", "mode": "response", "inferenceService": "cat", "namespace": "zoo", '
        '"component": "transformer", "endpoint": "canary", "metadataHeaders": ["X-User"], '
        '"annotations": {"team": "a"}, "fraction": 0.25, "caFile": "/etc/ca.crt", "tlsSkipVerify": true}'
    )

    settings = settings_of({VARIABLE: text})

    assert settings == LoggerSettings(
        url="https://sink:8443/in?a=b",
        mode=Mode.RESPONSE,
        inference_service="cat",
        namespace="zoo",
        component="transformer",
        endpoint="canary",
        metadata_headers=("X-User",),
        annotations={"team": "a"},
        fraction=0.25,
        ca_file="/etc/ca.crt",
        tls_skip_verify=True,
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http://sink", "JSON is malformed"),
        ("{}", "missing required field `url`"),
        ('{"url": "http://a", "mode": "some"}', "Invalid enum value 'some' - at `$.mode`"),
        ('{"url": "http://a", "fraction": 0}', "Expected `float` > 0"),
        ('{"url": "http://a", "fraction": 1.5}', "Expected `float` <= 1"),
        ('{"url": "http://a", "sampleRate": 1}', "unknown field `sampleRate`"),
        ('{"url": "s3://bucket"}', "its url 's3://bucket' does not begin with http:// or https://"),
        ('{"url": "sink"}', "its url 'sink' does not begin with http:// or https://"),
        ('{"url": "http://"}', "'http://' is not an address of an HTTP server"),
        ('{"url": "http://a:b@sink"}', "its url contains a user name, which would not be sent"),
        ('{"url": "s3://a:b@bucket"}', "its url contains a user name, which would not be sent"),
        ('{"url": "http://[::1"}', "Invalid IPv6 URL"),
    ],
)
def test_settings_that_cannot_be_used_say_why(text: str, problem: str) -> None:
    with pytest.raises(BadSettings) as error:
        settings_of({VARIABLE: text})

    assert str(error.value).startswith(f"The variable {VARIABLE} cannot be used: ")
    assert problem in str(error.value)
    assert str(error.value).endswith('write a JSON object such as {"url": "http://sink"}, or remove it.')
