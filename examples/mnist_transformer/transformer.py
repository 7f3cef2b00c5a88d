"""Pictures in, digits out: decodes base64 images for the predictor `mnist`, which takes 784 grey values from 0 to 1.

On KServe's own SDK this file runs with `from kserve import …` in place of the import below, and nothing else changed.
"""

import argparse
import base64
import binascii
import io
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from transformer_sdk.kserve import Model, ModelServer, model_server
from transformer_sdk.kserve.errors import InvalidInput

SIDE = 28


class DigitTransformer(Model):
    """Everything between the hooks, the call to the predictor among it, is the SDK's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ready = True

    def preprocess(self, payload: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
        return {"instances": [{"data": pixels(instance)} for instance in payload["instances"]]}

    def postprocess(self, result: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
        return {"predictions": [{"digit": digit} for digit in result["predictions"]]}


def pixels(instance: Any) -> list[float]:
    """The grey values of `{"image": {"b64": …}}`, row by row."""
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(instance["image"]["b64"], validate=True)))
    except (KeyError, TypeError, binascii.Error, UnidentifiedImageError) as error:
        raise InvalidInput(f'an instance is {{"image": {{"b64": "a picture in base64"}}}}: {error!r}') from error
    grey = picture.convert("L").resize((SIDE, SIDE))
    return (np.asarray(grey, dtype=np.float32) / 255).ravel().tolist()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    ModelServer().start([DigitTransformer(args.model_name)])
