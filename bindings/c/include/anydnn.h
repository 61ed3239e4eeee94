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

// The number of dimensions is not known.
#define DNNL_GRAPH_UNKNOWN_NDIMS -1

// A dimension or stride is not known.
#define DNNL_GRAPH_UNKNOWN_DIM INT64_MIN

// The first source.
#define DNNL_ARG_SRC 1

// The first result.
#define DNNL_ARG_DST 17

// The second source: the other operand of a post-operation.
#define DNNL_ARG_SRC_1 2

// The weights.
#define DNNL_ARG_WEIGHTS 33

// The bias.
#define DNNL_ARG_BIAS 41

// The first post-operation's operands have this bit set, the second's twice its value, and so on.
#define DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE 32768

// Working memory.
#define DNNL_ARG_SCRATCHPAD 80



// The most dimensions a tensor has.
#define DNNL_MAX_NDIMS 12

// No run-time: what a library without engines of a kind reports.
#define DNNL_RUNTIME_NONE 0

// A pool of threads.
#define DNNL_RUNTIME_THREADPOOL 8

// OpenCL.
#define DNNL_RUNTIME_OCL 256

// An engine: one device in one context.
typedef struct dnnl_engine dnnl_engine;

// An allocator of temporary memory.
typedef struct dnnl_graph_allocator dnnl_graph_allocator;

// A partition compiled for an engine.
typedef struct dnnl_graph_compiled_partition dnnl_graph_compiled_partition;

// A graph.
typedef struct dnnl_graph_graph dnnl_graph_graph;

// An operation of a graph.
typedef struct dnnl_graph_op dnnl_graph_op;

// A partition of a graph.
typedef struct dnnl_graph_partition dnnl_graph_partition;

// A tensor: a logical tensor with bytes.
typedef struct dnnl_graph_tensor dnnl_graph_tensor;

// A memory: a descriptor and the bytes that it describes.
typedef struct dnnl_memory dnnl_memory;

// A memory descriptor.
typedef struct dnnl_memory_desc dnnl_memory_desc;

// Post-operations: what is done to each result element of a primitive.
typedef struct dnnl_post_ops dnnl_post_ops;

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

// A handle of attributes that are only read.
typedef const dnnl_primitive_attr *const_dnnl_primitive_attr_t;

// Who gives primitives their working memory.
typedef int dnnl_scratchpad_mode_t;

// A handle of post-operations that are only read.
typedef const dnnl_post_ops *const_dnnl_post_ops_t;

// Which narrower arithmetic f32 work may use.
typedef int dnnl_fpmath_mode_t;

// A dimension, a stride or an offset in elements.
typedef int64_t dnnl_dim_t;

// An element type.
typedef int dnnl_data_type_t;

// A handle of a memory descriptor that is only read.
typedef const dnnl_memory_desc *const_dnnl_memory_desc_t;

// A handle of a primitive's description.
typedef dnnl_primitive_desc *dnnl_primitive_desc_t;

// A handle of an engine.
typedef dnnl_engine *dnnl_engine_t;

// What a primitive is for.
typedef int dnnl_prop_kind_t;

// Flags of normalisations, in bits.
typedef unsigned int dnnl_normalization_flags_t;

// A handle of a primitive's description that is only read.
typedef const dnnl_primitive_desc *const_dnnl_primitive_desc_t;

// An algorithm.
typedef int dnnl_alg_kind_t;

// What sums are kept in.
typedef int dnnl_accumulation_mode_t;

// A kind of engine.
typedef int dnnl_engine_kind_t;

// How a sparse tensor is stored.
typedef int dnnl_sparse_encoding_t;

// A layout by number; the letters' order is the dimensions' order in memory. `anydnn_format_tag` gives the number for letters.
typedef int dnnl_format_tag_t;

// A kind of primitive.
typedef int dnnl_primitive_kind_t;

// Flags of recurrent primitives, in bits.
typedef int dnnl_rnn_flags_t;

// A direction of recurrent primitives.
typedef int dnnl_rnn_direction_t;

// How results are rounded.
typedef int dnnl_rounding_mode_t;

// How results are quantised.
typedef int dnnl_quantization_mode_t;

// An instruction set of processors, in bits.
typedef int dnnl_cpu_isa_t;

// Hints for instruction sets, in bits.
typedef int dnnl_cpu_isa_hints_t;

// How a descriptor describes its layout.
typedef int dnnl_format_kind_t;

// A handle of a memory descriptor.
typedef dnnl_memory_desc *dnnl_memory_desc_t;

// What to ask an object for.
typedef int dnnl_query_t;

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

// A handle of an allocator.
typedef dnnl_graph_allocator *dnnl_graph_allocator_t;

// Allocates memory of the host.
typedef void *(*dnnl_graph_host_allocate_f)(size_t size, size_t alignment);

// Frees memory of the host.
typedef void (*dnnl_graph_host_deallocate_f)(void *buffer);

// Allocates memory that a device reaches by address. An alignment of zero is any.
typedef void *(*dnnl_graph_ocl_allocate_f)(size_t size,
                                           size_t alignment,
                                           cl_device_id device,
                                           cl_context context);

// Frees memory after an event, which may be null for at once.
typedef void (*dnnl_graph_ocl_deallocate_f)(void *buffer,
                                            cl_device_id device,
                                            cl_context context,
                                            cl_event event);

// A handle of an allocator that is only read.
typedef const dnnl_graph_allocator *const_dnnl_graph_allocator_t;

// A handle of a compiled partition.
typedef dnnl_graph_compiled_partition *dnnl_graph_compiled_partition_t;

// A handle of a partition.
typedef dnnl_graph_partition *dnnl_graph_partition_t;

// One number for each dimension.
typedef dnnl_dim_t dnnl_dims_t[DNNL_MAX_NDIMS];

// The role of a tensor.
typedef int dnnl_graph_tensor_property_t;

// How a layout is told.
typedef int dnnl_graph_layout_type_t;

// The layout of a logical tensor.
typedef union {
  // Strides in elements.
  dnnl_dims_t strides;
  // The number of an opaque layout.
  size_t layout_id;
} dnnl_graph_layout_t;

// A logical tensor: what a graph knows of a tensor.
typedef struct {
  // Its identity.
  size_t id;
  // The number of dimensions, or [`DNNL_GRAPH_UNKNOWN_NDIMS`].
  int ndims;
  // The dimensions, each of which may be [`DNNL_GRAPH_UNKNOWN_DIM`].
  dnnl_dims_t dims;
  // The element type.
  dnnl_data_type_t data_type;
  // The role.
  dnnl_graph_tensor_property_t property;
  // Which field of the layout holds.
  dnnl_graph_layout_type_t layout_type;
  // The layout.
  dnnl_graph_layout_t layout;
} dnnl_graph_logical_tensor_t;

// A handle of a compiled partition that is only read.
typedef const dnnl_graph_compiled_partition *const_dnnl_graph_compiled_partition_t;

// An input whose memory may be that of an output.
typedef struct {
  // The input's identity.
  size_t input_id;
  // The output's identity.
  size_t output_id;
} dnnl_graph_inplace_pair_t;

// A handle of a tensor that is only read.
typedef const dnnl_graph_tensor *const_dnnl_graph_tensor_t;

// A handle of an operation.
typedef dnnl_graph_op *dnnl_graph_op_t;

// A kind of operation, numbered in the order of oneDNN's enumeration.
typedef int dnnl_graph_op_kind_t;

// An attribute of an operation.
typedef int dnnl_graph_op_attr_t;

// A handle of an operation that is only read.
typedef const dnnl_graph_op *const_dnnl_graph_op_t;

// A handle of a graph.
typedef dnnl_graph_graph *dnnl_graph_graph_t;

// How far fusion goes.
typedef int dnnl_graph_partition_policy_t;

// A handle of a graph that is only read.
typedef const dnnl_graph_graph *const_dnnl_graph_graph_t;

// What is written to files, in bits.
typedef unsigned int dnnl_graph_dump_mode_t;

// A handle of a partition that is only read.
typedef const dnnl_graph_partition *const_dnnl_graph_partition_t;

// A handle of a tensor.
typedef dnnl_graph_tensor *dnnl_graph_tensor_t;

// What the handles of a memory are.
typedef int dnnl_ocl_interop_memory_kind_t;

// A handle of a memory that is only read.
typedef const dnnl_memory *const_dnnl_memory_t;

// A handle of post-operations.
typedef dnnl_post_ops *dnnl_post_ops_t;

// A handle of a primitive.
typedef dnnl_primitive *dnnl_primitive_t;

// What a profile tells of each execution.
typedef int dnnl_profiling_data_kind_t;

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

// Not at all.
#define dnnl_graph_layout_type_undef 0

// The implementation chooses.
#define dnnl_graph_layout_type_any 1

// By strides.
#define dnnl_graph_layout_type_strided 2

// By a number that a compiled partition gave.
#define dnnl_graph_layout_type_opaque 3

// Not told.
#define dnnl_graph_tensor_property_undef 0

// Different on every execution.
#define dnnl_graph_tensor_property_variable 1

// The same on every execution.
#define dnnl_graph_tensor_property_constant 2

// One value on the host.
#define dnnl_graph_tensor_property_host_scalar 3

// As far as patterns allow.
#define dnnl_graph_partition_policy_fusion 1

// Not at all.
#define dnnl_graph_partition_policy_debug 2

// Nothing.
#define dnnl_graph_dump_mode_none 0

// Partitions as they are compiled.
#define dnnl_graph_dump_mode_subgraph 1

// Graphs, whole and partitioned.
#define dnnl_graph_dump_mode_graph 2

// Statistics are given.
#define dnnl_use_global_stats 1

// There is a factor.
#define dnnl_use_scale 2

// There is a summand.
#define dnnl_use_shift 4

// Negative results become zero.
#define dnnl_fuse_norm_relu 8

// Another tensor is added, then negative results become zero.
#define dnnl_fuse_norm_add_relu 16

// No mean is subtracted.
#define dnnl_rms_norm 32

// The gradient for everything.
#define dnnl_backward 128

// The gradient for the source alone.
#define dnnl_backward_data 160

// The gradient for the weights.
#define dnnl_backward_weights 192

// None in particular.
#define dnnl_any_engine 0

// The host's processor.
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

// Sum.
#define dnnl_binary_add 131056

// Product.
#define dnnl_binary_mul 131057

// The larger.
#define dnnl_binary_max 131058

// The smaller.
#define dnnl_binary_min 131059

// Quotient.
#define dnnl_binary_div 131060

// Difference.
#define dnnl_binary_sub 131061

// Whether the first is the larger or equal.
#define dnnl_binary_ge 131062

// Whether the first is the larger.
#define dnnl_binary_gt 131063

// Whether the first is the smaller or equal.
#define dnnl_binary_le 131064

// Whether the first is the smaller.
#define dnnl_binary_lt 131065

// Whether they are equal.
#define dnnl_binary_eq 131066

// Whether they differ.
#define dnnl_binary_ne 131067

// Softmax.
#define dnnl_softmax_accurate 196608

// The logarithm of softmax.
#define dnnl_softmax_log 196609

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

// The library.
#define dnnl_scratchpad_mode_library 0

// The caller, with every execution.
#define dnnl_scratchpad_mode_user 1

// None in particular.
#define dnnl_cpu_isa_default 0

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

// Tensors that differ in one dimension, one behind the other.
#define dnnl_grouped 4

// Strides: `const dnnl_dims_t *`.
#define dnnl_query_strides 14

