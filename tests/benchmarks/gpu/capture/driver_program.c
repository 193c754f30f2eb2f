/* Loads a cubin, then PTX, by the driver API, and runs a kernel of each: driver_program CUBIN PTX. */
#include <stdio.h>
#include <stdlib.h>

typedef int result;
typedef unsigned long long device_pointer;
extern result cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int),
    cuCtxSetCurrent(void *), cuModuleLoad(void **, const char *), cuModuleLoadData(void **, const void *),
    cuModuleGetFunction(void **, void *, const char *), cuMemAlloc_v2(device_pointer *, size_t),
    cuMemcpyDtoH_v2(void *, device_pointer, size_t), cuCtxSynchronize(void),
    cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                   void **);

static void check(result code, const char *what)
{
    if (code) {
        fprintf(stderr, "%s: %d\n", what, code);
        exit(1);
    }
}

static int run(void *module, device_pointer out)
{
    void *function, *arguments[] = {&out};
    int value;
    check(cuModuleGetFunction(&function, module, "store_answer"), "function");
    check(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL), "launch");
    check(cuCtxSynchronize(), "synchronize");
    check(cuMemcpyDtoH_v2(&value, out, sizeof value), "copy");
    return value;
}

int main(int count, char **arguments)
{
    int device;
    void *context, *module;
    device_pointer out;
    static char text[1 << 16];
    FILE *stream;
    if (count != 3 || !(stream = fopen(arguments[2], "r")))
        return 2;
    text[fread(text, 1, sizeof text - 1, stream)] = 0;
    check(cuInit(0), "init");
    check(cuDeviceGet(&device, 0), "device");
    check(cuDevicePrimaryCtxRetain(&context, device), "context");
    check(cuCtxSetCurrent(context), "current");
    check(cuMemAlloc_v2(&out, 4), "memory");
    check(cuModuleLoad(&module, arguments[1]), "cubin");
    printf("%d ", run(module, out));
    check(cuModuleLoadData(&module, text), "ptx");
    printf("%d\n", run(module, out));
    return 0;
}
