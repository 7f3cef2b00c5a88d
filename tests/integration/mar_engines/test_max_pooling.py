"""Max pooling of ours beside torch's own, in a process where ours is registered."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.profiler import ProfilerActivity, profile

from torchserve_compat.worker import max_pooling

TORCHS = "aten::max_pool2d_with_indices"


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    max_pooling.register()


def torchs(images: torch.Tensor, *arguments: Any) -> torch.Tensor:
    return torch.ops.aten.max_pool2d_with_indices(images, *arguments)[0]


def operators(call: Any) -> set[str]:
    with profile(activities=[ProfilerActivity.CPU]) as found:
        call()
    return {event.key for event in found.key_averages()}


@st.composite
def poolings(draw: st.DrawFn) -> tuple[torch.Tensor, list[int], list[int], list[int], list[int], bool]:
    """Images with infinities, and NaN here and there, and whatever windows torch takes."""
    shape = [draw(st.integers(1, 3)), draw(st.integers(1, 70)), draw(st.integers(7, 40)), draw(st.integers(7, 40))]
    pairs = st.lists(st.integers(1, 7), min_size=2, max_size=2)
    kernel = draw(pairs)
    stride = draw(st.just([]) | pairs)
    padding = [draw(st.integers(0, size // 2)) for size in kernel]
    dilation = draw(st.just([1, 1]) | st.just([1, 2]))
    images = torch.randn(shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    if draw(st.booleans()):
        images = images.round()  # many ties
    for value in draw(st.lists(st.sampled_from([torch.inf, -torch.inf, torch.nan]), max_size=3)):
        images.flatten()[:: draw(st.integers(2, 50))] = value
    if draw(st.booleans()):
        images = images.double()
    return images, kernel, stride, padding, dilation, draw(st.booleans())


@settings(max_examples=300, deadline=None)
@given(poolings())
def test_its_values_are_those_of_torch(pooling: tuple[Any, ...]) -> None:
    images, kernel, _, padding, dilation, _ = pooling
    spans = [(size - 1) * apart + 1 for size, apart in zip(kernel, dilation, strict=True)]
    # What is larger than the image torch refuses: see below.
    assume(all(n + 2 * pad >= span for n, pad, span in zip(images.shape[2:], padding, spans, strict=True)))
    with torch.inference_mode():
        ours, theirs = torch.max_pool2d(*pooling), torchs(*pooling)

    assert (ours.shape, ours.dtype, ours.stride()) == (theirs.shape, theirs.dtype, theirs.stride())
    assert torch.equal(ours.nan_to_num(12345.0), theirs.nan_to_num(12345.0))
    assert ours.data_ptr() != images.data_ptr()


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("script", [False, True])
def test_a_model_that_is_asked_for_its_answer_finds_no_indices(mode: Any, script: bool) -> None:
    pool: Any = nn.MaxPool2d(3, stride=2, padding=1).eval()
    if script:
        pool = torch.jit.script(pool)
    images = torch.randn(2, 16, 28, 28)

    with mode():
        found = operators(lambda: pool(images))

    assert TORCHS not in found
    assert "aten::maximum" in found


def test_gradients_are_torchs() -> None:
    images = torch.randn(2, 16, 28, 28, requires_grad=True)

    assert TORCHS in operators(lambda: torch.max_pool2d(images, 2).sum().backward())
    ours, images.grad = images.grad, None
    torchs(images, 2).sum().backward()

    assert ours is not None
    assert images.grad is not None
    assert torch.equal(ours, images.grad)


@pytest.mark.parametrize(
    "images",
    [
        torch.randn(16, 28, 28),
        torch.randn(1, 1, 28, 28),
        torch.randn(2, 16, 28, 28).to(memory_format=torch.channels_last),
        torch.randint(0, 256, (2, 16, 28, 28), dtype=torch.uint8),
    ],
    ids=["no batch", "small", "channels last", "integers"],
)
def test_what_is_unusual_is_left_to_torch(images: torch.Tensor) -> None:
    with torch.inference_mode():
        ours, theirs = torch.max_pool2d(images, 2), torchs(images, 2)

        assert TORCHS in operators(lambda: torch.max_pool2d(images, 2))
    assert torch.equal(ours, theirs)
    assert ours.stride() == theirs.stride()


@pytest.mark.parametrize(
    "arguments",
    [([0, 0],), ([2, 2], [0, 0]), ([2, 2], [2, 2], [2, 2]), ([40, 40],), ([2, 2], [2, 2], [-1, -1])],
    ids=["no size", "no step", "more padding than half a window", "larger than the image", "negative padding"],
)
def test_wrong_windows_are_refused_in_torchs_words(arguments: tuple[Any, ...]) -> None:
    images = torch.randn(2, 16, 28, 28)

    with torch.inference_mode():
        with pytest.raises(RuntimeError) as theirs:
            torchs(images, *arguments)
        with pytest.raises(RuntimeError) as ours:
            torch.max_pool2d(images, *arguments)

    assert str(theirs.value).splitlines()[0] in str(ours.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_a_program_is_exported_and_traced_with_its_pooling_whole() -> None:
    model, images = nn.MaxPool2d(2).eval(), (torch.randn(2, 16, 28, 28),)

    exported = torch.export.export(model, images)
    with torch.no_grad():
        traced = torch.jit.trace(model, images)

    assert "max_pool2d" in str(exported.graph)
    assert "aten::maximum" not in str(exported.graph)
    assert "aten::max_pool2d" in str(traced.graph)
    assert torch.equal(exported.module()(*images), torchs(images[0], 2))
