/* The specification's table of memory, row by row. */
#include "check.h"

enum { COUNT = 33, BYTES = COUNT * 4 };

static cl_device_id device;
static cl_context context;
static dnnl_engine_t engine;
static cl_command_queue queue;
static pointers_t pointers;

static dnnl_memory_desc_t open_desc(void) {
    dnnl_memory_desc_t desc = NULL;
    dnnl_dims_t dims = {COUNT};
    OK(dnnl_memory_desc_create_with_tag(&desc, 1, dims, dnnl_f32, dnnl_format_tag_any));
    return desc;
}

static dnnl_memory_desc_t runtime_desc(void) {
    dnnl_memory_desc_t desc = NULL;
    dnnl_dims_t dims = {DNNL_RUNTIME_DIM_VAL};
    OK(dnnl_memory_desc_create_with_tag(&desc, 1, dims, dnnl_f32, dnnl_a));
    return desc;
}

static dnnl_memory_desc_t scalar_desc(void) {
    dnnl_memory_desc_t desc = NULL;
    OK(dnnl_memory_desc_create_host_scalar(&desc, dnnl_f32));
    return desc;
}

static void buffers_by_the_plain_functions(void) {
    dnnl_memory_desc_t desc = floats_desc(COUNT), open = open_desc(), later = runtime_desc(),
                       scalar = scalar_desc();
    dnnl_memory_t memory = NULL;
    void *handle = NULL, *handles[2] = {NULL, NULL};
    dnnl_ocl_interop_memory_kind_t kind = dnnl_ocl_interop_usm;
    cl_mem buffer = check_buffer(context, CL_MEM_READ_WRITE, BYTES, NULL), got = NULL;

    ABOUT(dnnl_memory_create);
    INVALID(dnnl_memory_create(NULL, desc, engine, DNNL_MEMORY_NONE));
    INVALID(dnnl_memory_create(&memory, desc, NULL, DNNL_MEMORY_NONE));
    INVALID(dnnl_memory_create(&memory, open, engine, DNNL_MEMORY_NONE));
    INVALID(dnnl_memory_create(&memory, later, engine, DNNL_MEMORY_NONE));
    INVALID(dnnl_memory_create(&memory, scalar, engine, DNNL_MEMORY_NONE));
    CHECK(memory == NULL);
    OK(dnnl_memory_create(&memory, NULL, engine, DNNL_MEMORY_NONE));
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_create(&memory, desc, engine, buffer));
    SOON(mem_references(buffer) == 2);
    ABOUT(dnnl_ocl_interop_memory_get_memory_kind);
    OK(dnnl_ocl_interop_memory_get_memory_kind(memory, &kind));
    CHECK(kind == dnnl_ocl_interop_buffer);
    ABOUT(dnnl_memory_get_data_handle);
    OK(dnnl_memory_get_data_handle(memory, &handle));
    SOON(handle == (void *)buffer && mem_references(buffer) == 2);
    ABOUT(dnnl_ocl_interop_memory_get_mem_object);
    OK(dnnl_ocl_interop_memory_get_mem_object(memory, &got));
    SOON(got == buffer && mem_references(buffer) == 2);
    ABOUT(dnnl_memory_destroy);
    OK(dnnl_memory_destroy(memory));
    SOON(mem_references(buffer) == 1);
    OK(dnnl_memory_destroy(NULL));

    ABOUT(dnnl_memory_create);
    OK(dnnl_memory_create(&memory, desc, engine, DNNL_MEMORY_NONE));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    CHECK(handle == NULL);
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_create(&memory, desc, engine, DNNL_MEMORY_ALLOCATE));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    size_t bytes = 0;
    CL(clGetMemObjectInfo((cl_mem)handle, CL_MEM_SIZE, sizeof bytes, &bytes, NULL));
    SOON(bytes == BYTES && mem_references((cl_mem)handle) == 1);
    OK(dnnl_memory_destroy(memory));
    dnnl_memory_desc_t huge = floats_desc((dnnl_dim_t)1 << 50);
    STATUS(dnnl_out_of_memory, dnnl_memory_create(&memory, huge, engine, DNNL_MEMORY_ALLOCATE));

    ABOUT(dnnl_ocl_interop_memory_create);
    INVALID(dnnl_ocl_interop_memory_create(
            &memory, huge, engine, dnnl_ocl_interop_buffer, DNNL_MEMORY_ALLOCATE));
    OK(dnnl_memory_desc_destroy(huge));

    ABOUT(dnnl_memory_create_v2);
    memory = NULL;
    handles[0] = buffer;
    INVALID(dnnl_memory_create_v2(NULL, desc, engine, 1, handles));
    INVALID(dnnl_memory_create_v2(&memory, desc, NULL, 1, handles));
    INVALID(dnnl_memory_create_v2(&memory, desc, engine, 0, handles));
    INVALID(dnnl_memory_create_v2(&memory, desc, engine, -1, handles));
    INVALID(dnnl_memory_create_v2(&memory, desc, engine, 2, handles));
    INVALID(dnnl_memory_create_v2(&memory, desc, engine, 1, NULL));
    INVALID(dnnl_memory_create_v2(&memory, open, engine, 1, handles));
    INVALID(dnnl_memory_create_v2(&memory, scalar, engine, 1, handles));
    SOON(memory == NULL && mem_references(buffer) == 1);
    OK(dnnl_memory_create_v2(&memory, desc, engine, 1, handles));
    SOON(mem_references(buffer) == 2);
    OK(dnnl_memory_destroy(memory));
    SOON(mem_references(buffer) == 1);
    CL(clReleaseMemObject(buffer));
    OK(dnnl_memory_desc_destroy(desc));
    OK(dnnl_memory_desc_destroy(open));
    OK(dnnl_memory_desc_destroy(later));
    OK(dnnl_memory_desc_destroy(scalar));
}

