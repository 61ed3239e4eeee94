/* anydnn's C API: oneDNN's functions on any OpenCL device. Made by `cargo xtask header`; not to be included beside oneDNN's headers. */

#ifndef ANYDNN_H
#define ANYDNN_H

#include <stddef.h>
#include <stdint.h>
#include <CL/cl.h>

// A dimension that is known at execution only.
#define DNNL_RUNTIME_DIM_VAL INT64_MIN

// A size in bytes that is known at execution only.
#define DNNL_RUNTIME_SIZE_VAL ((size_t)INT64_MIN)

// The handle of a memory without bytes.
#define DNNL_MEMORY_NONE NULL

// The handle of a memory whose bytes the library allocates.
#define DNNL_MEMORY_ALLOCATE ((void *)SIZE_MAX)

// The first source.
#define DNNL_ARG_SRC 1

// The first result.
#define DNNL_ARG_DST 17

// Working memory.
#define DNNL_ARG_SCRATCHPAD 80



// The most dimensions a tensor has.
#define DNNL_MAX_NDIMS 12

// No run-time: what a library without engines of a kind reports.
#define DNNL_RUNTIME_NONE 0

// OpenCL.
#define DNNL_RUNTIME_OCL 256

// An engine: one device in one context.
typedef struct dnnl_engine dnnl_engine;

// A memory: a descriptor and the bytes that it describes.
typedef struct dnnl_memory dnnl_memory;

// A memory descriptor.
typedef struct dnnl_memory_desc dnnl_memory_desc;

// A primitive: a compiled operation.
typedef struct dnnl_primitive dnnl_primitive;

// Attributes of a primitive.
typedef struct dnnl_primitive_attr dnnl_primitive_attr;

// The description of a primitive.
typedef struct dnnl_primitive_desc dnnl_primitive_desc;

// A stream: a queue of commands.
typedef struct dnnl_stream dnnl_stream;

// A status.
typedef int dnnl_status_t;

// A handle of attributes.
typedef dnnl_primitive_attr *dnnl_primitive_attr_t;

// An element type.
typedef int dnnl_data_type_t;

// A handle of a memory descriptor.
typedef dnnl_memory_desc *dnnl_memory_desc_t;

// A dimension, a stride or an offset in elements.
typedef int64_t dnnl_dim_t;

// A layout by number; the letters' order is the dimensions' order in memory. `anydnn_format_tag` gives the number for letters.
typedef int dnnl_format_tag_t;

// A handle of a memory descriptor that is only read.
typedef const dnnl_memory_desc *const_dnnl_memory_desc_t;

// What to ask an object for.
typedef int dnnl_query_t;

// A handle of a primitive's description.
typedef dnnl_primitive_desc *dnnl_primitive_desc_t;

// A handle of an engine.
typedef dnnl_engine *dnnl_engine_t;

// What a primitive is for.
typedef int dnnl_prop_kind_t;

// An algorithm.
typedef int dnnl_alg_kind_t;

// A handle of attributes that are only read.
typedef const dnnl_primitive_attr *const_dnnl_primitive_attr_t;

// A kind of engine.
typedef int dnnl_engine_kind_t;

// A handle of a primitive that is only read.
typedef const dnnl_primitive *const_dnnl_primitive_t;

// A handle of a stream.
typedef dnnl_stream *dnnl_stream_t;

// A handle of a memory.
typedef dnnl_memory *dnnl_memory_t;

// An argument of an execution.
typedef struct {
  // Which argument.
  int arg;
  // Its memory.
  dnnl_memory_t memory;
} dnnl_exec_arg_t;

// What the handles of a memory are.
typedef int dnnl_ocl_interop_memory_kind_t;

// A handle of a memory that is only read.
typedef const dnnl_memory *const_dnnl_memory_t;

// A handle of a primitive.
typedef dnnl_primitive *dnnl_primitive_t;

// A handle of a primitive's description that is only read.
typedef const dnnl_primitive_desc *const_dnnl_primitive_desc_t;

// What a profile tells of each execution.
typedef int dnnl_profiling_data_kind_t;

// Which narrower arithmetic f32 work may use.
typedef int dnnl_fpmath_mode_t;

// How a stream runs, in bits.
typedef unsigned int dnnl_stream_flags_t;

// A handle of a stream that is only read.
typedef const dnnl_stream *const_dnnl_stream_t;

