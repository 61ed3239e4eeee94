//! Functions that are found by name: each platform has its own.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// Platforms whose extension functions are told apart. Those of further ones are passed through.
pub const PLATFORMS: usize = 8;

/// The addresses of `N` extension functions below a layer, on each platform.
///
/// A function found by name does not say which platform it belongs to, so that a layer has one function for each platform;
/// [`for_each_platform!`](crate::for_each_platform) lists them.
#[derive(Debug)]
pub struct Extensions<const N: usize> {
    addresses: [[AtomicPtr<c_void>; N]; PLATFORMS],
    /// The platforms that have a place. Null stands for functions of no platform in particular.
    platforms: Mutex<Vec<usize>>,
}

impl<const N: usize> Extensions<N> {
    /// No addresses yet.
    #[allow(clippy::new_without_default, reason = "made in statics only")]
    pub const fn new() -> Self {
        let addresses = [const { [const { AtomicPtr::new(ptr::null_mut()) }; N] }; PLATFORMS];
        Self { addresses, platforms: Mutex::new(Vec::new()) }
    }

    /// Notes the address of function number `function` on a platform, and gives the layer's own function for it: the one of the
    /// platform's place in `interceptors`. The address itself comes back where there is none.
    pub fn replace(
        &self,
        platform: usize,
        function: usize,
        real: *mut c_void,
        interceptors: &[*mut c_void; PLATFORMS],
    ) -> *mut c_void {
        self.note(platform, function, real).map_or(real, |place| interceptors[place])
    }

    /// Notes the address of function number `function` on a platform, and gives the platform's place.
    pub fn note(&self, platform: usize, function: usize, real: *mut c_void) -> Option<usize> {
        if real.is_null() || function >= N {
            return None;
        }
        let mut platforms = self.platforms.lock().unwrap_or_else(PoisonError::into_inner);
        let known = platforms.iter().position(|known| *known == platform);
        if known.is_none() && platforms.len() == PLATFORMS {
            return None;
        }
        let place = known.unwrap_or_else(|| {
            platforms.push(platform);
            platforms.len() - 1
        });
        self.addresses[place][function].store(real, Ordering::Release);
        Some(place)
    }

    /// The function below the layer, on the platform with a place.
    pub fn below(&self, function: usize, place: usize) -> *mut c_void {
        let address = self.addresses.get(place).and_then(|functions| functions.get(function));
        address.map_or(ptr::null_mut(), |address| address.load(Ordering::Acquire))
    }
}

/// The array of a function's versions for each platform: the function has the platform's place as its one constant parameter.
#[macro_export]
macro_rules! for_each_platform {
    ($($function:ident)::+) => {
        [
            $($function)::+::<0>, $($function)::+::<1>, $($function)::+::<2>, $($function)::+::<3>,
            $($function)::+::<4>, $($function)::+::<5>, $($function)::+::<6>, $($function)::+::<7>,
        ]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: usize) -> *mut c_void {
        ptr::without_provenance_mut(n)
    }

    #[test]
    fn each_platform_keeps_its_own_function() {
        let extensions = Extensions::<2>::new();
        let interceptors = std::array::from_fn(|i| address(100 + i));
        assert_eq!(extensions.replace(7, 1, address(1), &interceptors), address(100));
        assert_eq!(extensions.replace(8, 1, address(2), &interceptors), address(101));
        assert_eq!(extensions.replace(7, 0, address(3), &interceptors), address(100));
        assert_eq!(extensions.below(1, 0), address(1));
        assert_eq!(extensions.below(1, 1), address(2));
        assert_eq!(extensions.below(0, 0), address(3));
        assert!(extensions.below(0, 1).is_null());
        assert_eq!(extensions.note(8, 0, address(4)), Some(1));
        assert_eq!(extensions.below(0, 1), address(4));
    }

    #[test]
    fn what_there_is_no_room_for_is_passed_through() {
        let extensions = Extensions::<1>::new();
        let interceptors = std::array::from_fn(|i| address(100 + i));
        assert!(extensions.replace(7, 0, ptr::null_mut(), &interceptors).is_null());
        assert_eq!(extensions.replace(7, 1, address(1), &interceptors), address(1));
        for platform in 0..PLATFORMS {
            assert_eq!(extensions.replace(platform, 0, address(1), &interceptors), interceptors[platform]);
        }
        assert_eq!(extensions.replace(99, 0, address(1), &interceptors), address(1));
        assert!(extensions.below(1, 0).is_null() && extensions.below(0, 99).is_null());
    }
}