static void interop_creation(void) {
    dnnl_memory_desc_t desc = floats_desc(COUNT), open = open_desc(), later = runtime_desc(),
                       scalar = scalar_desc(), none = floats_desc(0);
    dnnl_memory_t memory = NULL;
    void *handle = NULL;
    const dnnl_ocl_interop_memory_kind_t kinds[] = {dnnl_ocl_interop_usm, dnnl_ocl_interop_buffer};
    for (int i = 0; i < 2; i++) {
        const dnnl_ocl_interop_memory_kind_t kind = kinds[i];
        dnnl_ocl_interop_memory_kind_t got = (dnnl_ocl_interop_memory_kind_t)7;
        void *one[1] = {DNNL_MEMORY_ALLOCATE};
        ABOUT(dnnl_ocl_interop_memory_create);
        INVALID(dnnl_ocl_interop_memory_create(NULL, desc, engine, kind, NULL));
        INVALID(dnnl_ocl_interop_memory_create(&memory, NULL, engine, kind, NULL));
        INVALID(dnnl_ocl_interop_memory_create(&memory, desc, NULL, kind, NULL));
        INVALID(dnnl_ocl_interop_memory_create(&memory, open, engine, kind, NULL));
        INVALID(dnnl_ocl_interop_memory_create(&memory, later, engine, kind, NULL));
        INVALID(dnnl_ocl_interop_memory_create(&memory, scalar, engine, kind, NULL));
        CHECK(memory == NULL);
        OK(dnnl_ocl_interop_memory_create(&memory, desc, engine, kind, DNNL_MEMORY_ALLOCATE));
        ABOUT(dnnl_ocl_interop_memory_get_memory_kind);
        OK(dnnl_ocl_interop_memory_get_memory_kind(memory, &got));
        CHECK(got == kind);
        INVALID(dnnl_ocl_interop_memory_get_memory_kind(memory, NULL));
        INVALID(dnnl_ocl_interop_memory_get_memory_kind(NULL, &got));
        OK(dnnl_memory_get_data_handle(memory, &handle));
        CHECK(handle != NULL && handle != DNNL_MEMORY_ALLOCATE);
        cl_mem object = NULL;
        ABOUT(dnnl_ocl_interop_memory_get_mem_object);
        OK(dnnl_ocl_interop_memory_get_mem_object(memory, &object));
        CHECK((void *)object == handle);
        OK(dnnl_memory_destroy(memory));
        ABOUT(dnnl_ocl_interop_memory_create);
        memory = NULL;
        OK(dnnl_ocl_interop_memory_create(&memory, none, engine, kind, DNNL_MEMORY_ALLOCATE));
        OK(dnnl_memory_get_data_handle(memory, &handle));
        CHECK(handle == NULL);
        OK(dnnl_memory_destroy(memory));
        memory = NULL;
        ABOUT(dnnl_ocl_interop_memory_create_v2);
        INVALID(dnnl_ocl_interop_memory_create_v2(NULL, desc, engine, kind, 1, one));
        INVALID(dnnl_ocl_interop_memory_create_v2(&memory, NULL, engine, kind, 1, one));
        INVALID(dnnl_ocl_interop_memory_create_v2(&memory, desc, NULL, kind, 1, one));
        INVALID(dnnl_ocl_interop_memory_create_v2(&memory, desc, engine, kind, 0, one));
        INVALID(dnnl_ocl_interop_memory_create_v2(&memory, desc, engine, kind, 1, NULL));
        INVALID(dnnl_ocl_interop_memory_create_v2(&memory, scalar, engine, kind, 1, one));
        CHECK(memory == NULL);
        OK(dnnl_ocl_interop_memory_create_v2(&memory, desc, engine, kind, 1, one));
        OK(dnnl_memory_destroy(memory));
        memory = NULL;
    }
    /* Any other number is a buffer's. */
    dnnl_ocl_interop_memory_kind_t got = dnnl_ocl_interop_usm;
    OK(dnnl_ocl_interop_memory_create(
            &memory, desc, engine, (dnnl_ocl_interop_memory_kind_t)9, DNNL_MEMORY_ALLOCATE));
    OK(dnnl_ocl_interop_memory_get_memory_kind(memory, &got));
    CHECK(got == dnnl_ocl_interop_buffer);
    OK(dnnl_memory_destroy(memory));

    ABOUT(dnnl_ocl_interop_memory_create);
    float content[COUNT];
    for (int i = 0; i < COUNT; i++) content[i] = (float)i;
    void *pointer = pointer_of(&pointers, queue, BYTES, content);
    OK(dnnl_ocl_interop_memory_create(&memory, desc, engine, dnnl_ocl_interop_usm, pointer));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    CHECK(handle == pointer);
    OK(dnnl_memory_destroy(memory));
    /* It was not freed. */
    float back[COUNT] = {0};
    pointer_read(&pointers, queue, pointer, BYTES, back);
    CHECK(memcmp(content, back, BYTES) == 0);
    pointer_free(&pointers, pointer);
    OK(dnnl_memory_desc_destroy(desc));
    OK(dnnl_memory_desc_destroy(open));
    OK(dnnl_memory_desc_destroy(later));
    OK(dnnl_memory_desc_destroy(scalar));
    OK(dnnl_memory_desc_destroy(none));
}