// The version of the API.
typedef struct {
  // Major version.
  int major;
  // Minor version.
  int minor;
  // Patch version.
  int patch;
  // Names the library that implements the API.
  const char *hash;
  // What runs engines on the host's processor.
  unsigned int cpu_runtime;
  // What runs engines on devices.
  unsigned int gpu_runtime;
} dnnl_version_t;

// How a descriptor describes its layout.
typedef int dnnl_format_kind_t;

// How a sparse tensor is stored.
typedef int dnnl_sparse_encoding_t;

// None in particular.
#define dnnl_any_engine 0

// The host's processor. There are no such engines.
#define dnnl_cpu 1

// An OpenCL device of any type.
#define dnnl_gpu 2

// In the order of submission.
#define dnnl_stream_in_order 1

// In any order that dependencies allow.
#define dnnl_stream_out_of_order 2

// With device times.
#define dnnl_stream_profiling 4

// In the order of submission.
#define dnnl_stream_default_flags dnnl_stream_in_order

// Nothing.
#define dnnl_profiling_data_kind_undef 0

// Nanoseconds of device time.
#define dnnl_profiling_data_kind_time 1

// The forward pass of training.
#define dnnl_forward_training 64

// Inference.
#define dnnl_forward_inference 96

// `x` where positive, else `alpha * x`.
#define dnnl_eltwise_relu 32

// Hyperbolic tangent.
#define dnnl_eltwise_tanh 33

// `x` where positive, else `alpha * (e^x - 1)`.
#define dnnl_eltwise_elu 34

// `x^2`.
#define dnnl_eltwise_square 35

// `|x|`.
#define dnnl_eltwise_abs 36

// Square root.
#define dnnl_eltwise_sqrt 37

// `alpha * x + beta`.
#define dnnl_eltwise_linear 38

// `ln(1 + e^(alpha * x)) / alpha`.
#define dnnl_eltwise_soft_relu 39

// `min(max(alpha * x + beta, 0), 1)`.
#define dnnl_eltwise_hardsigmoid 40

// `1 / (1 + e^-x)`.
#define dnnl_eltwise_logistic 41

// `e^x`.
#define dnnl_eltwise_exp 42

// The normal distribution's weight of `x` times `x`, by the hyperbolic tangent.
#define dnnl_eltwise_gelu_tanh 43

// `x / (1 + e^(-alpha * x))`.
#define dnnl_eltwise_swish 44

// Natural logarithm.
#define dnnl_eltwise_log 45

// `min(max(x, alpha), beta)`.
#define dnnl_eltwise_clip 46

// `min(max(x, alpha), beta)`.
#define dnnl_eltwise_clip_v2 47

// `alpha * x^beta`.
#define dnnl_eltwise_pow 48

// The normal distribution's weight of `x` times `x`, by the error function.
#define dnnl_eltwise_gelu_erf 49

// The nearest integer, ties to even.
#define dnnl_eltwise_round 50

// `x * tanh(ln(1 + e^x))`.
#define dnnl_eltwise_mish 51

// `x * min(max(alpha * x + beta, 0), 1)`.
#define dnnl_eltwise_hardswish 52

// [`dnnl_eltwise_relu`] whose backward pass needs the result.
#define dnnl_eltwise_relu_use_dst_for_bwd 256

// [`dnnl_eltwise_tanh`] whose backward pass needs the result.
#define dnnl_eltwise_tanh_use_dst_for_bwd 257

// [`dnnl_eltwise_elu`] whose backward pass needs the result.
#define dnnl_eltwise_elu_use_dst_for_bwd 258

// [`dnnl_eltwise_sqrt`] whose backward pass needs the result.
#define dnnl_eltwise_sqrt_use_dst_for_bwd 259

// [`dnnl_eltwise_logistic`] whose backward pass needs the result.
#define dnnl_eltwise_logistic_use_dst_for_bwd 260

// [`dnnl_eltwise_exp`] whose backward pass needs the result.
#define dnnl_eltwise_exp_use_dst_for_bwd 261

// [`dnnl_eltwise_clip_v2`] whose backward pass needs the result.
#define dnnl_eltwise_clip_v2_use_dst_for_bwd 262

// Addresses of unified shared memory, or of shared virtual memory where a device has no other.
#define dnnl_ocl_interop_usm 0

// Buffer objects.
#define dnnl_ocl_interop_buffer 1

