"""What other commands make of what an `isvc run` tells them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from isvc.commands.output import OutputFormat
from isvc.commands.seen.changes import ChangePrinter
from isvc.commands.seen.lines import table
from isvc.commands.seen.reading import seen, seen_all
from isvc.source import runs
from isvc.source.errors import NotSeen
from isvc.source.runs import LocalRun, run_source
from isvc_operator.manifests import ServiceKey


@asynccontextmanager
async def telling(socket: Path, *lines: bytes, url: str = "http://127.0.0.1:1") -> AsyncIterator[LocalRun]:
    """A run that says these lines of its services, and goes on."""

    async def services(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line + b"\n")
        await request.content.read()
        return response

    app = web.Application()
    app.add_routes([web.get("/services", services)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(socket)).start()
    try:
        yield LocalRun(socket, url, "")
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(("size", "keys"), [(100, [ServiceKey("default", "a")]), (10_000, [])])
async def test_a_run_that_says_too_much_of_a_service_is_left_out(
    size: int, keys: list[ServiceKey], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RUN_LINE_BYTES", 1000)
    service = b'{"namespace": "default", "name": "a", "related": {"service": {"x": "%b"}, "logs": []}}' % (b"x" * size)

    async with telling(tmp_path / "run.sock", service, b"null") as run, run_source([run], None) as source:
        assert list(source.keys()) == keys


async def test_services_of_two_runs_with_the_same_name_are_both_listed_and_neither_is_taken_for_the_other(
    tmp_path: Path,
) -> None:
    key = ServiceKey("default", "a")
    manifest = b'{"metadata": {"namespace": "default", "name": "a"}, "spec": {"predictor": {}}}'
    service = b'{"namespace": "default", "name": "a", "related": {"service": %b, "logs": []}}' % manifest

    async with (
        telling(tmp_path / "1.sock", service, b"null", url="http://127.0.0.1:1") as first,
        telling(tmp_path / "2.sock", service, b"null", url="http://127.0.0.1:2") as second,
    ):
        for order in ([first, second], [second, first]):
            async with run_source(order, None) as source:
                assert [found.url for found in seen_all(source)] == [
                    "http://127.0.0.1:1/default/a", "http://127.0.0.1:2/default/a"
                ]  # fmt: skip
                _, rows = table(list(seen_all(source)), datetime.now(UTC), with_namespace=False)
                assert [str(row[-1]).partition("/default/a")[0] for row in rows] == [
                    "http://127.0.0.1:1", "http://127.0.0.1:2"
                ]  # fmt: skip
                with pytest.raises(NotSeen) as refused:
                    seen(source, key)
        async with run_source([second], None) as source:
            assert seen(source, key).url == "http://127.0.0.1:2/default/a"

    assert str(refused.value) == (
        "2 runs serve a: at http://127.0.0.1:1/default/a and http://127.0.0.1:2/default/a; stop all but one; isvc "
        "predict and isvc bench take one by --url, and each run prints its logs and failures itself"
    )


async def test_changes_of_two_services_with_the_same_name_are_told_by_their_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = ServiceKey("default", "a")
    status = b'{"conditions": [{"type": "Ready", "status": "True"}]}'
    manifest = b'{"metadata": {"namespace": "default", "name": "a"}, "spec": {"predictor": {}}, "status": %b}' % status
    service = b'{"namespace": "default", "name": "a", "related": {"service": %b, "logs": []}}' % manifest

    async with (
        telling(tmp_path / "1.sock", service, b"null", url="http://127.0.0.1:1") as first,
        telling(tmp_path / "2.sock", service, b"null", url="http://127.0.0.1:2") as second,
        run_source([first, second], None) as source,
    ):
        printer, documents = (ChangePrinter(source, output) for output in (OutputFormat.TEXT, OutputFormat.JSON))
        printer.write([key])
        printer.write([key])
        told = [line.split()[1:] for line in capsys.readouterr().out.splitlines()]
        documents.write([key])
        urls = [json.loads(line)["url"] for line in capsys.readouterr().out.splitlines()]
        source._forget(second, key)
        printer.write([key])
        documents.write([key])

    line, document = capsys.readouterr().out.splitlines()
    assert [words[-1] for words in told] == urls == ["http://127.0.0.1:1/default/a", "http://127.0.0.1:2/default/a"]
    assert line.split()[1:] == ["default/a", "deleted", "http://127.0.0.1:2"]
    assert json.loads(document) == {
        "namespace": "default", "name": "a", "run": "http://127.0.0.1:2", "deleted": True,
    }  # fmt: skip
