"""TorchServe's own command-line flags, which services written for KServe's TorchServe give as arguments.

Each one is a setting of config.properties, or what the servers do anyway.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping


def add_torchserve_flags(parser: argparse.ArgumentParser) -> None:
    """Add those flags of TorchServe that both runtimes accept."""
    group = parser.add_argument_group("flags of TorchServe")
    group.add_argument(
        "--models",
        nargs="+",
        metavar="[NAME=]ARCHIVE",
        default=[],
        help="archives of the model store to load, or all; as load_models in config.properties",
    )
    group.add_argument("--enable-model-api", action="store_true", help="as enable_model_api=true in config.properties")
    group.add_argument(
        "--disable-token-auth",
        "--dt",
        action="store_true",
        help="as disable_token_authorization=true in config.properties",
    )
    for names in (("--no-config-snapshots", "--ncs"), ("--foreground",), ("--start",)):
        group.add_argument(*names, action="store_true", help="accepted: it is always so")


def settings_of(options: argparse.Namespace) -> Mapping[str, str]:
    """Return the settings of config.properties that the flags stand for."""
    settings = {
        "load_models": ",".join(options.models),
        "enable_model_api": "true" if options.enable_model_api else "",
        "disable_token_authorization": "true" if options.disable_token_auth else "",
    }
    return {name: value for name, value in settings.items() if value}