// No error.
#define dnnl_success 0

// Memory ran out.
#define dnnl_out_of_memory 1

// An argument is wrong.
#define dnnl_invalid_arguments 2

// Valid but not available here.
#define dnnl_unimplemented 3

// There is no further implementation.
#define dnnl_last_impl_reached 4

// A driver or device failed.
#define dnnl_runtime_error 5

// What is asked for does not apply.
#define dnnl_not_required 6

// The graph is wrong.
#define dnnl_invalid_graph 7

// An operation of the graph is wrong.
#define dnnl_invalid_graph_op 8

// A shape is wrong.
#define dnnl_invalid_shape 9

// A data type is wrong.
#define dnnl_invalid_data_type 10

// None: an empty descriptor.
#define dnnl_data_type_undef 0

// IEEE 754 binary16.
#define dnnl_f16 1

// The upper half of binary32.
#define dnnl_bf16 2

// IEEE 754 binary32.
#define dnnl_f32 3

// Signed 32-bit integer.
#define dnnl_s32 4

// Signed 8-bit integer.
#define dnnl_s8 5

// Unsigned 8-bit integer.
#define dnnl_u8 6

// IEEE 754 binary64.
#define dnnl_f64 7

// One byte, zero or one.
#define dnnl_boolean 8

// 8-bit float, 5 exponent and 2 mantissa bits.
#define dnnl_f8_e5m2 9

// 8-bit float, 4 exponent and 3 mantissa bits.
#define dnnl_f8_e4m3 10

// Signed 4-bit integer, two to a byte.
#define dnnl_s4 11

// Unsigned 4-bit integer, two to a byte.
#define dnnl_u4 12

// 8-bit scale: an exponent.
#define dnnl_e8m0 13

// 4-bit float, 2 exponent and 1 mantissa bits, two to a byte.
#define dnnl_f4_e2m1 14

// 4-bit float, 3 exponent bits, two to a byte.
#define dnnl_f4_e3m0 15

// Signed 64-bit integer.
#define dnnl_s64 16

// Not at all: an empty descriptor.
#define dnnl_format_kind_undef 0

// The implementation chooses.
#define dnnl_format_kind_any 1

// By strides and inner blocks.
#define dnnl_blocked 2

// Known to the library alone.
#define dnnl_format_kind_opaque 3

// By a sparse encoding.
#define dnnl_format_kind_sparse 4

// One value on the host.
#define dnnl_format_kind_host_scalar 5

// None.
#define dnnl_format_tag_undef 0

// The implementation chooses.
#define dnnl_format_tag_any 1

// Not at all.
#define dnnl_sparse_encoding_undef 0

// Compressed rows: values, column indices, row pointers.
#define dnnl_csr 1

// Known to the library alone.
#define dnnl_packed 2

// Coordinates: values, then indices for each dimension.
#define dnnl_coo 3

// Strides: `const dnnl_dims_t *`.
#define dnnl_query_strides 14

// The number of dimensions: `int`.
#define dnnl_query_ndims_s32 256

// Dimensions: `const dnnl_dims_t *`.
#define dnnl_query_dims 257

// The element type: `dnnl_data_type_t`.
#define dnnl_query_data_type 258

// Elements before the first one: `dnnl_dim_t`.
#define dnnl_query_submemory_offset_s64 259

// Dimensions with padding: `const dnnl_dims_t *`.
#define dnnl_query_padded_dims 260

// Padding in front of each dimension: `const dnnl_dims_t *`.
#define dnnl_query_padded_offsets 261

// The format kind: `dnnl_format_kind_t`.
#define dnnl_query_format_kind 262

// The number of inner blocks: `int`.
#define dnnl_query_inner_nblks_s32 263

// The sizes of the inner blocks: `const dnnl_dims_t *`.
#define dnnl_query_inner_blks 264

// The dimensions of the inner blocks: `const dnnl_dims_t *`.
#define dnnl_query_inner_idxs 265

// The sparse encoding: `dnnl_sparse_encoding_t`.
#define dnnl_query_sparse_encoding 266

// The number of stored entries: `dnnl_dim_t`.
#define dnnl_query_nnz_s64 267

// The number of handles that a memory of the descriptor has: `int`.
#define dnnl_query_num_handles_s32 268

// None.
#define dnnl_fpmath_mode_strict 0

// bf16.
#define dnnl_fpmath_mode_bf16 1