static void handles_and_descriptors(void) {
    dnnl_memory_desc_t desc = floats_desc(COUNT);
    dnnl_memory_t memory = NULL;
    cl_mem first = check_buffer(context, CL_MEM_READ_WRITE, BYTES, NULL), object = (cl_mem)&object;
    cl_mem second = check_buffer(context, CL_MEM_READ_WRITE, BYTES, NULL);
    void *handle = &handle;
    OK(dnnl_memory_create(&memory, desc, engine, first));

    ABOUT(dnnl_memory_set_data_handle);
    OK(dnnl_memory_set_data_handle(memory, first));
    SOON(mem_references(first) == 2);
    OK(dnnl_memory_set_data_handle(memory, second));
    SOON(mem_references(first) == 1 && mem_references(second) == 2);
    INVALID(dnnl_memory_set_data_handle(NULL, first));
    INVALID(dnnl_memory_set_data_handle(memory, DNNL_MEMORY_ALLOCATE));
    SOON(mem_references(second) == 2);
    OK(dnnl_memory_set_data_handle(memory, NULL));
    SOON(mem_references(second) == 1);
    ABOUT(dnnl_memory_set_data_handle_v2);
    OK(dnnl_memory_set_data_handle_v2(memory, first, 0));
    SOON(mem_references(first) == 2);
    INVALID(dnnl_memory_set_data_handle_v2(memory, second, 1));
    INVALID(dnnl_memory_set_data_handle_v2(memory, second, -1));
    INVALID(dnnl_memory_set_data_handle_v2(NULL, second, 0));
    ABOUT(dnnl_ocl_interop_memory_set_mem_object);
    OK(dnnl_ocl_interop_memory_set_mem_object(memory, second));
    SOON(mem_references(first) == 1 && mem_references(second) == 2);
    INVALID(dnnl_ocl_interop_memory_set_mem_object(NULL, second));

    ABOUT(dnnl_memory_get_data_handle);
    INVALID(dnnl_memory_get_data_handle(memory, NULL));
    OK(dnnl_memory_get_data_handle(NULL, &handle));
    CHECK(handle == NULL);
    ABOUT(dnnl_memory_get_data_handle_v2);
    OK(dnnl_memory_get_data_handle_v2(memory, &handle, 0));
    CHECK(handle == (void *)second);
    INVALID(dnnl_memory_get_data_handle_v2(memory, &handle, 1));
    INVALID(dnnl_memory_get_data_handle_v2(memory, &handle, -1));
    INVALID(dnnl_memory_get_data_handle_v2(memory, NULL, 0));
    OK(dnnl_memory_get_data_handle_v2(NULL, &handle, 0));
    ABOUT(dnnl_ocl_interop_memory_get_mem_object);
    OK(dnnl_ocl_interop_memory_get_mem_object(NULL, &object));
    CHECK(object == NULL);
    INVALID(dnnl_ocl_interop_memory_get_mem_object(memory, NULL));
    INVALID(dnnl_ocl_interop_memory_get_mem_object(NULL, NULL));

    ABOUT(dnnl_memory_get_memory_desc);
    const_dnnl_memory_desc_t got = NULL;
    OK(dnnl_memory_get_memory_desc(memory, &got));
    CHECK(dnnl_memory_desc_equal(got, desc));
    INVALID(dnnl_memory_get_memory_desc(NULL, &got));
    INVALID(dnnl_memory_get_memory_desc(memory, NULL));
    ABOUT(dnnl_memory_get_engine);
    dnnl_engine_t owner = NULL;
    OK(dnnl_memory_get_engine(memory, &owner));
    CHECK(owner == engine);
    INVALID(dnnl_memory_get_engine(NULL, &owner));
    INVALID(dnnl_memory_get_engine(memory, NULL));
    OK(dnnl_memory_destroy(memory));
    SOON(mem_references(first) == 1 && mem_references(second) == 1);

    /* The address of unified memory is not looked at when it is set. */
    ABOUT(dnnl_memory_set_data_handle);
    OK(dnnl_ocl_interop_memory_create(&memory, desc, engine, dnnl_ocl_interop_usm, NULL));
    OK(dnnl_memory_set_data_handle(memory, (void *)0x1000));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    CHECK(handle == (void *)0x1000);
    OK(dnnl_memory_set_data_handle(memory, NULL));
    OK(dnnl_memory_destroy(memory));
    CL(clReleaseMemObject(first));
    CL(clReleaseMemObject(second));
    OK(dnnl_memory_desc_destroy(desc));
}

