"""A transformer with our SDK that passes requests on, for services with a payload logger."""

from __future__ import annotations

import argparse

from transformer_sdk.kserve import Model, ModelServer, model_server

parser = argparse.ArgumentParser(parents=[model_server.parser])
arguments = parser.parse_args()

if __name__ == "__main__":
    model = Model(arguments.model_name)
    model.ready = True
    ModelServer().start([model])