// f16.
#define dnnl_fpmath_mode_f16 2

// Any of them.
#define dnnl_fpmath_mode_any 3

// tf32.
#define dnnl_fpmath_mode_tf32 4

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes attributes with default values.
dnnl_status_t dnnl_primitive_attr_create(dnnl_primitive_attr_t *attr);

// Ends attributes; null is none.
dnnl_status_t dnnl_primitive_attr_destroy(dnnl_primitive_attr_t attr);

// The message of the last failure on this thread, or an empty string. It stays valid until the next failure on this thread.
const char *anydnn_last_error(void);

// The name of a status.
const char *dnnl_status2str(dnnl_status_t status);

// The size of an element in bytes, or `SIZE_MAX` for what is no data type. Two elements of a 4-bit type share a byte.
size_t dnnl_data_type_size(dnnl_data_type_t data_type);

// Makes a descriptor with a layout by number. No dimensions, or no layout, make the empty one.
dnnl_status_t dnnl_memory_desc_create_with_tag(dnnl_memory_desc_t *memory_desc,
                                               int ndims,
                                               const dnnl_dim_t *dims,
                                               dnnl_data_type_t data_type,
                                               dnnl_format_tag_t tag);

// Makes a descriptor with strides; null strides are those of row-major order. No dimensions make the empty one.
dnnl_status_t dnnl_memory_desc_create_with_strides(dnnl_memory_desc_t *memory_desc,
                                                   int ndims,
                                                   const dnnl_dim_t *dims,
                                                   dnnl_data_type_t data_type,
                                                   const dnnl_dim_t *strides);

// Makes a sparse descriptor by coordinates: a memory of it has values and, for each dimension, indices.
dnnl_status_t dnnl_memory_desc_create_with_coo_encoding(dnnl_memory_desc_t *memory_desc,
                                                        int ndims,
                                                        const dnnl_dim_t *dims,
                                                        dnnl_data_type_t data_type,
                                                        dnnl_dim_t nnz,
                                                        dnnl_data_type_t indices_dt);

// Makes a descriptor of one value on the host.
dnnl_status_t dnnl_memory_desc_create_host_scalar(dnnl_memory_desc_t *memory_desc,
                                                  dnnl_data_type_t data_type);

// Makes a descriptor of the part of `dims` elements from `offsets` on.
dnnl_status_t dnnl_memory_desc_create_submemory(dnnl_memory_desc_t *memory_desc,
                                                const_dnnl_memory_desc_t parent_memory_desc,
                                                const dnnl_dim_t *dims,
                                                const dnnl_dim_t *offsets);

// Copies a descriptor.
dnnl_status_t dnnl_memory_desc_clone(dnnl_memory_desc_t *memory_desc,
                                     const_dnnl_memory_desc_t existing_memory_desc);

// Makes a descriptor of the same bytes with axis `i` moved to `permutation[i]`.
dnnl_status_t dnnl_memory_desc_permute_axes(dnnl_memory_desc_t *out_memory_desc,
                                            const_dnnl_memory_desc_t in_memory_desc,
                                            const int *permutation);

// Makes a descriptor of the same bytes under other dimensions.
dnnl_status_t dnnl_memory_desc_reshape(dnnl_memory_desc_t *out_memory_desc,
                                       const_dnnl_memory_desc_t in_memory_desc,
                                       int ndims,
                                       const dnnl_dim_t *dims);

// Whether two descriptors mean the same bytes: 1 or 0. Null equals null alone.
int dnnl_memory_desc_equal(const_dnnl_memory_desc_t lhs, const_dnnl_memory_desc_t rhs);

// The bytes that a memory of the descriptor has: zero for null and for an open layout, `DNNL_RUNTIME_SIZE_VAL` where dimensions or
// strides are known at execution only.
size_t dnnl_memory_desc_get_size(const_dnnl_memory_desc_t memory_desc);

// The bytes of the data of one handle.
size_t dnnl_memory_desc_get_size_v2(const_dnnl_memory_desc_t memory_desc, int index);

// Ends a descriptor; null is none.
dnnl_status_t dnnl_memory_desc_destroy(dnnl_memory_desc_t memory_desc);

// The number of the layout with those letters (`acdb`, `aBcd16b`, `any`), or 0 where it has none.
dnnl_format_tag_t anydnn_format_tag(const char *letters);

