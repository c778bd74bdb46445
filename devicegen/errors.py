"""Errors whose text is the message: one line for a person, printed once by ``cli.main``."""


class DevicegenError(Exception):
    """An expected failure: ``str(error)`` says what, where and what to do. Exit code 2."""


class CannotEdit(DevicegenError):
    """A file cannot be changed without disturbing what is not ours; nothing was written."""
