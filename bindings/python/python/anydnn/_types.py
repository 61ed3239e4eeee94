"""Types of elements: the library's names, NumPy's, and those of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidDataTypeError, UnsupportedError

# The library's name, NumPy's or that of ml_dtypes, and the one that users of ONNX Runtime know.
_ROWS = [
    ("f32", "float32", "float"),
    ("f64", "float64", "double"),
    ("f16", "float16", "float16"),
    ("bf16", "bfloat16", "bfloat16"),
    ("s64", "int64", "int64"),
    ("s32", "int32", "int32"),
    ("s16", "int16", "int16"),
    ("s8", "int8", "int8"),
    ("u64", "uint64", "uint64"),
    ("u32", "uint32", "uint32"),
    ("u16", "uint16", "uint16"),
    ("u8", "uint8", "uint8"),
    ("boolean", "bool", "bool"),
    ("f8_e4m3", "float8_e4m3fn", "float8e4m3fn"),
    ("f8_e5m2", "float8_e5m2", "float8e5m2"),
    ("f8_e4m3fnuz", "float8_e4m3fnuz", "float8e4m3fnuz"),
    ("f8_e5m2fnuz", "float8_e5m2fnuz", "float8e5m2fnuz"),
    ("e8m0", "float8_e8m0fnu", "float8e8m0"),
    ("f4_e2m1", "float4_e2m1fn", "float4e2m1"),
    ("s4", "int4", "int4"),
    ("u4", "uint4", "uint4"),
    ("s2", "int2", "int2"),
    ("u2", "uint2", "uint2"),
]
_NUMPY = {own: name for own, name, _ in _ROWS}
_ONNX = {own: name for own, _, name in _ROWS}
_OWN = {name: own for own, name, _ in _ROWS}

# Elements that share bytes, lowest bits first. ml_dtypes has a byte for each of them.
BITS = {"s4": 4, "u4": 4, "f4_e2m1": 4, "s2": 2, "u2": 2}

# NumPy's own types in the machine's byte order.
PLAIN = {
    np.dtype(name): own for own, name, _ in _ROWS if name in np.sctypeDict and np.dtype(name).kind in "fiub"
}


def dtype_of(own: str) -> np.dtype[Any]:
    """NumPy's type for one of the library's."""
    name = _NUMPY[own]
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype
    except (ImportError, AttributeError):
        why = f"NumPy has no {name} of its own: install ml_dtypes, as by `pip install anydnn[narrow]`"
        raise UnsupportedError(f"elements of {own}: {why}") from None


def own_of(dtype: npt.DTypeLike, subject: str) -> str:
    """The library's name of one of NumPy's types, or the name itself."""
    if isinstance(dtype, str) and dtype in _NUMPY:
        return dtype
    if isinstance(dtype, str) and dtype in _OWN:
        return _OWN[dtype]
    dtype = np.dtype(dtype)
    own = _OWN.get(dtype.name)
    if own is None:
        expected = ", ".join(name for _, name, _ in _ROWS)
        raise InvalidDataTypeError(
            f"type of {subject} is {dtype}, expected one of {expected}",
            subject=f"type of {subject}",
            given=str(dtype),
            expected=expected,
        )
    return own


def onnx_name(own: str | None) -> str:
    """What ONNX Runtime calls a tensor of the library's type, as ``tensor(float)``."""
    return f"tensor({_ONNX[own]})" if own else "tensor(unknown)"