// The descriptor of a source.
#define dnnl_query_src_md 129

// The descriptor of weights, or of a bias.
#define dnnl_query_weights_md 131

// The descriptor of a result.
#define dnnl_query_dst_md 133

// The descriptor of what training keeps.
#define dnnl_query_workspace_md 135

// The descriptor of working memory.
#define dnnl_query_scratchpad_md 136

// The descriptor of an argument by its number.
#define dnnl_query_exec_arg_md 255

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

// Copies attributes.
dnnl_status_t dnnl_primitive_attr_clone(dnnl_primitive_attr_t *attr,
                                        const_dnnl_primitive_attr_t existing_attr);

// Ends attributes; null is none.
dnnl_status_t dnnl_primitive_attr_destroy(dnnl_primitive_attr_t attr);

// Says who gives primitives their working memory: the library, or the caller with every execution.
dnnl_status_t dnnl_primitive_attr_set_scratchpad_mode(dnnl_primitive_attr_t attr,
                                                      dnnl_scratchpad_mode_t mode);

// Tells who gives primitives their working memory.
dnnl_status_t dnnl_primitive_attr_get_scratchpad_mode(const_dnnl_primitive_attr_t attr,
                                                      dnnl_scratchpad_mode_t *mode);

// Gives attributes a copy of post-operations; null for none.
dnnl_status_t dnnl_primitive_attr_set_post_ops(dnnl_primitive_attr_t attr,
                                               const_dnnl_post_ops_t post_ops);

// Lends the post-operations, until the attributes get others or end.
dnnl_status_t dnnl_primitive_attr_get_post_ops(const_dnnl_primitive_attr_t attr,
                                               const_dnnl_post_ops_t *post_ops);

// Which narrower arithmetic may be used.
dnnl_status_t dnnl_primitive_attr_set_fpmath_mode(dnnl_primitive_attr_t attr,
                                                  dnnl_fpmath_mode_t mode);

// Which narrower arithmetic may be used, and whether for integers too.
dnnl_status_t dnnl_primitive_attr_set_fpmath_mode_v2(dnnl_primitive_attr_t attr,
                                                     dnnl_fpmath_mode_t mode,
                                                     int apply_to_int);

// Tells which narrower arithmetic may be used.
dnnl_status_t dnnl_primitive_attr_get_fpmath_mode(const_dnnl_primitive_attr_t attr,
                                                  dnnl_fpmath_mode_t *mode);

// Tells which narrower arithmetic may be used, and whether for integers too.
dnnl_status_t dnnl_primitive_attr_get_fpmath_mode_v2(const_dnnl_primitive_attr_t attr,
                                                     dnnl_fpmath_mode_t *mode,
                                                     int *apply_to_int);

// Whether each run gives the same bits.
dnnl_status_t dnnl_primitive_attr_set_deterministic(dnnl_primitive_attr_t attr, int value);

// Tells whether each run gives the same bits.
dnnl_status_t dnnl_primitive_attr_get_deterministic(const_dnnl_primitive_attr_t attr, int *value);

// What sums may be kept in. Sums are kept in f32 or wider whatever is allowed.
dnnl_status_t dnnl_primitive_attr_set_accumulation_mode(dnnl_primitive_attr_t attr, int mode);

// Tells what sums may be kept in.
dnnl_status_t dnnl_primitive_attr_get_accumulation_mode(const_dnnl_primitive_attr_t attr,
                                                        int *mode);

// How an argument is rounded: 0 to the nearest, 1 at random.
dnnl_status_t dnnl_primitive_attr_set_rounding(dnnl_primitive_attr_t attr, int arg, int mode);

// Tells how an argument is rounded.
dnnl_status_t dnnl_primitive_attr_get_rounding(const_dnnl_primitive_attr_t attr,
                                               int arg,
                                               int *mode);

// Scales in f32 of an argument, which differ along the dimensions of a mask.
dnnl_status_t dnnl_primitive_attr_set_scales_mask(dnnl_primitive_attr_t attr, int arg, int mask);

// Scales of an argument, by mask and by groups of its last dimensions.
dnnl_status_t dnnl_primitive_attr_set_scales(dnnl_primitive_attr_t attr,
                                             int arg,
                                             int mask,
                                             int group_ndims,
                                             const dnnl_dim_t *group_dims,
                                             dnnl_data_type_t data_type);

// Scales of an argument; one that is on the host comes as a host scalar.
dnnl_status_t dnnl_primitive_attr_set_scales_v2(dnnl_primitive_attr_t attr,
                                                int arg,
                                                int mask,
                                                int ndims,
                                                const dnnl_dim_t *group_dims,
                                                dnnl_data_type_t data_type,
                                                int is_on_host);

// Scales of an argument, given (`qmode` 1) or found by the primitive: powers of two by the MX specification (2), or the largest
// element of a group over the largest number of the result's type (3).
dnnl_status_t dnnl_primitive_attr_set_scales_v3(dnnl_primitive_attr_t attr,
                                                int arg,
                                                int mask,
                                                int ndims,
                                                const dnnl_dim_t *group_dims,
                                                dnnl_data_type_t data_type,
                                                int is_on_host,
                                                int qmode);

// Zero points in s32 of an argument, which differ along the dimensions of a mask.
dnnl_status_t dnnl_primitive_attr_set_zero_points_mask(dnnl_primitive_attr_t attr,
                                                       int arg,
                                                       int mask);

// Zero points of an argument, by mask and by groups of its last dimensions.
dnnl_status_t dnnl_primitive_attr_set_zero_points(dnnl_primitive_attr_t attr,
                                                  int arg,
                                                  int mask,
                                                  int group_ndims,
                                                  const dnnl_dim_t *group_dims,
                                                  dnnl_data_type_t data_type);

// Zero points of an argument; one that is on the host comes as a host scalar.
dnnl_status_t dnnl_primitive_attr_set_zero_points_v2(dnnl_primitive_attr_t attr,
                                                     int arg,
                                                     int mask,
                                                     int ndims,
                                                     const dnnl_dim_t *group_dims,
                                                     dnnl_data_type_t data_type,
                                                     int is_on_host);

// Sums over groups of the source of a product, which the caller knows and passes at execution: zero points of the weights take as much from
// the product as the sums say.
dnnl_status_t dnnl_primitive_attr_set_precomputed_reductions(dnnl_primitive_attr_t attr,
                                                             int arg,
                                                             int mask,
                                                             int group_ndims,
                                                             const dnnl_dim_t *group_dims,
                                                             dnnl_data_type_t data_type);

// Drops results at random, with a seed in s32. An empty descriptor says that the mask of what is kept is not wanted.
dnnl_status_t dnnl_primitive_attr_set_dropout(dnnl_primitive_attr_t attr,
                                              const_dnnl_memory_desc_t mask_desc);

// Drops results at random, with a seed in s32 or s64, an offset or none, and numbers that come as host scalars or not; see
// [`dnnl_primitive_attr_set_dropout`].
dnnl_status_t dnnl_primitive_attr_set_dropout_v2(dnnl_primitive_attr_t attr,
                                                 const_dnnl_memory_desc_t mask_desc,
                                                 dnnl_data_type_t seed_dt,
                                                 int use_offset,
                                                 int use_host_scalars);

// Lends the descriptor of the mask of what is kept, an empty one where there is none.
dnnl_status_t dnnl_primitive_attr_get_dropout(const_dnnl_primitive_attr_t attr,
                                              const_dnnl_memory_desc_t *mask_desc);

// Tells what is dropped, and how; see [`dnnl_primitive_attr_set_dropout_v2`].
dnnl_status_t dnnl_primitive_attr_get_dropout_v2(const_dnnl_primitive_attr_t attr,
                                                 const_dnnl_memory_desc_t *mask_desc,
                                                 dnnl_data_type_t *seed_dt,
                                                 int *use_offset,
                                                 int *use_host_scalars);

// Describes the normalisation of each channel, by given statistics or by its own, which training tells.
dnnl_status_t dnnl_batch_normalization_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                     dnnl_engine_t engine,
                                                                     dnnl_prop_kind_t prop_kind,
                                                                     const_dnnl_memory_desc_t src_desc,
                                                                     const_dnnl_memory_desc_t dst_desc,
                                                                     float epsilon,
                                                                     dnnl_normalization_flags_t flags,
                                                                     const_dnnl_primitive_attr_t attr);

// Describes the gradient of a batch normalisation for its source, and for scale and shift unless for data alone.
dnnl_status_t dnnl_batch_normalization_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                      dnnl_engine_t engine,
                                                                      dnnl_prop_kind_t prop_kind,
                                                                      const_dnnl_memory_desc_t diff_src_desc,
                                                                      const_dnnl_memory_desc_t diff_dst_desc,
                                                                      const_dnnl_memory_desc_t src_desc,
                                                                      float epsilon,
                                                                      dnnl_normalization_flags_t flags,
                                                                      const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                      const_dnnl_primitive_attr_t attr);

// Describes a function of two tensors' elements; the second broadcasts to the first.
dnnl_status_t dnnl_binary_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                dnnl_engine_t engine,
                                                dnnl_alg_kind_t alg_kind,
                                                const_dnnl_memory_desc_t src0_desc,
                                                const_dnnl_memory_desc_t src1_desc,
                                                const_dnnl_memory_desc_t dst_desc,
                                                const_dnnl_primitive_attr_t attr);

// Describes a function of two tensors' elements, or a choice between them by a third.
dnnl_status_t dnnl_binary_primitive_desc_create_v2(dnnl_primitive_desc_t *primitive_desc,
                                                   dnnl_engine_t engine,
                                                   dnnl_alg_kind_t alg_kind,
                                                   const_dnnl_memory_desc_t src0_desc,
                                                   const_dnnl_memory_desc_t src1_desc,
                                                   const_dnnl_memory_desc_t src2_desc,
                                                   const_dnnl_memory_desc_t dst_desc,
                                                   const_dnnl_primitive_attr_t attr);

// The message of the last failure on this thread, or an empty string. It stays valid until the next failure on this thread.
const char *anydnn_last_error(void);

// Describes a convolution: `src` `[N, C, spatial..]`, `weights` `[O, C, kernel..]` or `[G, O / G, C / G, kernel..]`, an optional bias `[O]`.
dnnl_status_t dnnl_convolution_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                             dnnl_engine_t engine,
                                                             dnnl_prop_kind_t prop_kind,
                                                             dnnl_alg_kind_t alg_kind,
                                                             const_dnnl_memory_desc_t src_desc,
                                                             const_dnnl_memory_desc_t weights_desc,
                                                             const_dnnl_memory_desc_t bias_desc,
                                                             const_dnnl_memory_desc_t dst_desc,
                                                             const dnnl_dim_t *strides,
                                                             const dnnl_dim_t *dilates,
                                                             const dnnl_dim_t *padding_l,
                                                             const dnnl_dim_t *padding_r,
                                                             const_dnnl_primitive_attr_t attr);

// Describes the gradient of a convolution for its source.
dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                   dnnl_engine_t engine,
                                                                   dnnl_alg_kind_t alg_kind,
                                                                   const_dnnl_memory_desc_t diff_src_desc,
                                                                   const_dnnl_memory_desc_t weights_desc,
                                                                   const_dnnl_memory_desc_t diff_dst_desc,
                                                                   const dnnl_dim_t *strides,
                                                                   const dnnl_dim_t *dilates,
                                                                   const dnnl_dim_t *padding_l,
                                                                   const dnnl_dim_t *padding_r,
                                                                   const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                   const_dnnl_primitive_attr_t attr);

