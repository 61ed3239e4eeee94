//! The constants of OpenCL that the layer needs, under their names without `CL_`.

pub(crate) const INVALID_VALUE: i32 = -30;
pub(crate) const INVALID_OPERATION: i32 = -59;

pub(crate) const DEVICE_TYPE: u32 = 0x1000;
pub(crate) const DEVICE_MEM_BASE_ADDR_ALIGN: u32 = 0x1019;
pub(crate) const DEVICE_NAME: u32 = 0x102B;
pub(crate) const DEVICE_PLATFORM: u32 = 0x1031;
pub(crate) const DEVICE_TYPE_CPU: u64 = 1 << 1;

pub(crate) const CONTEXT_REFERENCE_COUNT: u32 = 0x1080;
pub(crate) const CONTEXT_DEVICES: u32 = 0x1081;

pub(crate) const QUEUE_PROPERTIES: u32 = 0x1093;
pub(crate) const QUEUE_OUT_OF_ORDER: u64 = 1 << 0;

pub(crate) const MEM_READ_WRITE: u64 = 1 << 0;
/// `CL_MEM_READ_WRITE`, `CL_MEM_WRITE_ONLY` and `CL_MEM_READ_ONLY`.
pub(crate) const MEM_ACCESS: u64 = 7;
pub(crate) const MEM_USE_HOST_PTR: u64 = 1 << 3;
pub(crate) const MEM_ALLOC_HOST_PTR: u64 = 1 << 4;
pub(crate) const MEM_COPY_HOST_PTR: u64 = 1 << 5;
/// `CL_MEM_HOST_WRITE_ONLY`, `CL_MEM_HOST_READ_ONLY` and `CL_MEM_HOST_NO_ACCESS`.
pub(crate) const MEM_HOST_ACCESS: u64 = 7 << 7;
pub(crate) const BUFFER_CREATE_TYPE_REGION: u32 = 0x1220;

pub(crate) const MEM_FLAGS: u32 = 0x1101;
pub(crate) const MEM_HOST_PTR: u32 = 0x1103;
pub(crate) const MEM_MAP_COUNT: u32 = 0x1104;
pub(crate) const MEM_ASSOCIATED_MEMOBJECT: u32 = 0x1107;
pub(crate) const MEM_OFFSET: u32 = 0x1108;
pub(crate) const MEM_USES_SVM_POINTER: u32 = 0x1109;

pub(crate) const KERNEL_FUNCTION_NAME: u32 = 0x1190;
pub(crate) const KERNEL_EXEC_INFO_SVM_PTRS: u32 = 0x11B6;
pub(crate) const KERNEL_EXEC_INFO_USM_PTRS: u32 = 0x4203;

pub(crate) const MEM_ALLOC_BASE_PTR: u32 = 0x419B;
pub(crate) const MEM_ALLOC_SIZE: u32 = 0x419C;

pub(crate) const COMPLETE: i32 = 0;
