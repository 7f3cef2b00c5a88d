"""A predictor on this machine for unit tests of transformers; the test sets its responses.

def test_the_digit_has_a_name():
    with FakePredictor(lambda instances: [7 for _ in instances]) as predictor:
        answer = predictor.ask(DigitTransformer("mnist"), {"instances": [picture]})

    assert answer == {"predictions": [{"digit": 7}]}
    assert predictor.requests[0].json() == {"instances": [{"data": [0.0] * 784}]}
"""

from transformer_sdk.testing.predictor import FakePredictor, PredictorRequest
from transformer_sdk.testing.server import Reply, TransformerServer

__all__ = ["FakePredictor", "PredictorRequest", "Reply", "TransformerServer"]