// Describes the gradient of a convolution for its weights, and for its bias where there is one.
dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                      dnnl_engine_t engine,
                                                                      dnnl_alg_kind_t alg_kind,
                                                                      const_dnnl_memory_desc_t src_desc,
                                                                      const_dnnl_memory_desc_t diff_weights_desc,
                                                                      const_dnnl_memory_desc_t diff_bias_desc,
                                                                      const_dnnl_memory_desc_t diff_dst_desc,
                                                                      const dnnl_dim_t *strides,
                                                                      const dnnl_dim_t *dilates,
                                                                      const dnnl_dim_t *padding_l,
                                                                      const dnnl_dim_t *padding_r,
                                                                      const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                      const_dnnl_primitive_attr_t attr);

// The name of a status.
const char *dnnl_status2str(dnnl_status_t v);

// The name of a data type.
const char *dnnl_dt2str(dnnl_data_type_t v);

// The name of a floating-point mode.
const char *dnnl_fpmath_mode2str(dnnl_fpmath_mode_t v);

// The name of an accumulation mode.
const char *dnnl_accumulation_mode2str(dnnl_accumulation_mode_t v);

// The name of a kind of engine.
const char *dnnl_engine_kind2str(dnnl_engine_kind_t v);

// The name of a sparse encoding.
const char *dnnl_sparse_encoding2str(dnnl_sparse_encoding_t v);

// The name of a layout: its letters.
const char *dnnl_fmt_tag2str(dnnl_format_tag_t v);

// The name of what a primitive is for.
const char *dnnl_prop_kind2str(dnnl_prop_kind_t v);

// The name of a kind of primitive.
const char *dnnl_prim_kind2str(dnnl_primitive_kind_t v);

// The name of an algorithm.
const char *dnnl_alg_kind2str(dnnl_alg_kind_t v);

// The name of flags of a recurrent primitive.
const char *dnnl_rnn_flags2str(dnnl_rnn_flags_t v);

// The name of a direction of a recurrent primitive.
const char *dnnl_rnn_direction2str(dnnl_rnn_direction_t v);

// The name of a scratchpad mode.
const char *dnnl_scratchpad_mode2str(dnnl_scratchpad_mode_t v);

// The name of a rounding mode.
const char *dnnl_rounding_mode2str(dnnl_rounding_mode_t v);

// The name of a quantisation mode.
const char *dnnl_quantization_mode2str(dnnl_quantization_mode_t v);

// The name of an instruction set of processors.
const char *dnnl_cpu_isa2str(dnnl_cpu_isa_t v);

// The name of hints for instruction sets.
const char *dnnl_cpu_isa_hints2str(dnnl_cpu_isa_hints_t v);

// The name of a runtime.
const char *dnnl_runtime2str(unsigned int v);

// The name of how a descriptor tells its layout.
const char *dnnl_fmt_kind2str(dnnl_format_kind_t v);

// Describes a transposed convolution: `src` `[N, C, spatial..]`, `weights` `[O, C, kernel..]` or `[G, O / G, C / G, kernel..]`, an optional bias `[O]`.
dnnl_status_t dnnl_deconvolution_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                               dnnl_engine_t engine,
                                                               dnnl_prop_kind_t prop_kind,
                                                               dnnl_alg_kind_t alg_kind,
                                                               const_dnnl_memory_desc_t src_desc,
                                                               const_dnnl_memory_desc_t weights_desc,
                                                               const_dnnl_memory_desc_t bias_desc,
                                                               const_dnnl_memory_desc_t dst_desc,
                                                               const dnnl_dim_t *strides,
                                                               const dnnl_dim_t *dilates,
                                                               const dnnl_dim_t *padding_l,
                                                               const dnnl_dim_t *padding_r,
                                                               const_dnnl_primitive_attr_t attr);

// Describes the gradient of a transposed convolution for its source.
dnnl_status_t dnnl_deconvolution_backward_data_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                     dnnl_engine_t engine,
                                                                     dnnl_alg_kind_t alg_kind,
                                                                     const_dnnl_memory_desc_t diff_src_desc,
                                                                     const_dnnl_memory_desc_t weights_desc,
                                                                     const_dnnl_memory_desc_t diff_dst_desc,
                                                                     const dnnl_dim_t *strides,
                                                                     const dnnl_dim_t *dilates,
                                                                     const dnnl_dim_t *padding_l,
                                                                     const dnnl_dim_t *padding_r,
                                                                     const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                     const_dnnl_primitive_attr_t attr);

// Describes the gradient of a transposed convolution for its weights, and for its bias where there is one.
dnnl_status_t dnnl_deconvolution_backward_weights_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                        dnnl_engine_t engine,
                                                                        dnnl_alg_kind_t alg_kind,
                                                                        const_dnnl_memory_desc_t src_desc,
                                                                        const_dnnl_memory_desc_t diff_weights_desc,
                                                                        const_dnnl_memory_desc_t diff_bias_desc,
                                                                        const_dnnl_memory_desc_t diff_dst_desc,
                                                                        const dnnl_dim_t *strides,
                                                                        const dnnl_dim_t *dilates,
                                                                        const dnnl_dim_t *padding_l,
                                                                        const dnnl_dim_t *padding_r,
                                                                        const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                        const_dnnl_primitive_attr_t attr);

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

// Makes a sparse descriptor of a matrix by compressed rows: a memory of it has values, column indices, and positions where rows begin.
dnnl_status_t dnnl_memory_desc_create_with_csr_encoding(dnnl_memory_desc_t *memory_desc,
                                                        int ndims,
                                                        const dnnl_dim_t *dims,
                                                        dnnl_data_type_t data_type,
                                                        dnnl_dim_t nnz,
                                                        dnnl_data_type_t indices_dt,
                                                        dnnl_data_type_t pointers_dt);

// Makes a sparse descriptor whose encoding is a primitive's to choose, as a layout left open. There is no memory of it.
dnnl_status_t dnnl_memory_desc_create_with_packed_encoding(dnnl_memory_desc_t *memory_desc,
                                                           int ndims,
                                                           const dnnl_dim_t *dims,
                                                           dnnl_data_type_t data_type,
                                                           dnnl_dim_t nnz);

// Makes a descriptor of `group_count` tensors one behind the other, which differ in the size of one dimension; `dims` has their sum there. A
// memory of it has values, and the positions (s32) where tensors end.
dnnl_status_t dnnl_memory_desc_create_with_grouped_encoding(dnnl_memory_desc_t *memory_desc,
                                                            int ndims,
                                                            const dnnl_dim_t *dims,
                                                            dnnl_data_type_t data_type,
                                                            int variable_dim_idx,
                                                            dnnl_dim_t group_count,
                                                            dnnl_data_type_t offsets_dt);

// Writes a descriptor as bytes: their number where `blob` is null, else the bytes, which [`dnnl_memory_desc_create_with_blob`] reads.
dnnl_status_t dnnl_memory_desc_get_blob(uint8_t *blob,
                                        size_t *size,
                                        const_dnnl_memory_desc_t memory_desc);

// Makes the descriptor that was written as bytes. Bytes that are none are an invalid argument.
dnnl_status_t dnnl_memory_desc_create_with_blob(dnnl_memory_desc_t *memory_desc,
                                                const uint8_t *blob);

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

// Describes the gradient of a function of each element. `data_desc` is of the source, or of the result for the algorithms that use it.
dnnl_status_t dnnl_eltwise_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                          dnnl_engine_t engine,
                                                          dnnl_alg_kind_t alg_kind,
                                                          const_dnnl_memory_desc_t diff_src_desc,
                                                          const_dnnl_memory_desc_t diff_dst_desc,
                                                          const_dnnl_memory_desc_t data_desc,
                                                          float alpha,
                                                          float beta,
                                                          const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                          const_dnnl_primitive_attr_t attr);

// The number of engines of a kind: one of kind `dnnl_cpu`, the host; one of kind `dnnl_gpu` for each OpenCL device, of which GPUs come first,
// then accelerators, then processors.
size_t dnnl_engine_get_count(dnnl_engine_kind_t kind);

// Makes an engine on the host, or on the device of that index in the context that all such engines of a device share.
dnnl_status_t dnnl_engine_create(dnnl_engine_t *engine,
                                 dnnl_engine_kind_t kind,
                                 size_t index);

// Tells the kind of an engine.
dnnl_status_t dnnl_engine_get_kind(dnnl_engine_t engine, dnnl_engine_kind_t *kind);

// Gives up the handle of an engine; null is none.
dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine);

// Enqueues a primitive. On an out-of-order stream nothing orders it with what was enqueued before.
dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                     dnnl_stream_t stream,
                                     int nargs,
                                     const dnnl_exec_arg_t *args);

// A product in f32. `transa` and `transb` are `N` or `T` in either case.
dnnl_status_t dnnl_sgemm(char transa,
                         char transb,
                         dnnl_dim_t m,
                         dnnl_dim_t n,
                         dnnl_dim_t k,
                         float alpha,
                         const float *a,
                         dnnl_dim_t lda,
                         const float *b,
                         dnnl_dim_t ldb,
                         float beta,
                         float *c,
                         dnnl_dim_t ldc);

// A product of u8 and s8 into s32: `C = alpha * (op(A) - ao) * (op(B) - bo) + beta * C + co`, rounded half to even and saturated. `offsetc` says
// what `co` holds: `F` one summand, `C` one for each row, `R` one for each column.
dnnl_status_t dnnl_gemm_u8s8s32(char transa,
                                char transb,
                                char offsetc,
                                dnnl_dim_t m,
                                dnnl_dim_t n,
                                dnnl_dim_t k,
                                float alpha,
                                const uint8_t *a,
                                dnnl_dim_t lda,
                                uint8_t ao,
                                const int8_t *b,
                                dnnl_dim_t ldb,
                                int8_t bo,
                                float beta,
                                int32_t *c,
                                dnnl_dim_t ldc,
                                const int32_t *co);

// A product of s8 and s8 into s32; see [`dnnl_gemm_u8s8s32`].
dnnl_status_t dnnl_gemm_s8s8s32(char transa,
                                char transb,
                                char offsetc,
                                dnnl_dim_t m,
                                dnnl_dim_t n,
                                dnnl_dim_t k,
                                float alpha,
                                const int8_t *a,
                                dnnl_dim_t lda,
                                int8_t ao,
                                const int8_t *b,
                                dnnl_dim_t ldb,
                                int8_t bo,
                                float beta,
                                int32_t *c,
                                dnnl_dim_t ldc,
                                const int32_t *co);

// Makes an allocator of the host's memory, for the working memory of graphs on the host. With a null callback it is the library's own. Engines
// of devices take their working memory from the library.
dnnl_status_t dnnl_graph_allocator_create(dnnl_graph_allocator_t *allocator,
                                          dnnl_graph_host_allocate_f host_malloc,
                                          dnnl_graph_host_deallocate_f host_free);

// Makes an allocator of memory that devices reach by address. With a null callback it is the library's own.
dnnl_status_t dnnl_graph_ocl_interop_allocator_create(dnnl_graph_allocator_t *allocator,
                                                      dnnl_graph_ocl_allocate_f ocl_malloc,
                                                      dnnl_graph_ocl_deallocate_f ocl_free);

// Ends an allocator; null is none. Engines that were made with it keep its callbacks.
dnnl_status_t dnnl_graph_allocator_destroy(dnnl_graph_allocator_t allocator);

