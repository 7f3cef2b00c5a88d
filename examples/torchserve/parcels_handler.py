"""A handler on top of TorchServe's for texts; what it tells is in a package that the archive asks for."""

from parcel_advice import ADVICE
from ts.torch_handler.text_classifier import TextClassifier


class Handler(TextClassifier):
    ngrams = 1

    def postprocess(self, scores):
        (probabilities,) = super().postprocess(scores)
        label = max(probabilities, key=probabilities.get)
        return [{"label": label, "advice": ADVICE[label]}]
