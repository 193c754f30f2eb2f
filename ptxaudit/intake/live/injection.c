/* Keeps every module that the CUDA driver loads in this process, the PTX texts it was given, and how kernels
 * were launched. Built on first use by library.py.
 *
 * The driver loads it into any program where CUDA_INJECTION64_PATH names it, and calls InitializeInjection;
 * a Python process may load it itself and call ptxaudit_capture_start. Records go to the folder that
 * PTXAUDIT_CAPTURE_DIR names, each file written whole and then renamed, so that a process that is killed leaves
 * no half ones, and processes that load the same module share one file.
 *
 * CUPTI is opened at run time, so no header or library of CUDA is needed to build this; the structures below
 * state the part of its binary interface that is used (CUPTI 12 and 13, Callback API; CUDA driver API). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DOMAIN_DRIVER_API = 1, DOMAIN_RESOURCE = 3, RESOURCE_MODULE_LOADED = 6, SITE_ENTER = 0, MULTIPLE_SUBSCRIBERS = 39 };
enum { JIT_INPUT_PTX = 1, ATTRIBUTE_CLUSTER = 4, ATTRIBUTE_PROGRAMMATIC = 6 };
enum { LAST_DRIVER_CALL = 4096, LAUNCH_SLOTS = 1 << 16, PATH_BYTES = 4096, PTX_BYTES = 1 << 28 };

typedef struct { void *context; void *resource; void *descriptor; } resource_data;
typedef struct { uint32_t module; size_t size; const char *cubin; } module_data;
typedef struct {
    int site; const char *function; const void *parameters; void *result; const char *symbol;
    void *context; uint32_t context_number; uint64_t *correlation; uint32_t correlation_number;
} call_data;

typedef struct { void **module; const void *image; } load_parameters;
typedef struct { void *state; int type; const void *data; size_t size; } link_parameters;
typedef struct { unsigned grid[3], block[3], shared; } launch_shape;
typedef struct { void *function; launch_shape shape; } launch_parameters;
typedef struct { int id; char padding[4]; union { char bytes[64]; unsigned cluster[3]; int programmatic; } value; } attribute;
typedef struct { launch_shape shape; void *stream; attribute *attributes; unsigned count; } launch_configuration;
typedef struct { const launch_configuration *configuration; void *function; } launch_ex_parameters;

typedef void (*callback_function)(void *, int, uint32_t, const void *);
static int (*subscribe)(void **, callback_function, void *);
static int (*unsubscribe)(void *);
static int (*enable)(uint32_t, void *, int, uint32_t);
static int (*callback_name)(int, uint32_t, const char **);

static char folder[PATH_BYTES];
static void *subscriber;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t launches_seen[LAUNCH_SLOTS];
static unsigned launches_kept, callbacks, modules;
static double seconds_inside;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static uint64_t hash(uint64_t state, const void *data, size_t size) /* FNV-1a */
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        state = (state ^ bytes[i]) * 0x100000001b3ull;
    return state;
}

static const uint64_t HASH_START = 0xcbf29ce484222325ull;

/* One line on what went wrong, for the reader of the folder; this process goes on without being captured. */
static void complain(const char *what, int code)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/faults.txt", folder);
    FILE *stream = fopen(path, "a");
    if (!stream)
        return;
    fprintf(stream, "process %d: %s (%d)\n", (int)getpid(), what, code);
    fclose(stream);
}

