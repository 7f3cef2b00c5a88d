"""All of them."""

from __future__ import annotations

from tests.stories import (
    s1_bert_from_a_claim,
    s2_old_field_names,
    s3_custom_transformer,
    s4_micro_batching,
    s5_mnist_three_ways,
    s6_habits_of_torchserve,
)

STORIES = (
    s1_bert_from_a_claim.STORY,
    s2_old_field_names.STORY,
    s3_custom_transformer.STORY,
    s4_micro_batching.STORY,
    s5_mnist_three_ways.STORY,
    s6_habits_of_torchserve.STORY,
)