// Asks a descriptor for `what`. `result` points to what the query's number says; arrays live as long as the descriptor.
dnnl_status_t dnnl_memory_desc_query(const_dnnl_memory_desc_t memory_desc,
                                     dnnl_query_t what,
                                     void *result);

// Asks a descriptor for `what`; for the data type, that of handle `index`.
dnnl_status_t dnnl_memory_desc_query_v2(const_dnnl_memory_desc_t memory_desc,
                                        dnnl_query_t what,
                                        int index,
                                        void *result);

// Describes the forward pass of a function of each element.
dnnl_status_t dnnl_eltwise_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                         dnnl_engine_t engine,
                                                         dnnl_prop_kind_t prop_kind,
                                                         dnnl_alg_kind_t alg_kind,
                                                         const_dnnl_memory_desc_t src_desc,
                                                         const_dnnl_memory_desc_t dst_desc,
                                                         float alpha,
                                                         float beta,
                                                         const_dnnl_primitive_attr_t attr);

// The number of engines of a kind; none but `dnnl_gpu`. GPUs come first, then accelerators, then processors.
size_t dnnl_engine_get_count(dnnl_engine_kind_t kind);

// Makes an engine on the device of that index, in a context of its own.
dnnl_status_t dnnl_engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index);

// Tells the kind of an engine.
dnnl_status_t dnnl_engine_get_kind(dnnl_engine_t engine, dnnl_engine_kind_t *kind);

// Gives up the handle of an engine; null is none.
dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine);

// Enqueues a primitive. On an out-of-order stream nothing orders it with what was enqueued before.
dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                     dnnl_stream_t stream,
                                     int nargs,
                                     const dnnl_exec_arg_t *args);

// Makes an engine on the user's device and context. Any type of device will do, and sub-devices will.
dnnl_status_t dnnl_ocl_interop_engine_create(dnnl_engine_t *engine,
                                             cl_device_id device,
                                             cl_context context);

// Makes an engine from what [`dnnl_ocl_interop_engine_get_cache_blob`] gave, so that it need not compile. A blob that does not fit is
// as none.
dnnl_status_t dnnl_ocl_interop_engine_create_from_cache_blob(dnnl_engine_t *engine,
                                                             cl_device_id device,
                                                             cl_context context,
                                                             size_t size,
                                                             const uint8_t *cache_blob);

// Lends the context of an engine.
dnnl_status_t dnnl_ocl_interop_engine_get_context(dnnl_engine_t engine, cl_context *context);

// Lends the device of an engine.
dnnl_status_t dnnl_ocl_interop_get_device(dnnl_engine_t engine, cl_device_id *device);

// Names what a cache blob of a device depends on: its size where `cache_blob_id` is null, else the name.
dnnl_status_t dnnl_ocl_interop_engine_get_cache_blob_id(cl_device_id device,
                                                        size_t *size,
                                                        uint8_t *cache_blob_id);

// Gives what an engine has compiled, to start the next one warm: the size where `cache_blob` is null, else the bytes.
dnnl_status_t dnnl_ocl_interop_engine_get_cache_blob(dnnl_engine_t engine,
                                                     size_t *size,
                                                     uint8_t *cache_blob);

// Makes a stream on the user's queue, which is retained.
dnnl_status_t dnnl_ocl_interop_stream_create(dnnl_stream_t *stream,
                                             dnnl_engine_t engine,
                                             cl_command_queue queue);

// Lends the queue of a stream, the user's or the library's.
dnnl_status_t dnnl_ocl_interop_stream_get_command_queue(dnnl_stream_t stream,
                                                        cl_command_queue *queue);

// Makes memory of a kind. `handle` is a buffer object or an address, `DNNL_MEMORY_ALLOCATE` or `DNNL_MEMORY_NONE`.
dnnl_status_t dnnl_ocl_interop_memory_create(dnnl_memory_t *memory,
                                             const_dnnl_memory_desc_t memory_desc,
                                             dnnl_engine_t engine,
                                             dnnl_ocl_interop_memory_kind_t memory_kind,
                                             void *handle);

// Makes memory of a kind with several handles; see [`dnnl_ocl_interop_memory_create`].
dnnl_status_t dnnl_ocl_interop_memory_create_v2(dnnl_memory_t *memory,
                                                const_dnnl_memory_desc_t memory_desc,
                                                dnnl_engine_t engine,
                                                dnnl_ocl_interop_memory_kind_t memory_kind,
                                                int nhandles,
                                                void **handles);

