"""The steps of ``isvc migrate apply`` and ``isvc migrate back``, in order. Each can be run again at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from isvc.migrate.checks import mode_refused
from isvc.migrate.errors import MigrationFailed
from isvc.migrate.handover import (
    abandon,
    deployments_in,
    hand_over,
    is_adopted,
    is_complete,
    is_settled,
    prepare,
)
from isvc.migrate.installation import install, start_operator, stop_operator, uninstall_runtimes
from isvc.migrate.kserve import pause_controllers, put_away, put_back, resume_controllers
from isvc.migrate.objects import named, path, path_to
from isvc.migrate.read import MigrationScope, children_of, services_in
from isvc.migrate.session import Session, Step, StepTaken
from isvc_operator.api.kinds import Role, with_role
from isvc_operator.api.names import FIELDS_IGNORED, PROGRESSING, STORAGE_INCOMPLETE
from isvc_operator.manifests import Manifest, name_of

_OWN_CONDITIONS: Final = (PROGRESSING, FIELDS_IGNORED, STORAGE_INCOMPLETE)
_OWN_CHILDREN: Final = tuple(
    (kind.api_version, kind.plural) for kind in with_role(Role.CHILD) if not kind.made_by_kserve
)
_NAMED: Final = 20  # services in one line

Children = Mapping[str, Sequence[Manifest]]  # of each service, by its uid


async def apply(session: Session, scope: MigrationScope, parallel: int) -> None:
    """Change the services of the scope over, ``parallel`` at a time; raises MigrationFailed at the first that fails."""
    await pause_controllers(session)
    await install(session, scope.manifests)
    services = await services_in(session.objects, scope.namespaces)
    children = await children_of(session.objects, services)
    for service in services:
        await prepare(session, service, children[_uid(service)])
    await start_operator(session, scope.namespaces)
    await _hand_all_over(session, services, children, parallel)
    if left := await _left_with_kserve(session):
        names = ", ".join(left[:_NAMED])
        message = f"{len(left)} services remain with KServe, whose controllers stay paused: {names}"
        session.report(StepTaken(Step.SERVICES_LEFT, message, left))
    else:
        await put_away(session)


async def back(session: Session) -> None:
    """Give every service back to KServe's controller; raises MigrationFailed."""
    await put_back(session)
    await uninstall_runtimes(session)
    await stop_operator(session)
    services = await services_in(session.objects, ())
    children = await children_of(session.objects, services)
    for service in services:
        await abandon(session, children[_uid(service)])
        await _forget(session, service)
    await resume_controllers(session)
    for service in services:
        await _wait_for_kserve(session, service)


async def _hand_all_over(session: Session, services: Sequence[Manifest], children: Children, parallel: int) -> None:
    """Hand services over until one fails; those that have begun are finished."""
    waiting = list(reversed(services))
    failures: list[MigrationFailed] = []

    async def work() -> None:
        while waiting and not failures:
            service = waiting.pop()
            try:
                await hand_over(session, service, children[_uid(service)])
            except MigrationFailed as error:
                failures.append(error)

    await asyncio.gather(*(work() for _ in range(parallel)))
    if failures:
        raise failures[0]


async def _left_with_kserve(session: Session) -> list[str]:
    services = await services_in(session.objects, ())
    children = await children_of(session.objects, services)
    return [
        named(service)
        for service in services
        if mode_refused(service) or not all(map(is_adopted, deployments_in(children[_uid(service)])))
    ]


async def _forget(session: Session, service: Manifest) -> None:
    """Remove what only this operator writes, and KServe's controller would leave: conditions, and children."""
    conditions = (service.get("status") or {}).get("conditions") or []
    kept = [item for item in conditions if item["type"] not in _OWN_CONDITIONS]
    if kept != conditions:
        await session.objects.merge(f"{path_to(service)}/status", {"status": {"conditions": kept}})
    namespace = service["metadata"]["namespace"]
    for api, plural in _OWN_CHILDREN:
        for child in await session.objects.items(api, plural, namespace):
            if is_adopted(child) and _uid(service) in {
                item["uid"] for item in child["metadata"].get("ownerReferences", ())
            }:
                await session.objects.delete(path(api, plural, namespace, name_of(child)))


async def _wait_for_kserve(session: Session, service: Manifest) -> None:
    async def is_back() -> bool:
        found = await session.objects.get(path_to(service)) or {}
        deployments = deployments_in((await children_of(session.objects, [service]))[_uid(service)])
        return is_settled(found) and all(is_complete(item) and not is_adopted(item) for item in deployments)

    await session.until(f"{named(service)} is not served by KServe's pods yet", is_back)
    name = named(service)
    session.report(StepTaken(Step.SERVICE_GIVEN_BACK, f"{name} is back with KServe", [name]))


def _uid(service: Manifest) -> str:
    uid: str = service["metadata"]["uid"]
    return uid
