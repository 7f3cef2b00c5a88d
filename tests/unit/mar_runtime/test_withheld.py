"""Which variables of the environment models do not get."""

from __future__ import annotations

import pytest

from data_plane.model_server.errors import ConfigurationError
from mar_runtime.configuration.withheld import withheld_variables

ENVIRONMENT = ("HOME", "DB_PASSWORD", "DB_PASSWORD_FILE", "API_TOKEN")


@pytest.mark.parametrize(
    ("properties", "withheld"),
    [
        ({}, ()),
        ({"blacklist_env_vars": " "}, ()),
        ({"blacklist_env_vars": "PASSWORD"}, ()),
        ({"blacklist_env_vars": ".*_PASSWORD|API_.*"}, ("API_TOKEN", "DB_PASSWORD")),
    ],
)
def test_they_are_those_whose_whole_names_match(properties: dict[str, str], withheld: tuple[str, ...]) -> None:
    assert withheld_variables(properties, ENVIRONMENT) == withheld


def test_what_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(ConfigurationError) as raised:
        withheld_variables({"blacklist_env_vars": "(.*"}, ENVIRONMENT)

    assert str(raised.value) == (
        "blacklist_env_vars in config.properties is not a regular expression: "
        "missing ), unterminated subpattern at position 0: '(.*'."
    )