/* Maps, changes and maps again. */
static void map_twice(dnnl_memory_t memory) {
    float *mapped = NULL;
    ABOUT(dnnl_memory_map_data);
    OK(dnnl_memory_map_data(memory, (void **)&mapped));
    CHECK(mapped != NULL);
    if (!mapped) return;
    for (int i = 0; i < COUNT; i++) mapped[i] = (float)(3 * i);
    ABOUT(dnnl_memory_unmap_data);
    OK(dnnl_memory_unmap_data(memory, mapped));
    ABOUT(dnnl_memory_map_data_v2);
    OK(dnnl_memory_map_data_v2(memory, (void **)&mapped, 0));
    bool same = mapped != NULL;
    for (int i = 0; same && i < COUNT; i++) same = mapped[i] == (float)(3 * i);
    CHECK(same);
    ABOUT(dnnl_memory_unmap_data_v2);
    OK(dnnl_memory_unmap_data_v2(memory, mapped, 0));
    OK(dnnl_memory_unmap_data_v2(memory, NULL, 0));
    INVALID(dnnl_memory_unmap_data_v2(memory, mapped, 1));
    INVALID(dnnl_memory_map_data_v2(memory, (void **)&mapped, 1));
    INVALID(dnnl_memory_map_data_v2(memory, (void **)&mapped, -1));
}