static void keep(const void *data, size_t size, const char *suffix)
{
    char path[PATH_BYTES + 64], scratch[PATH_BYTES + 96];
    uint64_t name = hash(HASH_START, data, size);
    snprintf(path, sizeof path, "%s/%016llx-%zu.%s", folder, (unsigned long long)name, size, suffix);
    if (access(path, F_OK) == 0)
        return;
    snprintf(scratch, sizeof scratch, "%s.%d.part", path, (int)getpid());
    int file = open(scratch, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) {
        complain("a module could not be written", errno);
        return;
    }
    const char *bytes = data;
    size_t done = 0;
    while (done < size) {
        ssize_t wrote = write(file, bytes + done, size - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    int failed = close(file) != 0 || done < size;
    if (failed || rename(scratch, path) != 0) {
        complain("a module could not be written", errno);
        unlink(scratch);
    }
}

/* The driver takes cubins, fatbins and PTX text by one pointer; only text starts with neither magic number,
 * and it ends with a NUL. */
static void keep_if_ptx(const void *image)
{
    static const unsigned char magics[][4] = {
        {0x7f, 'E', 'L', 'F'}, {0x50, 0xed, 0x55, 0xba}, {0xb1, 0x43, 0x62, 0x46}};
    if (!image)
        return;
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (memcmp(image, magics[i], 4) == 0)
            return;
    size_t size = strnlen(image, PTX_BYTES);
    if (size < PTX_BYTES && memmem(image, size, ".version", 8))
        keep(image, size, "ptx");
}

static void quoted(FILE *stream, const char *text)
{
    for (; *text; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\' || letter < 0x20)
            fprintf(stream, "\\u%04x", letter);
        else
            fputc(letter, stream);
    }
}

/* Each shape of a kernel once, whatever its grid: a line of JSON. */
static void keep_launch(const char *name, const launch_shape *shape, const attribute *attributes, unsigned count)
{
    unsigned cluster[3] = {0, 0, 0};
    int programmatic = 0;
    for (unsigned i = 0; i < count; i++) {
        if (attributes[i].id == ATTRIBUTE_CLUSTER)
            memcpy(cluster, attributes[i].value.cluster, sizeof cluster);
        if (attributes[i].id == ATTRIBUTE_PROGRAMMATIC)
            programmatic = attributes[i].value.programmatic != 0;
    }
    uint64_t key = hash(HASH_START, name, strlen(name));
    key = hash(key, shape->block, sizeof shape->block);
    key = hash(key, &shape->shared, sizeof shape->shared);
    key = hash(hash(key, cluster, sizeof cluster), &programmatic, sizeof programmatic) | 1;
    unsigned slot = key % LAUNCH_SLOTS;
    while (launches_seen[slot] && launches_seen[slot] != key)
        slot = (slot + 1) % LAUNCH_SLOTS;
    if (launches_seen[slot] || launches_kept >= LAUNCH_SLOTS / 2)
        return;
    launches_seen[slot] = key;
    launches_kept++;
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/launches-%d.jsonl", folder, (int)getpid());
    FILE *stream = fopen(path, "a");
    if (!stream) {
        complain("a launch could not be written", errno);
        return;
    }
    fputs("{\"kernel\": \"", stream);
    quoted(stream, name);
    fprintf(stream, "\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %u", shape->grid[0],
            shape->grid[1], shape->grid[2], shape->block[0], shape->block[1], shape->block[2], shape->shared);
    if (cluster[0])
        fprintf(stream, ", \"cluster\": [%u, %u, %u]", cluster[0], cluster[1], cluster[2]);
    fprintf(stream, ", \"programmatic\": %s}\n", programmatic ? "true" : "false");
    fclose(stream);
}

static void on_call(const call_data *call)
{
    const char *name = call->function;
    if (call->site != SITE_ENTER)
        return;
    if (!strncmp(name, "cuModuleLoadData", 16) || !strcmp(name, "cuLibraryLoadData")) {
        keep_if_ptx(((const load_parameters *)call->parameters)->image);
    } else if (!strncmp(name, "cuLinkAddData", 13)) {
        const link_parameters *link = call->parameters;
        if (link->type == JIT_INPUT_PTX && link->data)
            keep(link->data, strnlen(link->data, link->size), "ptx");
    } else if (!strncmp(name, "cuLaunchKernelEx", 16)) {
        const launch_ex_parameters *launch = call->parameters;
        if (call->symbol && launch->configuration)
            keep_launch(call->symbol, &launch->configuration->shape, launch->configuration->attributes,
                        launch->configuration->count);
    } else if (call->symbol) {
        keep_launch(call->symbol, &((const launch_parameters *)call->parameters)->shape, NULL, 0);
    }
}

static void on_event(void *data, int domain, uint32_t number, const void *event)
{
    (void)data;
    double start = now();
    pthread_mutex_lock(&lock);
    if (domain == DOMAIN_RESOURCE && number == RESOURCE_MODULE_LOADED) {
        const module_data *module = ((const resource_data *)event)->descriptor;
        if (module && module->cubin && module->size) {
            keep(module->cubin, module->size, "cubin");
            modules++;
        }
    } else if (domain == DOMAIN_DRIVER_API) {
        on_call(event);
    }
    callbacks++;
    seconds_inside += now() - start;
    pthread_mutex_unlock(&lock);
}

/* Launches and loads of code, by name and not by number: the numbers are CUPTI's and grow with its versions. */
static int wanted(const char *name)
{
    static const char *const prefixes[] = {"cuModuleLoadData", "cuLibraryLoadData", "cuLinkAddData",
                                           "cuLaunchKernel", "cuLaunchCooperativeKernel"};
    if (strstr(name, "MultiDevice"))
        return 0;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return 1;
    return 0;
}

static int open_cupti(const char *path)
{
    void *cupti = dlopen(path && *path ? path : "libcupti.so", RTLD_NOW | RTLD_LOCAL);
    if (!cupti) {
        complain(dlerror(), 0);
        return 0;
    }
    *(void **)&subscribe = dlsym(cupti, "cuptiSubscribe");
    *(void **)&unsubscribe = dlsym(cupti, "cuptiUnsubscribe");
    *(void **)&enable = dlsym(cupti, "cuptiEnableCallback");
    *(void **)&callback_name = dlsym(cupti, "cuptiGetCallbackName");
    if (subscribe && unsubscribe && enable && callback_name)
        return 1;
    complain("this libcupti has no callback interface", 0);
    return 0;
}

/* Starts to capture into a folder. Returns 1 when it runs, 0 after a line in the folder's faults.txt. */
int ptxaudit_capture_start(const char *into, const char *cupti)
{
    snprintf(folder, sizeof folder, "%s", into);
    if (subscriber)
        return 1;
    if (!open_cupti(cupti))
        return 0;
    int code = subscribe(&subscriber, on_event, NULL);
    if (code) {
        complain(code == MULTIPLE_SUBSCRIBERS ? "CUPTI has a subscriber already, such as a profiler"
                                              : "CUPTI does not start; is there a driver and a GPU?", code);
        subscriber = NULL;
        return 0;
    }
    enable(1, subscriber, DOMAIN_RESOURCE, RESOURCE_MODULE_LOADED);
    const char *name;
    for (uint32_t number = 1; number < LAST_DRIVER_CALL; number++)
        if (callback_name(DOMAIN_DRIVER_API, number, &name) == 0 && name && wanted(name))
            enable(1, subscriber, DOMAIN_DRIVER_API, number);
    return 1;
}

/* Stops, and says in stats.jsonl what this process's capture took. */
void ptxaudit_capture_stop(void)
{
    if (!subscriber)
        return;
    unsubscribe(subscriber);
    subscriber = NULL;
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/stats.jsonl", folder);
    FILE *stream = fopen(path, "a");
    if (!stream)
        return;
    fprintf(stream, "{\"process\": %d, \"modules\": %u, \"callbacks\": %u, \"seconds\": %.6f}\n", (int)getpid(),
            modules, callbacks, seconds_inside);
    fclose(stream);
    memset(launches_seen, 0, sizeof launches_seen);
    launches_kept = callbacks = modules = 0;
    seconds_inside = 0;
}

/* Called by the CUDA driver when it starts. */
int InitializeInjection(void)
{
    const char *into = getenv("PTXAUDIT_CAPTURE_DIR");
    if (!into)
        return 1;
    ptxaudit_capture_start(into, getenv("PTXAUDIT_CUPTI"));
    atexit(ptxaudit_capture_stop);
    return 1;
}
