"""Hooks that take long: how many run at once, what waits for them, and what becomes of those that hang."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.support.sdk_models import Headers, Predicting, Ready
from transformer_sdk.testing import TransformerServer


def test_sync_hooks_run_side_by_side_up_to_the_bound() -> None:
    running, most, gate = [0], [0], threading.Barrier(3)

    def answer(_: Any) -> dict[str, int]:
        running[0] += 1
        most[0] = max(most[0], running[0])
        gate.wait(timeout=30)
        running[0] -= 1
        return {}

    with TransformerServer(Predicting(answer), max_threads=3) as server:
        clients = [threading.Thread(target=server.post, args=({},)) for _ in range(6)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    assert most == [3]


def test_without_threads_sync_hooks_run_on_the_loop_one_at_a_time() -> None:
    seen: list[tuple[int, bool]] = []

    class OnLoop(Ready):
        def preprocess(self, payload: Any, headers: Headers = None) -> Any:
            return payload

        def predict(self, payload: Any, headers: Headers = None) -> Any:  # type: ignore[override]
            seen.append((threading.get_ident(), asyncio.get_running_loop().is_running()))
            return {}

    with TransformerServer(OnLoop(), max_threads=0) as server:
        replies = [server.post({"instances": []}).status for _ in range(2)]

    assert replies == [200, 200]
    assert len(set(seen)) == 1


def test_the_server_answers_others_while_a_sync_hook_waits() -> None:
    release = threading.Event()
    with TransformerServer(Predicting(lambda _: {"waited": release.wait(30)})) as server:
        client = threading.Thread(target=server.post, args=({},))
        client.start()
        assert server.get("/v1/models/m").status == 200
        release.set()
        client.join()


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_hook_that_hangs_is_a_504_and_its_place_is_logged(is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    class Hanging(Ready):
        async def predict(self, payload: Any, headers: Headers = None) -> Any:  # type: ignore[override]
            await asyncio.Event().wait()

    model = Hanging() if is_async else Predicting(lambda _: release.wait(30))
    with TransformerServer(model, timeout_s=0.5) as server:  # time enough to begin
        reply = server.post({})
        release.set()

    assert (reply.status, reply.json()["component"]) == (504, "transformer")
    assert reply.json()["error"].startswith("predict of model m did not end within ")
    assert "wait(" in caplog.text


def test_when_all_threads_hang_and_too_many_wait_the_rest_is_told_so() -> None:
    from transformer_sdk.kserve.serving.threads import HookThreads, ThreadsBusy

    release = threading.Event()

    async def main() -> list[Any]:
        threads = HookThreads(1, waiting_for_each=1)
        calls = [asyncio.ensure_future(threads.run(release.wait, 30)) for _ in range(3)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        release.set()
        found = await asyncio.gather(*calls, return_exceptions=True)
        threads.close()
        return found

    found = asyncio.run(main())
    assert found[:2] == [True, True]
    assert (type(found[2]), str(found[2])) == (
        ThreadsBusy,
        "1 requests wait for one of the 1 threads of sync hooks (--max_threads); send it again later.",
    )
