"""``isvc run`` from YAML to a response, with a runtime that starts at once; it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.isvc_process import Sandbox, is_running, read_until, stop
from tests.support.local_services import FAKE_RUNTIME, runtime, service, write_yaml
from tests.support.waiting import eventually

HOST = "first.default.example.com"
PREDICT = "/v1/models/fake:predict"
READY = "Ctrl-C stops it."
AT_ONCE = "the servers are ended at once, with their requests"


def arguments(sandbox: Sandbox, *documents: dict[str, Any]) -> list[str | Path]:
    """Of a run of these documents, or of one service and its runtime, with the claim that it needs."""
    file = write_yaml(sandbox.folder / "services.yaml", *(documents or (service(), runtime())))
    return [file, "--pvc", f"models={sandbox.folder / 'models'}"]


def request(sandbox: Sandbox) -> list[str | Path]:
    return ["--request", sandbox.folder / "request.json"]


@pytest.mark.parametrize(("content", "rows"), [("[[1, 2]]", "[[1, 2]]"), ('{"instances": []}', "[]")])
def test_what_has_not_the_shape_of_v2_is_sent_to_v1(sandbox: Sandbox, content: str, rows: str) -> None:
    (sandbox.folder / "request.json").write_text(content)

    done = sandbox.run(*arguments(sandbox, service("first"), runtime()), *request(sandbox))

    assert (done.returncode, f'{{"predictions": {rows},' in done.stdout) == (0, True), done.stderr


def test_one_request_is_answered_by_a_server_that_has_the_model(sandbox: Sandbox) -> None:
    done = sandbox.run(*arguments(sandbox, service("first"), runtime()), *request(sandbox), "--verbose")

    assert (done.returncode, '{"predictions": [1, 2],' in done.stdout) == (0, True), done.stderr
    assert "first/storage-initializer | copied weights (5 B)" in done.stderr
    assert "first/kserve-container | serving ['weights']" in done.stderr
    assert list(sandbox.temporary.iterdir()) == []


def test_another_response_than_the_expected_one_fails_and_is_printed(sandbox: Sandbox) -> None:
    done = sandbox.run(*arguments(sandbox), *request(sandbox), "--expect", '{"predictions": [3]}')

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith('isvc: the response is {"predictions": [1, 2], ')
    assert done.stderr.splitlines()[-1].endswith(', not {"predictions": [3]}')


def test_a_failed_initializer_ends_the_run_with_its_reason(sandbox: Sandbox) -> None:
    done = sandbox.run(*arguments(sandbox, service(uri="pvc://models/absent"), runtime()), *request(sandbox))

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("isvc: first/storage-initializer failed (exit code ")
    assert "absent" in last
    assert done.stderr.count("storage-initializer failed") == 1
    assert "kserve-container" not in done.stderr
    assert list(sandbox.temporary.iterdir()) == []


def test_a_field_without_effect_is_told_once_and_a_claim_by_the_folder_that_was_given(sandbox: Sandbox) -> None:
    body = service(uri="pvc://models/absent")
    body["spec"]["colour"] = "blue"
    file = write_yaml(sandbox.folder / "services.yaml", body, runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}") as process:
        log = read_until(process.stderr, "failed again")
        log += stop(process)[1]

    assert [line for line in log.splitlines() if "spec.colour" in line] == [
        "isvc: no effect: InferenceService first: spec.colour"
    ]
    assert f"there is no absent in {sandbox.folder / 'models'}; " in log


def test_a_path_below_the_working_folder_is_served_and_nothing_complains(sandbox: Sandbox) -> None:
    uri = os.path.relpath(sandbox.folder / "models")

    done = sandbox.run(*arguments(sandbox, service(uri=uri), runtime()), *request(sandbox))

    assert (done.returncode, "storageUri" in done.stderr) == (0, False), done.stderr


def test_a_server_without_a_reason_is_explained_by_what_it_printed_last(sandbox: Sandbox) -> None:
    silent = runtime(command=["python", "-c", "print('no such model')\nraise SystemExit(7)"])

    done = sandbox.run(*arguments(sandbox, service(), silent), *request(sandbox))

    assert done.returncode == 1
    expected = "first/kserve-container | no such model\nisvc: first/kserve-container failed (exit code 7)\n"
    assert done.stderr.endswith(expected)


def test_the_path_of_a_model_is_the_users_in_what_its_server_prints_and_leaves(sandbox: Sandbox) -> None:
    code = "import os, sys; print(sys.argv); open(os.environ['TERMINATION_LOG'], 'w').write(sys.argv[2])\nsys.exit(4)"
    loads = runtime(command=["python", "-c", code])

    done = sandbox.run(*arguments(sandbox, service(), loads), *request(sandbox), "--verbose")

    models = sandbox.folder / "models"
    assert f"'--model-dir={models}']\n" in done.stderr
    assert done.stderr.endswith(f"isvc: first/kserve-container failed (exit code 4): --model-dir={models}\n")


def test_a_server_of_one_connection_at_a_time_is_probed_and_asked_in_turn(sandbox: Sandbox) -> None:
    """A probe that kept its connection would hold such a server for good."""
    with sandbox.running(*arguments(sandbox, service(env={"ALONE": "yes"}), runtime())) as process:
        read_until(process.stdout, READY)
        asked = [sandbox.ask(HOST, PREDICT, {"instances": [number]}) for number in range(3)]
        stop(process)

    assert [(status, answer["predictions"]) for status, answer in asked] == [(200, [0]), (200, [1]), (200, [2])]


def test_two_services_have_their_own_hosts_and_ports_for_grpc_and_no_other_is_known(sandbox: Sandbox) -> None:
    ports = [{"name": "http", "containerPort": 8080}, {"name": "grpc", "containerPort": 8081}]
    with sandbox.running(*arguments(sandbox, service("first"), service("second"), runtime(ports=ports))) as process:
        announced = read_until(process.stdout, READY)

        for name in ("first", "second"):
            status, answer = sandbox.ask(f"{name}.default.example.com", PREDICT, {"instances": [1]})
            assert (status, answer["service"]) == (200, name)
            url = f"http://127.0.0.1:{sandbox.port}/default/{name}{PREDICT}"
            assert f"\n  curl -X POST {url} -T FILE\n  (fake does not say what it takes; " in announced
        status, answer = sandbox.ask("third.default.example.com", PREDICT, {"instances": [1]})
        assert (status, "first.default.example.com" in answer["error"]) == (404, True)
        stop(process)

    assert len(set(re.findall(r"^  gRPC: 127\.0\.0\.1:\d+$", announced, re.MULTILINE))) == 2


def test_what_cannot_be_served_is_refused_and_the_rest_of_the_folder_is_served(sandbox: Sandbox) -> None:
    """A service that nothing could serve, one that only a cluster runs, and a file that is not YAML."""
    folder = sandbox.folder / "services"
    folder.mkdir()
    custom = service("custom")
    custom["spec"]["predictor"] = {"containers": [{"name": "kserve-container", "image": "my/server"}]}
    write_yaml(folder / "custom.yaml", custom)
    write_yaml(folder / "good.yaml", service("first"), runtime())
    write_yaml(folder / "uri.yaml", service("uri", uri="s4://models"))
    (folder / "half.yaml").write_text("spec: [")
    refused = f"refused, for the reasons above: {folder}/half.yaml, uri, custom"
    with sandbox.running(folder, "--pvc", f"models={sandbox.folder / 'models'}") as process:
        announced = read_until(process.stdout, READY)
        status, _ = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        _, log = stop(process)

    lines = log.splitlines()
    assert status == 200
    assert [line.partition(": ")[2][:40] for line in lines[:3]] == [
        f"{folder}/half.yaml:1:8: this is not YAML: a list"[:40],
        f"{folder}/uri.yaml: InferenceService uri: storageUri"[:40],
        "custom/kserve-container has no command, and the entry"[:40],
    ]
    assert announced.splitlines()[-3] == refused
    assert (process.returncode, lines[-1]) == (1, f"isvc: {refused}")


def test_a_signal_lets_a_request_finish_and_leaves_no_process_and_no_folder(sandbox: Sandbox) -> None:
    gate = sandbox.folder / "gate"
    os.mkfifo(gate)
    with (
        sandbox.running(*arguments(sandbox, service(env={"GATE": str(gate)}), runtime())) as process,
        ThreadPoolExecutor() as pool,
    ):
        read_until(process.stdout, READY)
        asked = pool.submit(sandbox.ask, HOST, PREDICT, {"instances": [1]})
        read_until(process.stderr, "waiting")
        process.send_signal(signal.SIGTERM)
        read_until(process.stderr, "stopping")
        gate.write_bytes(b"")
        status, answer = asked.result()
        process.communicate()

    assert (status, answer["predictions"], process.returncode) == (200, [1], 0)
    assert not is_running(answer["pid"])
    assert list(sandbox.temporary.iterdir()) == []


def test_ctrl_c_says_what_it_waits_for_and_ctrl_c_again_ends_it_at_once(sandbox: Sandbox) -> None:
    gate = sandbox.folder / "gate"
    os.mkfifo(gate)
    waiting = service(env={"GATE": str(gate), "STUBBORN": "yes"})
    waiting["spec"]["predictor"]["terminationGracePeriodSeconds"] = 3600
    with (
        sandbox.running(*arguments(sandbox, waiting, runtime())) as process,
        ThreadPoolExecutor() as pool,
    ):
        read_until(process.stdout, READY)
        pool.submit(sandbox.ask, HOST, PREDICT, {"instances": [1]})
        read_until(process.stderr, "waiting")
        process.send_signal(signal.SIGINT)
        said = read_until(process.stderr, "Ctrl-C again")
        _, rest = stop(process, signal.SIGINT)

    assert (process.returncode, said + rest) == (
        130,
        "stopping\nrequests in progress have 30 s to finish, and then the servers 3600 s to end; "
        f"Ctrl-C again ends them at once\n{AT_ONCE}\n",
    )
    assert list(sandbox.temporary.iterdir()) == []


def test_ctrl_c_without_a_request_waits_for_the_servers_alone(sandbox: Sandbox) -> None:
    stubborn = service(env={"STUBBORN": "yes"})
    with sandbox.running(*arguments(sandbox, stubborn, runtime())) as process:
        read_until(process.stdout, READY)
        assert sandbox.ask(HOST, PREDICT, {"instances": [1]})[0] == 200
        process.send_signal(signal.SIGINT)
        said = read_until(process.stderr, "Ctrl-C again")
        stop(process, signal.SIGINT)

    assert said.splitlines()[-1] == "the servers have 30 s to end; Ctrl-C again ends them at once"


def test_ctrl_c_before_the_response_is_an_interruption(sandbox: Sandbox) -> None:
    never = runtime(readinessProbe={"exec": {"command": ["false"]}})
    with sandbox.running(*arguments(sandbox, service(), never), *request(sandbox), "--verbose") as process:
        read_until(process.stderr, "is not ready: the command false does not succeed")
        _, rest = stop(process, signal.SIGINT)

    assert (process.returncode, rest.splitlines()[-1]) == (130, "stopping")
    assert list(sandbox.temporary.iterdir()) == []


@pytest.mark.parametrize("env", [{}, {"STUBBORN": "yes"}], ids=["a server that ends when asked", "one that does not"])
def test_ctrl_c_again_and_again_ends_everything_without_a_traceback(sandbox: Sandbox, env: dict[str, str]) -> None:
    with sandbox.running(*arguments(sandbox, service(env=env), runtime())) as process:
        read_until(process.stdout, READY)
        _, answer = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        process.send_signal(signal.SIGINT)
        read_until(process.stderr, "stopping")
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        _, rest = process.communicate()

    assert process.returncode in (130, -signal.SIGINT), rest  # which are one in a shell
    assert rest.removeprefix(AT_ONCE).strip() == ""  # click ends the line of a ^C that comes last
    assert not is_running(answer["pid"])
    assert list(sandbox.temporary.iterdir()) == []


def test_a_killed_run_leaves_no_process_and_no_folder_either(sandbox: Sandbox) -> None:
    with sandbox.running(*arguments(sandbox)) as process:
        read_until(process.stdout, READY)
        _, answer = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        stop(process, signal.SIGKILL)

    assert not is_running(answer["pid"])
    assert list(sandbox.temporary.iterdir()) == []


def test_a_server_that_dies_is_started_again_and_the_others_serve_on(sandbox: Sandbox) -> None:
    with sandbox.running(*arguments(sandbox, service("first"), service("second"), runtime())) as process:
        read_until(process.stdout, READY)
        _, answer = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        for _ in range(2):
            read_until(process.stderr, "kserve-container is ready")
        os.kill(answer["pid"], signal.SIGKILL)
        log = read_until(process.stderr, "first/kserve-container is ready")
        _, again = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        _, other = sandbox.ask("second.default.example.com", PREDICT, {"instances": [1]})
        stop(process)

    assert process.returncode == 0
    assert "first/kserve-container failed (killed by signal 9)" in log
    assert (again["service"], other["service"]) == ("first", "second")
    assert again["pid"] != answer["pid"]


def test_another_process_that_takes_the_port_of_a_dead_server_gets_no_request(sandbox: Sandbox) -> None:
    with (
        sandbox.running(*arguments(sandbox)) as process,
        socket.socket() as foreign,
        ThreadPoolExecutor() as pool,
    ):
        read_until(process.stdout, READY)
        read_until(process.stderr, "kserve-container is ready")
        _, answer = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        (port,) = {one.laddr.port for one in psutil.Process(answer["pid"]).connections() if one.status == "LISTEN"}
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        os.kill(answer["pid"], signal.SIGKILL)
        eventually(lambda: binds(foreign, port), "the port is free")
        seen = pool.submit(requests_to, foreign)
        asked = [sandbox.ask(HOST, PREDICT, {"instances": [1]})[0] for _ in range(20)]
        read_until(process.stderr, "kserve-container is ready")
        status, again = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        foreign.shutdown(socket.SHUT_RDWR)
        stop(process)

    assert set(asked) <= {200, 502, 503}
    assert (status, again["predictions"], again["pid"] != answer["pid"]) == (200, [1], True)
    assert seen.result() == []


@contextmanager
def taken(port: int) -> Iterator[None]:
    """A port that somebody has, perhaps another one than this test."""
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        yield
        return
    yield


def binds(listener: socket.socket, port: int) -> bool:
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        return False
    listener.listen()
    return True


def requests_to(listener: socket.socket) -> list[bytes]:
    """What is sent to a listener until it is shut down; it answers as a server does that is ready."""
    seen = []
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return seen
        with client:
            seen.append(client.recv(1000))
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


def test_a_service_that_fails_waits_longer_each_time_and_the_others_serve(sandbox: Sandbox) -> None:
    failing = service("first", env={"FAIL": "no weights; copy them"})
    with sandbox.running(*arguments(sandbox, failing, service("second"), runtime())) as process:
        announced = read_until(process.stdout, READY)
        log = read_until(process.stderr, "failed again, same cause (×2); it is started again in 10 s")
        status, _ = sandbox.ask("second.default.example.com", PREDICT, {"instances": [1]})
        unready, answer = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        _, rest = stop(process)

    assert "second is served" in announced
    assert "first is served" not in announced
    assert "\nFiles that you change are served by the next isvc run; with --watch, at once.\nCtrl-C" in announced
    failures = [line for line in log.splitlines() if line.startswith("first/kserve-container")]
    assert failures == [
        "first/kserve-container failed (exit code 3): no weights; copy them",
        "first/kserve-container failed again, same cause (×2); it is started again in 10 s",
    ]
    assert (status, unready) == (200, 503)
    assert answer == {"error": "first-predictor has no ready pod; it is starting, or it has failed"}
    assert process.returncode == 1
    assert rest.splitlines()[-1] == "isvc: stopped while a service was not ready: first"
    assert list(sandbox.temporary.iterdir()) == []


def test_a_browser_reaches_a_service_by_its_path_on_this_machine_and_by_no_other_name(sandbox: Sandbox) -> None:
    own = f"127.0.0.1:{sandbox.port}"
    with sandbox.running(*arguments(sandbox)) as process:
        announced = read_until(process.stdout, READY)
        status, answer = sandbox.ask(own, f"/default/first{PREDICT}", {"instances": [1]})
        models = sandbox.ask("localhost", "/default/first/v1/models")
        stranger, _ = sandbox.ask("rebound.example.org", "/default/first/v1/models")
        other, answered = sandbox.ask(own, "/default/second/v1/models")
        _, log = stop(process)

    assert re.search(r"^first: ready after \d+\.\d s; its first prediction took \d\.\d\d s$", log, re.MULTILINE)
    assert f"http://{own}/default/first/" in announced
    assert (status, answer["predictions"]) == (200, [1])
    assert models == (200, {"models": ["fake"]})
    assert (stranger, other) == (404, 404)
    assert answered["error"].endswith(f"; available: {own}/default/first")


def test_a_server_whose_lines_nobody_reads_is_served_and_stopped_all_the_same(sandbox: Sandbox) -> None:
    code = (
        "import sys, threading, runpy\n"
        "threading.Thread(target=lambda: [print('x' * 200) for _ in range(100_000)], daemon=True).start()\n"
        f"runpy.run_path({str(FAKE_RUNTIME)!r}, run_name='__main__')\n"
    )
    talking = runtime(command=["python", "-c", code])
    with sandbox.running(*arguments(sandbox, service(), talking)) as process:
        read_until(process.stdout, READY)
        statuses = {sandbox.ask(HOST, PREDICT, {"instances": [1]})[0] for _ in range(5)}
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)

    assert statuses == {200}
    assert process.returncode == 130
    assert list(sandbox.temporary.iterdir()) == []


def test_several_replicas_share_the_requests(sandbox: Sandbox) -> None:
    several = service()
    several["spec"]["predictor"] |= {"minReplicas": 3}
    with sandbox.running(*arguments(sandbox, several, runtime())) as process:
        read_until(process.stdout, READY)
        answers = [sandbox.ask(HOST, PREDICT, {"instances": [1]})[1] for _ in range(6)]
        _, log = stop(process)

    asked = Counter(answer["pid"] for answer in answers)
    assert sorted(asked.values()) == [2, 2, 2]
    assert not any(map(is_running, asked))
    assert {f"first/kserve-container#{number} is ready" for number in (1, 2, 3)} <= set(log.splitlines())


def test_services_of_one_name_are_told_apart_and_a_claim_that_nothing_uses_is_named(sandbox: Sandbox) -> None:
    other = service("first")
    other["metadata"]["namespace"] = "other"
    with sandbox.running(*arguments(sandbox, service("first"), other, runtime()), "--pvc", "spare=/tmp") as process:
        read_until(process.stdout, READY)
        _, log = stop(process)

    assert {f"{name}/first/kserve-container is ready" for name in ("default", "other")} <= set(log.splitlines())
    assert "--pvc spare: no service uses this claim\n" in log


def test_a_working_folder_that_is_missing_and_a_server_that_ends_well_are_named_as_they_are(sandbox: Sandbox) -> None:
    done = sandbox.run(*arguments(sandbox, service(), runtime(workingDir="/no/such")), *request(sandbox))
    ended = sandbox.run(
        *arguments(sandbox, service(), runtime(command=["python", "-c", "print('bye')"])), *request(sandbox)
    )

    assert "first/kserve-container cannot be started: its workingDir /no/such is not a folder of this machine" in (
        done.stderr
    )
    expected = "first/kserve-container | bye\nisvc: first/kserve-container has ended (exit code 0)\n"
    assert ended.stderr.endswith(expected)


def test_a_port_in_use_ends_the_run_before_anything_is_started(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", sandbox.port)), taken(sandbox.port + 1):
        done = sandbox.run(*arguments(sandbox))

    found = re.fullmatch(r"isvc: port (\d+) is in use; choose another one: --http-port (\d+)\n", done.stderr)
    assert (done.returncode, found and found[1]) == (1, str(sandbox.port))
    assert found
    assert int(found[2]) > sandbox.port + 1
