"""Small models in every format that the engines load. Importing this module imports torch."""

from __future__ import annotations

import warnings
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch imports what its own dependencies deprecate
    import torch
    from torch import Tensor, nn


class Affine(nn.Module):
    """Rows of three numbers in; twice each plus one out."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows * 2 + 1


class Gathering(nn.Module):
    """Takes two tensors of any shapes."""

    def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
        return ids.sum() + weights.sum()


class AsFloats(nn.Module):
    """Takes numbers of any type."""

    def forward(self, numbers: Tensor) -> Tensor:
        return numbers.float()


class Shades(nn.Module):
    """Pictures to six classes."""

    def forward(self, image: Tensor) -> Tensor:
        return image.mean(dim=(2, 3)).repeat(1, 2)


class Convolutions(nn.Module):
    """Has what torch's inference passes change: a convolution, a batch norm, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)  # type: ignore[no-any-return]


class Masked(nn.Module):
    """Takes an input that may be left out, and a setting that no request can give."""

    def forward(self, rows: Tensor, mask: Tensor | None = None, scale: float = 2.0) -> Tensor:
        if mask is not None:
            rows = rows * mask
        return rows * scale


class Pair(nn.Module):
    def forward(self, rows: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return rows, (rows + 1, rows + 2)


class Named(nn.Module):
    def forward(self, rows: Tensor) -> dict[str, Tensor]:
        return {"same": rows, "more": rows + 1}


class Sum(nn.Module):
    """One number for the whole batch."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows.sum()


class Mean(nn.Module):
    """A Python number for the whole batch."""

    def forward(self, rows: Tensor) -> float:
        return float(rows.mean())


class InPlace(nn.Module):
    """Writes into its own input."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows.mul_(2)


class Noise(nn.Module):
    """Never gives the same result twice."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows + torch.rand_like(rows)


class Counted(nn.Module):
    """Takes a number that is not a tensor."""

    def forward(self, rows: Tensor, times: int) -> Tensor:
        return rows * times


class Settled(nn.Module):
    """Takes every kind of value beside a tensor, some with a default before the last tensor."""

    def forward(
        self,
        rows: Tensor,
        times: int,
        plus: float,
        negative: bool,
        unit: str = "one",
        parts: list[int] | None = None,
        most: float | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        rows = rows * times + plus + (1 if parts is None else len(parts))
        if negative:
            rows = -rows
        if unit == "thousand":
            rows = rows * 1000
        if most is not None:
            rows = rows.clamp(max=most)
        return rows if mask is None else rows * mask


class Scaled(nn.Module):
    """Takes a number, and one that is a tensor."""

    def forward(self, rows: Tensor, times: int, unused: None, plus: Tensor) -> Tensor:
        return rows * times + plus


class Listed(nn.Module):
    """Takes what no tensor holds."""

    def forward(self, rows: Tensor, states: list[Tensor]) -> Tensor:
        return rows + states[0]


class Counting(nn.Module):
    """Keeps a state that it writes in place, and tells how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, rows: Tensor) -> Tensor:
        self.calls.add_(1)  # type: ignore[operator]
        return rows + self.calls


class Recurrent(nn.Module):
    """Two layers whose states the caller keeps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.LSTM(3, 4, num_layers=2)

    def forward(
        self, steps: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return self.layers(steps, state)  # type: ignore[no-any-return]


class Strict(nn.Module):
    """Fails on rows that hold a negative number."""

    def forward(self, rows: Tensor) -> Tensor:
        if bool((rows < 0).any()):
            raise ValueError("negative numbers are not supported")
        return rows


class Half(nn.Module):
    """Computes in a type that numpy does not have."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows.to(torch.bfloat16)


class Bfloat16(nn.Module):
    """Takes bfloat16 only."""

    def forward(self, rows: Tensor) -> Tensor:
        return torch.matmul(rows, 2 * torch.eye(3, dtype=torch.bfloat16))


def save_scripted(path: Path, module: nn.Module) -> Path:
    with _deprecations_ignored():
        torch.jit.script(module.eval()).save(str(path))
    return path


def save_frozen(path: Path, module: nn.Module) -> Path:
    with _deprecations_ignored():
        torch.jit.freeze(torch.jit.script(module.eval())).save(str(path))
    return path


def save_traced(path: Path, module: nn.Module, *examples: Tensor) -> Path:
    with _deprecations_ignored():
        torch.jit.trace(module.eval(), examples).save(str(path))
    return path


def export(module: nn.Module, *examples: Tensor, most: int = 64) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1, max=most)
    with _deprecations_ignored():
        return torch.export.export(module.eval(), examples, dynamic_shapes=tuple({0: batch} for _ in examples))


def save_exported(path: Path, module: nn.Module, *examples: Tensor, most: int = 64) -> Path:
    torch.export.save(export(module, *examples, most=most), path)
    return path


def save_onnx(path: Path, module: nn.Module, *examples: Tensor) -> Path:
    """As exporters write without dynamic axes."""
    with _deprecations_ignored():
        torch.onnx.export(module.eval(), examples, path, dynamo=False)
    return path


def save_compiled(path: Path, module: nn.Module, *examples: Tensor) -> Path:
    """An AOTInductor package; needs a C++ compiler, and half a minute."""
    with _deprecations_ignored():
        torch._inductor.aoti_compile_and_package(export(module, *examples), package_path=str(path))
    return path


def _deprecations_ignored() -> warnings.catch_warnings[None]:
    return warnings.catch_warnings(action="ignore")
