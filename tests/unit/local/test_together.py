"""What is done at the same time begins, and ends, however often and however soon it is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from isvc.run.processes import together


@pytest.mark.parametrize("names", [(), ("one",), ("one", "two")], ids=len)
async def test_what_is_cancelled_before_it_has_begun_begins_and_ends(names: tuple[str, ...]) -> None:
    found = []

    async def end(name: str) -> None:
        found.append(f"{name} begins")
        try:
            await asyncio.Event().wait()
        finally:
            found.append(f"{name} ends")

    task = asyncio.create_task(together(*(together(end(name)) for name in names)))
    asyncio.get_running_loop().call_soon(task.cancel)

    with pytest.raises(asyncio.CancelledError):
        await task
    assert found == [f"{name} {what}" for what in ("begins", "ends") for name in names]


async def test_the_failure_of_one_is_raised_when_all_have_ended() -> None:
    found = []

    async def fail() -> None:
        raise ValueError("one")

    async def go_on() -> None:
        await asyncio.sleep(0)
        found.append("ended")

    with pytest.raises(ValueError, match="one"):
        await together(fail(), go_on())
    assert found == ["ended"]
