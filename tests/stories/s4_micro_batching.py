"""S4. A micro-batching service: ResNet-50 in two TorchScript halves, `embedding` and `classifier`.

Pictures are uploaded as forms, for an embedding and for the likeliest tags. The YAML has the largest batch and the time
that it may take, config.properties has the workers; load.py of the example loads them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.stories.story import EXAMPLES, Ask, Service, Story
from tests.support.build_cache import kept, sample

FILES = EXAMPLES / "resnet50"
LAYERS = "1,1,1,1"  # the network of the tests, which is built in less time


def picture() -> Path:
    """A folder with picture.png."""
    painter = FILES / "sample.py"

    def paint(folder: Path) -> None:
        subprocess.run([sys.executable, painter, folder / "picture.png"], check=True)

    return kept("picture", paint, painter)


STORY = Story(
    number="S4",
    claims={"pictures": lambda: sample("resnet50", "--layers", LAYERS)},
    folder=picture,
    services=(
        Service(
            title="a batching service of two models",
            file=FILES / "inferenceservice.yaml",
            asks=(
                Ask('curl -H "Host: $HOST" -F data=@picture.png $URL/predictions/embedding'),
                Ask('curl -H "Host: $HOST" -F data=@picture.png -F k=3 $URL/predictions/tags'),
            ),
        ),
    ),
)
