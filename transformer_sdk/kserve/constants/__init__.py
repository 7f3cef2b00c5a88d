"""`kserve.constants`: the package in one import, its module `constants` in another. Here each has the names of both."""

from transformer_sdk.kserve.constants import constants
from transformer_sdk.kserve.constants.constants import *  # noqa: F403

__all__ = ["constants"]
