"""Why an archive or a configuration is refused. Each message is one line: what is wrong and, after a semicolon, what
to do. Callers turn these into errors of their own, with an exit code."""

from __future__ import annotations


class InvalidArchive(Exception):
    """Root of what is wrong with an archive; the message starts with the archive's name or its manifest's."""


class DamagedArchive(InvalidArchive):
    """The archive is truncated, damaged, or no archive at all."""


class InvalidManifest(InvalidArchive):
    """The manifest is missing, or TorchServe would refuse it."""


class UnsafeArchive(InvalidArchive):
    """The archive must not be unpacked: a path out of its folder, a link, too much content."""


class NoModel(Exception):
    """A file is not a model that is served without an archive; the message does not name it."""


class InvalidConfiguration(Exception):
    """A setting of config.properties that names models cannot be read."""


class CannotPack(Exception):
    """What is to be packed is not there, or does not fit together."""
