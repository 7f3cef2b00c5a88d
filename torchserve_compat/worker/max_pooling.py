"""Max pooling of images on a CPU, without the indices that nobody asked for.

torch finds the largest value of each window one by one, and keeps where it was, also when a model is only asked for its
answer. Here whole rows are compared with each other, then whole columns, in a third to a tenth of the time. The largest
value is the same in whatever order it is looked for, so a model's answers are to the byte those that torch alone gives.
Left open are which of +0 and -0 comes out, where a window's largest values are both, and the bits of a NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

# Smaller tensors are left to torch: its kernel has them done before several operators are even called.
_WORTHWHILE = 10_000

_Sizes = int | Sequence[int]  # of height and width


@functools.cache
def register() -> torch.library.Library:
    """For all models of this process; torch goes back to its own when what is returned here is gone."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for key in ("CPU", "AutogradCPU"):  # in torch.inference_mode, and outside of it
        library.impl("max_pool2d", _max_pool2d, key)  # type: ignore[no-untyped-call]
    return library


def _max_pool2d(
    images: torch.Tensor,
    kernel_size: _Sizes,
    stride: _Sizes = (),
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    ceil_mode: bool = False,
) -> torch.Tensor:
    """`aten::max_pool2d`; what is unusual, or wrong, is left to torch."""
    if _is_worthwhile(images) and _pair(dilation) == (1, 1):
        rows, columns = (
            _Windows(length, size, step, pad, ceil_mode)
            for length, size, step, pad in zip(
                images.shape[2:], _pair(kernel_size), _pair(stride or kernel_size), _pair(padding), strict=True
            )
        )
        if rows.are_usual and columns.are_usual:
            pads = (*columns.pads, *rows.pads)
            padded = torch.constant_pad_nd(images, pads, -torch.inf) if any(pads) else images
            return columns.largest(rows.largest(padded, 2), 3)
    values: torch.Tensor
    values, _ = torch.ops.aten.max_pool2d_with_indices(images, kernel_size, stride, padding, dilation, ceil_mode)
    return values


def _is_worthwhile(images: torch.Tensor) -> bool:
    """A plain tensor with nothing to differentiate or to trace, row after row in memory, and not too small."""
    return (
        type(images) is torch.Tensor
        and images.dim() == 4
        and images.numel() >= _WORTHWHILE
        and images.dtype in (torch.float32, torch.float64)
        and images.is_contiguous()
        and not (images.requires_grad and torch.is_grad_enabled())
    )


def _pair(sizes: _Sizes) -> tuple[int, int]:
    both = (sizes,) if isinstance(sizes, int) else sizes
    return both[0], both[-1]


@dataclass(frozen=True, slots=True)
class _Windows:
    """Where the windows lie along one dimension of the images."""

    length: int
    size: int
    step: int
    pad: int  # on each side
    ceil_mode: bool  # whether the last one may reach beyond the padding

    @property
    def are_usual(self) -> bool:
        return self.size > 1 and self.step > 0 and 0 <= 2 * self.pad <= self.size and self.count > 0

    @property
    def count(self) -> int:
        room = self.length + 2 * self.pad - self.size
        if not self.ceil_mode:
            return room // self.step + 1
        count = -(-room // self.step) + 1
        begins_inside = (count - 1) * self.step < self.length + self.pad
        return count if begins_inside else count - 1

    @property
    def pads(self) -> tuple[int, int]:
        """How much to put before and behind, so that all windows are whole."""
        whole = (self.count - 1) * self.step + self.size
        return self.pad, max(0, whole - self.pad - self.length)

    def largest(self, padded: torch.Tensor, dim: int) -> torch.Tensor:
        """Of each window, all its first elements beside all its second ones, and so on."""
        span = (self.count - 1) * self.step + 1
        first, *others = (
            padded.narrow(dim, offset, span)[(slice(None),) * dim + (slice(None, None, self.step),)]
            for offset in range(self.size)
        )
        return functools.reduce(torch.maximum, others, first)
