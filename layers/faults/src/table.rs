//! The one table of intercepted functions: signature, what each argument means, and the error codes that the specification documents.
//!
//! The order of the first part is that of the dispatch table between loader and drivers (`cl_icd.h`); a name alone is passed through.
//! A `+` before the codes adds the two that nearly every function documents.

#![allow(non_snake_case, non_camel_case_types, reason = "the functions have OpenCL's names")]
#![allow(clippy::wildcard_imports, reason = "the table names nearly every code and role")]

use std::ffi::c_void;
use std::mem;

use anydnn_layer::{PLATFORMS, for_each_platform};

use crate::call::{Call, Verdict};
use crate::code::*;
use crate::kind::{CommandBuffer, Context, Device, Event, Kernel, Mem, Program, Queue, Sampler, Svm, Usm};
use crate::layer;
use crate::role::*;

/// The list of documented codes.
macro_rules! documented {
    (+ $($code:ident),*) => { &[$($code,)* OUT_OF_RESOURCES, OUT_OF_HOST_MEMORY] };
    ($($code:ident),*) => { &[$($code),*] };
}

/// Defines the functions, and for each with a signature its interceptor.
macro_rules! table {
    (
        core { $($name:ident $(($($arg:ident: $t:ty),*) -> $ret:ty, [$($codes:tt)*])?;)* }
        extensions { $($ext:ident ($($ext_arg:ident: $ext_t:ty),*) -> $ext_ret:ty, [$($ext_codes:tt)*];)* }
    ) => {
        /// A function that the layer knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub(crate) enum Function { $($name,)* $($ext,)* }

        impl Function {
            const ALL: &[Self] = &[$(Self::$name,)* $(Self::$ext,)*];
            /// The number of functions.
            pub(crate) const COUNT: usize = Self::ALL.len();
            /// The number of functions in the dispatch table.
            pub(crate) const CORE: usize = [$(Self::$name),*].len();
            /// The number of functions that are found by name.
            pub(crate) const EXTENSIONS: usize = Self::COUNT - Self::CORE;

            /// The name with a NUL at the end.
            pub(crate) fn c_name(self) -> &'static str {
                match self {
                    $(Self::$name => concat!(stringify!($name), "\0"),)*
                    $(Self::$ext => concat!(stringify!($ext), "\0"),)*
                }
            }

            /// The error codes that the specification documents for the function.
            pub(crate) fn codes(self) -> &'static [i32] {
                match self {
                    $(Self::$name => {
                        let codes: &'static [i32] = &[];
                        $(let codes: &'static [i32] = { let _ = codes; documented!($($codes)*) };)?
                        codes
                    })*
                    $(Self::$ext => documented!($($ext_codes)*),)*
                }
            }

            /// This layer's function in its place, unless it is passed through.
            pub(crate) fn interceptor(self) -> Option<*mut c_void> {
                match self {
                    $(Self::$name => {
                        let address: Option<*mut c_void> = None;
                        $(let address = {
                            let _ = address;
                            let function: unsafe extern "C" fn($($t),*) -> $ret = core::$name;
                            Some(function as *mut c_void)
                        };)?
                        address
                    })*
                    _ => None,
                }
            }

            /// This layer's functions for an extension function, one for each platform.
            pub(crate) fn extension_interceptors(self) -> Option<[*mut c_void; PLATFORMS]> {
                match self {
                    $(Self::$ext => {
                        let functions: [unsafe extern "C" fn($($ext_t),*) -> $ext_ret; PLATFORMS] =
                            for_each_platform!(extensions::$ext);
                        Some(functions.map(|function| function as *mut c_void))
                    })*
                    _ => None,
                }
            }
        }

        mod core {
            use super::*;
            $($(
                pub(super) unsafe extern "C" fn $name($(mut $arg: $t),*) -> $ret {
                    intercept!(layer::next(Function::$name), $name, ($($arg: $t),*) -> $ret)
                }
            )?)*
        }

        mod extensions {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $ext<const PLACE: usize>($(mut $ext_arg: $ext_t),*) -> $ext_ret {
                    intercept!(layer::next_extension(Function::$ext, PLACE), $ext, ($($ext_arg: $ext_t),*) -> $ext_ret)
                }
            )*
        }
    };
}

/// The body of an interceptor.
macro_rules! intercept {
    ($real:expr, $name:ident, ($($arg:ident: $t:ty),*) -> $ret:ty) => {{
        #[allow(unused_mut, reason = "a function may have no arguments")]
        let mut call = Call::new(Function::$name);
        $(Param::visit(&mut $arg, &mut call);)*
        let verdict = call.begin::<$ret>();
        match verdict {
            Verdict::Refuse(code) => return Returned::failure(code, &call),
            Verdict::MakeAndFail(_) => { $(Param::mute(&mut $arg);)* }
            Verdict::Make => {}
        }
        // SAFETY: the address below this layer is that of the function with this name, hence of this signature; the loader gave it
        // before it gave the program this function, and the arguments are the program's.
        let returned = unsafe {
            let real = mem::transmute::<*mut c_void, unsafe extern "C" fn($($t),*) -> $ret>($real);
            real($($arg),*)
        };
        call.end(verdict, returned)
    }};
}

