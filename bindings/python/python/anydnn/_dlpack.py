"""DLPack's structures for memory of OpenCL, after its header's version 0.8: tensors are handed over in capsules."""

from __future__ import annotations

import ctypes as c
from typing import Any, NamedTuple

from ._types import dtype_of, own_of
from .errors import InvalidArgumentError, UnsupportedError

OPENCL = 4
_CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "b": 6}
_TYPES = {
    **{(0, bits): f"s{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"u{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"f{bits}" for bits in (16, 32, 64)},
    (4, 16): "bf16",
    (6, 8): "boolean",
}


class _Tensor(c.Structure):
    _fields_ = (
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    )


class _Managed(c.Structure):
    pass


_Deleter = c.PYFUNCTYPE(None, c.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", c.c_void_p), ("deleter", _Deleter))

_Destructor = c.PYFUNCTYPE(None, c.c_void_p)
_NAME = b"dltensor"


def _function(name: str, result: Any, *arguments: Any) -> Any:
    return c.PYFUNCTYPE(result, *arguments)((name, c.pythonapi))


_is_valid = _function("PyCapsule_IsValid", c.c_int, c.c_void_p, c.c_char_p)
_pointer = _function("PyCapsule_GetPointer", c.c_void_p, c.c_void_p, c.c_char_p)
_pointer_of = _function("PyCapsule_GetPointer", c.c_void_p, c.py_object, c.c_char_p)
_new = _function("PyCapsule_New", c.py_object, c.c_void_p, c.c_char_p, _Destructor)

# What is handed out and not given back yet, by address.
_out: dict[int, tuple[_Managed, Any, Any]] = {}


def _delete(managed: Any) -> None:
    _out.pop(c.addressof(managed.contents), None)


def _destroy(capsule: int) -> None:
    # A capsule that was taken has another name, and its taker gives back the tensor.
    if _is_valid(capsule, _NAME):
        _out.pop(_pointer(capsule, _NAME), None)


# Kept for as long as anyone may call them.
_deleter, _destructor = _Deleter(_delete), _Destructor(_destroy)


def capsule_of(array: Any) -> Any:
    """A capsule of a ``pyopencl.array.Array``, which is kept until the tensor is given back."""
    own_of(array.dtype, "array")
    tensor = _Tensor(
        data=array.base_data.int_ptr,
        device_type=OPENCL,
        device_id=0,
        ndim=array.ndim,
        code=_CODES[array.dtype.kind],
        bits=8 * array.dtype.itemsize,
        lanes=1,
        byte_offset=array.offset,
    )
    shape = (c.c_int64 * array.ndim)(*array.shape)
    strides = (c.c_int64 * array.ndim)(*(stride // array.dtype.itemsize for stride in array.strides))
    tensor.shape, tensor.strides = shape, strides
    managed = _Managed(tensor=tensor, context=None, deleter=_deleter)
    address = c.addressof(managed)
    _out[address] = (managed, (shape, strides), array)
    return _new(address, _NAME, _destructor)


class Taken(NamedTuple):
    """A tensor of a capsule."""

    pointer: int
    """The address of its ``cl_mem``."""
    offset: int
    """Its first byte."""
    own: str
    """The library's name of its type."""
    dims: list[int]
    """Its extents."""


def taken(subject: str, capsule: Any) -> Taken:
    """What a capsule holds, which lasts as long as it does."""
    tensor = c.cast(_pointer_of(capsule, _NAME), c.POINTER(_Managed)).contents.tensor
    dims = [tensor.shape[i] for i in range(tensor.ndim)]
    own = _TYPES.get((tensor.code, tensor.bits))
    if own is None or tensor.lanes != 1:
        raise UnsupportedError(
            f"{subject}: DLPack's type {tensor.code} of {tensor.bits} bits in {tensor.lanes}"
        )
    dtype_of(own)
    expected, step = [0] * len(dims), 1
    for axis in reversed(range(len(dims))):
        expected[axis], step = step, step * max(dims[axis], 1)
    if tensor.strides and 0 not in dims:
        for axis, extent in enumerate(dims):
            if extent > 1 and tensor.strides[axis] != expected[axis]:
                given = f"a tensor of strides {tensor.strides[: len(dims)]}"
                wanted = "one in the order of its rows"
                message = f"{subject} is {given}, expected {wanted}"
                raise InvalidArgumentError(message, subject=subject, given=given, expected=wanted)
    return Taken(tensor.data or 0, tensor.byte_offset, own, dims)