static void mapping(void) {
    dnnl_memory_desc_t desc = floats_desc(COUNT), none = floats_desc(0);
    dnnl_memory_t memory = NULL;
    void *mapped = &mapped;
    float stranger = 0;

    cl_mem larger = check_buffer(context, CL_MEM_READ_WRITE, BYTES + 64, NULL);
    OK(dnnl_memory_create(&memory, desc, engine, larger));
    map_twice(memory);
    ABOUT(dnnl_memory_map_data);
    INVALID(dnnl_memory_map_data(NULL, &mapped));
    INVALID(dnnl_memory_map_data(memory, NULL));
    ABOUT(dnnl_memory_unmap_data);
    INVALID(dnnl_memory_unmap_data(NULL, mapped));
    OK(dnnl_memory_unmap_data(memory, NULL));
    INVALID(dnnl_memory_unmap_data(memory, &stranger));
    /* The whole buffer object is mapped. */
    ABOUT(dnnl_memory_map_data);
    OK(dnnl_memory_map_data(memory, &mapped));
    if (mapped) memset(mapped, 1, BYTES + 64);
    OK(dnnl_memory_unmap_data(memory, mapped));
    unsigned char byte = 0;
    CL(clEnqueueReadBuffer(queue, larger, CL_TRUE, BYTES + 63, 1, &byte, 0, NULL, NULL));
    CHECK(byte == 1);
    OK(dnnl_memory_set_data_handle(memory, NULL));
    OK(dnnl_memory_map_data(memory, &mapped));
    CHECK(mapped == NULL);
    OK(dnnl_memory_destroy(memory));
    SOON(mem_references(larger) == 1);
    cl_mem smaller = check_buffer(context, CL_MEM_READ_WRITE, BYTES - 4, NULL);
    OK(dnnl_memory_create(&memory, desc, engine, smaller));
    INVALID(dnnl_memory_map_data(memory, &mapped));
    OK(dnnl_memory_destroy(memory));
    cl_mem readable = check_buffer(context, CL_MEM_READ_WRITE | CL_MEM_HOST_READ_ONLY, BYTES, NULL);
    OK(dnnl_memory_create(&memory, desc, engine, readable));
    OK(dnnl_memory_map_data(memory, &mapped));
    CHECK(mapped != NULL);
    OK(dnnl_memory_unmap_data(memory, mapped));
    OK(dnnl_memory_destroy(memory));
    /* Memory that is still mapped when it ends. */
    OK(dnnl_memory_create(&memory, desc, engine, larger));
    OK(dnnl_memory_map_data(memory, &mapped));
    OK(dnnl_memory_destroy(memory));
    SOON(mem_references(larger) == 1);
    CL(clReleaseMemObject(larger));
    CL(clReleaseMemObject(smaller));
    CL(clReleaseMemObject(readable));

    OK(dnnl_memory_create(&memory, none, engine, DNNL_MEMORY_ALLOCATE));
    mapped = &mapped;
    OK(dnnl_memory_map_data(memory, &mapped));
    CHECK(mapped == NULL);
    OK(dnnl_memory_unmap_data(memory, mapped));
    OK(dnnl_memory_destroy(memory));

    /* Memory of the device: a copy, so that only a mapping can be given back. */
    OK(dnnl_ocl_interop_memory_create(
            &memory, desc, engine, dnnl_ocl_interop_usm, DNNL_MEMORY_ALLOCATE));
    map_twice(memory);
    ABOUT(dnnl_memory_unmap_data);
    STATUS(dnnl_runtime_error, dnnl_memory_unmap_data(memory, &stranger));
    OK(dnnl_memory_destroy(memory));
    float content[COUNT] = {1, 2, 3};
    void *pointer = pointer_of(&pointers, queue, BYTES, content);
    OK(dnnl_ocl_interop_memory_create(&memory, desc, engine, dnnl_ocl_interop_usm, pointer));
    map_twice(memory);
    float back[COUNT] = {0};
    pointer_read(&pointers, queue, pointer, BYTES, back);
    CHECK(back[1] == 3 && back[COUNT - 1] == 3 * (COUNT - 1));
    OK(dnnl_memory_set_data_handle(memory, NULL));
    mapped = &mapped;
    OK(dnnl_memory_map_data(memory, &mapped));
    CHECK(mapped == NULL);
    OK(dnnl_memory_destroy(memory));
    pointer_free(&pointers, pointer);
    if (pointers.usm) {
        /* Memory that the host sees: the address itself. */
        cl_int code = CL_SUCCESS;
        void *seen[2] = {pointers.alloc_shared(context, device, NULL, BYTES, 0, &code), NULL};
        CL(code);
        seen[1] = pointers.alloc_host(context, NULL, BYTES, 0, &code);
        CL(code);
        for (int i = 0; i < 2; i++) {
            OK(dnnl_ocl_interop_memory_create(&memory, desc, engine, dnnl_ocl_interop_usm, seen[i]));
            OK(dnnl_memory_map_data(memory, &mapped));
            CHECK(mapped == seen[i]);
            OK(dnnl_memory_unmap_data(memory, mapped));
            OK(dnnl_memory_unmap_data(memory, mapped));
            OK(dnnl_memory_destroy(memory));
            CL(pointers.free(context, seen[i]));
        }
        /* Any memory of the process, where the device reads it. */
        cl_ulong system = 0;
        clGetDeviceInfo(device, 0x4194, sizeof system, &system, NULL);
        void *plain = malloc(BYTES);
        STATUS(system & 1 ? dnnl_success : dnnl_invalid_arguments,
                dnnl_ocl_interop_memory_create(&memory, desc, engine, dnnl_ocl_interop_usm, plain));
        if (system & 1) OK(dnnl_memory_destroy(memory));
        free(plain);
    }
    OK(dnnl_memory_desc_destroy(desc));
    OK(dnnl_memory_desc_destroy(none));
}

