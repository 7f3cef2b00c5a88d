"""The fields of a form that a browser has sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from isvc import limits
from isvc.dashboard.errors import HttpRefusal

Fields = Mapping[str, str | bytes | bytearray | web.FileField]


async def fields_of(request: web.Request) -> Fields:
    """Return the fields; raises HttpRefusal for a body that is not a form, or does not arrive."""
    try:
        async with asyncio.timeout(limits.DASHBOARD_BODY_SECONDS):
            return await request.post()
    except TimeoutError:
        raise HttpRefusal(
            408, f"the body of the request came within {limits.DASHBOARD_BODY_SECONDS:g} s only in part"
        ) from None
    except (ValueError, LookupError, AssertionError, web.RequestPayloadError) as error:
        # Such as no boundary, no such charset, bytes that are not text, or not packed as they claim to be.
        raise HttpRefusal(400, "the body of the request is not a form") from error


def text_of(fields: Fields, name: str) -> str:
    """Return the text of a field; empty if there is none, or a file in its place."""
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""
