"""What generated source may import: which names, from which module.

The emitter writes imports from here; lowering gives no local one of these names.
"""

from __future__ import annotations

__all__ = ["IMPORTS", "NUMBERS"]

IMPORTS: dict[str, tuple[str, ...]] = {
    "peffects.codegen.native.arithmetic": (
        "ceil", "convert", "floor", "floordiv", "greater", "lesser", "lgamma", "maximum",
        "minimum", "mod", "scale", "scale_by", "select", "shift_left", "shift_right",
        "signed_power", "trunc", "unscale", "unsigned_power",
    ),
    "peffects.codegen.native.scalar_functions": (
        "bit_count", "digamma", "expit", "float_of", "fmod", "gcd", "logaddexp",
        "remainder", "rint", "trigamma", "word_of",
    ),
    "peffects.codegen.native.intrinsics": (
        "bits_of_f64", "cancelled", "chunk_start", "chunk_stop", "contract_mul",
        "contract_scale", "contract_scale_by", "fail",
        "frame_get", "frame_set", "load", "note", "reduce_add", "reduce_max", "reduce_min",
        "reduce_mul", "store", "tick",
    ),
    "peffects.codegen.native.random_numbers": ("cos_turn", "log_unit", "threefry"),
    "peffects.codegen.native.vector_math": ("cbrt", "exp", "log"),
    "math": ("inf", "nan"),
}  # fmt: skip

NUMBERS: dict[str, str] = {
    "f64": "float64", "f32": "float32", "i64": "int64", "i32": "int32", "i16": "int16",
    "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip
"""The names that numbers of each type have in generated source, and those of numba."""
