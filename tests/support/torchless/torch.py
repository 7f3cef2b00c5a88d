"""Stands in for torch in servers whose handlers do not use it: to import torch is most of what such a server costs.

This folder comes ahead of the packages on PYTHONPATH. It has what TorchServe's wheel and our workers ask torch for
themselves; a handler that asks for more fails.
"""


class Tensor:
    """No value is one."""


def set_num_threads(count: int) -> None:
    """Start none."""