// Tells what the handles of memory are.
dnnl_status_t dnnl_ocl_interop_memory_get_memory_kind(const_dnnl_memory_t memory,
                                                      dnnl_ocl_interop_memory_kind_t *memory_kind);

// Lends the buffer object of memory, or its address as one; null for null.
dnnl_status_t dnnl_ocl_interop_memory_get_mem_object(const_dnnl_memory_t memory,
                                                     cl_mem *mem_object);

// Gives memory another buffer object, which is retained, in place of the one it has, which is released.
dnnl_status_t dnnl_ocl_interop_memory_set_mem_object(dnnl_memory_t memory,
                                                     cl_mem mem_object);

// Enqueues a primitive after `deps`, on any stream. `return_event` becomes null on an in-order stream, else an event with one reference
// for the caller; on failures nothing is written.
dnnl_status_t dnnl_ocl_interop_primitive_execute(const_dnnl_primitive_t primitive,
                                                 dnnl_stream_t stream,
                                                 int nargs,
                                                 const dnnl_exec_arg_t *args,
                                                 const cl_event *deps,
                                                 int ndeps,
                                                 cl_event *return_event);

// Makes memory on an engine. `handle` is a buffer object, `DNNL_MEMORY_ALLOCATE` or `DNNL_MEMORY_NONE`.
dnnl_status_t dnnl_memory_create(dnnl_memory_t *memory,
                                 const_dnnl_memory_desc_t memory_desc,
                                 dnnl_engine_t engine,
                                 void *handle);

// Makes memory with several handles on an engine; see [`dnnl_memory_create`].
dnnl_status_t dnnl_memory_create_v2(dnnl_memory_t *memory,
                                    const_dnnl_memory_desc_t memory_desc,
                                    dnnl_engine_t engine,
                                    int nhandles,
                                    void **handles);

// Makes memory of a value on the host, which is copied.
dnnl_status_t dnnl_memory_create_host_scalar(dnnl_memory_t *memory,
                                             const_dnnl_memory_desc_t memory_desc,
                                             void *scalar_ptr);

// Ends memory; null is none. Commands on their way keep the bytes that the library allocated.
dnnl_status_t dnnl_memory_destroy(dnnl_memory_t memory);

// Lends the descriptor of memory, for as long as the memory lives.
dnnl_status_t dnnl_memory_get_memory_desc(const_dnnl_memory_t memory,
                                          const_dnnl_memory_desc_t *memory_desc);

// Tells the engine of memory: the handle that the memory was made with, or null for a value on the host.
dnnl_status_t dnnl_memory_get_engine(const_dnnl_memory_t memory,
                                     dnnl_engine_t *engine);

// Tells the handle of memory; null for null.
dnnl_status_t dnnl_memory_get_data_handle(const_dnnl_memory_t memory, void **handle);

// Tells one of the handles of memory; null for null.
dnnl_status_t dnnl_memory_get_data_handle_v2(const_dnnl_memory_t memory, void **handle, int index);

// Gives memory another handle: a buffer object or an address, as the memory was made with. Nothing is looked at or changed.
dnnl_status_t dnnl_memory_set_data_handle(dnnl_memory_t memory,
                                          void *handle);

// Gives memory another one of its handles; see [`dnnl_memory_set_data_handle`].
dnnl_status_t dnnl_memory_set_data_handle_v2(dnnl_memory_t memory, void *handle, int index);

// Maps memory to the host. Wait for commands that use it first.
dnnl_status_t dnnl_memory_map_data(const_dnnl_memory_t memory, void **mapped_ptr);

// Maps the bytes of one of the handles of memory to the host; see [`dnnl_memory_map_data`].
dnnl_status_t dnnl_memory_map_data_v2(const_dnnl_memory_t memory, void **mapped_ptr, int index);

// Ends a mapping: changes are on the device afterwards. Null is none.
dnnl_status_t dnnl_memory_unmap_data(const_dnnl_memory_t memory, void *mapped_ptr);

// Ends a mapping of one of the handles; see [`dnnl_memory_unmap_data`].
dnnl_status_t dnnl_memory_unmap_data_v2(const_dnnl_memory_t memory, void *mapped_ptr, int index);

// Copies the value of memory on the host to `value`.
dnnl_status_t dnnl_memory_get_host_scalar_value(const_dnnl_memory_t memory, void *value);

