"""Arrays in and out. What is contiguous and in the machine's byte order goes in without a copy."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ._native import Tensor
from ._types import BITS, PLAIN, dtype_of, own_of
from .errors import MismatchError

# The types of devices of DLPack whose memory the host reads: its own, and such as other devices share.
_HOST_DEVICES = (1, 3, 11)


def to_tensor(name: str, value: object, declared: str | None = None) -> Tensor:
    """A tensor that shares the elements of an array, or of a copy in the order of its rows.

    Numbers and lists become what is declared; arrays keep their type.
    """
    if type(value) is np.ndarray and value.flags.c_contiguous:
        plain = PLAIN.get(value.dtype)
        if plain is not None:
            return Tensor.of_array(value, plain, value.shape)
    array = _array(name, value, declared)
    own = own_of(array.dtype, f"input {name!r}")
    dims = list(array.shape)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if own in BITS:
        array = _packed(array, BITS[own])
    elif not array.flags.c_contiguous:
        array = array.copy(order="C")
    return Tensor.of_array(array, own, dims)


def to_array(tensor: Tensor) -> npt.NDArray[Any]:
    """An array of the elements of a result, which it keeps."""
    if tensor.is_plain:
        return np.asarray(tensor)
    own, dims = tensor.data_type, tensor.dims
    dtype = dtype_of(own)
    elements = np.asarray(tensor)
    if own in BITS:
        elements = _unpacked(elements, BITS[own], int(np.prod(dims, dtype=np.int64)), own)
    return elements.view(dtype).reshape(dims)


def _array(name: str, value: object, declared: str | None) -> npt.NDArray[Any]:
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        kind, number = value.__dlpack_device__()
        if kind not in _HOST_DEVICES:
            given, expected = f"DLPack's device type {int(kind)}, number {number}", "memory of the host"
            message = f"input {name!r} is in memory of {given}, expected {expected}"
            raise MismatchError(message, given=given, expected=expected)
        return np.from_dlpack(cast(Any, value))
    if hasattr(value, "__array__"):
        return np.asarray(value)
    return np.asarray(value, dtype=dtype_of(declared) if declared else None)


def _packed(array: npt.NDArray[Any], bits: int) -> npt.NDArray[np.uint8]:
    """Elements of a byte each as such that share bytes."""
    whole = 8 // bits
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    flat = np.pad(flat, (0, -flat.size % whole)).reshape(-1, whole)
    shifts = np.arange(whole, dtype=np.uint8) * np.uint8(bits)
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(flat << shifts, axis=1).astype(np.uint8)
    return packed


def _unpacked(packed: npt.NDArray[Any], bits: int, count: int, own: str) -> npt.NDArray[Any]:
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    flat = ((packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count].astype(np.uint8)
    if own.startswith("s"):
        # The highest bit is that of the sign.
        sign = np.uint8(1 << (bits - 1))
        flat = (flat ^ sign) - sign
    return np.ascontiguousarray(flat)