static void host_scalars(void) {
    dnnl_memory_desc_t desc = floats_desc(COUNT), scalar = scalar_desc();
    dnnl_memory_t memory = NULL, buffer = NULL;
    float value = 2.5F, other = 0;
    void *handle = NULL;
    cl_mem object = NULL;
    dnnl_ocl_interop_memory_kind_t kind;
    ABOUT(dnnl_memory_create_host_scalar);
    INVALID(dnnl_memory_create_host_scalar(NULL, scalar, &value));
    INVALID(dnnl_memory_create_host_scalar(&memory, NULL, &value));
    INVALID(dnnl_memory_create_host_scalar(&memory, scalar, NULL));
    INVALID(dnnl_memory_create_host_scalar(&memory, desc, &value));
    CHECK(memory == NULL);
    OK(dnnl_memory_create_host_scalar(&memory, scalar, &value));
    value = 9;
    ABOUT(dnnl_memory_get_host_scalar_value);
    OK(dnnl_memory_get_host_scalar_value(memory, &other));
    CHECK(other == 2.5F);
    INVALID(dnnl_memory_get_host_scalar_value(NULL, &other));
    INVALID(dnnl_memory_get_host_scalar_value(memory, NULL));
    ABOUT(dnnl_memory_set_host_scalar_value);
    OK(dnnl_memory_set_host_scalar_value(memory, &value));
    OK(dnnl_memory_get_host_scalar_value(memory, &other));
    CHECK(other == 9);
    INVALID(dnnl_memory_set_host_scalar_value(NULL, &value));
    INVALID(dnnl_memory_set_host_scalar_value(memory, NULL));
    OK(dnnl_memory_create(&buffer, desc, engine, DNNL_MEMORY_ALLOCATE));
    INVALID(dnnl_memory_set_host_scalar_value(buffer, &value));
    INVALID(dnnl_memory_get_host_scalar_value(buffer, &value));
    OK(dnnl_memory_destroy(buffer));
    ABOUT(dnnl_memory_map_data);
    float *mapped = NULL;
    OK(dnnl_memory_map_data(memory, (void **)&mapped));
    CHECK(mapped && *mapped == 9);
    if (mapped) *mapped = 4;
    OK(dnnl_memory_unmap_data(memory, mapped));
    OK(dnnl_memory_get_host_scalar_value(memory, &other));
    CHECK(other == 4);
    ABOUT(dnnl_memory_get_engine);
    dnnl_engine_t owner = engine;
    OK(dnnl_memory_get_engine(memory, &owner));
    CHECK(owner == NULL);
    ABOUT(dnnl_memory_get_data_handle);
    INVALID(dnnl_memory_get_data_handle(memory, &handle));
    ABOUT(dnnl_memory_set_data_handle);
    INVALID(dnnl_memory_set_data_handle(memory, &handle));
    ABOUT(dnnl_ocl_interop_memory_get_memory_kind);
    INVALID(dnnl_ocl_interop_memory_get_memory_kind(memory, &kind));
    ABOUT(dnnl_ocl_interop_memory_get_mem_object);
    INVALID(dnnl_ocl_interop_memory_get_mem_object(memory, &object));
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_desc_destroy(desc));
    OK(dnnl_memory_desc_destroy(scalar));
}

