//! The places of functions in the dispatch table between loader and drivers.

/// The functions of the dispatch table up to OpenCL 3.0, in the order of `cl_icd.h`.
#[rustfmt::skip]
pub const NAMES: [&str; 149] = [
    "clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo", "clCreateContext",
    "clCreateContextFromType", "clRetainContext", "clReleaseContext", "clGetContextInfo",
    "clCreateCommandQueue", "clRetainCommandQueue", "clReleaseCommandQueue", "clGetCommandQueueInfo",
    "clSetCommandQueueProperty", "clCreateBuffer", "clCreateImage2D", "clCreateImage3D",
    "clRetainMemObject", "clReleaseMemObject", "clGetSupportedImageFormats", "clGetMemObjectInfo",
    "clGetImageInfo", "clCreateSampler", "clRetainSampler", "clReleaseSampler", "clGetSamplerInfo",
    "clCreateProgramWithSource", "clCreateProgramWithBinary", "clRetainProgram", "clReleaseProgram",
    "clBuildProgram", "clUnloadCompiler", "clGetProgramInfo", "clGetProgramBuildInfo", "clCreateKernel",
    "clCreateKernelsInProgram", "clRetainKernel", "clReleaseKernel", "clSetKernelArg", "clGetKernelInfo",
    "clGetKernelWorkGroupInfo", "clWaitForEvents", "clGetEventInfo", "clRetainEvent", "clReleaseEvent",
    "clGetEventProfilingInfo", "clFlush", "clFinish", "clEnqueueReadBuffer", "clEnqueueWriteBuffer",
    "clEnqueueCopyBuffer", "clEnqueueReadImage", "clEnqueueWriteImage", "clEnqueueCopyImage",
    "clEnqueueCopyImageToBuffer", "clEnqueueCopyBufferToImage", "clEnqueueMapBuffer", "clEnqueueMapImage",
    "clEnqueueUnmapMemObject", "clEnqueueNDRangeKernel", "clEnqueueTask", "clEnqueueNativeKernel",
    "clEnqueueMarker", "clEnqueueWaitForEvents", "clEnqueueBarrier", "clGetExtensionFunctionAddress",
    "clCreateFromGLBuffer", "clCreateFromGLTexture2D", "clCreateFromGLTexture3D",
    "clCreateFromGLRenderbuffer", "clGetGLObjectInfo", "clGetGLTextureInfo", "clEnqueueAcquireGLObjects",
    "clEnqueueReleaseGLObjects", "clGetGLContextInfoKHR", "clGetDeviceIDsFromD3D10KHR",
    "clCreateFromD3D10BufferKHR", "clCreateFromD3D10Texture2DKHR", "clCreateFromD3D10Texture3DKHR",
    "clEnqueueAcquireD3D10ObjectsKHR", "clEnqueueReleaseD3D10ObjectsKHR", "clSetEventCallback",
    "clCreateSubBuffer", "clSetMemObjectDestructorCallback", "clCreateUserEvent", "clSetUserEventStatus",
    "clEnqueueReadBufferRect", "clEnqueueWriteBufferRect", "clEnqueueCopyBufferRect",
    "clCreateSubDevicesEXT", "clRetainDeviceEXT", "clReleaseDeviceEXT", "clCreateEventFromGLsyncKHR",
    "clCreateSubDevices", "clRetainDevice", "clReleaseDevice", "clCreateImage",
    "clCreateProgramWithBuiltInKernels", "clCompileProgram", "clLinkProgram", "clUnloadPlatformCompiler",
    "clGetKernelArgInfo", "clEnqueueFillBuffer", "clEnqueueFillImage", "clEnqueueMigrateMemObjects",
    "clEnqueueMarkerWithWaitList", "clEnqueueBarrierWithWaitList",
    "clGetExtensionFunctionAddressForPlatform", "clCreateFromGLTexture", "clGetDeviceIDsFromD3D11KHR",
    "clCreateFromD3D11BufferKHR", "clCreateFromD3D11Texture2DKHR", "clCreateFromD3D11Texture3DKHR",
    "clCreateFromDX9MediaSurfaceKHR", "clEnqueueAcquireD3D11ObjectsKHR", "clEnqueueReleaseD3D11ObjectsKHR",
    "clGetDeviceIDsFromDX9MediaAdapterKHR", "clEnqueueAcquireDX9MediaSurfacesKHR",
    "clEnqueueReleaseDX9MediaSurfacesKHR", "clCreateFromEGLImageKHR", "clEnqueueAcquireEGLObjectsKHR",
    "clEnqueueReleaseEGLObjectsKHR", "clCreateEventFromEGLSyncKHR", "clCreateCommandQueueWithProperties",
    "clCreatePipe", "clGetPipeInfo", "clSVMAlloc", "clSVMFree", "clEnqueueSVMFree", "clEnqueueSVMMemcpy",
    "clEnqueueSVMMemFill", "clEnqueueSVMMap", "clEnqueueSVMUnmap", "clCreateSamplerWithProperties",
    "clSetKernelArgSVMPointer", "clSetKernelExecInfo", "clGetKernelSubGroupInfoKHR", "clCloneKernel",
    "clCreateProgramWithIL", "clEnqueueSVMMigrateMem", "clGetDeviceAndHostTimer", "clGetHostTimer",
    "clGetKernelSubGroupInfo", "clSetDefaultDeviceCommandQueue", "clSetProgramReleaseCallback",
    "clSetProgramSpecializationConstant", "clCreateBufferWithProperties", "clCreateImageWithProperties",
    "clSetContextDestructorCallback",
];

/// The place of a function in the dispatch table; `None` for one that is not there.
///
/// ```
/// assert_eq!(anydnn_layer::slot("clGetPlatformIDs"), Some(0));
/// assert_eq!(anydnn_layer::slot("clHostMemAllocINTEL"), None);
/// ```
pub const fn slot(name: &str) -> Option<usize> {
    let mut place = 0;
    while place < NAMES.len() {
        if same(NAMES[place].as_bytes(), name.as_bytes()) {
            return Some(place);
        }
        place += 1;
    }
    None
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_published_table() {
        // Counted in cl_icd.h of OpenCL 3.0.
        for (name, place) in [
            ("clGetPlatformIDs", 0),
            ("clCreateBuffer", 14),
            ("clFinish", 47),
            ("clSetEventCallback", 81),
            ("clGetExtensionFunctionAddressForPlatform", 107),
            ("clCreateCommandQueueWithProperties", 123),
            ("clSetContextDestructorCallback", 148),
        ] {
            assert_eq!(slot(name), Some(place), "{name}");
        }
    }

    #[test]
    fn every_name_is_there_once() {
        for (place, name) in NAMES.iter().enumerate() {
            assert_eq!(slot(name), Some(place), "{name}");
        }
    }
}
