"""Run one hook of a model: in the loop or a thread, with the arguments it takes, a time limit and mapped errors."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import traceback
from collections.abc import Callable
from typing import Any

from data_plane.errors import ServingError, Unsupported
from data_plane.messages import text_of
from transformer_sdk.kserve.hooks import done, ends_task
from transformer_sdk.kserve.model import Model
from transformer_sdk.kserve.serving import headers
from transformer_sdk.kserve.serving.errors import COMPONENT, HookFailed, HookRefused, HookTimedOut
from transformer_sdk.kserve.serving.exchange import Exchange
from transformer_sdk.kserve.serving.threads import HookThreads

log = logging.getLogger(__name__)

_ERRORS = range(400, 600)


class Hook:
    """A hook of a model; `overridden` if the user's model defines it, `what` is its name in messages."""

    def __init__(self, model: object, name: str, threads: HookThreads) -> None:
        self._function: Callable[..., Any] = getattr(model, name)
        self.what = f"{name} of model {getattr(model, 'name', model)}"
        self._threads = threads
        self._on_loop = any(
            is_async(self._function) for is_async in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        )
        self._most, self._names = _positional(self._function), _named(self._function)
        default = getattr(Model, name, None)
        self.overridden = getattr(self._function, "__func__", self._function) is not default

    def takes(self, name: str) -> bool:
        return self._names is None or name in self._names

    async def __call__(self, exchange: Exchange, *args: Any, **named: Any) -> Any:
        """Return the hook's result within the request's deadline; raises ServingErrors only."""
        timeout_s = exchange.remaining_s()
        task = asyncio.current_task()
        expired = _Alarm(task)
        timer = asyncio.get_running_loop().call_later(timeout_s, expired)
        try:
            return await self._run(functools.partial(self._function, *args[: self._most], **named))
        except asyncio.CancelledError as error:
            if not expired.went_off:
                if ends_task(error, task):
                    raise
                raise self._serving_error(error) from error
            expired.take_back()
            stack = "".join((*traceback.format_tb(error.__traceback__), *map(str, error.args)))
            log.error("%s did not end within %g s; it is at:\n%s", self.what, timeout_s, stack)
            raise HookTimedOut(f"{self.what} did not end within {timeout_s:g} s.") from error
        except BaseException as error:
            if ends_task(error, task):
                raise
            raise self._serving_error(error) from error
        finally:
            timer.cancel()

    async def _run(self, function: Callable[[], Any]) -> Any:
        return await done(function() if self._on_loop else await self._threads.run(function))

    def _serving_error(self, error: BaseException) -> ServingError:
        if isinstance(error, NotImplementedError):
            error = Unsupported(text_of(error) or f"{self.what} is not implemented.")
        if isinstance(error, ServingError):
            if error.component == ServingError.component:
                error.component = COMPONENT  # the hook raised it
            return error
        status = getattr(error, "status_code", None)  # errors of other HTTP clients have a status, but no detail
        if isinstance(status, int) and status in _ERRORS and hasattr(error, "detail"):
            return HookRefused(error, headers.encode(getattr(error, "headers", None) or {}))
        log.error("%s raised", self.what, exc_info=error)
        return HookFailed(f"{type(error).__name__} : {text_of(error)}")


class _Alarm:
    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task
        self.went_off = False

    def __call__(self) -> None:
        self.went_off = True
        if self._task:
            self._task.cancel()

    def take_back(self) -> None:
        """Undo the cancellation: Python 3.11 and later count them."""
        getattr(self._task, "uncancel", int)()


def _positional(function: Callable[..., Any]) -> int | None:
    """Return the maximal number of positional arguments, None for any; hooks for old SDKs take no headers."""
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)


def _named(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names of keyword arguments; None for any."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(one.name for one in parameters if one.kind in by_name)
