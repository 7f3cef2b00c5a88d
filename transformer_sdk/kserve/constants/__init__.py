"""`kserve.constants`."""

from transformer_sdk.kserve.constants import constants

__all__ = ["constants"]