// Makes an engine on the device of that index, with an allocator.
dnnl_status_t dnnl_graph_make_engine_with_allocator(dnnl_engine_t *engine,
                                                    dnnl_engine_kind_t kind,
                                                    size_t index,
                                                    const_dnnl_graph_allocator_t alloc);

// Makes an engine on the user's device and context, with an allocator.
dnnl_status_t dnnl_graph_ocl_interop_make_engine_with_allocator(dnnl_engine_t *engine,
                                                                cl_device_id device,
                                                                cl_context context,
                                                                const_dnnl_graph_allocator_t alloc);

// Makes an engine on the user's device and context from a cache blob, with an allocator.
dnnl_status_t dnnl_graph_ocl_interop_make_engine_from_cache_blob_with_allocator(dnnl_engine_t *engine,
                                                                                cl_device_id device,
                                                                                cl_context context,
                                                                                const_dnnl_graph_allocator_t alloc,
                                                                                size_t size,
                                                                                const uint8_t *cache_blob);

// Tells how many compiled partitions are kept.
dnnl_status_t dnnl_graph_get_compiled_partition_cache_capacity(int *capacity);

// Sets how many compiled partitions are kept; zero for none.
dnnl_status_t dnnl_graph_set_compiled_partition_cache_capacity(int capacity);

// Switches the cache of what follows from constant tensors on, without bound, or off.
dnnl_status_t dnnl_graph_set_constant_tensor_cache(int flag);

// Tells whether the cache of what follows from constant tensors is on.
dnnl_status_t dnnl_graph_get_constant_tensor_cache(int *flag);

// Sets how many megabytes of what follows from constant tensors are kept for each engine of a kind. What was kept is forgotten.
dnnl_status_t dnnl_graph_set_constant_tensor_cache_capacity(dnnl_engine_kind_t eng_kind,
                                                            size_t size);

// Tells how many megabytes of what follows from constant tensors are kept for each engine of a kind.
dnnl_status_t dnnl_graph_get_constant_tensor_cache_capacity(dnnl_engine_kind_t eng_kind,
                                                            size_t *size);

// Makes a compiled partition that is still to be compiled, by [`dnnl_graph_partition_compile`].
dnnl_status_t dnnl_graph_compiled_partition_create(dnnl_graph_compiled_partition_t *compiled_partition,
                                                   dnnl_graph_partition_t partition);

// Compiles a partition for an engine, with what is known of its tensors by now.
dnnl_status_t dnnl_graph_partition_compile(dnnl_graph_partition_t partition,
                                           dnnl_graph_compiled_partition_t compiled_partition,
                                           size_t in_num,
                                           const dnnl_graph_logical_tensor_t **inputs,
                                           size_t out_num,
                                           const dnnl_graph_logical_tensor_t **outputs,
                                           dnnl_engine_t engine);

// Ends a compiled partition; null is none.
dnnl_status_t dnnl_graph_compiled_partition_destroy(dnnl_graph_compiled_partition_t compiled_partition);

// Tells a tensor with the shape and layout that compiling has found. One that the partition does not have is all zeros.
dnnl_status_t dnnl_graph_compiled_partition_query_logical_tensor(const_dnnl_graph_compiled_partition_t compiled_partition,
                                                                 size_t tid,
                                                                 dnnl_graph_logical_tensor_t *lt);

// Lends the pairs of tensors that may share memory, until the partition is compiled anew or the compiled partition ends.
dnnl_status_t dnnl_graph_compiled_partition_get_inplace_ports(const_dnnl_graph_compiled_partition_t compiled_partition,
                                                              size_t *num_inplace_pairs,
                                                              const dnnl_graph_inplace_pair_t **inplace_pairs);

// Describes the working memory that an execution may be given: a vector of bytes whose identity is the largest number.
dnnl_status_t dnnl_graph_compiled_partition_get_scratchpad_logical_tensor(const_dnnl_graph_compiled_partition_t compiled_partition,
                                                                          dnnl_graph_logical_tensor_t *lt);

// Enqueues a compiled partition. On an out-of-order stream nothing orders it with what was enqueued before.
dnnl_status_t dnnl_graph_compiled_partition_execute(const_dnnl_graph_compiled_partition_t compiled_partition,
                                                    dnnl_stream_t stream,
                                                    size_t num_inputs,
                                                    const_dnnl_graph_tensor_t *inputs,
                                                    size_t num_outputs,
                                                    const_dnnl_graph_tensor_t *outputs);

// Enqueues a compiled partition with working memory of the caller's, which may be null for the library's.
dnnl_status_t dnnl_graph_compiled_partition_execute_v2(const_dnnl_graph_compiled_partition_t compiled_partition,
                                                       dnnl_stream_t stream,
                                                       size_t num_inputs,
                                                       const_dnnl_graph_tensor_t *inputs,
                                                       size_t num_outputs,
                                                       const_dnnl_graph_tensor_t *outputs,
                                                       const_dnnl_graph_tensor_t scratchpad);

// Enqueues a compiled partition after `deps`. `return_event` becomes null on an in-order stream, else an event with one reference for
// the caller; on failures nothing is written.
dnnl_status_t dnnl_graph_ocl_interop_compiled_partition_execute(const_dnnl_graph_compiled_partition_t compiled_partition,
                                                                dnnl_stream_t stream,
                                                                size_t num_inputs,
                                                                const_dnnl_graph_tensor_t *inputs,
                                                                size_t num_outputs,
                                                                const_dnnl_graph_tensor_t *outputs,
                                                                const cl_event *deps,
                                                                int ndeps,
                                                                cl_event *return_event);

// Enqueues a compiled partition after `deps`, with working memory of the caller's; see
// [`dnnl_graph_ocl_interop_compiled_partition_execute`].
dnnl_status_t dnnl_graph_ocl_interop_compiled_partition_execute_v2(const_dnnl_graph_compiled_partition_t compiled_partition,
                                                                   dnnl_stream_t stream,
                                                                   size_t num_inputs,
                                                                   const_dnnl_graph_tensor_t *inputs,
                                                                   size_t num_outputs,
                                                                   const_dnnl_graph_tensor_t *outputs,
                                                                   const_dnnl_graph_tensor_t scratchpad,
                                                                   const cl_event *deps,
                                                                   int ndeps,
                                                                   cl_event *return_event);

// Fills in a logical tensor of unknown dimensions.
dnnl_status_t dnnl_graph_logical_tensor_init(dnnl_graph_logical_tensor_t *logical_tensor,
                                             size_t tid,
                                             dnnl_data_type_t dtype,
                                             int32_t ndims,
                                             dnnl_graph_layout_type_t ltype,
                                             dnnl_graph_tensor_property_t ptype);

// Fills in a logical tensor. One with strides gets those of the dense row-major layout where all dimensions are known.
dnnl_status_t dnnl_graph_logical_tensor_init_with_dims(dnnl_graph_logical_tensor_t *logical_tensor,
                                                       size_t tid,
                                                       dnnl_data_type_t dtype,
                                                       int32_t ndims,
                                                       const int64_t *dims,
                                                       dnnl_graph_layout_type_t ltype,
                                                       dnnl_graph_tensor_property_t ptype);

// Fills in a logical tensor with strides in elements.
dnnl_status_t dnnl_graph_logical_tensor_init_with_strides(dnnl_graph_logical_tensor_t *logical_tensor,
                                                          size_t tid,
                                                          dnnl_data_type_t dtype,
                                                          int32_t ndims,
                                                          const int64_t *dims,
                                                          const int64_t *strides,
                                                          dnnl_graph_tensor_property_t ptype);

// Tells the bytes that a tensor takes: the largest number where that is not known.
dnnl_status_t dnnl_graph_logical_tensor_get_mem_size(const dnnl_graph_logical_tensor_t *logical_tensor,
                                                     size_t *size);

// Tells whether two logical tensors are the same, or at least the same bytes mean the same under both.
dnnl_status_t dnnl_graph_logical_tensor_is_equal(const dnnl_graph_logical_tensor_t *lt1,
                                                 const dnnl_graph_logical_tensor_t *lt2,
                                                 uint8_t *is_equal);

// Makes an operation without inputs and outputs.
dnnl_status_t dnnl_graph_op_create(dnnl_graph_op_t *op,
                                   size_t id,
                                   dnnl_graph_op_kind_t kind,
                                   const char *verbose_name);

// Ends an operation; null is none. Graphs that it was added to keep it.
dnnl_status_t dnnl_graph_op_destroy(dnnl_graph_op_t op);

// Adds an input.
dnnl_status_t dnnl_graph_op_add_input(dnnl_graph_op_t op, const dnnl_graph_logical_tensor_t *input);

// Adds an output.
dnnl_status_t dnnl_graph_op_add_output(dnnl_graph_op_t op,
                                       const dnnl_graph_logical_tensor_t *output);

// Sets an attribute of floats: one, or a list.
dnnl_status_t dnnl_graph_op_set_attr_f32(dnnl_graph_op_t op,
                                         dnnl_graph_op_attr_t name,
                                         const float *value,
                                         size_t value_len);

// Sets an attribute that is a truth value.
dnnl_status_t dnnl_graph_op_set_attr_bool(dnnl_graph_op_t op,
                                          dnnl_graph_op_attr_t name,
                                          const uint8_t *value,
                                          size_t value_len);

// Sets an attribute of integers: one, or a list.
dnnl_status_t dnnl_graph_op_set_attr_s64(dnnl_graph_op_t op,
                                         dnnl_graph_op_attr_t name,
                                         const int64_t *value,
                                         size_t value_len);

// Sets an attribute that is a word, which ends with a zero. `value_len` is not zero; it may count words, of which there is one, or bytes.
dnnl_status_t dnnl_graph_op_set_attr_str(dnnl_graph_op_t op,
                                         dnnl_graph_op_attr_t name,
                                         const char *value,
                                         size_t value_len);

// Tells the identity of an operation.
dnnl_status_t dnnl_graph_op_get_id(const_dnnl_graph_op_t op, size_t *id);

// Tells the kind of an operation.
dnnl_status_t dnnl_graph_op_get_kind(const_dnnl_graph_op_t op, dnnl_graph_op_kind_t *kind);

// Makes an empty graph for engines of a kind.
dnnl_status_t dnnl_graph_graph_create(dnnl_graph_graph_t *graph, dnnl_engine_kind_t engine_kind);

// Makes an empty graph that may use narrower arithmetic.
dnnl_status_t dnnl_graph_graph_create_with_fpmath_mode(dnnl_graph_graph_t *graph,
                                                       dnnl_engine_kind_t engine_kind,
                                                       dnnl_fpmath_mode_t mode);

// Ends a graph; null is none. Its partitions live on.
dnnl_status_t dnnl_graph_graph_destroy(dnnl_graph_graph_t graph);

// Sets which narrower arithmetic the graph may use, and whether integer work may use it too.
dnnl_status_t dnnl_graph_graph_set_fpmath_mode(dnnl_graph_graph_t graph,
                                               dnnl_fpmath_mode_t mode,
                                               int apply_to_int);

// Tells which narrower arithmetic the graph may use. Either result may be null.
dnnl_status_t dnnl_graph_graph_get_fpmath_mode(dnnl_graph_graph_t graph,
                                               dnnl_fpmath_mode_t *mode,
                                               int *apply_to_int);

// Adds an operation, which is checked. One whose identity is there already is ignored.
dnnl_status_t dnnl_graph_add_op(dnnl_graph_graph_t graph, dnnl_graph_op_t op);

