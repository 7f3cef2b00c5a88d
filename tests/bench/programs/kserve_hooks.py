"""A transformer with two sync hooks, as most are: numbers are scaled, predictions get a name."""

from __future__ import annotations

import argparse

from kserve import Model, ModelServer, model_server


class Scaling(Model):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ready = True

    def preprocess(self, payload, headers=None):  # type: ignore[no-untyped-def]
        return {"instances": [[value / 255 for value in instance] for instance in payload["instances"]]}

    def postprocess(self, result, headers=None):  # type: ignore[no-untyped-def]
        return {"predictions": [{"digit": digit} for digit in result["predictions"]]}


if __name__ == "__main__":
    options, _ = argparse.ArgumentParser(parents=[model_server.parser]).parse_known_args()
    ModelServer().start([Scaling(options.model_name)])
