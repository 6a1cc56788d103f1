/* Kills the process at the Nth call that changes a file, counted once it is armed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long left = -1; /* -1: not armed */
static atomic_long counted = 0;

void shim_arm(long n) { atomic_store(&counted, 0); atomic_store(&left, n); }
long shim_count(void) { return atomic_load(&counted); }

static void tick(void) {
    if (atomic_load(&left) < 0) return;
    atomic_fetch_add(&counted, 1);
    if (atomic_fetch_sub(&left, 1) == 1) kill(getpid(), SIGKILL);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t done = NEXT(write)(fd, data, size);
    tick();
    return done;
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    ssize_t done = NEXT(pwrite64)(fd, data, size, at);
    tick();
    return done;
}
int fsync(int fd) { int done = NEXT(fsync)(fd); tick(); return done; }
int fdatasync(int fd) { int done = NEXT(fdatasync)(fd); tick(); return done; }
int rename(const char *from, const char *to) { int done = NEXT(rename)(from, to); tick(); return done; }
int renameat(int a, const char *from, int b, const char *to) {
    int done = NEXT(renameat)(a, from, b, to);
    tick();
    return done;
}
int ftruncate64(int fd, off64_t size) { int done = NEXT(ftruncate64)(fd, size); tick(); return done; }