// Ends the adding of operations.
dnnl_status_t dnnl_graph_graph_finalize(dnnl_graph_graph_t graph);

// Tells whether a graph is finalised.
dnnl_status_t dnnl_graph_graph_is_finalized(dnnl_graph_graph_t graph, uint8_t *finalized);

// Cuts a finalised graph into partitions, in place of those of an earlier call.
dnnl_status_t dnnl_graph_graph_filter(dnnl_graph_graph_t graph,
                                      dnnl_graph_partition_policy_t policy);

// Tells the number of partitions that the last filter gave.
dnnl_status_t dnnl_graph_graph_get_partition_num(const_dnnl_graph_graph_t graph, size_t *num);

// Gives handles of the partitions, every one after those it depends on. Handles beyond the number of partitions become null.
dnnl_status_t dnnl_graph_graph_get_partitions(dnnl_graph_graph_t graph,
                                              size_t num,
                                              dnnl_graph_partition_t *partitions);

// Sets what new graphs write to files, in place of what `ONEDNN_GRAPH_DUMP` says.
dnnl_status_t dnnl_graph_set_dump_mode(dnnl_graph_dump_mode_t modes);

// Makes a partition of one operation that is in no graph.
dnnl_status_t dnnl_graph_partition_create_with_op(dnnl_graph_partition_t *partition,
                                                  const_dnnl_graph_op_t op,
                                                  dnnl_engine_kind_t ekind);

// Ends a partition; null is none. What was compiled of it lives on.
dnnl_status_t dnnl_graph_partition_destroy(dnnl_graph_partition_t partition);

// Tells the number of operations.
dnnl_status_t dnnl_graph_partition_get_op_num(const_dnnl_graph_partition_t partition, size_t *num);

// Tells the identities of the operations; `num` is exactly their number.
dnnl_status_t dnnl_graph_partition_get_ops(dnnl_graph_partition_t partition,
                                           size_t num,
                                           size_t *ids);

// Tells the identity of a partition.
dnnl_status_t dnnl_graph_partition_get_id(const_dnnl_graph_partition_t partition, size_t *id);

// Tells the number of tensors that come from outside.
dnnl_status_t dnnl_graph_partition_get_input_ports_num(const_dnnl_graph_partition_t partition,
                                                       size_t *num);

// Tells the tensors that come from outside; `num` is exactly their number.
dnnl_status_t dnnl_graph_partition_get_input_ports(const_dnnl_graph_partition_t partition,
                                                   size_t num,
                                                   dnnl_graph_logical_tensor_t *inputs);

// Tells the number of tensors that leave.
dnnl_status_t dnnl_graph_partition_get_output_ports_num(const_dnnl_graph_partition_t partition,
                                                        size_t *num);

// Tells the tensors that leave; `num` is exactly their number.
dnnl_status_t dnnl_graph_partition_get_output_ports(const_dnnl_graph_partition_t partition,
                                                    size_t num,
                                                    dnnl_graph_logical_tensor_t *outputs);

// Tells whether a partition can be compiled.
dnnl_status_t dnnl_graph_partition_is_supported(const_dnnl_graph_partition_t partition,
                                                uint8_t *is_supported);

// Tells the kind of engine that a partition is for.
dnnl_status_t dnnl_graph_partition_get_engine_kind(const_dnnl_graph_partition_t partition,
                                                   dnnl_engine_kind_t *kind);

// Makes a tensor at an address that the engine can read, `DNNL_MEMORY_ALLOCATE` for memory of the engine's allocator, or
// `DNNL_MEMORY_NONE`.
dnnl_status_t dnnl_graph_tensor_create(dnnl_graph_tensor_t *tensor,
                                       const dnnl_graph_logical_tensor_t *logical_tensor,
                                       dnnl_engine_t engine,
                                       void *handle);

// Makes a tensor of a buffer object; oneDNN has no such tensors. The buffer object is retained.
dnnl_status_t anydnn_graph_tensor_create_with_mem_object(dnnl_graph_tensor_t *tensor,
                                                         const dnnl_graph_logical_tensor_t *logical_tensor,
                                                         dnnl_engine_t engine,
                                                         cl_mem mem_object);

// Makes a tensor of one value on the host, which is copied.
dnnl_status_t dnnl_graph_tensor_create_scalar(dnnl_graph_tensor_t *tensor,
                                              const dnnl_graph_logical_tensor_t *logical_tensor,
                                              void *handle);

// Ends a tensor; null is none.
dnnl_status_t dnnl_graph_tensor_destroy(dnnl_graph_tensor_t tensor);

// Tells the address of a tensor's bytes, its buffer object, or where a value on the host is kept.
dnnl_status_t dnnl_graph_tensor_get_data_handle(const_dnnl_graph_tensor_t tensor, void **handle);

// Sets the address of a tensor's bytes, or its buffer object.
dnnl_status_t dnnl_graph_tensor_set_data_handle(dnnl_graph_tensor_t tensor, void *handle);

// Tells the engine of a tensor; null for a value on the host.
dnnl_status_t dnnl_graph_tensor_get_engine(const_dnnl_graph_tensor_t tensor, dnnl_engine_t *engine);

// Tells the logical tensor of a tensor.
dnnl_status_t dnnl_graph_tensor_get_logical_tensor(const_dnnl_graph_tensor_t tensor,
                                                   dnnl_graph_logical_tensor_t *logical_tensor);

// Describes the normalisation of each sample's groups of channels.
dnnl_status_t dnnl_group_normalization_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                     dnnl_engine_t engine,
                                                                     dnnl_prop_kind_t prop_kind,
                                                                     const_dnnl_memory_desc_t src_desc,
                                                                     const_dnnl_memory_desc_t dst_desc,
                                                                     dnnl_dim_t groups,
                                                                     float epsilon,
                                                                     dnnl_normalization_flags_t flags,
                                                                     const_dnnl_primitive_attr_t attr);

// Describes the gradient of a group normalisation for its source, and for scale and shift unless for data alone.
dnnl_status_t dnnl_group_normalization_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                      dnnl_engine_t engine,
                                                                      dnnl_prop_kind_t prop_kind,
                                                                      const_dnnl_memory_desc_t diff_src_desc,
                                                                      const_dnnl_memory_desc_t diff_dst_desc,
                                                                      const_dnnl_memory_desc_t src_desc,
                                                                      dnnl_dim_t groups,
                                                                      float epsilon,
                                                                      dnnl_normalization_flags_t flags,
                                                                      const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                      const_dnnl_primitive_attr_t attr);

// Describes a fully connected layer: `src` `[N, C, spatial..]`, `weights` `[O, C, spatial..]`, an optional bias `[O]`, `dst` `[N, O]`.
dnnl_status_t dnnl_inner_product_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                               dnnl_engine_t engine,
                                                               dnnl_prop_kind_t prop_kind,
                                                               const_dnnl_memory_desc_t src_desc,
                                                               const_dnnl_memory_desc_t weights_desc,
                                                               const_dnnl_memory_desc_t bias_desc,
                                                               const_dnnl_memory_desc_t dst_desc,
                                                               const_dnnl_primitive_attr_t attr);

// Describes the gradient of a fully connected layer for its source.
dnnl_status_t dnnl_inner_product_backward_data_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                     dnnl_engine_t engine,
                                                                     const_dnnl_memory_desc_t diff_src_desc,
                                                                     const_dnnl_memory_desc_t weights_desc,
                                                                     const_dnnl_memory_desc_t diff_dst_desc,
                                                                     const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                     const_dnnl_primitive_attr_t attr);

// Describes the gradient of a fully connected layer for its weights, and for its bias where there is one.
dnnl_status_t dnnl_inner_product_backward_weights_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                        dnnl_engine_t engine,
                                                                        const_dnnl_memory_desc_t src_desc,
                                                                        const_dnnl_memory_desc_t diff_weights_desc,
                                                                        const_dnnl_memory_desc_t diff_bias_desc,
                                                                        const_dnnl_memory_desc_t diff_dst_desc,
                                                                        const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                        const_dnnl_primitive_attr_t attr);

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

// Describes the normalisation along the last dimension, with scale and shift in f32.
dnnl_status_t dnnl_layer_normalization_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                     dnnl_engine_t engine,
                                                                     dnnl_prop_kind_t prop_kind,
                                                                     const_dnnl_memory_desc_t src_desc,
                                                                     const_dnnl_memory_desc_t dst_desc,
                                                                     const_dnnl_memory_desc_t stat_desc,
                                                                     float epsilon,
                                                                     dnnl_normalization_flags_t flags,
                                                                     const_dnnl_primitive_attr_t attr);

// Describes the normalisation along the last dimension, with scale and shift of a type.
dnnl_status_t dnnl_layer_normalization_forward_primitive_desc_create_v2(dnnl_primitive_desc_t *primitive_desc,
                                                                        dnnl_engine_t engine,
                                                                        dnnl_prop_kind_t prop_kind,
                                                                        const_dnnl_memory_desc_t src_desc,
                                                                        const_dnnl_memory_desc_t dst_desc,
                                                                        const_dnnl_memory_desc_t stat_desc,
                                                                        dnnl_data_type_t scale_shift_data_type,
                                                                        float epsilon,
                                                                        dnnl_normalization_flags_t flags,
                                                                        const_dnnl_primitive_attr_t attr);

// Describes the gradient of a layer normalisation, with scale and shift in f32.
dnnl_status_t dnnl_layer_normalization_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                                      dnnl_engine_t engine,
                                                                      dnnl_prop_kind_t prop_kind,
                                                                      const_dnnl_memory_desc_t diff_src_desc,
                                                                      const_dnnl_memory_desc_t diff_dst_desc,
                                                                      const_dnnl_memory_desc_t src_desc,
                                                                      const_dnnl_memory_desc_t stat_desc,
                                                                      float epsilon,
                                                                      dnnl_normalization_flags_t flags,
                                                                      const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                      const_dnnl_primitive_attr_t attr);

// Describes the gradient of a layer normalisation, with scale and shift and their gradients of types.
dnnl_status_t dnnl_layer_normalization_backward_primitive_desc_create_v2(dnnl_primitive_desc_t *primitive_desc,
                                                                         dnnl_engine_t engine,
                                                                         dnnl_prop_kind_t prop_kind,
                                                                         const_dnnl_memory_desc_t diff_src_desc,
                                                                         const_dnnl_memory_desc_t diff_dst_desc,
                                                                         const_dnnl_memory_desc_t src_desc,
                                                                         const_dnnl_memory_desc_t stat_desc,
                                                                         dnnl_data_type_t diff_scale_shift_data_type,
                                                                         dnnl_data_type_t scale_shift_data_type,
                                                                         float epsilon,
                                                                         dnnl_normalization_flags_t flags,
                                                                         const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                                         const_dnnl_primitive_attr_t attr);

// Describes local response normalisation: `x * (k + alpha / size * sum of neighbours' squares)^-beta`, across channels or within each.
dnnl_status_t dnnl_lrn_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                     dnnl_engine_t engine,
                                                     dnnl_prop_kind_t prop_kind,
                                                     dnnl_alg_kind_t alg_kind,
                                                     const_dnnl_memory_desc_t src_desc,
                                                     const_dnnl_memory_desc_t dst_desc,
                                                     dnnl_dim_t local_size,
                                                     float alpha,
                                                     float beta,
                                                     float k,
                                                     const_dnnl_primitive_attr_t attr);

