"""Every way the initializer can fail, each with its exit code.

``--help`` and the README list them. A message is one line: what is wrong, and after a semicolon what to do.
"""

from __future__ import annotations


class InitializerError(Exception):
    """Root. ``source`` is the URI that was being brought, once it is known; it leads the message."""

    exit_code = 1
    source: str | None = None
    may_pass = False
    """Whether trying again may help: a request is repeated, and what has arrived is kept for the next run."""

    def __str__(self) -> str:
        message = super().__str__()
        return f"{self.source}: {message}" if self.source else message


class UsageError(InitializerError):
    """The arguments or the environment are invalid."""

    exit_code = 2


class UnsupportedSchemeError(InitializerError):
    """No backend of this version serves the URI's scheme."""

    exit_code = 3


class ClaimNotMountedError(InitializerError):
    """The claim of a pvc URI is not mounted in this container."""

    exit_code = 4


class SourceNotFoundError(InitializerError):
    """Nothing exists at the source's path, or a link in it is broken."""

    exit_code = 5


class EmptySourceError(InitializerError):
    """The source contains no file."""

    exit_code = 6


class AccessDeniedError(InitializerError):
    """This user, or these credentials, may not read something in the source."""

    exit_code = 7


class UnsafeSourceError(InitializerError):
    """The source contains something that must not be copied: a link out of it, a device, a loop."""

    exit_code = 8


class NestedPathsError(InitializerError):
    """Source and destination are the same folder, or one is inside the other."""

    exit_code = 9


class NoSpaceError(InitializerError):
    """The destination's file system is too full."""

    exit_code = 10


class DestinationError(InitializerError):
    """The destination is not writable."""

    exit_code = 11


class CopyError(InitializerError):
    """The copy differs from the source, or the source could not be read to its end."""

    exit_code = 12


class LayoutError(InitializerError):
    """The model's folder does not have the layout that its server needs."""

    exit_code = 13


class ArchiveError(InitializerError):
    """An archive is damaged, cannot be loaded, or must not be unpacked."""

    exit_code = 14


# The services that are asked if no endpoint is set, in each cloud of theirs, and what else may be wrong with a name.
_REGION, _ACCOUNT = ", or no such region", ", or no such storage account"
_PUBLIC = {
    ".googleapis.com": "",
    ".huggingface.co": "",
    ".login.microsoftonline.com": "",
    ".login.microsoftonline.us": "",
    ".login.partner.microsoftonline.cn": "",
    ".login.chinacloudapi.cn": "",
    ".amazonaws.com": _REGION,
    ".amazonaws.com.cn": _REGION,
    ".core.windows.net": _ACCOUNT,
    ".core.usgovcloudapi.net": _ACCOUNT,
    ".core.chinacloudapi.cn": _ACCOUNT,
    ".storage.azure.net": _ACCOUNT,
}


class UnreachableError(InitializerError):
    """The server cannot be reached: its name, its address, or no response in time."""

    exit_code = 15
    may_pass = True

    @classmethod
    def unknown_name(cls, host: str, why: str) -> UnreachableError:
        """Return the error for a name without an address; ``host`` may have a port, ``why`` is the resolver's."""
        name = host.partition(":")[0]
        public = next((more for end, more in _PUBLIC.items() if f".{name}".endswith(end)), None)
        fix = "correct the endpoint" if public is None else f"there is no DNS or no network{public}"
        return cls(f"the name {host} is not known ({why}); {fix}")


class CertificateError(InitializerError):
    """The server's certificate is not trusted, or belongs to another host."""

    exit_code = 16

    @classmethod
    def untrusted(cls, host: str, why: str) -> CertificateError:
        return cls(
            f"the certificate of {host} is not trusted ({why}); "
            "give its CA in a bundle (annotation serving.kserve.io/s3-cabundle, or caBundleConfigMapName)"
        )


class ServerError(InitializerError):
    """The server failed, or sent an invalid response."""

    exit_code = 17
    may_pass = True


class UnexpectedResponseError(ServerError):
    """A response that will be the same next time."""

    may_pass = False


class RegionError(InitializerError):
    """The bucket is in another region than the requested one."""

    exit_code = 18


class Termination(BaseException):
    """A signal stops the initializer. Not an ``Exception``: ``logging`` and others swallow those."""

    def __init__(self, signal_number: int, signal_name: str) -> None:
        super().__init__(f"stopped by {signal_name}; start again to bring the model")
        self.exit_code = 128 + signal_number


def exit_codes() -> dict[int, str]:
    """Each code with its meaning."""
    foreseen = {cls.exit_code: cls.__doc__ or "" for cls in InitializerError.__subclasses__()}
    return {
        0: "Done.",
        1: "An unexpected error; the log has the traceback.",
        **foreseen,
        143: "Stopped by SIGTERM.",
    }
