"""A handler on top of a stock one, as most are: an image becomes its digit."""

from torchvision import transforms
from ts.torch_handler.image_classifier import ImageClassifier


class Handler(ImageClassifier):
    image_processing = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])

    def postprocess(self, scores):
        return scores.argmax(1).tolist()
