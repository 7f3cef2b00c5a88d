"""What an archive says of sequences: limits, headers, and what cannot be served."""

from __future__ import annotations

import math
from typing import Any

import pytest

from data_plane.batching.sequences import SequenceHeaders, SequenceLimits
from data_plane.model_server.errors import ConfigurationError
from torchserve_compat.store.settings import sequence_headers, sequence_limits

ASKED = {"sequenceBatching": True, "sequenceMaxIdleMSec": 60000}


def limits(batch_size: int = 1, workers: int = 1, **yaml: Any) -> SequenceLimits | None:
    return sequence_limits("a.mar", yaml, batch_size, workers)


def test_all_that_can_be_said_of_sequences_is_followed() -> None:
    yaml = {**ASKED, "sequenceTimeoutMSec": 5000, "maxNumSequence": 3, "maxSequenceJobQueueSize": 10}

    assert limits(batch_size=4, workers=2, **yaml) == SequenceLimits(
        max_sequences=3, max_idle_s=60.0, timeout_s=5.0, queue_size=10
    )


def test_without_a_number_there_is_a_place_for_each_request_of_a_batch_of_each_worker() -> None:
    assert limits(batch_size=4, workers=2, **ASKED) == SequenceLimits(8, 60.0, math.inf, 1)
    assert limits(workers=2, **ASKED) == SequenceLimits(2, 60.0, math.inf, 1)


@pytest.mark.parametrize("yaml", [{}, {"sequenceBatching": False}, {"sequenceMaxIdleMSec": 60000}])
def test_an_archive_that_does_not_ask_for_sequences_has_none(yaml: dict[str, Any]) -> None:
    assert limits(**yaml) is None


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        ({"sequenceBatching": "yes"}, "a.mar has sequenceBatching: 'yes'; write true or false."),
        ({"sequenceBatching": True}, "a.mar asks for sequenceBatching and has no sequenceMaxIdleMSec"),
        ({**ASKED, "sequenceMaxIdleMSec": 0}, "a.mar asks for sequenceBatching and has no sequenceMaxIdleMSec"),
        ({**ASKED, "sequenceMaxIdleMSec": "soon"}, "sequenceMaxIdleMSec is 'soon'; write a whole number, 0 or more."),
        ({**ASKED, "maxNumSequence": -1}, "maxNumSequence is -1; write a whole number, 1 or more."),
    ],
)
def test_sequences_that_cannot_be_served_are_refused(yaml: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        limits(**yaml)

    assert str(raised.value).startswith(words)


def test_the_headers_may_have_other_names() -> None:
    properties = {"ts_header_key_sequence_id": " X-Sequence-Id ", "ts_header_key_sequence_end": ""}

    assert sequence_headers({}) == SequenceHeaders()
    assert sequence_headers(properties) == SequenceHeaders(id=b"x-sequence-id")