// Describes the gradient of local response normalisation from its source.
dnnl_status_t dnnl_lrn_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                      dnnl_engine_t engine,
                                                      dnnl_alg_kind_t alg_kind,
                                                      const_dnnl_memory_desc_t diff_src_desc,
                                                      const_dnnl_memory_desc_t diff_dst_desc,
                                                      const_dnnl_memory_desc_t src_desc,
                                                      dnnl_dim_t local_size,
                                                      float alpha,
                                                      float beta,
                                                      float k,
                                                      const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                      const_dnnl_primitive_attr_t attr);

// Describes a (batched) product of matrices, with an optional bias that broadcasts to the result. Any layout may be open.
dnnl_status_t dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                dnnl_engine_t engine,
                                                const_dnnl_memory_desc_t src_desc,
                                                const_dnnl_memory_desc_t weights_desc,
                                                const_dnnl_memory_desc_t bias_desc,
                                                const_dnnl_memory_desc_t dst_desc,
                                                const_dnnl_primitive_attr_t attr);

// The instruction set that the library uses: none in particular, because it has no engines of processors of its own.
dnnl_cpu_isa_t dnnl_get_effective_cpu_isa(void);

// Makes memory on an engine. `handle` is an address on the host, a buffer object on a device, `DNNL_MEMORY_ALLOCATE` or `DNNL_MEMORY_NONE`.
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

// Describes the maximum or average over windows. For training, a maximum keeps its source as workspace.
dnnl_status_t dnnl_pooling_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                         dnnl_engine_t engine,
                                                         dnnl_prop_kind_t prop_kind,
                                                         dnnl_alg_kind_t alg_kind,
                                                         const_dnnl_memory_desc_t src_desc,
                                                         const_dnnl_memory_desc_t dst_desc,
                                                         const dnnl_dim_t *strides,
                                                         const dnnl_dim_t *kernel,
                                                         const dnnl_dim_t *dilation,
                                                         const dnnl_dim_t *padding_l,
                                                         const dnnl_dim_t *padding_r,
                                                         const_dnnl_primitive_attr_t attr);

// Describes the gradient of a pooling for its source. That of a maximum reads the workspace of the forward pass.
dnnl_status_t dnnl_pooling_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                          dnnl_engine_t engine,
                                                          dnnl_alg_kind_t alg_kind,
                                                          const_dnnl_memory_desc_t diff_src_desc,
                                                          const_dnnl_memory_desc_t diff_dst_desc,
                                                          const dnnl_dim_t *strides,
                                                          const dnnl_dim_t *kernel,
                                                          const dnnl_dim_t *dilation,
                                                          const dnnl_dim_t *padding_l,
                                                          const dnnl_dim_t *padding_r,
                                                          const_dnnl_primitive_desc_t hint_fwd_pd,
                                                          const_dnnl_primitive_attr_t attr);

// Makes an empty list of post-operations.
dnnl_status_t dnnl_post_ops_create(dnnl_post_ops_t *post_ops);

// Copies a list of post-operations.
dnnl_status_t dnnl_post_ops_clone(dnnl_post_ops_t *post_ops,
                                  const_dnnl_post_ops_t existing_post_ops);

// Ends a list of post-operations; null is none.
dnnl_status_t dnnl_post_ops_destroy(dnnl_post_ops_t post_ops);

// The number of post-operations; zero for null.
int dnnl_post_ops_len(const_dnnl_post_ops_t post_ops);

// The kind of a post-operation, as that of a primitive; zero where there is none.
int dnnl_post_ops_get_kind(const_dnnl_post_ops_t post_ops, int index);

// Appends the old content of the result, read as `data_type` (its own for none): `scale * (old - zero_point)` is added.
dnnl_status_t dnnl_post_ops_append_sum(dnnl_post_ops_t post_ops,
                                       float scale,
                                       int32_t zero_point,
                                       dnnl_data_type_t data_type);

// Appends a function of the result element.
dnnl_status_t dnnl_post_ops_append_eltwise(dnnl_post_ops_t post_ops,
                                           dnnl_alg_kind_t alg_kind,
                                           float alpha,
                                           float beta);

// Appends a depthwise convolution. No primitive takes it yet.
dnnl_status_t dnnl_post_ops_append_dw(dnnl_post_ops_t post_ops,
                                      dnnl_data_type_t weights_data_type,
                                      dnnl_data_type_t bias_data_type,
                                      dnnl_data_type_t dst_data_type,
                                      dnnl_dim_t kernel_size,
                                      dnnl_dim_t stride_size,
                                      dnnl_dim_t padding_l_size);

// Appends a function of a result element and one of another tensor, which broadcasts to the result.
dnnl_status_t dnnl_post_ops_append_binary(dnnl_post_ops_t post_ops,
                                          dnnl_alg_kind_t alg_kind,
                                          const_dnnl_memory_desc_t src1_desc);

// Appends a function of a result element and one or two of other tensors; the second is the condition of a choice.
dnnl_status_t dnnl_post_ops_append_binary_v2(dnnl_post_ops_t post_ops,
                                             dnnl_alg_kind_t alg_kind,
                                             const_dnnl_memory_desc_t src1_desc,
                                             const_dnnl_memory_desc_t src2_desc);

// Appends a rectifier whose slope below zero comes from a tensor that differs along the dimensions of a mask.
dnnl_status_t dnnl_post_ops_append_prelu(dnnl_post_ops_t post_ops,
                                         int mask);

// Tells the parameters of a sum.
dnnl_status_t dnnl_post_ops_get_params_sum(const_dnnl_post_ops_t post_ops,
                                           int index,
                                           float *scale,
                                           int32_t *zero_point,
                                           dnnl_data_type_t *data_type);

// Tells the parameters of a function.
dnnl_status_t dnnl_post_ops_get_params_eltwise(const_dnnl_post_ops_t post_ops,
                                               int index,
                                               dnnl_alg_kind_t *alg_kind,
                                               float *alpha,
                                               float *beta);

// Tells the parameters of a depthwise convolution.
dnnl_status_t dnnl_post_ops_get_params_dw(const_dnnl_post_ops_t post_ops,
                                          int index,
                                          dnnl_data_type_t *weights_data_type,
                                          dnnl_data_type_t *bias_data_type,
                                          dnnl_data_type_t *dst_data_type,
                                          dnnl_dim_t *kernel_size,
                                          dnnl_dim_t *stride_size,
                                          dnnl_dim_t *padding_l_size);

// Tells the parameters of a binary function; the descriptor is lent.
dnnl_status_t dnnl_post_ops_get_params_binary(const_dnnl_post_ops_t post_ops,
                                              int index,
                                              dnnl_alg_kind_t *alg_kind,
                                              const_dnnl_memory_desc_t *src1_desc);

// Tells the parameters of a binary function or a choice; the descriptors are lent, null for none.
dnnl_status_t dnnl_post_ops_get_params_binary_v2(const_dnnl_post_ops_t post_ops,
                                                 int index,
                                                 dnnl_alg_kind_t *alg_kind,
                                                 const_dnnl_memory_desc_t *src1_desc,
                                                 const_dnnl_memory_desc_t *src2_desc);

// Tells the mask of a rectifier with slopes.
dnnl_status_t dnnl_post_ops_get_params_prelu(const_dnnl_post_ops_t post_ops, int index, int *mask);

// Describes a rectifier whose slope below zero comes from weights, which broadcast to the source.
dnnl_status_t dnnl_prelu_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                       dnnl_engine_t engine,
                                                       dnnl_prop_kind_t prop_kind,
                                                       const_dnnl_memory_desc_t src_desc,
                                                       const_dnnl_memory_desc_t weights_desc,
                                                       const_dnnl_memory_desc_t dst_desc,
                                                       const_dnnl_primitive_attr_t attr);

// Describes the gradient of a rectifier for its source and its weights.
dnnl_status_t dnnl_prelu_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                        dnnl_engine_t engine,
                                                        const_dnnl_memory_desc_t src_desc,
                                                        const_dnnl_memory_desc_t weights_desc,
                                                        const_dnnl_memory_desc_t diff_src_desc,
                                                        const_dnnl_memory_desc_t diff_weights_desc,
                                                        const_dnnl_memory_desc_t diff_dst_desc,
                                                        const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                        const_dnnl_primitive_attr_t attr);

// Ends the description of a primitive; null is none.
dnnl_status_t dnnl_primitive_desc_destroy(dnnl_primitive_desc_t primitive_desc);

// Compiles a primitive.
dnnl_status_t dnnl_primitive_create(dnnl_primitive_t *primitive,
                                    const_dnnl_primitive_desc_t primitive_desc);

// Compiles a primitive with what another one's blob holds. What an engine has compiled is kept with the engine, so that the blob says
// nothing more.
dnnl_status_t dnnl_primitive_create_from_cache_blob(dnnl_primitive_t *primitive,
                                                    const_dnnl_primitive_desc_t primitive_desc,
                                                    size_t size,
                                                    const uint8_t *cache_blob);

// What [`dnnl_primitive_create_from_cache_blob`] takes: the size where `cache_blob` is null, else the bytes.
dnnl_status_t dnnl_primitive_get_cache_blob(const_dnnl_primitive_t primitive,
                                            size_t *size,
                                            uint8_t *cache_blob);

// Lends the description of a primitive, until the primitive ends.
dnnl_status_t dnnl_primitive_get_primitive_desc(const_dnnl_primitive_t primitive,
                                                const_dnnl_primitive_desc_t *primitive_desc);

// Ends a primitive; null is none. Executions on their way are finished.
dnnl_status_t dnnl_primitive_destroy(dnnl_primitive_t primitive);

// Goes on to another implementation: there is one only.
dnnl_status_t dnnl_primitive_desc_next_impl(dnnl_primitive_desc_t primitive_desc);

// Copies a description.
dnnl_status_t dnnl_primitive_desc_clone(dnnl_primitive_desc_t *primitive_desc,
                                        const_dnnl_primitive_desc_t existing_primitive_desc);

// Lends the attributes, until the description ends.
dnnl_status_t dnnl_primitive_desc_get_attr(const_dnnl_primitive_desc_t primitive_desc,
                                           const_dnnl_primitive_attr_t *attr);

// Lends the descriptor of an operand, until the description ends; an empty one for an operand that the primitive does not have. Null for
// what is no query of a descriptor.
const_dnnl_memory_desc_t dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t primitive_desc,
                                                      dnnl_query_t what,
                                                      int index);

// A number that a description tells; zero for what it does not.
int dnnl_primitive_desc_query_s32(const_dnnl_primitive_desc_t primitive_desc,
                                  dnnl_query_t what,
                                  int index);

// Writes what a query asks for, of the type that goes with the query.
dnnl_status_t dnnl_primitive_desc_query(const_dnnl_primitive_desc_t primitive_desc,
                                        dnnl_query_t what,
                                        int index,
                                        void *result);

// Whether generated code is written to files: there is none to write.
dnnl_status_t dnnl_set_jit_dump(int _enable);

// Which profilers are told of generated code: there is none to tell of.
dnnl_status_t dnnl_set_jit_profiling_flags(unsigned int flags);

// Where the profiler `perf` finds generated code: there is none to find.
dnnl_status_t dnnl_set_jit_profiling_jitdumpdir(const char *dir);

// The most instructions of a processor that may be used. `OpenCL` drivers decide that themselves.
dnnl_status_t dnnl_set_max_cpu_isa(dnnl_cpu_isa_t isa);

