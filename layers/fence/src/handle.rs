//! OpenCL's handles, each a type of its own.

/// Defines types for handles.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(usize);

        impl $name {
            #[allow(dead_code, reason = "not every handle may be null")]
            pub(crate) const NULL: Self = Self(0);

            #[allow(dead_code, reason = "not every handle may be null")]
            pub(crate) fn is_null(self) -> bool {
                self.0 == 0
            }

            /// The handle with the address that a query gave.
            #[allow(dead_code, reason = "not every handle is asked for")]
            pub(crate) fn from_address(address: usize) -> Self {
                Self(address)
            }

            #[allow(dead_code, reason = "not every handle is given as an answer")]
            pub(crate) fn address(self) -> usize {
                self.0
            }
        }
    )*};
}

handles! {
    /// `cl_platform_id`
    Platform,
    /// `cl_device_id`
    Device,
    /// `cl_context`
    Context,
    /// `cl_command_queue`
    Queue,
    /// `cl_mem`
    Mem,
    /// `cl_program`
    Program,
    /// `cl_kernel`
    Kernel,
    /// `cl_event`
    Event,
    /// `cl_command_buffer_khr`
    CommandBuffer,
}
