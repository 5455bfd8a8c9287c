/* Shows the sequence of stream-ordered allocations that a program makes.
 *
 * A logger in front of cuMemAllocAsync and cuMemFreeAsync, for the case that a probe's USED_MEM_HIGH
 * differs from its prediction. Nothing in vramcast needs it.
 *
 *   cc -shared -fPIC -O2 -o alloc_logger.so cuda_alloc_logger.c -ldl
 *   CUDA_ALLOC_LOG=log.txt LD_PRELOAD=./alloc_logger.so vramcast probe ...
 *
 * One line an event, nanoseconds first: "time + address bytes", "time - address", and "time s" for a
 * stream or context synchronisation, once it is over. The file's name gets the process's number,
 * since a probe runs in a child.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long address_t;

static FILE *log_file(void) {
    static FILE *file;
    if (!file) {
        char name[4096];
        const char *base = getenv("CUDA_ALLOC_LOG");
        snprintf(name, sizeof name, "%s.%d", base ? base : "cuda-alloc.log", (int)getpid());
        file = fopen(name, "w");
        if (!file) {
            perror(name);
            exit(2);
        }
        static char buffer[1 << 20];
        setvbuf(file, buffer, _IOFBF, sizeof buffer);
    }
    return file;
}

static address_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (address_t)t.tv_sec * 1000000000u + (address_t)t.tv_nsec;
}

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "no %s behind the logger\n", name);
        exit(2);
    }
    return found;
}

int cuMemAllocAsync(address_t *pointer, size_t bytes, void *stream) {
    static int (*next)(address_t *, size_t, void *);
    if (!next) next = (int (*)(address_t *, size_t, void *))real("cuMemAllocAsync");
    int status = next(pointer, bytes, stream);
    fprintf(log_file(), "%llu + %llx %zu\n", now(), status ? 0 : *pointer, bytes);
    return status;
}

int cuMemFreeAsync(address_t pointer, void *stream) {
    static int (*next)(address_t, void *);
    if (!next) next = (int (*)(address_t, void *))real("cuMemFreeAsync");
    fprintf(log_file(), "%llu - %llx\n", now(), pointer);
    return next(pointer, stream);
}

int cuStreamSynchronize(void *stream) {
    static int (*next)(void *);
    if (!next) next = (int (*)(void *))real("cuStreamSynchronize");
    int status = next(stream);
    fprintf(log_file(), "%llu s\n", now());
    return status;
}

int cuCtxSynchronize(void) {
    static int (*next)(void);
    if (!next) next = (int (*)(void))real("cuCtxSynchronize");
    int status = next();
    fprintf(log_file(), "%llu s\n", now());
    return status;
}
