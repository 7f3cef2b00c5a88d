"""Stands in for torch in servers whose handlers do not use it: to import torch is most of what such a server costs.

This folder comes ahead of the packages on PYTHONPATH. It has what TorchServe's wheel and our workers ask torch for
themselves; what asks for more cannot be imported.
"""

from typing import NoReturn

import tqdm  # noqa: F401 - as torch does


class Tensor:
    """No value is one."""


class cuda:  # noqa: N801 - torch's name
    @staticmethod
    def is_initialized() -> bool:
        """Return False: there is no GPU."""
        return False


def set_num_threads(count: int) -> None:
    """Start none."""


def __getattr__(name: str) -> NoReturn:
    raise ImportError(f"the tests' stand-in for torch has no {name}")
