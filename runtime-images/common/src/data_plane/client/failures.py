"""What aiohttp's errors say of a predictor, in words."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

import aiohttp

from data_plane.client.address import Address
from data_plane.client.errors import PredictorBroken, PredictorUnreachable


def unreachable(address: Address, error: Exception) -> PredictorUnreachable:
    reason = _why_unreachable(error)
    return PredictorUnreachable(
        f"The predictor at {address} cannot be reached: {reason}; "
        "see whether it is ready and whether --predictor_host is right.",
        reason,
    )


def broken(address: Address, reason: str | aiohttp.ClientError) -> PredictorBroken:
    """Return the error for a connection without a response, or with one that cannot be used."""
    reason = reason if isinstance(reason, str) else _why_broken(reason)
    return PredictorBroken(f"The predictor at {address} failed: {reason}.", reason)


def is_silent(error: aiohttp.ClientError) -> bool:
    """Whether a connection ended before a response began."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # else it is what came of the response
    return isinstance(error, aiohttp.ClientOSError)


def _why_broken(error: aiohttp.ClientError) -> str:
    if is_silent(error):
        return "it closed the connection without a response"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"its response is not HTTP ({error.message.strip()})"
    return "it closed the connection in the middle of its response"


def _why_unreachable(error: Exception) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "it does not take connections"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "there is no such host"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        error = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
