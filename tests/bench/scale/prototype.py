"""``python -m tests.bench.scale.prototype PORT``: Deployment, Service and status of each service, with kopf alone.

What the operator's processor time is compared with. It has no caches, watches no pods, and checks nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

import kopf
from aiohttp import web
from kubernetes.aio import client, config

LABEL, GROUP = "serving.kserve.io/inferenceservice", "serving.kserve.io"
CHILDREN = {"Deployment": "/apis/apps/v1/namespaces/{}/deployments/{}", "Service": "/api/v1/namespaces/{}/services/{}"}
registry, queue = kopf.OperatorRegistry(), asyncio.Queue[dict[str, Any]]()
seen: dict[str, tuple[Any, ...]] = {}  # what was written last for each service
done, working = 0, 0


@kopf.on.login(registry=registry)
async def login(**kwargs: Any) -> Any:
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.event(GROUP, "v1beta1", "inferenceservices", registry=registry)
async def service_changed(body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
    if type != "DELETED" and seen.setdefault(body["metadata"]["name"], ()) == ():
        queue.put_nowait(dict(body))


@kopf.on.event("apps", "v1", "deployments", registry=registry)
async def deployment_changed(body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
    if type != "DELETED" and body.get("status", {}).get("availableReplicas"):
        queue.put_nowait(dict(body))


@kopf.on.event("", "v1", "services", registry=registry)
async def child_changed(**_: Any) -> None:
    return


def children(name: str, owner: dict[str, Any]) -> list[dict[str, Any]]:
    labels = {LABEL: name, "app": f"isvc.{name}-predictor", "component": "predictor"}
    metadata = {"name": f"{name}-predictor", "labels": labels, "ownerReferences": [owner]}
    container = {"name": "kserve-container", "image": "registry.example.com/server:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    service = {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    return [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service}]  # fmt: skip


async def send(api: client.ApiClient, path: str, body: Any, content: str) -> None:
    query = [("fieldManager", "prototype"), *([("force", "true")] if "apply" in content else [])]
    headers = {"Content-Type": content, "Accept": "application/json"}
    data = json.dumps(body).encode() if "apply" in content else body  # the library sends these as they are
    request = await api.param_serialize("PATCH", path, query_params=query, header_params=headers,
                                        body=data, auth_settings=["BearerToken"])  # fmt: skip
    await (await api.call_api(*request)).response.read()


async def work(api: client.ApiClient) -> None:
    global done, working
    while True:
        body = await queue.get()
        working += 1
        metadata = body["metadata"]
        namespace, name, ready = metadata["namespace"], metadata.get("labels", {}).get(LABEL), "True"
        if name is None:
            name, ready = metadata["name"], "False"
            owner = {"apiVersion": f"{GROUP}/v1beta1", "kind": "InferenceService", "name": name,
                     "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}  # fmt: skip
            for child in children(name, owner):
                path = CHILDREN[child["kind"]].format(namespace, child["metadata"]["name"])
                await send(api, path, child, "application/apply-patch+yaml; charset=utf-8")
        if seen.get(name) != (ready,) and seen.get(name) != ("True",):
            seen[name] = (ready,)
            conditions = [{"type": "Ready", "status": ready}]
            path = f"/apis/{GROUP}/v1beta1/namespaces/{namespace}/inferenceservices/{name}/status"
            await send(api, path, {"status": {"conditions": conditions}}, "application/merge-patch+json")
        done, working = done + 1, working - 1


async def metrics(_: web.Request) -> web.Response:
    return web.Response(text=f"done {done}\nwaiting {queue.qsize() + working}\n")


async def main(port: int) -> None:
    configuration = client.Configuration()
    await config.load_kube_config(config_file=os.environ["KUBECONFIG"], client_configuration=configuration)
    application = web.Application()
    application.router.add_get("/{path:.*}", metrics)
    runner = web.AppRunner(application)
    await runner.setup()
    async with client.ApiClient(configuration) as api, asyncio.TaskGroup() as group:
        api.user_agent = "prototype"
        for _ in range(8):
            group.create_task(work(api))
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        for resource in (("apps", "v1", "deployments"), ("", "v1", "services")):
            settings.watching.label_selectors[resource] = LABEL
        group.create_task(kopf.operator(registry=registry, settings=settings, standalone=True, clusterwide=True))
        await web.TCPSite(runner, "127.0.0.1", port).start()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1])))
