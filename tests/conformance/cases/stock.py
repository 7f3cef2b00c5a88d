"""The handlers that come with TorchServe, on small random networks."""

from __future__ import annotations

import base64

from tests.conformance.case import JSON, Case, multipart, predictions
from tests.conformance.pictures import png
from tests.support.runtimes import Request

PICTURE = png()
FORM, FORM_TYPE = multipart({"data": ("image/png", PICTURE)})
TEXT = b"The <b>parcel</b> is LATE!"

CASES = (
    Case("onnx", "BaseHandler with an ONNX `serializedFile`", "onnx", predictions("onnx", b"[1, 2, 3, 4]", JSON)),
    Case("image-bytes", "`image_classifier`: an image's bytes", "image-classifier",
         predictions("image-classifier", PICTURE, "image/png")),
    Case("image-put", "`image_classifier`: `curl -T digit.png`", "image-classifier",
         Request("PUT", "/predictions/image-classifier", PICTURE)),
    Case("image-multipart", "`image_classifier`: `curl -F data=@digit.png`", "image-classifier",
         predictions("image-classifier", FORM, FORM_TYPE)),
    Case("image-base64", "`image_classifier`: a base64 text", "image-classifier",
         predictions("image-classifier", base64.b64encode(PICTURE), "text/plain")),
    Case("object-detector", "`object_detector`", "object-detector", predictions("object-detector", PICTURE)),
    Case("image-segmenter", "`image_segmenter`", "image-segmenter", predictions("image-segmenter", PICTURE)),
    Case("image-explain", "`/explanations/<model>`, by captum", "image-classifier",
         Request("POST", "/explanations/image-classifier", PICTURE)),
    Case("text-classifier", "`text_classifier`", "text-classifier", predictions("text-classifier", TEXT, "text/plain")),
    Case("text-bytes", "`text_classifier`: bytes", "text-classifier", predictions("text-classifier", TEXT)),
)  # fmt: skip
