/* A CUPTI for tests: takes one subscriber and hands it the events that the test makes up. */
#include <stdint.h>
#include <stddef.h>

typedef void (*callback)(void *, int, uint32_t, const void *);
static callback subscriber;
static unsigned enabled[8][8];
static const char *const names[] = {"INVALID", "cuInit", "cuModuleLoadDataEx", "cuLaunchKernel", "cuLaunchKernelEx",
                                    "cuLinkAddData_v2", "cuMemAlloc_v2"};

struct call { int site; const char *function; const void *parameters; void *result; const char *symbol; char rest[32]; };

int cuptiSubscribe(void **handle, callback function, void *data)
{
    (void)data;
    if (subscriber)
        return 39;
    subscriber = function;
    *handle = &subscriber;
    return 0;
}

int cuptiUnsubscribe(void *handle)
{
    (void)handle;
    subscriber = NULL;
    return 0;
}

int cuptiEnableCallback(uint32_t enable, void *handle, int domain, uint32_t number)
{
    (void)handle;
    enabled[domain][number] = enable;
    return 0;
}

int cuptiGetCallbackName(int domain, uint32_t number, const char **name)
{
    if (domain != 1 || number >= sizeof names / sizeof names[0])
        return 1;
    *name = names[number];
    return 0;
}

void fake_module(const char *cubin, size_t size)
{
    struct { uint32_t module; size_t size; const char *cubin; } module = {7, size, cubin};
    struct { void *context, *resource, *descriptor; } resource = {NULL, NULL, &module};
    if (subscriber && enabled[3][6])
        subscriber(NULL, 3, 6, &resource);
}

/* 1 when the callback was enabled. */
int fake_call(uint32_t number, const void *parameters, const char *symbol)
{
    struct call call = {0, names[number], parameters, NULL, symbol, {0}};
    if (!subscriber || !enabled[1][number])
        return 0;
    subscriber(NULL, 1, number, &call);
    return 1;
}
