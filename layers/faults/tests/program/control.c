/* Controls the layer from C, through the published header. */
#include <anydnn_faults.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Looks a function up as the type that the header declares. */
#define FIND(name) \
    __typeof__(name) *name##_; \
    do { \
        void *address = dlsym(library, #name); \
        if (!address) return fprintf(stderr, "no %s\n", #name), 1; \
        memcpy(&name##_, &address, sizeof address); \
    } while (0)

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    FIND(anydnn_faults_version);
    FIND(anydnn_faults_arm);
    FIND(anydnn_faults_disarm);
    FIND(anydnn_faults_count);
    FIND(anydnn_faults_live);
    FIND(anydnn_faults_violations);
    FIND(anydnn_faults_injected);
    FIND(anydnn_faults_trace_start);
    FIND(anydnn_faults_trace);
    FIND(anydnn_faults_refuse_invalid);
    FIND(anydnn_faults_perform_releases);
    FIND(anydnn_faults_reset);
    FIND(anydnn_faults_report);
    anydnn_faults_object objects[1];
    printf("version %u, armed %d, refused %d, calls %d, live %d\n", anydnn_faults_version_(),
           anydnn_faults_arm_("clCreate*", 1, -5, 1), anydnn_faults_arm_("clNothing", 1, -5, 1),
           (int)anydnn_faults_count_(NULL), (int)anydnn_faults_live_(objects, 1));
    return 0;
}
