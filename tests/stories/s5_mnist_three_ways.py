"""S5. MNIST three ways: one ConvNet from its state dict, from TorchScript (traced and scripted) and from ONNX."""

from __future__ import annotations

from tests.stories.story import EXAMPLES, Ask, Service, Story
from tests.support.build_cache import sample

FILES = EXAMPLES / "mnist"


def bare(form: str, title: str) -> Service:
    """A model without an archive has the name of its service."""
    command = f'curl -X POST -H "Host: $HOST" $URL/v1/models/mnist-{form}:predict -T sample-tensor.json'
    return Service(title=title, file=FILES / f"inferenceservice-{form}.yaml", asks=(Ask(command),))


STORY = Story(
    number="S5",
    claims={"mnist": lambda: sample("mnist")},
    folder=lambda: FILES,
    services=(
        Service(
            title="MNIST from its state dict",
            file=FILES / "inferenceservice-mar.yaml",
            asks=(
                Ask(
                    'curl -X POST -H "Host: $HOST" $URL/v1/models/mnist:predict -T sample.json',
                    {"predictions": [7]},
                ),
            ),
        ),
        bare("torchscript", "MNIST as scripted TorchScript"),
        bare("traced", "MNIST as traced TorchScript"),
        bare("onnx", "MNIST as ONNX"),
    ),
)
