"""S6. TorchServe's own habits: several archives in one store, handlers of one's own, its management API and metrics.

`mnist.mar` has a handler on top of the one for pictures, `parcels.mar` one on top of that for texts and a
requirements.txt, and `densenet_161.mar`, with the stock handler, is registered with its batches while the others are
served. `models={…}` takes several lines in config.properties. The archives of S1 and S5 have handlers on BaseHandler.
"""

from __future__ import annotations

from tests.stories.story import EXAMPLES, Ask, Service, Story
from tests.support.build_cache import sample

REGISTERED = "registered with 0 initial workers. Use scale workers API to add workers for the model."
SCALED = "Workers scaled to 1 for model: densenet_161"

STORY = Story(
    number="S6",
    claims={"archives": lambda: sample("torchserve") / "archives"},
    folder=lambda: sample("torchserve"),
    services=(
        Service(
            title="TorchServe's own habits",
            file=EXAMPLES / "torchserve" / "archives.yaml",
            asks=(
                Ask('curl -H "Host: $HOST" $URL/predictions/mnist -T digit.jpg', 4),
                Ask('curl -H "Host: $HOST" $URL/v1/models/mnist:predict -d @mnist.json', {"predictions": [4]}),
                Ask(
                    'curl -H "Host: $HOST" $URL/predictions/parcels -T parcel.txt',
                    {"label": "late", "advice": "Track it."},
                ),
                Ask(
                    'curl -X POST "$MANAGEMENT/models?url=densenet_161.mar&batch_size=8&max_batch_delay=50"',
                    words=REGISTERED,
                ),
                Ask('curl -X PUT "$MANAGEMENT/models/densenet_161?min_worker=1&synchronous=true"', words=SCALED),
                Ask('curl -H "Host: $HOST" $URL/predictions/densenet_161 -T photo.png'),
                Ask('curl -H "Host: $HOST" $URL/metrics', words='ts_inference_requests_total{model_name="mnist"'),
            ),
        ),
    ),
)
