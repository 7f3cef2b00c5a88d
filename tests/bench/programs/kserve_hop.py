"""KServe's model server as a transformer that does nothing: every request goes on to ``--predictor_host``."""

from __future__ import annotations

import argparse

from kserve import Model, ModelServer, model_server


class Hop(Model):
    def load(self) -> bool:
        self.ready = True
        return True


if __name__ == "__main__":
    options, _ = argparse.ArgumentParser(parents=[model_server.parser]).parse_known_args()
    hop = Hop(options.model_name)
    hop.load()
    ModelServer().start([hop])
