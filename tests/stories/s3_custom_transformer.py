"""S3. A custom transformer: a class with `preprocess` and `postprocess`, `parents=[model_server.parser]`, a Dockerfile.

`transformer.containers` gives `--model_name` only; the operator finds the predictor and fills in its address.
"""

from __future__ import annotations

from tests.stories.story import EXAMPLES, Ask, Service, Story
from tests.support.build_cache import sample

FILES = EXAMPLES / "mnist_transformer"

STORY = Story(
    number="S3",
    claims={"mnist": lambda: sample("mnist")},
    images={"localhost/isvc-operator/mnist-transformer": FILES / "transformer.py"},
    folder=lambda: FILES,
    services=(
        Service(
            title="a custom transformer",
            file=FILES / "inferenceservice.yaml",
            asks=(
                Ask(
                    'curl -X POST -H "Host: $HOST" $URL/v1/models/mnist:predict -T sample.json',
                    {"predictions": [{"digit": 7}]},
                ),
            ),
        ),
    ),
)
