"""S2. The old field names: `predictor.pytorch.storageUri` leads to a bucket with two archives.

torch-model-archiver has packed MNIST and DenseNet-161, the latter with index_to_name.json; the batches are set in
config.properties. Pictures are base64 in `instances[].data`.
"""

from __future__ import annotations

from tests.stories.story import EXAMPLES, Ask, Bucket, Service, Story
from tests.support.build_cache import sample

STORY = Story(
    number="S2",
    bucket=Bucket(
        "kfserving-examples", "models/torchserve/image_classifier", lambda: sample("torchserve") / "image_classifier"
    ),
    folder=lambda: sample("torchserve"),
    services=(
        Service(
            title="the old field names, two archives in a bucket",
            file=EXAMPLES / "torchserve" / "image-classifier.yaml",
            asks=(
                Ask('curl -H "Host: $HOST" $URL/v1/models/mnist:predict -d @mnist.json', {"predictions": [4]}),
                Ask('curl -H "Host: $HOST" $URL/v1/models/densenet161:predict -d @densenet161.json'),
            ),
        ),
    ),
)
