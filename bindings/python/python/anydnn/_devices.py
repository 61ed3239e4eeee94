"""What there is to run on."""

from __future__ import annotations

from typing import NamedTuple

from . import _native


class Device(NamedTuple):
    """A device, or a backend that has none."""

    name: str
    """The name, as ``opencl:pocl:0``; given as ``backend`` it chooses this one."""
    backend: str
    """``opencl`` or ``host``."""
    kind: str | None
    """``gpu``, ``cpu``, ``accelerator`` or ``other``."""
    device: str | None
    """The device's own name."""
    platform: str | None
    """The platform (driver) that it belongs to."""
    vendor: str | None
    """Who made it."""
    driver: str | None
    """The driver's version."""
    reason: str | None
    """Why the backend has no device; none where it has."""

    @property
    def available(self) -> bool:
        """Whether there is a device."""
        return self.reason is None


def devices() -> list[Device]:
    """Every device of every backend, and backends without any with the reason. The host is always there.

    >>> import anydnn
    >>> [device.name for device in anydnn.devices() if device.backend == "host"]
    ['host']
    """
    return [Device(**found) for found in _native.candidates()]


def backends() -> list[str]:
    """The names that choose a device, as ``opencl:pocl:0`` and ``host``."""
    return [device.name for device in devices() if device.available]
