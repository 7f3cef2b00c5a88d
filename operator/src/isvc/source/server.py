"""Whether what a kubeconfig names is an API server that has services: the first that a command asks, so that it says no
later.
"""

from __future__ import annotations

import asyncio
from typing import Any

from isvc.api_server import PersonsApi
from isvc.limits import FIRST_RESPONSE_SECONDS
from isvc.source.errors import NOT_INSTALLED, NotInstalled
from isvc_operator.api import inference_service
from isvc_operator.kube.errors import KubeError, ObjectNotFound, RequestRefused
from isvc_operator.kube.requests import VERSION, ApiRequest, decode
from isvc_operator.manifests import Manifest
from isvc_operator.text import one_line

_FIX = "look at the kubeconfig and its context"
_FORBIDDEN = "cannot get path"  # as an API server words it


async def server_version(api: PersonsApi) -> Manifest | None:
    """Return the version of the API server; None if it may not be read. Raises KubeError with what to do."""
    try:
        async with asyncio.timeout(FIRST_RESPONSE_SECONDS):
            found: Any = decode(await api.send(ApiRequest("GET", VERSION)))
    except TimeoutError as error:
        why = f"it accepts connections and says nothing for {FIRST_RESPONSE_SECONDS:g} s"
        raise _failed(api, why) from error
    except ValueError as error:
        raise _failed(api, "its response is not JSON: this is not an API server") from error
    except ObjectNotFound as error:
        raise _failed(api, "it does not know /version: this is not an API server", error.status) from error
    except RequestRefused as error:
        if _FORBIDDEN in str(error):
            return None
        raise _failed(api, str(error), error.status) from error
    except KubeError as error:
        raise _failed(api, str(error), error.status) from error
    if not isinstance(found, dict) or "gitVersion" not in found:
        raise _failed(api, "its response names no version: this is not an API server")
    return found


async def require_services(api: PersonsApi) -> None:
    """Raise NotInstalled if the cluster has no InferenceServices: everything else that is missing follows from it."""
    try:
        await api.send(ApiRequest("GET", f"/apis/{inference_service.API_VERSION}"))
    except ObjectNotFound as error:
        raise NotInstalled(NOT_INSTALLED) from error
    except KubeError:  # the command itself says what it may not do
        return


def _failed(api: PersonsApi, why: str, status: int = 0) -> KubeError:
    """Return a plain KubeError: what is not found or refused here is not what the command asks for."""
    return KubeError(status, one_line(f"{api.server}: {why}; {_FIX}"))
