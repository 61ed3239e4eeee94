//! Which vector instructions the fast forms use.

use std::sync::LazyLock;

/// Vector instructions, each level with those before it. A value above [`Level::Portable`] exists only where the processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What every processor of the target has.
    Portable,
    /// x86-64 with AVX2 and fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64 with the common subsets of AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The levels that the processor has, the least one first.
    pub(crate) fn available() -> &'static [Self] {
        static AVAILABLE: LazyLock<Vec<Level>> = LazyLock::new(detect);
        &AVAILABLE
    }

    /// The most that the processor has.
    pub(crate) fn of_processor() -> Self {
        Self::available().last().copied().unwrap_or(Self::Portable)
    }

    /// The most that the processor has up to a level of the given name; none for an unknown name.
    pub(crate) fn up_to(name: &str) -> Option<Self> {
        let place = ["portable", "avx2", "avx512"].iter().position(|known| *known == name)?;
        let available = Self::available();
        available.get(place.min(available.len() - 1)).copied()
    }

    /// Lanes of a vector of f32.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Self::Portable => 4,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 8,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 16,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Vec<Level> {
    let mut levels = vec![Level::Portable];
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        levels.push(Level::Avx2);
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            levels.push(Level::Avx512);
        }
    }
    levels
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Vec<Level> {
    vec![Level::Portable]
}

/// Whether a product with a sum is one instruction of what every processor of the target has.
pub(crate) const FUSES: bool = cfg!(target_arch = "aarch64");

/// Defines a function with a [`Level`] in front of its arguments, whose body (an inlined function) is compiled for each level. A `fused` body
/// is told by a constant whether a product with a sum is one instruction.
macro_rules! for_levels {
    ($(#[$meta:meta])* $vis:vis fn $name:ident$(<$($life:lifetime),+>)?($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? = fused $body:ident) => {
        $crate::fast::level::for_levels! {
            @by_level $(#[$meta])* $vis fn $name$(<$($life),+>)?($($arg: $type),*) $(-> $result)?,
            $body::<{ $crate::fast::level::FUSES }>, $body::<true>
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident$(<$($life:lifetime),+>)?($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $body:expr) => {
        $crate::fast::level::for_levels! {
            @by_level $(#[$meta])* $vis fn $name$(<$($life),+>)?($($arg: $type),*) $(-> $result)?, $body, $body
        }
    };
    (
        @by_level $(#[$meta:meta])* $vis:vis fn $name:ident$(<$($life:lifetime),+>)?($($arg:ident: $type:ty),*) $(-> $result:ty)?,
        $plain:expr, $body:expr
    ) => {
        $(#[$meta])*
        $vis fn $name$(<$($life),+>)?(level: $crate::fast::level::Level, $($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            fn with_avx512$(<$($life),+>)?($($arg: $type),*) $(-> $result)? {
                $body($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn with_avx2$(<$($life),+>)?($($arg: $type),*) $(-> $result)? {
                $body($($arg),*)
            }
            match level {
                $crate::fast::level::Level::Portable => $plain($($arg),*),
                // SAFETY: a value of this level exists only where the processor has these instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::fast::level::Level::Avx2 => unsafe { with_avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::fast::level::Level::Avx512 => unsafe { with_avx512($($arg),*) },
            }
        }
    };
}
pub(crate) use for_levels;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mask_what_the_processor_has() {
        assert_eq!(Level::up_to("portable"), Some(Level::Portable));
        assert_eq!(Level::up_to("avx512"), Some(Level::of_processor()));
        assert!(Level::up_to("avx2") <= Some(Level::of_processor()));
        assert_eq!(Level::up_to("sse9"), None);
        assert!(Level::available().is_sorted());
    }
}