// Hints for instruction sets of processors: 0 none, 1 vectors of 256 bits rather than 512. Once in a process.
dnnl_status_t dnnl_set_cpu_isa_hints(int isa_hints);

// The hints that were given; none at first.
int dnnl_get_cpu_isa_hints(void);

// Tells how many primitives the cache may keep.
dnnl_status_t dnnl_get_primitive_cache_capacity(int *capacity);

// Says how many primitives each engine may keep for others that are the same; the default is 1024, or what `ONEDNN_PRIMITIVE_CACHE_CAPACITY`
// says.
dnnl_status_t dnnl_set_primitive_cache_capacity(int capacity);

// Forgets the executions so far.
dnnl_status_t dnnl_reset_profiling(dnnl_stream_t stream);

// Tells the number of executions where `data` is null, else what each took. `data` has room for `*num_entries`, which becomes the
// number of those written.
dnnl_status_t dnnl_query_profiling_data(dnnl_stream_t stream,
                                        dnnl_profiling_data_kind_t data_kind,
                                        int *num_entries,
                                        uint64_t *data);

// Describes the forward pass of layers of vanilla cells, whose activation is a relu with slope `alpha` below zero, a tanh or a logistic function.
dnnl_status_t dnnl_vanilla_rnn_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                             dnnl_engine_t engine,
                                                             dnnl_prop_kind_t prop_kind,
                                                             dnnl_alg_kind_t activation,
                                                             int direction,
                                                             const_dnnl_memory_desc_t src_layer_desc,
                                                             const_dnnl_memory_desc_t src_iter_desc,
                                                             const_dnnl_memory_desc_t weights_layer_desc,
                                                             const_dnnl_memory_desc_t weights_iter_desc,
                                                             const_dnnl_memory_desc_t bias_desc,
                                                             const_dnnl_memory_desc_t dst_layer_desc,
                                                             const_dnnl_memory_desc_t dst_iter_desc,
                                                             unsigned int flags,
                                                             float alpha,
                                                             float beta,
                                                             const_dnnl_primitive_attr_t attr);

// Describes the forward pass of layers of long short-term memory, with peepholes and a projection or without.
dnnl_status_t dnnl_lstm_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                      dnnl_engine_t engine,
                                                      dnnl_prop_kind_t prop_kind,
                                                      int direction,
                                                      const_dnnl_memory_desc_t src_layer_desc,
                                                      const_dnnl_memory_desc_t src_iter_desc,
                                                      const_dnnl_memory_desc_t src_iter_c_desc,
                                                      const_dnnl_memory_desc_t weights_layer_desc,
                                                      const_dnnl_memory_desc_t weights_iter_desc,
                                                      const_dnnl_memory_desc_t weights_peephole_desc,
                                                      const_dnnl_memory_desc_t weights_projection_desc,
                                                      const_dnnl_memory_desc_t bias_desc,
                                                      const_dnnl_memory_desc_t dst_layer_desc,
                                                      const_dnnl_memory_desc_t dst_iter_desc,
                                                      const_dnnl_memory_desc_t dst_iter_c_desc,
                                                      unsigned int flags,
                                                      const_dnnl_primitive_attr_t attr);

// Describes the forward pass of layers of gated recurrent units.
dnnl_status_t dnnl_gru_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                     dnnl_engine_t engine,
                                                     dnnl_prop_kind_t prop_kind,
                                                     int direction,
                                                     const_dnnl_memory_desc_t src_layer_desc,
                                                     const_dnnl_memory_desc_t src_iter_desc,
                                                     const_dnnl_memory_desc_t weights_layer_desc,
                                                     const_dnnl_memory_desc_t weights_iter_desc,
                                                     const_dnnl_memory_desc_t bias_desc,
                                                     const_dnnl_memory_desc_t dst_layer_desc,
                                                     const_dnnl_memory_desc_t dst_iter_desc,
                                                     unsigned int flags,
                                                     const_dnnl_primitive_attr_t attr);

// The same with a linear product before the reset; the bias has a fourth row, which is added to the candidate's product of the state.
dnnl_status_t dnnl_lbr_gru_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                         dnnl_engine_t engine,
                                                         dnnl_prop_kind_t prop_kind,
                                                         int direction,
                                                         const_dnnl_memory_desc_t src_layer_desc,
                                                         const_dnnl_memory_desc_t src_iter_desc,
                                                         const_dnnl_memory_desc_t weights_layer_desc,
                                                         const_dnnl_memory_desc_t weights_iter_desc,
                                                         const_dnnl_memory_desc_t bias_desc,
                                                         const_dnnl_memory_desc_t dst_layer_desc,
                                                         const_dnnl_memory_desc_t dst_iter_desc,
                                                         unsigned int flags,
                                                         const_dnnl_primitive_attr_t attr);

// Describes the forward pass of layers of gated recurrent units with an attention for each step.
dnnl_status_t dnnl_augru_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                       dnnl_engine_t engine,
                                                       dnnl_prop_kind_t prop_kind,
                                                       int direction,
                                                       const_dnnl_memory_desc_t src_layer_desc,
                                                       const_dnnl_memory_desc_t src_iter_desc,
                                                       const_dnnl_memory_desc_t attention_desc,
                                                       const_dnnl_memory_desc_t weights_layer_desc,
                                                       const_dnnl_memory_desc_t weights_iter_desc,
                                                       const_dnnl_memory_desc_t bias_desc,
                                                       const_dnnl_memory_desc_t dst_layer_desc,
                                                       const_dnnl_memory_desc_t dst_iter_desc,
                                                       unsigned int flags,
                                                       const_dnnl_primitive_attr_t attr);

// The same with a linear product before the reset.
dnnl_status_t dnnl_lbr_augru_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                           dnnl_engine_t engine,
                                                           dnnl_prop_kind_t prop_kind,
                                                           int direction,
                                                           const_dnnl_memory_desc_t src_layer_desc,
                                                           const_dnnl_memory_desc_t src_iter_desc,
                                                           const_dnnl_memory_desc_t attention_desc,
                                                           const_dnnl_memory_desc_t weights_layer_desc,
                                                           const_dnnl_memory_desc_t weights_iter_desc,
                                                           const_dnnl_memory_desc_t bias_desc,
                                                           const_dnnl_memory_desc_t dst_layer_desc,
                                                           const_dnnl_memory_desc_t dst_iter_desc,
                                                           unsigned int flags,
                                                           const_dnnl_primitive_attr_t attr);

// Says how inputs and states are stored as integers: `scale * x + shift`.
dnnl_status_t dnnl_primitive_attr_set_rnn_data_qparams(dnnl_primitive_attr_t attr,
                                                       float scale,
                                                       float shift);

// Tells how inputs and states are stored as integers.
dnnl_status_t dnnl_primitive_attr_get_rnn_data_qparams(const_dnnl_primitive_attr_t attr,
                                                       float *scale,
                                                       float *shift);

// Says by what weights were multiplied before they became integers, along the dimensions in the bits of `mask`.
dnnl_status_t dnnl_primitive_attr_set_rnn_weights_qparams(dnnl_primitive_attr_t attr,
                                                          dnnl_dim_t count,
                                                          int mask,
                                                          const float *scales);

// Tells by what weights were multiplied. The numbers are lent until the attributes get others or end.
dnnl_status_t dnnl_primitive_attr_get_rnn_weights_qparams(const_dnnl_primitive_attr_t attr,
                                                          dnnl_dim_t *count,
                                                          int *mask,
                                                          const float **scales);

// Says by what the weights of a projection were multiplied; see [`dnnl_primitive_attr_set_rnn_weights_qparams`].
dnnl_status_t dnnl_primitive_attr_set_rnn_weights_projection_qparams(dnnl_primitive_attr_t attr,
                                                                     dnnl_dim_t count,
                                                                     int mask,
                                                                     const float *scales);

// Tells by what the weights of a projection were multiplied; see [`dnnl_primitive_attr_get_rnn_weights_qparams`].
dnnl_status_t dnnl_primitive_attr_get_rnn_weights_projection_qparams(const_dnnl_primitive_attr_t attr,
                                                                     dnnl_dim_t *count,
                                                                     int *mask,
                                                                     const float **scales);

// Describes the gradients of layers of vanilla cells. Those by weights are added to what is there, unless the flags say that they take its
// place.
dnnl_status_t dnnl_vanilla_rnn_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                              dnnl_engine_t engine,
                                                              dnnl_prop_kind_t prop_kind,
                                                              dnnl_alg_kind_t activation,
                                                              int direction,
                                                              const_dnnl_memory_desc_t src_layer_desc,
                                                              const_dnnl_memory_desc_t src_iter_desc,
                                                              const_dnnl_memory_desc_t weights_layer_desc,
                                                              const_dnnl_memory_desc_t weights_iter_desc,
                                                              const_dnnl_memory_desc_t bias_desc,
                                                              const_dnnl_memory_desc_t dst_layer_desc,
                                                              const_dnnl_memory_desc_t dst_iter_desc,
                                                              const_dnnl_memory_desc_t diff_src_layer_desc,
                                                              const_dnnl_memory_desc_t diff_src_iter_desc,
                                                              const_dnnl_memory_desc_t diff_weights_layer_desc,
                                                              const_dnnl_memory_desc_t diff_weights_iter_desc,
                                                              const_dnnl_memory_desc_t diff_bias_desc,
                                                              const_dnnl_memory_desc_t diff_dst_layer_desc,
                                                              const_dnnl_memory_desc_t diff_dst_iter_desc,
                                                              unsigned int flags,
                                                              float alpha,
                                                              float beta,
                                                              const_dnnl_primitive_desc_t hint_fwd_pd,
                                                              const_dnnl_primitive_attr_t attr);

// Describes the gradients of layers of long short-term memory; see [`dnnl_vanilla_rnn_backward_primitive_desc_create`].
dnnl_status_t dnnl_lstm_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                       dnnl_engine_t engine,
                                                       dnnl_prop_kind_t prop_kind,
                                                       int direction,
                                                       const_dnnl_memory_desc_t src_layer_desc,
                                                       const_dnnl_memory_desc_t src_iter_desc,
                                                       const_dnnl_memory_desc_t src_iter_c_desc,
                                                       const_dnnl_memory_desc_t weights_layer_desc,
                                                       const_dnnl_memory_desc_t weights_iter_desc,
                                                       const_dnnl_memory_desc_t weights_peephole_desc,
                                                       const_dnnl_memory_desc_t weights_projection_desc,
                                                       const_dnnl_memory_desc_t bias_desc,
                                                       const_dnnl_memory_desc_t dst_layer_desc,
                                                       const_dnnl_memory_desc_t dst_iter_desc,
                                                       const_dnnl_memory_desc_t dst_iter_c_desc,
                                                       const_dnnl_memory_desc_t diff_src_layer_desc,
                                                       const_dnnl_memory_desc_t diff_src_iter_desc,
                                                       const_dnnl_memory_desc_t diff_src_iter_c_desc,
                                                       const_dnnl_memory_desc_t diff_weights_layer_desc,
                                                       const_dnnl_memory_desc_t diff_weights_iter_desc,
                                                       const_dnnl_memory_desc_t diff_weights_peephole_desc,
                                                       const_dnnl_memory_desc_t diff_weights_projection_desc,
                                                       const_dnnl_memory_desc_t diff_bias_desc,
                                                       const_dnnl_memory_desc_t diff_dst_layer_desc,
                                                       const_dnnl_memory_desc_t diff_dst_iter_desc,
                                                       const_dnnl_memory_desc_t diff_dst_iter_c_desc,
                                                       unsigned int flags,
                                                       const_dnnl_primitive_desc_t hint_fwd_pd,
                                                       const_dnnl_primitive_attr_t attr);

