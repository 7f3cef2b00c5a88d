"""S1. BERT from a PVC: a claim `leeway` with `config/config.properties` and `model-store/bert-model.mar`.

The YAML, the properties and the body are files of examples/bert. The request is of a session, whose cookie the ingress
knows; `-T` sends no Content-Type. HTTPS goes by the name in TLS, which `--resolve` leads to the ingress.
"""

from __future__ import annotations

from tests.stories.story import EXAMPLES, Ask, Service, Story
from tests.support.build_cache import sample

FILES = EXAMPLES / "bert"
COOKIE = "-H 'Cookie: authservice_session=abc'"
ANSWER = {"predictions": [4]}

STORY = Story(
    number="S1",
    claims={"leeway": lambda: sample("bert")},
    folder=lambda: FILES,
    services=(
        Service(
            title="BERT from a claim",
            file=FILES / "inferenceservice.yaml",
            asks=(
                Ask(f'curl -X POST -H "Host: $HOST" {COOKIE} $URL/v1/models/bert:predict -T sample.json', ANSWER),
                Ask(
                    f"curl -k -X POST --resolve $HOST:$HTTPS_PORT:127.0.0.1 {COOKIE}"
                    " https://$HOST:$HTTPS_PORT/v1/models/bert:predict -T sample.json",
                    ANSWER,
                ),
            ),
        ),
    ),
)
