"""Keeps the pods of a Deployment, by the rules of its controller: a change rolls them without losing a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count

from isvc.run.clock import now
from isvc.run.errors import RunFailed
from isvc.run.kubelet import LocalPod
from isvc.run.processes import together
from isvc.run.stored import TEMPLATE_HASH, deployment_status, new_pod, template_hash
from isvc_operator.manifests import Manifest, labels_of

StartPod = Callable[[Manifest, str], LocalPod]


class LocalDeployment:
    """The pods of a Deployment.

    ``start_pod`` starts one, with a tag for people; ``drained`` returns when a pod has no more requests.
    """

    def __init__(self, manifest: Manifest, start_pod: StartPod, drained: Callable[[LocalPod], Awaitable[None]]) -> None:
        self.pods: list[LocalPod] = []
        self._numbers = count(1)
        self._ending: set[asyncio.Task[None]] = set()
        self._drained = drained
        self._is_removed = False
        self.use(manifest, start_pod)

    def use(self, manifest: Manifest, start_pod: StartPod) -> None:
        """Change the Deployment: with the next ``roll``, pods of another template are replaced."""
        self._manifest, self._start_pod = manifest, start_pod

    def roll(self) -> None:
        """Start and end pods as it is time to; to be called after each change of the Deployment or a pod."""
        while not self._is_removed:
            if leaving := self._leaving():
                for pod in leaving:
                    self._end(pod)
            elif self._lacks_pod():
                self.pods.append(self._next_pod())
            else:
                return

    @property
    def manifest(self) -> Manifest:
        """The Deployment with its status, as it is now."""
        status = deployment_status(self._manifest, [pod.manifest for pod in self.pods], now())
        if status != self._manifest.get("status"):
            self._manifest = {**self._manifest, "status": status}
        return self._manifest

    @property
    def is_complete(self) -> bool:
        """Whether as many pods as wanted have the newest template, and no others exist."""
        status = self.manifest["status"]
        counts = {status[name] for name in ("replicas", "updatedReplicas", "readyReplicas")}
        return counts == {self._wanted}

    @property
    def keeps_old_pods(self) -> bool:
        """Whether pods of an older template have the requests."""
        return any(pod.is_ready for pod in self._living()[1])

    async def stop(self) -> None:
        """End all pods at once."""
        self._is_removed = True
        for task in self._ending:
            task.cancel()
        await together(*self._ending, *(pod.end() for pod in self.pods))

    async def remove(self) -> None:
        """End all pods when they have no more requests."""
        self._is_removed = True
        for pod in self.pods:
            self._end(pod)
        await together(*self._ending)

    def is_newest(self, pod: Manifest) -> bool:
        """Whether a pod has the newest template."""
        return labels_of(pod)[TEMPLATE_HASH] == template_hash(self._manifest)

    @property
    def _wanted(self) -> int:
        wanted: int = self._manifest["spec"]["replicas"]
        return wanted

    @property
    def _recreates(self) -> bool:
        return bool(self._manifest["spec"].get("strategy", {}).get("type") == "Recreate")

    def _next_pod(self) -> LocalPod:
        number = next(self._numbers)
        # The only pod that there has been needs no number.
        tag = f"#{number}" if number > 1 or self._wanted > 1 else ""
        return self._start_pod(new_pod(self._manifest, number, now()), tag)

    def _living(self) -> tuple[list[LocalPod], list[LocalPod]]:
        """Return the pods of the newest template and those of older ones, without those that are ending."""
        living = [pod for pod in self.pods if not pod.is_ending]
        updated = [pod for pod in living if self.is_newest(pod.manifest)]
        return updated, [pod for pod in living if pod not in updated]

    def _leaving(self) -> Sequence[LocalPod]:
        """Return the pods to end now: old ones that do not serve, and one for each new one that does."""
        updated, old = self._living()
        if self._recreates:
            return old or updated[self._wanted :]
        spare = sum(pod.is_ready for pod in (*updated, *old)) - self._wanted
        serving = [pod for pod in old if pod.is_ready]
        idle = [pod for pod in old if not pod.is_ready]
        return [*idle, *serving[: max(0, spare)], *updated[self._wanted :]]

    def _lacks_pod(self) -> bool:
        """Whether to start a pod now; a rollout has one more than is wanted."""
        updated, old = self._living()
        if self._recreates:
            return len(self.pods) < self._wanted
        return len(updated) < self._wanted and len(updated) + len(old) <= self._wanted

    def _end(self, pod: LocalPod) -> None:
        if pod.is_ending:
            return
        pod.mark_ending()
        task = asyncio.create_task(self._ended(pod))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _ended(self, pod: LocalPod) -> None:
        try:
            async with asyncio.timeout(pod.plan.grace):
                await self._drained(pod)
        except TimeoutError:
            pass  # as on a cluster, what takes longer is cut off
        except Exception as error:  # noqa: BLE001 - its requests are lost, but it must end, and not without a word
            pod.listener.failed(RunFailed(f"pod {pod.name} is ended with its requests: {error!r}"))
        finally:
            await pod.end()
            self.pods.remove(pod)
            pod.listener.changed()