// Copies `value` to memory on the host.
dnnl_status_t dnnl_memory_set_host_scalar_value(dnnl_memory_t memory, const void *value);

// Ends the description of a primitive; null is none.
dnnl_status_t dnnl_primitive_desc_destroy(dnnl_primitive_desc_t primitive_desc);

// Compiles a primitive.
dnnl_status_t dnnl_primitive_create(dnnl_primitive_t *primitive,
                                    const_dnnl_primitive_desc_t primitive_desc);

// Ends a primitive; null is none. Executions on their way are finished.
dnnl_status_t dnnl_primitive_destroy(dnnl_primitive_t primitive);

// Forgets the executions so far.
dnnl_status_t dnnl_reset_profiling(dnnl_stream_t stream);

// Tells the number of executions where `data` is null, else what each took. `data` has room for `*num_entries`, which becomes the
// number of those written.
dnnl_status_t dnnl_query_profiling_data(dnnl_stream_t stream,
                                        dnnl_profiling_data_kind_t data_kind,
                                        int *num_entries,
                                        uint64_t *data);

// Describes a copy from one engine's memory to another's, or to the same one's. It runs on streams of the target's engine.
dnnl_status_t dnnl_reorder_primitive_desc_create(dnnl_primitive_desc_t *reorder_primitive_desc,
                                                 const_dnnl_memory_desc_t src_desc,
                                                 dnnl_engine_t src_engine,
                                                 const_dnnl_memory_desc_t dst_desc,
                                                 dnnl_engine_t dst_engine,
                                                 const_dnnl_primitive_attr_t attr);

// Sets how much the library tells on standard output: 0 nothing, 1 executions, 2 creations too. Overrides `ONEDNN_VERBOSE`.
dnnl_status_t dnnl_set_verbose(int level);

// Reads the floating-point mode that new attributes begin with.
dnnl_status_t dnnl_get_default_fpmath_mode(dnnl_fpmath_mode_t *mode);

// Sets the floating-point mode that new attributes begin with. Overrides `ONEDNN_DEFAULT_FPMATH_MODE`.
dnnl_status_t dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_t mode);

// Makes a stream with a queue of its own.
dnnl_status_t dnnl_stream_create(dnnl_stream_t *stream,
                                 dnnl_engine_t engine,
                                 dnnl_stream_flags_t flags);

// Tells the engine of a stream: the handle that the stream was made with.
dnnl_status_t dnnl_stream_get_engine(const_dnnl_stream_t stream, dnnl_engine_t *engine);

// Waits for everything on a stream.
dnnl_status_t dnnl_stream_wait(dnnl_stream_t stream);

// Ends a stream; null is none. What was enqueued runs, and is not waited for.
dnnl_status_t dnnl_stream_destroy(dnnl_stream_t stream);

// Makes an engine on the user's device and context; see [`dnnl_ocl_interop_engine_create`](crate::dnnl_ocl_interop_engine_create).
dnnl_status_t dnnl_engine_create_ocl(dnnl_engine_t *engine,
                                     dnnl_engine_kind_t kind,
                                     cl_device_id device,
                                     cl_context context);

// Lends the context of an engine.
dnnl_status_t dnnl_engine_get_ocl_context(dnnl_engine_t engine, cl_context *context);

// Lends the device of an engine.
dnnl_status_t dnnl_engine_get_ocl_device(dnnl_engine_t engine, cl_device_id *device);

// Makes a stream on the user's in-order queue, which is retained. Destroying it waits for what is on it.
dnnl_status_t dnnl_stream_create_ocl(dnnl_stream_t *stream,
                                     dnnl_engine_t engine,
                                     cl_command_queue queue);

// Lends the queue of a stream.
dnnl_status_t dnnl_stream_get_ocl_command_queue(dnnl_stream_t stream, cl_command_queue *queue);

// Lends the buffer object of memory; null for null.
dnnl_status_t dnnl_memory_get_ocl_mem_object(const_dnnl_memory_t memory, cl_mem *mem_object);

// Gives memory another buffer object, which is retained, in place of the one it has, which is released.
dnnl_status_t dnnl_memory_set_ocl_mem_object(dnnl_memory_t memory,
                                             cl_mem mem_object);

// The version of oneDNN's API that this library implements.
const dnnl_version_t *dnnl_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ANYDNN_H */