impl Function {
    /// Every function.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied()
    }

    /// The function with a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|function| function.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        self.c_name().trim_end_matches('\0')
    }

    /// Whether the function is found by name, not in the dispatch table.
    pub(crate) fn is_extension(self) -> bool {
        self as usize >= Self::CORE
    }

    /// The place among the functions that are found by name.
    pub(crate) fn extension_index(self) -> usize {
        (self as usize).saturating_sub(Self::CORE)
    }
}

table! {
    core {
        clGetPlatformIDs(entries: u32, platforms: Ptr, count: Ptr) -> Code,
            [INVALID_VALUE, OUT_OF_HOST_MEMORY, PLATFORM_NOT_FOUND_KHR];
        clGetPlatformInfo(platform: Ptr, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [INVALID_PLATFORM, INVALID_VALUE, OUT_OF_HOST_MEMORY];
        clGetDeviceIDs(platform: Ptr, kind: u64, entries: u32, devices: Ptr, count: Ptr) -> Code,
            [+ INVALID_PLATFORM, INVALID_DEVICE_TYPE, INVALID_VALUE, DEVICE_NOT_FOUND];
        clGetDeviceInfo(device: Use<Device>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_DEVICE, INVALID_VALUE];
        clCreateContext(
            properties: Ptr, count: Count, devices: UseList<Device>, notify: Ptr, user_data: Ptr, errcode: Errcode
        ) -> New<Context>,
            [+ INVALID_PLATFORM, INVALID_PROPERTY, INVALID_VALUE, INVALID_DEVICE, DEVICE_NOT_AVAILABLE];
        clCreateContextFromType(properties: Ptr, kind: u64, notify: Ptr, user_data: Ptr, errcode: Errcode) -> New<Context>,
            [+ INVALID_PLATFORM, INVALID_PROPERTY, INVALID_VALUE, INVALID_DEVICE_TYPE, DEVICE_NOT_AVAILABLE, DEVICE_NOT_FOUND];
        clRetainContext(context: Retain<Context>) -> Code, [+ INVALID_CONTEXT];
        clReleaseContext(context: Release<Context>) -> Code, [+ INVALID_CONTEXT];
        clGetContextInfo(context: Use<Context>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_CONTEXT, INVALID_VALUE];
        clCreateCommandQueue(context: Use<Context>, device: Use<Device>, properties: u64, errcode: Errcode) -> New<Queue>,
            [+ INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, INVALID_QUEUE_PROPERTIES];
        clRetainCommandQueue(queue: Retain<Queue>) -> Code, [+ INVALID_COMMAND_QUEUE];
        clReleaseCommandQueue(queue: Release<Queue>) -> Code, [+ INVALID_COMMAND_QUEUE];
        clGetCommandQueueInfo(queue: Use<Queue>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_VALUE];
        clSetCommandQueueProperty(queue: Use<Queue>, properties: u64, enable: u32, old: Ptr) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_VALUE, INVALID_QUEUE_PROPERTIES];
        clCreateBuffer(context: Use<Context>, flags: u64, size: usize, host: Ptr, errcode: Errcode) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_BUFFER_SIZE, INVALID_HOST_PTR, MEM_OBJECT_ALLOCATION_FAILURE];
        clCreateImage2D(
            context: Use<Context>, flags: u64, format: Ptr, width: usize, height: usize, pitch: usize, host: Ptr, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_IMAGE_FORMAT_DESCRIPTOR, INVALID_IMAGE_SIZE, INVALID_HOST_PTR,
             IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE, INVALID_OPERATION];
        clCreateImage3D(
            context: Use<Context>, flags: u64, format: Ptr, width: usize, height: usize, depth: usize, row_pitch: usize,
            slice_pitch: usize, host: Ptr, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_IMAGE_FORMAT_DESCRIPTOR, INVALID_IMAGE_SIZE, INVALID_HOST_PTR,
             IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE, INVALID_OPERATION];
        clRetainMemObject(memory: Retain<Mem>) -> Code, [+ INVALID_MEM_OBJECT];
        clReleaseMemObject(memory: Release<Mem>) -> Code, [+ INVALID_MEM_OBJECT];
        clGetSupportedImageFormats(context: Use<Context>, flags: u64, kind: u32, entries: u32, formats: Ptr, count: Ptr) -> Code,
            [+ INVALID_CONTEXT, INVALID_VALUE];
        clGetMemObjectInfo(memory: Use<Mem>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_VALUE, INVALID_MEM_OBJECT];
        clGetImageInfo(image: Use<Mem>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_VALUE, INVALID_MEM_OBJECT];
        clCreateSampler(context: Use<Context>, normalized: u32, addressing: u32, filter: u32, errcode: Errcode) -> New<Sampler>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_OPERATION];
        clRetainSampler(sampler: Retain<Sampler>) -> Code, [+ INVALID_SAMPLER];
        clReleaseSampler(sampler: Release<Sampler>) -> Code, [+ INVALID_SAMPLER];
        clGetSamplerInfo(sampler: Use<Sampler>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_VALUE, INVALID_SAMPLER];
        clCreateProgramWithSource(
            context: Use<Context>, count: u32, strings: Ptr, lengths: Ptr, errcode: Errcode
        ) -> New<Program>,
            [+ INVALID_CONTEXT, INVALID_VALUE];
        clCreateProgramWithBinary(
            context: Use<Context>, count: Count, devices: UseList<Device>, lengths: Ptr, binaries: Ptr, statuses: Ptr,
            errcode: Errcode
        ) -> New<Program>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_DEVICE, INVALID_BINARY];
        clRetainProgram(program: Retain<Program>) -> Code, [+ INVALID_PROGRAM];
        clReleaseProgram(program: Release<Program>) -> Code, [+ INVALID_PROGRAM];
        clBuildProgram(
            program: Use<Program>, count: Count, devices: UseList<Device>, options: Ptr, notify: Ptr, user_data: Ptr
        ) -> Code,
            [+ INVALID_PROGRAM, INVALID_VALUE, INVALID_DEVICE, INVALID_BINARY, INVALID_BUILD_OPTIONS, COMPILER_NOT_AVAILABLE,
             BUILD_PROGRAM_FAILURE, INVALID_OPERATION];
        clUnloadCompiler() -> Code, [];
        clGetProgramInfo(program: Use<Program>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_VALUE, INVALID_PROGRAM, INVALID_PROGRAM_EXECUTABLE];
        clGetProgramBuildInfo(
            program: Use<Program>, device: Use<Device>, info: u32, size: usize, value: Ptr, size_ret: Ptr
        ) -> Code,
            [+ INVALID_DEVICE, INVALID_VALUE, INVALID_PROGRAM];
        clCreateKernel(program: Use<Program>, name: Ptr, errcode: Errcode) -> New<Kernel>,
            [+ INVALID_PROGRAM, INVALID_PROGRAM_EXECUTABLE, INVALID_KERNEL_NAME, INVALID_KERNEL_DEFINITION, INVALID_VALUE];
        clCreateKernelsInProgram(program: Use<Program>, room: Count, kernels: NewObjects<Kernel>, count: NewCount) -> Code,
            [+ INVALID_PROGRAM, INVALID_PROGRAM_EXECUTABLE, INVALID_VALUE];
        clRetainKernel(kernel: Retain<Kernel>) -> Code, [+ INVALID_KERNEL];
        clReleaseKernel(kernel: Release<Kernel>) -> Code, [+ INVALID_KERNEL];
        clSetKernelArg(kernel: Use<Kernel>, index: u32, size: ArgSize, value: ArgValue) -> Code,
            [+ INVALID_KERNEL, INVALID_ARG_INDEX, INVALID_ARG_VALUE, INVALID_MEM_OBJECT, INVALID_SAMPLER, INVALID_DEVICE_QUEUE,
             INVALID_ARG_SIZE, MAX_SIZE_RESTRICTION_EXCEEDED];
        clGetKernelInfo(kernel: Use<Kernel>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_VALUE, INVALID_KERNEL];
        clGetKernelWorkGroupInfo(
            kernel: Use<Kernel>, device: Use<Device>, info: u32, size: usize, value: Ptr, size_ret: Ptr
        ) -> Code,
            [+ INVALID_DEVICE, INVALID_VALUE, INVALID_KERNEL];
        clWaitForEvents(count: Count, events: UseList<Event>) -> Code,
            [+ INVALID_VALUE, INVALID_CONTEXT, INVALID_EVENT, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST];
        clGetEventInfo(event: Use<Event>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_VALUE, INVALID_EVENT];
        clRetainEvent(event: Retain<Event>) -> Code, [+ INVALID_EVENT];
        clReleaseEvent(event: Release<Event>) -> Code, [+ INVALID_EVENT];
        clGetEventProfilingInfo(event: Use<Event>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ PROFILING_INFO_NOT_AVAILABLE, INVALID_VALUE, INVALID_EVENT];
        clFlush(queue: Use<Queue>) -> Code, [+ INVALID_COMMAND_QUEUE];
        clFinish(queue: Use<Queue>) -> Code, [+ INVALID_COMMAND_QUEUE];
        clEnqueueReadBuffer(
            queue: Use<Queue>, buffer: Use<Mem>, blocking: u32, offset: usize, size: usize, host: Ptr, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, MEM_OBJECT_ALLOCATION_FAILURE,
             INVALID_OPERATION];
        clEnqueueWriteBuffer(
            queue: Use<Queue>, buffer: Use<Mem>, blocking: u32, offset: usize, size: usize, host: Ptr, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, MEM_OBJECT_ALLOCATION_FAILURE,
             INVALID_OPERATION];
        clEnqueueCopyBuffer(
            queue: Use<Queue>, source: Use<Mem>, target: Use<Mem>, source_offset: usize, target_offset: usize, size: usize,
            wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, MEM_COPY_OVERLAP, MEM_OBJECT_ALLOCATION_FAILURE];
        clEnqueueReadImage(
            queue: Use<Queue>, image: Use<Mem>, blocking: u32, origin: Ptr, region: Ptr, row_pitch: usize, slice_pitch: usize,
            host: Ptr, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE, INVALID_OPERATION,
             EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST];
        clEnqueueWriteImage(
            queue: Use<Queue>, image: Use<Mem>, blocking: u32, origin: Ptr, region: Ptr, row_pitch: usize, slice_pitch: usize,
            host: Ptr, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE, INVALID_OPERATION,
             EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST];
        clEnqueueCopyImage(
            queue: Use<Queue>, source: Use<Mem>, target: Use<Mem>, source_origin: Ptr, target_origin: Ptr, region: Ptr,
            wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, IMAGE_FORMAT_MISMATCH, INVALID_VALUE,
             INVALID_EVENT_WAIT_LIST, INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE,
             INVALID_OPERATION, MEM_COPY_OVERLAP];
        clEnqueueCopyImageToBuffer(
            queue: Use<Queue>, source: Use<Mem>, target: Use<Mem>, origin: Ptr, region: Ptr, offset: usize, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE,
             INVALID_OPERATION];
        clEnqueueCopyBufferToImage(
            queue: Use<Queue>, source: Use<Mem>, target: Use<Mem>, offset: usize, origin: Ptr, region: Ptr, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE,
             INVALID_OPERATION];
        clEnqueueMapBuffer(
            queue: Use<Queue>, buffer: Use<Mem>, blocking: u32, flags: u64, offset: usize, size: usize, wait_count: Count,
            wait_list: WaitList, event: NewEvent, errcode: Errcode
        ) -> Mapped,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, MAP_FAILURE, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, MEM_OBJECT_ALLOCATION_FAILURE,
             INVALID_OPERATION];
        clEnqueueMapImage(
            queue: Use<Queue>, image: Use<Mem>, blocking: u32, flags: u64, origin: Ptr, region: Ptr, row_pitch: Ptr,
            slice_pitch: Ptr, wait_count: Count, wait_list: WaitList, event: NewEvent, errcode: Errcode
        ) -> Mapped,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED, MAP_FAILURE, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
             MEM_OBJECT_ALLOCATION_FAILURE, INVALID_OPERATION];
        clEnqueueUnmapMemObject(
            queue: Use<Queue>, memory: Use<Mem>, mapped: Unmap, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST, INVALID_CONTEXT];
        clEnqueueNDRangeKernel(
            queue: Use<Queue>, kernel: Use<Kernel>, dimensions: u32, offset: Ptr, global: Ptr, local: Ptr, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_PROGRAM_EXECUTABLE, INVALID_COMMAND_QUEUE, INVALID_KERNEL, INVALID_CONTEXT, INVALID_KERNEL_ARGS,
             INVALID_WORK_DIMENSION, INVALID_GLOBAL_WORK_SIZE, INVALID_GLOBAL_OFFSET, INVALID_WORK_GROUP_SIZE,
             INVALID_WORK_ITEM_SIZE, MISALIGNED_SUB_BUFFER_OFFSET, INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED,
             MEM_OBJECT_ALLOCATION_FAILURE, INVALID_EVENT_WAIT_LIST, INVALID_OPERATION];
        clEnqueueTask(queue: Use<Queue>, kernel: Use<Kernel>, wait_count: Count, wait_list: WaitList, event: NewEvent) -> Code,
            [+ INVALID_PROGRAM_EXECUTABLE, INVALID_COMMAND_QUEUE, INVALID_KERNEL, INVALID_CONTEXT, INVALID_KERNEL_ARGS,
             INVALID_WORK_GROUP_SIZE, MISALIGNED_SUB_BUFFER_OFFSET, INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED,
             MEM_OBJECT_ALLOCATION_FAILURE, INVALID_EVENT_WAIT_LIST];
        clEnqueueNativeKernel(
            queue: Use<Queue>, function: Ptr, args: Ptr, args_size: usize, count: Count, memories: UseList<Mem>, locations: Ptr,
            wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_OPERATION, INVALID_MEM_OBJECT,
             MEM_OBJECT_ALLOCATION_FAILURE, INVALID_EVENT_WAIT_LIST];
        clEnqueueMarker(queue: Use<Queue>, event: NewEvent) -> Code, [+ INVALID_COMMAND_QUEUE, INVALID_VALUE];
        clEnqueueWaitForEvents(queue: Use<Queue>, count: Count, events: UseList<Event>) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT];
        clEnqueueBarrier(queue: Use<Queue>) -> Code, [+ INVALID_COMMAND_QUEUE];
        clGetExtensionFunctionAddress(name: Name) -> Address, [OUT_OF_RESOURCES];
        clCreateFromGLBuffer(context: Use<Context>, flags: u64, object: u32, errcode: Errcode) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_GL_OBJECT];
        clCreateFromGLTexture2D(
            context: Use<Context>, flags: u64, target: u32, level: i32, texture: u32, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_MIP_LEVEL, INVALID_GL_OBJECT, INVALID_IMAGE_FORMAT_DESCRIPTOR,
             INVALID_OPERATION];
        clCreateFromGLTexture3D(
            context: Use<Context>, flags: u64, target: u32, level: i32, texture: u32, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_MIP_LEVEL, INVALID_GL_OBJECT, INVALID_IMAGE_FORMAT_DESCRIPTOR,
             INVALID_OPERATION];
        clCreateFromGLRenderbuffer(context: Use<Context>, flags: u64, object: u32, errcode: Errcode) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_GL_OBJECT, INVALID_IMAGE_FORMAT_DESCRIPTOR, INVALID_OPERATION];
        clGetGLObjectInfo(memory: Use<Mem>, kind: Ptr, name: Ptr) -> Code, [+ INVALID_MEM_OBJECT, INVALID_GL_OBJECT];
        clGetGLTextureInfo(memory: Use<Mem>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_MEM_OBJECT, INVALID_GL_OBJECT, INVALID_VALUE];
        clEnqueueAcquireGLObjects(
            queue: Use<Queue>, count: Count, memories: UseList<Mem>, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_VALUE, INVALID_MEM_OBJECT, INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_GL_OBJECT,
             INVALID_EVENT_WAIT_LIST];
        clEnqueueReleaseGLObjects(
            queue: Use<Queue>, count: Count, memories: UseList<Mem>, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_VALUE, INVALID_MEM_OBJECT, INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_GL_OBJECT,
             INVALID_EVENT_WAIT_LIST];
        clGetGLContextInfoKHR(properties: Ptr, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_GL_SHAREGROUP_REFERENCE_KHR, INVALID_OPERATION, INVALID_VALUE];
        clGetDeviceIDsFromD3D10KHR;
        clCreateFromD3D10BufferKHR;
        clCreateFromD3D10Texture2DKHR;
        clCreateFromD3D10Texture3DKHR;
        clEnqueueAcquireD3D10ObjectsKHR;
        clEnqueueReleaseD3D10ObjectsKHR;
        clSetEventCallback(event: Watch<Event>, kind: i32, notify: Ptr, user_data: Ptr) -> Code, [+ INVALID_EVENT, INVALID_VALUE];
        clCreateSubBuffer(memory: Use<Mem>, flags: u64, kind: u32, region: Ptr, errcode: Errcode) -> New<Mem>,
            [+ INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_BUFFER_SIZE, MISALIGNED_SUB_BUFFER_OFFSET, MEM_OBJECT_ALLOCATION_FAILURE];
        clSetMemObjectDestructorCallback(memory: Use<Mem>, notify: Ptr, user_data: Ptr) -> Code,
            [+ INVALID_MEM_OBJECT, INVALID_VALUE];
        clCreateUserEvent(context: Use<Context>, errcode: Errcode) -> New<Event>, [+ INVALID_CONTEXT];
        clSetUserEventStatus(event: Use<Event>, status: i32) -> Code, [+ INVALID_EVENT, INVALID_VALUE, INVALID_OPERATION];
        clEnqueueReadBufferRect(
            queue: Use<Queue>, buffer: Use<Mem>, blocking: u32, origin: Ptr, host_origin: Ptr, region: Ptr, row_pitch: usize,
            slice_pitch: usize, host_row_pitch: usize, host_slice_pitch: usize, host: Ptr, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, MEM_OBJECT_ALLOCATION_FAILURE,
             INVALID_OPERATION];
        clEnqueueWriteBufferRect(
            queue: Use<Queue>, buffer: Use<Mem>, blocking: u32, origin: Ptr, host_origin: Ptr, region: Ptr, row_pitch: usize,
            slice_pitch: usize, host_row_pitch: usize, host_slice_pitch: usize, host: Ptr, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, MEM_OBJECT_ALLOCATION_FAILURE,
             INVALID_OPERATION];
        clEnqueueCopyBufferRect(
            queue: Use<Queue>, source: Use<Mem>, target: Use<Mem>, source_origin: Ptr, target_origin: Ptr, region: Ptr,
            source_row_pitch: usize, source_slice_pitch: usize, target_row_pitch: usize, target_slice_pitch: usize,
            wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MEM_COPY_OVERLAP, MISALIGNED_SUB_BUFFER_OFFSET, MEM_OBJECT_ALLOCATION_FAILURE];
        clCreateSubDevicesEXT(
            device: Use<Device>, properties: Ptr, room: Count, devices: NewObjects<Device>, count: NewCount
        ) -> Code,
            [+ INVALID_DEVICE, INVALID_VALUE, DEVICE_PARTITION_FAILED];
        clRetainDeviceEXT(device: Retain<Device>) -> Code, [+ INVALID_DEVICE];
        clReleaseDeviceEXT(device: Release<Device>) -> Code, [+ INVALID_DEVICE];
        clCreateEventFromGLsyncKHR(context: Use<Context>, sync: Ptr, errcode: Errcode) -> New<Event>,
            [+ INVALID_CONTEXT, INVALID_GL_OBJECT];
        clCreateSubDevices(
            device: Use<Device>, properties: Ptr, room: Count, devices: NewObjects<Device>, count: NewCount
        ) -> Code,
            [+ INVALID_DEVICE, INVALID_VALUE, DEVICE_PARTITION_FAILED, INVALID_DEVICE_PARTITION_COUNT];
        clRetainDevice(device: Retain<Device>) -> Code, [+ INVALID_DEVICE];
        clReleaseDevice(device: Release<Device>) -> Code, [+ INVALID_DEVICE];
        clCreateImage(context: Use<Context>, flags: u64, format: Ptr, description: Ptr, host: Ptr, errcode: Errcode) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_IMAGE_FORMAT_DESCRIPTOR, INVALID_IMAGE_DESCRIPTOR, INVALID_IMAGE_SIZE,
             INVALID_HOST_PTR, IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE, INVALID_OPERATION];
        clCreateProgramWithBuiltInKernels(
            context: Use<Context>, count: Count, devices: UseList<Device>, names: Ptr, errcode: Errcode
        ) -> New<Program>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_DEVICE];
        clCompileProgram(
            program: Use<Program>, count: Count, devices: UseList<Device>, options: Ptr, headers: Count,
            header_programs: UseList<Program>, header_names: Ptr, notify: Ptr, user_data: Ptr
        ) -> Code,
            [+ INVALID_PROGRAM, INVALID_VALUE, INVALID_DEVICE, INVALID_COMPILER_OPTIONS, INVALID_OPERATION,
             COMPILER_NOT_AVAILABLE, COMPILE_PROGRAM_FAILURE];
        clLinkProgram(
            context: Use<Context>, count: Count, devices: UseList<Device>, options: Ptr, inputs: Count,
            programs: UseList<Program>, notify: Ptr, user_data: Ptr, errcode: Errcode
        ) -> New<Program>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_PROGRAM, INVALID_DEVICE, INVALID_LINKER_OPTIONS, INVALID_OPERATION,
             LINKER_NOT_AVAILABLE, LINK_PROGRAM_FAILURE];
        clUnloadPlatformCompiler(platform: Ptr) -> Code, [INVALID_PLATFORM];
        clGetKernelArgInfo(kernel: Use<Kernel>, index: u32, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [INVALID_ARG_INDEX, INVALID_VALUE, KERNEL_ARG_INFO_NOT_AVAILABLE, INVALID_KERNEL];
        clEnqueueFillBuffer(
            queue: Use<Queue>, buffer: Use<Mem>, pattern: Ptr, pattern_size: usize, offset: usize, size: usize, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MISALIGNED_SUB_BUFFER_OFFSET, MEM_OBJECT_ALLOCATION_FAILURE];
        clEnqueueFillImage(
            queue: Use<Queue>, image: Use<Mem>, color: Ptr, origin: Ptr, region: Ptr, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             INVALID_IMAGE_SIZE, IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE];
        clEnqueueMigrateMemObjects(
            queue: Use<Queue>, count: Count, memories: UseList<Mem>, flags: u64, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_MEM_OBJECT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             MEM_OBJECT_ALLOCATION_FAILURE];
        clEnqueueMarkerWithWaitList(queue: Use<Queue>, wait_count: Count, wait_list: WaitList, event: NewEvent) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_EVENT_WAIT_LIST];
        clEnqueueBarrierWithWaitList(queue: Use<Queue>, wait_count: Count, wait_list: WaitList, event: NewEvent) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_EVENT_WAIT_LIST];
        clGetExtensionFunctionAddressForPlatform(platform: PlatformOf, name: Name) -> Address, [OUT_OF_RESOURCES];
        clCreateFromGLTexture(
            context: Use<Context>, flags: u64, target: u32, level: i32, texture: u32, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_MIP_LEVEL, INVALID_GL_OBJECT, INVALID_IMAGE_FORMAT_DESCRIPTOR,
             INVALID_OPERATION];
        clGetDeviceIDsFromD3D11KHR;
        clCreateFromD3D11BufferKHR;
        clCreateFromD3D11Texture2DKHR;
        clCreateFromD3D11Texture3DKHR;
        clCreateFromDX9MediaSurfaceKHR;
        clEnqueueAcquireD3D11ObjectsKHR;
        clEnqueueReleaseD3D11ObjectsKHR;
        clGetDeviceIDsFromDX9MediaAdapterKHR;
        clEnqueueAcquireDX9MediaSurfacesKHR;
        clEnqueueReleaseDX9MediaSurfacesKHR;
        clCreateFromEGLImageKHR(
            context: Use<Context>, display: Ptr, image: Ptr, flags: u64, properties: Ptr, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_IMAGE_FORMAT_DESCRIPTOR, INVALID_OPERATION];
        clEnqueueAcquireEGLObjectsKHR(
            queue: Use<Queue>, count: Count, memories: UseList<Mem>, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_VALUE, INVALID_MEM_OBJECT, INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_EVENT_WAIT_LIST];
        clEnqueueReleaseEGLObjectsKHR(
            queue: Use<Queue>, count: Count, memories: UseList<Mem>, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_VALUE, INVALID_MEM_OBJECT, INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_EVENT_WAIT_LIST];
        clCreateEventFromEGLSyncKHR(context: Use<Context>, sync: Ptr, display: Ptr, errcode: Errcode) -> New<Event>,
            [+ INVALID_CONTEXT];
        clCreateCommandQueueWithProperties(
            context: Use<Context>, device: Use<Device>, properties: Ptr, errcode: Errcode
        ) -> New<Queue>,
            [+ INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, INVALID_QUEUE_PROPERTIES];
        clCreatePipe(
            context: Use<Context>, flags: u64, packet_size: u32, packets: u32, properties: Ptr, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_OPERATION, INVALID_PIPE_SIZE, MEM_OBJECT_ALLOCATION_FAILURE];
        clGetPipeInfo(pipe: Use<Mem>, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_VALUE, INVALID_MEM_OBJECT];
        clSVMAlloc(context: Use<Context>, flags: u64, size: usize, alignment: u32) -> New<Svm>, [OUT_OF_RESOURCES];
        clSVMFree(context: Use<Context>, pointer: Release<Svm>) -> (), [];
        clEnqueueSVMFree(
            queue: Use<Queue>, count: Count, pointers: ReleaseList<Svm>, free: FreeCallback, user_data: Ptr, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_VALUE, INVALID_CONTEXT, INVALID_EVENT_WAIT_LIST, INVALID_OPERATION];
        clEnqueueSVMMemcpy(
            queue: Use<Queue>, blocking: u32, target: Ptr, source: Ptr, size: usize, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, MEM_COPY_OVERLAP, INVALID_OPERATION];
        clEnqueueSVMMemFill(
            queue: Use<Queue>, target: Ptr, pattern: Ptr, pattern_size: usize, size: usize, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST, INVALID_OPERATION];
        clEnqueueSVMMap(
            queue: Use<Queue>, blocking: u32, flags: u64, pointer: MapSvm, size: usize, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, INVALID_OPERATION];
        clEnqueueSVMUnmap(queue: Use<Queue>, pointer: UnmapSvm, wait_count: Count, wait_list: WaitList, event: NewEvent) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST, INVALID_OPERATION];
        clCreateSamplerWithProperties(context: Use<Context>, properties: Ptr, errcode: Errcode) -> New<Sampler>,
            [+ INVALID_CONTEXT, INVALID_VALUE, INVALID_OPERATION];
        clSetKernelArgSVMPointer(kernel: Use<Kernel>, index: u32, pointer: Ptr) -> Code,
            [+ INVALID_KERNEL, INVALID_OPERATION, INVALID_ARG_INDEX, INVALID_ARG_VALUE];
        clSetKernelExecInfo(kernel: Use<Kernel>, info: u32, size: usize, value: Ptr) -> Code,
            [+ INVALID_KERNEL, INVALID_OPERATION, INVALID_VALUE];
        clGetKernelSubGroupInfoKHR(
            kernel: Use<Kernel>, device: Use<Device>, info: u32, input_size: usize, input: Ptr, size: usize, value: Ptr,
            size_ret: Ptr
        ) -> Code,
            [+ INVALID_DEVICE, INVALID_VALUE, INVALID_KERNEL];
        clCloneKernel(kernel: Use<Kernel>, errcode: Errcode) -> New<Kernel>, [+ INVALID_KERNEL];
        clCreateProgramWithIL(context: Use<Context>, il: Ptr, length: usize, errcode: Errcode) -> New<Program>,
            [+ INVALID_CONTEXT, INVALID_OPERATION, INVALID_VALUE];
        clEnqueueSVMMigrateMem(
            queue: Use<Queue>, count: u32, pointers: Ptr, sizes: Ptr, flags: u64, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST, INVALID_OPERATION];
        clGetDeviceAndHostTimer(device: Use<Device>, device_time: Ptr, host_time: Ptr) -> Code,
            [+ INVALID_DEVICE, INVALID_OPERATION, INVALID_VALUE];
        clGetHostTimer(device: Use<Device>, host_time: Ptr) -> Code, [+ INVALID_DEVICE, INVALID_OPERATION, INVALID_VALUE];
        clGetKernelSubGroupInfo(
            kernel: Use<Kernel>, device: Use<Device>, info: u32, input_size: usize, input: Ptr, size: usize, value: Ptr,
            size_ret: Ptr
        ) -> Code,
            [+ INVALID_DEVICE, INVALID_OPERATION, INVALID_VALUE, INVALID_KERNEL];
        clSetDefaultDeviceCommandQueue(context: Use<Context>, device: Use<Device>, queue: Use<Queue>) -> Code,
            [+ INVALID_CONTEXT, INVALID_OPERATION, INVALID_DEVICE, INVALID_COMMAND_QUEUE];
        clSetProgramReleaseCallback(program: Use<Program>, notify: Ptr, user_data: Ptr) -> Code,
            [+ INVALID_PROGRAM, INVALID_OPERATION, INVALID_VALUE];
        clSetProgramSpecializationConstant(program: Use<Program>, id: u32, size: usize, value: Ptr) -> Code,
            [+ INVALID_PROGRAM, INVALID_OPERATION, COMPILER_NOT_AVAILABLE, INVALID_SPEC_ID, INVALID_VALUE];
        clCreateBufferWithProperties(
            context: Use<Context>, properties: Ptr, flags: u64, size: usize, host: Ptr, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_PROPERTY, INVALID_VALUE, INVALID_BUFFER_SIZE, INVALID_HOST_PTR,
             MEM_OBJECT_ALLOCATION_FAILURE];
        clCreateImageWithProperties(
            context: Use<Context>, properties: Ptr, flags: u64, format: Ptr, description: Ptr, host: Ptr, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_PROPERTY, INVALID_VALUE, INVALID_IMAGE_FORMAT_DESCRIPTOR, INVALID_IMAGE_DESCRIPTOR,
             INVALID_IMAGE_SIZE, INVALID_HOST_PTR, IMAGE_FORMAT_NOT_SUPPORTED, MEM_OBJECT_ALLOCATION_FAILURE, INVALID_OPERATION];
        clSetContextDestructorCallback(context: Use<Context>, notify: Ptr, user_data: Ptr) -> Code,
            [+ INVALID_CONTEXT, INVALID_VALUE];
    }
    extensions {
        clHostMemAllocINTEL(context: Use<Context>, properties: Ptr, size: usize, alignment: u32, errcode: Errcode) -> New<Usm>,
            [+ INVALID_CONTEXT, INVALID_OPERATION, INVALID_VALUE, INVALID_PROPERTY, INVALID_BUFFER_SIZE];
        clDeviceMemAllocINTEL(
            context: Use<Context>, device: Use<Device>, properties: Ptr, size: usize, alignment: u32, errcode: Errcode
        ) -> New<Usm>,
            [+ INVALID_CONTEXT, INVALID_DEVICE, INVALID_OPERATION, INVALID_VALUE, INVALID_PROPERTY, INVALID_BUFFER_SIZE];
        clSharedMemAllocINTEL(
            context: Use<Context>, device: Use<Device>, properties: Ptr, size: usize, alignment: u32, errcode: Errcode
        ) -> New<Usm>,
            [+ INVALID_CONTEXT, INVALID_DEVICE, INVALID_OPERATION, INVALID_VALUE, INVALID_PROPERTY, INVALID_BUFFER_SIZE];
        clMemFreeINTEL(context: Use<Context>, pointer: Release<Usm>) -> Code, [INVALID_CONTEXT, INVALID_VALUE];
        clMemBlockingFreeINTEL(context: Use<Context>, pointer: Release<Usm>) -> Code, [INVALID_CONTEXT, INVALID_VALUE];
        clGetMemAllocInfoINTEL(context: Use<Context>, pointer: Ptr, info: u32, size: usize, value: Ptr, size_ret: Ptr) -> Code,
            [+ INVALID_CONTEXT, INVALID_VALUE];
        clSetKernelArgMemPointerINTEL(kernel: Use<Kernel>, index: u32, pointer: Ptr) -> Code,
            [+ INVALID_KERNEL, INVALID_OPERATION, INVALID_ARG_INDEX, INVALID_ARG_VALUE];
        clEnqueueMemcpyINTEL(
            queue: Use<Queue>, blocking: u32, target: Ptr, source: Ptr, size: usize, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST,
             EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, MEM_COPY_OVERLAP];
        clEnqueueMemFillINTEL(
            queue: Use<Queue>, target: Ptr, pattern: Ptr, pattern_size: usize, size: usize, wait_count: Count,
            wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST];
        clEnqueueMigrateMemINTEL(
            queue: Use<Queue>, pointer: Ptr, size: usize, flags: u64, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST];
        clEnqueueMemAdviseINTEL(
            queue: Use<Queue>, pointer: Ptr, size: usize, advice: u32, wait_count: Count, wait_list: WaitList, event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_QUEUE, INVALID_CONTEXT, INVALID_VALUE, INVALID_EVENT_WAIT_LIST];
        clCreateCommandQueueWithPropertiesKHR(
            context: Use<Context>, device: Use<Device>, properties: Ptr, errcode: Errcode
        ) -> New<Queue>,
            [+ INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, INVALID_QUEUE_PROPERTIES];
        clCreateProgramWithILKHR(context: Use<Context>, il: Ptr, length: usize, errcode: Errcode) -> New<Program>,
            [+ INVALID_CONTEXT, INVALID_VALUE];
        clCreateBufferWithPropertiesINTEL(
            context: Use<Context>, properties: Ptr, flags: u64, size: usize, host: Ptr, errcode: Errcode
        ) -> New<Mem>,
            [+ INVALID_CONTEXT, INVALID_PROPERTY, INVALID_VALUE, INVALID_BUFFER_SIZE, INVALID_HOST_PTR,
             MEM_OBJECT_ALLOCATION_FAILURE];
        clCreateCommandBufferKHR(count: Count, queues: UseList<Queue>, properties: Ptr, errcode: Errcode) -> New<CommandBuffer>,
            [+ INVALID_COMMAND_QUEUE, INVALID_VALUE];
        clRetainCommandBufferKHR(buffer: Retain<CommandBuffer>) -> Code, [+ INVALID_COMMAND_BUFFER_KHR];
        clReleaseCommandBufferKHR(buffer: Release<CommandBuffer>) -> Code, [+ INVALID_COMMAND_BUFFER_KHR];
        clFinalizeCommandBufferKHR(buffer: Use<CommandBuffer>) -> Code, [+ INVALID_COMMAND_BUFFER_KHR, INVALID_OPERATION];
        clEnqueueCommandBufferKHR(
            count: Count, queues: UseList<Queue>, buffer: Use<CommandBuffer>, wait_count: Count, wait_list: WaitList,
            event: NewEvent
        ) -> Code,
            [+ INVALID_COMMAND_BUFFER_KHR, INVALID_OPERATION, INVALID_VALUE, INVALID_COMMAND_QUEUE, INVALID_EVENT_WAIT_LIST];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_published_table() {
        let names: Vec<_> = Function::all().take(Function::CORE).map(Function::name).collect();
        assert_eq!(names, anydnn_layer::NAMES);
    }

    #[test]
    fn everything_but_windows_is_intercepted() {
        for function in Function::all() {
            let passed = function.interceptor().is_none() && function.extension_interceptors().is_none();
            let windows = ["D3D10", "D3D11", "DX9"].iter().any(|part| function.name().contains(part));
            assert_eq!(passed, windows, "{}", function.name());
        }
    }

    #[test]
    fn documented_codes_are_errors_and_listed_once() {
        for function in Function::all() {
            let mut codes = function.codes().to_vec();
            assert!(codes.iter().all(|code| crate::code_name(*code).is_some()), "{}", function.name());
            codes.sort_unstable();
            codes.dedup();
            assert_eq!(codes.len(), function.codes().len(), "{}", function.name());
        }
    }
}