static void several_handles(void) {
    ABOUT(dnnl_memory_create_v2);
    dnnl_memory_desc_t coo = NULL;
    dnnl_dims_t dims = {4, 5};
    OK(dnnl_memory_desc_create_with_coo_encoding(&coo, 2, dims, dnnl_f32, 7, dnnl_s32));
    void *handles[3] = {DNNL_MEMORY_ALLOCATE, DNNL_MEMORY_ALLOCATE, DNNL_MEMORY_NONE};
    dnnl_memory_t memory = NULL;
    INVALID(dnnl_memory_create_v2(&memory, coo, engine, 1, handles));
    OK(dnnl_memory_create_v2(&memory, coo, engine, 3, handles));
    for (int i = 0; i < 3; i++) {
        void *handle = &handle, *mapped = NULL;
        OK(dnnl_memory_get_data_handle_v2(memory, &handle, i));
        CHECK((handle != NULL) == (i < 2));
        OK(dnnl_memory_map_data_v2(memory, &mapped, i));
        CHECK((mapped != NULL) == (i < 2));
        if (mapped) memset(mapped, 0, 7 * 4);
        OK(dnnl_memory_unmap_data_v2(memory, mapped, i));
    }
    void *handle = NULL;
    INVALID(dnnl_memory_get_data_handle_v2(memory, &handle, 3));
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_desc_destroy(coo));
}

int main(int argc, char **argv) {
    device = check_device(argc > 1 ? argv[1] : NULL);
    context = check_context(device);
    queue = check_queue(context, device, 0);
    pointers = check_pointers(device, context);
    int before = context_references(context);
    OK(dnnl_ocl_interop_engine_create(&engine, device, context));
    buffers_by_the_plain_functions();
    interop_creation();
    handles_and_descriptors();
    mapping();
    host_scalars();
    several_handles();
    OK(dnnl_engine_destroy(engine));
    SOON(context_references(context) == before);
    check_release_queue(queue);
    CL(clReleaseContext(context));
    return check_end();
}
