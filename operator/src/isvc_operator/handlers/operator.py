"""The operator on kopf: what kopf calls at its start and end, and for each change of a watched object.

``isvc operator`` runs it, and so does ``kopf run -m isvc_operator.handlers.operator -A --standalone``. A handler tells
the cache and the queue of a change; the queue's workers reconcile (``reconcile.py``). kopf keeps no state on objects.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final, cast

import click
import kopf

from isvc_operator.api.kinds import KINDS
from isvc_operator.errors import ConfigError
from isvc_operator.handlers.running import OperatorOptions, RunningOperator, options_in
from isvc_operator.kube.informer.kopf_settings import selector_of, use_settings
from isvc_operator.telemetry.snapshot import not_alive
from isvc_operator.telemetry.tracing import NoTracer, Tracer

_WAITS_FOR_SIGNALS: Final = "stop-flag checker"  # the name of a task of kopf


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Connect to the API server, and begin to reconcile; ``run`` has done that already."""
    if "running" not in memo:
        options = options_in(os.environ)
        if (named := _named_to_kopf()) is not None and named != set(options.namespaces):
            raise ConfigError(
                "kopf run --namespace and the variable WATCH_NAMESPACES go together: give both the same names, "
                "or -A alone"
            )
        memo.running = RunningOperator(options, stop_kopf, NoTracer())
        await memo.running.start()
    use_settings(settings, notices_crds=memo.running.replica.scope.notices_crds)
    if memo.running.error is not None:
        raise memo.running.error


@kopf.on.login()
async def login(memo: kopf.Memo, **_: Any) -> kopf.AiohttpSession:
    """Let kopf list and watch through the operator's own client."""
    session: kopf.AiohttpSession = memo.running.replica.session.login
    return session


async def changed(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """Tell the cache and the queue of an object that was added, has changed, or was deleted."""
    try:
        memo.running.replica.changed(event["type"], event["object"])
    except Exception as error:  # kopf would go on without the change
        memo.running.fail(error)
        raise


for _kind in KINDS:
    if _kind.watched:
        kopf.on.event(*selector_of(_kind))(changed)


@kopf.on.probe(id="problems")
async def problems(memo: kopf.Memo, **_: Any) -> list[str]:
    """Return why a restart may help; kopf's liveness endpoint responds with 500 if there is such a reason."""
    found = not_alive(memo.running.replica.snapshot())
    if found:
        raise kopf.PermanentError("; ".join(found))
    return found


@kopf.on.cleanup(errors=kopf.ErrorsMode.PERMANENT)
async def end(memo: kopf.Memo, **_: Any) -> None:
    """Finish what is in hand; raises what has ended the operator."""
    await memo.running.end()
    if memo.running.error is not None:
        raise memo.running.error


async def run(options: OperatorOptions, tracer: Tracer) -> None:
    """Run until a signal stops it; raises OperatorError for what ends it, and before anything is watched."""
    running = RunningOperator(options, stop_kopf, tracer)
    await running.start()
    try:
        await kopf.operator(
            memo=kopf.Memo(running=running),
            identity=cast(Any, options.identity or "isvc-operator"),  # else kopf asks for a user's name; a pod has none
            standalone=True,
            clusterwide=not options.namespaces,
            namespaces=options.namespaces,
        )
    except Exception:
        if running.error is not None:  # kopf wraps it
            raise running.error from None
        raise
    finally:
        await running.end()


def _named_to_kopf() -> set[str] | None:
    """Return the namespaces on the command line of kopf; None if it is not kopf's command that runs."""
    context = click.get_current_context(silent=True)
    return set(context.params["namespaces"]) if context and "namespaces" in context.params else None


def stop_kopf() -> None:
    """Stop kopf as a signal does, also in a thread: its task that waits for one ends it when it ends."""
    for task in asyncio.all_tasks():
        if task.get_name() == _WAITS_FOR_SIGNALS:
            task.cancel()