// Describes the gradients of layers of gated recurrent units; see [`dnnl_vanilla_rnn_backward_primitive_desc_create`].
dnnl_status_t dnnl_gru_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                      dnnl_engine_t engine,
                                                      dnnl_prop_kind_t prop_kind,
                                                      int direction,
                                                      const_dnnl_memory_desc_t src_layer_desc,
                                                      const_dnnl_memory_desc_t src_iter_desc,
                                                      const_dnnl_memory_desc_t weights_layer_desc,
                                                      const_dnnl_memory_desc_t weights_iter_desc,
                                                      const_dnnl_memory_desc_t bias_desc,
                                                      const_dnnl_memory_desc_t dst_layer_desc,
                                                      const_dnnl_memory_desc_t dst_iter_desc,
                                                      const_dnnl_memory_desc_t diff_src_layer_desc,
                                                      const_dnnl_memory_desc_t diff_src_iter_desc,
                                                      const_dnnl_memory_desc_t diff_weights_layer_desc,
                                                      const_dnnl_memory_desc_t diff_weights_iter_desc,
                                                      const_dnnl_memory_desc_t diff_bias_desc,
                                                      const_dnnl_memory_desc_t diff_dst_layer_desc,
                                                      const_dnnl_memory_desc_t diff_dst_iter_desc,
                                                      unsigned int flags,
                                                      const_dnnl_primitive_desc_t hint_fwd_pd,
                                                      const_dnnl_primitive_attr_t attr);

// The same with a linear product before the reset.
dnnl_status_t dnnl_lbr_gru_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                          dnnl_engine_t engine,
                                                          dnnl_prop_kind_t prop_kind,
                                                          int direction,
                                                          const_dnnl_memory_desc_t src_layer_desc,
                                                          const_dnnl_memory_desc_t src_iter_desc,
                                                          const_dnnl_memory_desc_t weights_layer_desc,
                                                          const_dnnl_memory_desc_t weights_iter_desc,
                                                          const_dnnl_memory_desc_t bias_desc,
                                                          const_dnnl_memory_desc_t dst_layer_desc,
                                                          const_dnnl_memory_desc_t dst_iter_desc,
                                                          const_dnnl_memory_desc_t diff_src_layer_desc,
                                                          const_dnnl_memory_desc_t diff_src_iter_desc,
                                                          const_dnnl_memory_desc_t diff_weights_layer_desc,
                                                          const_dnnl_memory_desc_t diff_weights_iter_desc,
                                                          const_dnnl_memory_desc_t diff_bias_desc,
                                                          const_dnnl_memory_desc_t diff_dst_layer_desc,
                                                          const_dnnl_memory_desc_t diff_dst_iter_desc,
                                                          unsigned int flags,
                                                          const_dnnl_primitive_desc_t hint_fwd_pd,
                                                          const_dnnl_primitive_attr_t attr);

// The same of gated recurrent units with an attention for each step.
dnnl_status_t dnnl_augru_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                        dnnl_engine_t engine,
                                                        dnnl_prop_kind_t prop_kind,
                                                        int direction,
                                                        const_dnnl_memory_desc_t src_layer_desc,
                                                        const_dnnl_memory_desc_t src_iter_desc,
                                                        const_dnnl_memory_desc_t attention_desc,
                                                        const_dnnl_memory_desc_t weights_layer_desc,
                                                        const_dnnl_memory_desc_t weights_iter_desc,
                                                        const_dnnl_memory_desc_t bias_desc,
                                                        const_dnnl_memory_desc_t dst_layer_desc,
                                                        const_dnnl_memory_desc_t dst_iter_desc,
                                                        const_dnnl_memory_desc_t diff_src_layer_desc,
                                                        const_dnnl_memory_desc_t diff_src_iter_desc,
                                                        const_dnnl_memory_desc_t diff_attention_desc,
                                                        const_dnnl_memory_desc_t diff_weights_layer_desc,
                                                        const_dnnl_memory_desc_t diff_weights_iter_desc,
                                                        const_dnnl_memory_desc_t diff_bias_desc,
                                                        const_dnnl_memory_desc_t diff_dst_layer_desc,
                                                        const_dnnl_memory_desc_t diff_dst_iter_desc,
                                                        unsigned int flags,
                                                        const_dnnl_primitive_desc_t hint_fwd_pd,
                                                        const_dnnl_primitive_attr_t attr);

// The same with a linear product before the reset, too.
dnnl_status_t dnnl_lbr_augru_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                            dnnl_engine_t engine,
                                                            dnnl_prop_kind_t prop_kind,
                                                            int direction,
                                                            const_dnnl_memory_desc_t src_layer_desc,
                                                            const_dnnl_memory_desc_t src_iter_desc,
                                                            const_dnnl_memory_desc_t attention_desc,
                                                            const_dnnl_memory_desc_t weights_layer_desc,
                                                            const_dnnl_memory_desc_t weights_iter_desc,
                                                            const_dnnl_memory_desc_t bias_desc,
                                                            const_dnnl_memory_desc_t dst_layer_desc,
                                                            const_dnnl_memory_desc_t dst_iter_desc,
                                                            const_dnnl_memory_desc_t diff_src_layer_desc,
                                                            const_dnnl_memory_desc_t diff_src_iter_desc,
                                                            const_dnnl_memory_desc_t diff_attention_desc,
                                                            const_dnnl_memory_desc_t diff_weights_layer_desc,
                                                            const_dnnl_memory_desc_t diff_weights_iter_desc,
                                                            const_dnnl_memory_desc_t diff_bias_desc,
                                                            const_dnnl_memory_desc_t diff_dst_layer_desc,
                                                            const_dnnl_memory_desc_t diff_dst_iter_desc,
                                                            unsigned int flags,
                                                            const_dnnl_primitive_desc_t hint_fwd_pd,
                                                            const_dnnl_primitive_attr_t attr);

// Describes a fold along the dimensions in which the result has one element.
dnnl_status_t dnnl_reduction_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                   dnnl_engine_t engine,
                                                   dnnl_alg_kind_t alg_kind,
                                                   const_dnnl_memory_desc_t src_desc,
                                                   const_dnnl_memory_desc_t dst_desc,
                                                   float p,
                                                   float eps,
                                                   const_dnnl_primitive_attr_t attr);

// Describes a copy from one engine's memory to another's, or to the same one's. It runs on streams of the target's engine; from a device to
// the host, on those of the device.
dnnl_status_t dnnl_reorder_primitive_desc_create(dnnl_primitive_desc_t *reorder_primitive_desc,
                                                 const_dnnl_memory_desc_t src_desc,
                                                 dnnl_engine_t src_engine,
                                                 const_dnnl_memory_desc_t dst_desc,
                                                 dnnl_engine_t dst_engine,
                                                 const_dnnl_primitive_attr_t attr);

// Describes another size of the spatial dimensions: that of the result, or the source's times `factors`, one of which may be null or empty.
dnnl_status_t dnnl_resampling_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                            dnnl_engine_t engine,
                                                            dnnl_prop_kind_t prop_kind,
                                                            dnnl_alg_kind_t alg_kind,
                                                            const float *factors,
                                                            const_dnnl_memory_desc_t src_desc,
                                                            const_dnnl_memory_desc_t dst_desc,
                                                            const_dnnl_primitive_attr_t attr);

// Describes the gradient of a resampling for its source.
dnnl_status_t dnnl_resampling_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                             dnnl_engine_t engine,
                                                             dnnl_alg_kind_t alg_kind,
                                                             const float *factors,
                                                             const_dnnl_memory_desc_t diff_src_desc,
                                                             const_dnnl_memory_desc_t diff_dst_desc,
                                                             const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                             const_dnnl_primitive_attr_t attr);

// Sets how much the library tells on standard output: 0 nothing, 1 executions, 2 creations too. Overrides `ONEDNN_VERBOSE`.
dnnl_status_t dnnl_set_verbose(int level);

// Tells whether executions or creations are told on standard output.
dnnl_status_t dnnl_verbose_profiling_enabled(int *enabled);

// Reads the floating-point mode that new attributes begin with.
dnnl_status_t dnnl_get_default_fpmath_mode(dnnl_fpmath_mode_t *mode);

// Sets the floating-point mode that new attributes begin with. Overrides `ONEDNN_DEFAULT_FPMATH_MODE`.
dnnl_status_t dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_t mode);

// Says when kernels of primitives and partitions that are made from now on get programs for one shape: "background", "never" or
// "eager"; null for what `ANYDNN_SPECIALIZE` says. Results are the same.
dnnl_status_t anydnn_set_specialize(const char *when);

// Describes channels in another order: groups of an axis are transposed.
dnnl_status_t dnnl_shuffle_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                         dnnl_engine_t engine,
                                                         dnnl_prop_kind_t prop_kind,
                                                         const_dnnl_memory_desc_t src_desc,
                                                         const_dnnl_memory_desc_t dst_desc,
                                                         int axis,
                                                         dnnl_dim_t group_size,
                                                         const_dnnl_primitive_attr_t attr);

// Describes the gradient of a shuffle.
dnnl_status_t dnnl_shuffle_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                          dnnl_engine_t engine,
                                                          const_dnnl_memory_desc_t diff_src_desc,
                                                          const_dnnl_memory_desc_t diff_dst_desc,
                                                          int axis,
                                                          dnnl_dim_t group_size,
                                                          const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                          const_dnnl_primitive_attr_t attr);

// Describes the forward pass of softmax, or of its logarithm, along an axis.
dnnl_status_t dnnl_softmax_forward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                         dnnl_engine_t engine,
                                                         dnnl_prop_kind_t prop_kind,
                                                         dnnl_alg_kind_t alg_kind,
                                                         const_dnnl_memory_desc_t src_desc,
                                                         const_dnnl_memory_desc_t dst_desc,
                                                         int32_t softmax_axis,
                                                         const_dnnl_primitive_attr_t attr);

// Describes the gradient of softmax, or of its logarithm, from its result.
dnnl_status_t dnnl_softmax_backward_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                          dnnl_engine_t engine,
                                                          dnnl_alg_kind_t alg_kind,
                                                          const_dnnl_memory_desc_t diff_src_desc,
                                                          const_dnnl_memory_desc_t diff_dst_desc,
                                                          const_dnnl_memory_desc_t dst_desc,
                                                          int32_t softmax_axis,
                                                          const_dnnl_primitive_desc_t _hint_fwd_pd,
                                                          const_dnnl_primitive_attr_t attr);

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

// Describes tensors side by side along a dimension. An absent or open result is dense.
dnnl_status_t dnnl_concat_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                                dnnl_engine_t engine,
                                                const_dnnl_memory_desc_t dst_desc,
                                                int n,
                                                int concat_dimension,
                                                const const_dnnl_memory_desc_t *src_descs,
                                                const_dnnl_primitive_attr_t attr);

// Describes the sum of tensors, each with a factor. An absent or open result is like the first source.
dnnl_status_t dnnl_sum_primitive_desc_create(dnnl_primitive_desc_t *primitive_desc,
                                             dnnl_engine_t engine,
                                             const_dnnl_memory_desc_t dst_desc,
                                             int n,
                                             const float *scales,
                                             const const_dnnl_memory_desc_t *src_descs,
                                             const_dnnl_primitive_attr_t attr);

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
