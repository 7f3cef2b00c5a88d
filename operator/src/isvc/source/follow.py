"""Follows one collection by kopf's watch: for those who only look, and run no operator."""

from __future__ import annotations

import kopf
from kopf._cogs.clients import auth, watching
from kopf._cogs.structs.credentials import Vault, VaultKey
from kopf._cogs.structs.references import NamespaceName, Resource

from isvc_operator.kube.informer.kopf_settings import selector_of, use_settings
from isvc_operator.kube.informer.watch_session import WatchSession
from isvc_operator.kube.informer.watching import Collection, WatchHandler


async def follow(session: WatchSession, collection: Collection, handler: WatchHandler) -> None:
    """Tell ``handler`` of each change of the collection's objects, until cancelled; ``session`` gives it the lists."""
    vault = Vault()
    await vault.populate({VaultKey("session"): session.login})
    auth.vault_var.set(vault)
    settings = kopf.OperatorSettings()
    kind = collection.kind
    use_settings(settings, [kind])
    if collection.fields:
        settings.watching.field_selectors[selector_of(kind)] = collection.fields
    resource = Resource(group=kind.group, version=kind.version, plural=kind.plural, namespaced=kind.namespaced)
    namespace = NamespaceName(collection.namespace) if collection.namespace else None
    async for event in watching.infinite_watch(settings=settings, resource=resource, namespace=namespace):
        if not isinstance(event, watching.Bookmark) and event["type"] not in (None, "BOOKMARK"):
            handler.changed(event["type"], event["object"])
