//! The table of the data types, from which all that depends on one of them follows.

use super::Format;
use crate::minifloat::MiniFloat;

/// Makes the enumeration of the rows' types and their rows.
macro_rules! data_types {
    (
        computed { $($(#[$doc:meta])* $name:ident $text:literal $bits:literal $format:expr;)* }
        host_only { $($(#[$host_doc:meta])* $host_name:ident $host_text:literal $host_bits:literal $host_format:expr;)* }
    ) => {
        /// The type of one element of a tensor.
        ///
        /// ```
        /// use anydnn_backend::DataType;
        /// assert_eq!(DataType::BF16.bits(), 16);
        /// assert_eq!("f8_e4m3".parse::<DataType>().unwrap(), DataType::F8E4M3);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DataType {
            $($(#[$doc])* $name,)*
            $($(#[$host_doc])* $host_name,)*
        }

        impl DataType {
            /// Every data type that primitives and graphs compute with, in the order of declaration.
            pub const ALL: [Self; [$($bits),*].len()] = [$(Self::$name),*];

            /// Data types of tensors in host memory that models hold and hosts compute with, and no primitive.
            pub const HOST_ONLY: [Self; [$($host_bits),*].len()] = [$(Self::$host_name),*];

            /// Whether the type is one of [`DataType::HOST_ONLY`].
            pub const fn is_host_only(self) -> bool {
                matches!(self, $(Self::$host_name)|*)
            }

            /// The size of an element in bits.
            pub const fn bits(self) -> usize {
                match self {
                    $(Self::$name => $bits,)*
                    $(Self::$host_name => $host_bits,)*
                }
            }

            /// The name that graph JSON and the command line use.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    $(Self::$host_name => $host_text,)*
                }
            }

            /// What the bits of an element mean.
            pub(super) const fn format(self) -> Format {
                match self {
                    $(Self::$name => $format,)*
                    $(Self::$host_name => $host_format,)*
                }
            }
        }
    };
}

data_types! {
    computed {
        /// IEEE 754 binary32.
        F32 "f32" 32 Format::Single;
        /// IEEE 754 binary16.
        F16 "f16" 16 Format::Half;
        /// The upper half of binary32.
        BF16 "bf16" 16 Format::Brain;
        /// Signed 32-bit integer.
        S32 "s32" 32 Format::Signed;
        /// Signed 8-bit integer.
        S8 "s8" 8 Format::Signed;
        /// Unsigned 8-bit integer.
        U8 "u8" 8 Format::Unsigned;
        /// One byte, zero for false and one for true.
        Boolean "boolean" 8 Format::Boolean;
        /// IEEE 754 binary64.
        F64 "f64" 64 Format::Double;
        /// Signed 64-bit integer.
        S64 "s64" 64 Format::Signed;
        /// 8-bit float, 5 exponent and 2 mantissa bits (OCP).
        F8E5M2 "f8_e5m2" 8 Format::Mini(MiniFloat::E5M2);
        /// 8-bit float, 4 exponent and 3 mantissa bits (OCP).
        F8E4M3 "f8_e4m3" 8 Format::Mini(MiniFloat::E4M3);
        /// Signed 4-bit integer, two to a byte, low nibble first.
        S4 "s4" 4 Format::Signed;
        /// Unsigned 4-bit integer, two to a byte, low nibble first.
        U4 "u4" 4 Format::Unsigned;
        /// 4-bit float, 2 exponent and 1 mantissa bits, two to a byte, low nibble first (OCP); without infinity and NaN.
        F4E2M1 "f4_e2m1" 4 Format::Mini(MiniFloat::E2M1);
    }
    host_only {
        /// Signed 16-bit integer; [only in host memory](DataType::HOST_ONLY), as all that follow.
        S16 "s16" 16 Format::Signed;
        /// Unsigned 16-bit integer.
        U16 "u16" 16 Format::Unsigned;
        /// Unsigned 32-bit integer.
        U32 "u32" 32 Format::Unsigned;
        /// Unsigned 64-bit integer.
        U64 "u64" 64 Format::Unsigned;
        /// Signed 2-bit integer, four to a byte, low bits first.
        S2 "s2" 2 Format::Signed;
        /// Unsigned 2-bit integer, four to a byte, low bits first.
        U2 "u2" 2 Format::Unsigned;
        /// 8-bit float, 5 exponent and 2 mantissa bits, without infinity and negative zero.
        F8E5M2Fnuz "f8_e5m2fnuz" 8 Format::Mini(MiniFloat::E5M2_FNUZ);
        /// 8-bit float, 4 exponent and 3 mantissa bits, without infinity and negative zero.
        F8E4M3Fnuz "f8_e4m3fnuz" 8 Format::Mini(MiniFloat::E4M3_FNUZ);
        /// A power of two from 2^-127 to 2^127: an exponent without sign and mantissa (OCP).
        E8M0 "e8m0" 8 Format::Exponent;
    }
}
