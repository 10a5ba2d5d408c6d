/* Sees every effect of a process on the files under one folder and on its TCP connections; records them, or kills it at one.

   Preloaded (LD_PRELOAD) into a test's own process. Nothing is counted before effects_arm or effects_record is called. A record is
   for each effect a line "what offset length name", followed by the bytes of a write or send, or the old name of a rename.
   An effect is one call of the C library that changes something outside the process, or takes in an answer. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CHANGE = 1, SYNC = 2, NETWORK = 4 };

static char folder[PATH_MAX];
static size_t folder_length;
static int watched, mistake, record = -1;
static long left, seen;
static int after;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

/* The `at`-th effect (from 1) of these kinds under this folder ends the process, before it happens or right after it;
   with `error` it fails with that errno instead, and so do all later ones if `error` is negative. `at` 0 only counts. */
void effects_arm(const char *under, int kinds, long at, int afterwards, int error) {
    folder_length = strlen(strncpy(folder, under, sizeof folder - 1));
    left = at, seen = 0, after = afterwards, mistake = error, watched = kinds;
}

void effects_record(const char *under, const char *into) {
    record = open(into, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    effects_arm(under, CHANGE | SYNC | NETWORK, 0, 0, 0);
}

long effects_seen(void) { return seen; }

static int named(int fd, char *name) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, PATH_MAX - 1);
    if (length < 0) return 0;
    name[length] = 0;
    return !strncmp(name, folder, folder_length);
}

static int is_network(int fd) {
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    return !getsockname(fd, (struct sockaddr *)&name, &length) && (name.ss_family == AF_INET || name.ss_family == AF_INET6);
}

/* Whether this effect is to fail; the errno is set then. Holds the turn until `leave`. */
static int enter(int kind) {
    if (!(watched & kind)) return 0;
    pthread_mutex_lock(&turn);
    seen++;
    if (!left) return 0;
    if (seen == left && !mistake && !after) kill(getpid(), SIGKILL);
    if (mistake && (seen == left || (mistake < 0 && seen > left))) {
        errno = abs(mistake);
        pthread_mutex_unlock(&turn);
        return 1;
    }
    return 0;
}

static void leave(int kind) {
    if (!(watched & kind)) return;
    if (left && seen == left && !mistake && after) kill(getpid(), SIGKILL);
    int kept = errno;
    pthread_mutex_unlock(&turn);
    errno = kept;
}

static void note(const char *what, const char *name, long offset, long length, const void *bytes) {
    if (record < 0) return;
    char head[PATH_MAX + 100];
    int size = snprintf(head, sizeof head, "%s %ld %ld %s\n", what, offset, length, name);
    if (REAL(write)(record, head, size) != size) abort();
    if (bytes && REAL(write)(record, bytes, length) != length) abort();
}

#define AROUND(kind, failed, call, noted)   \
    do {                                    \
        if (enter(kind)) return failed;     \
        __typeof__(call) result = call;     \
        if ((watched & kind) && result >= 0) { noted; } \
        leave(kind);                        \
        return result;                      \
    } while (0)

static int kind_of(int fd, char *name) {
    if (!watched) return 0;
    if ((watched & NETWORK) && is_network(fd)) return NETWORK;
    return (watched & (CHANGE | SYNC)) && named(fd, name) ? CHANGE : 0;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    char name[PATH_MAX];
    int kind = fd == record ? 0 : kind_of(fd, name);
    if (!kind) return REAL(write)(fd, bytes, length);
    long offset = kind == CHANGE ? lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR) : 0;
    AROUND(kind, -1, REAL(write)(fd, bytes, length), if (kind == CHANGE) note("write", name, offset, result, bytes));
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    char name[PATH_MAX];
    if (kind_of(fd, name) != CHANGE) return REAL(pwrite64)(fd, bytes, length, offset);
    AROUND(CHANGE, -1, REAL(pwrite64)(fd, bytes, length, offset), note("write", name, offset, result, bytes));
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwrite64(fd, bytes, length, offset); }

static int synced(int fd, int (*sync)(int)) {
    char name[PATH_MAX];
    if (!watched || !named(fd, name)) return sync(fd);
    AROUND(SYNC, -1, sync(fd), note("sync", name, 0, 0, NULL));
}

int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

int ftruncate64(int fd, off64_t length) {
    char name[PATH_MAX];
    if (kind_of(fd, name) != CHANGE) return REAL(ftruncate64)(fd, length);
    AROUND(CHANGE, -1, REAL(ftruncate64)(fd, length), note("truncate", name, length, 0, NULL));
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int ours(const char *name) {
    char full[PATH_MAX];
    if (!watched) return 0;
    if (name[0] == '/') return !strncmp(name, folder, folder_length);
    return getcwd(full, sizeof full) && !strncmp(full, folder, folder_length);
}

int unlink(const char *name) {
    if (!ours(name)) return REAL(unlink)(name);
    AROUND(CHANGE, -1, REAL(unlink)(name), note("unlink", name, 0, 0, NULL));
}

int rename(const char *from, const char *to) {
    if (!ours(to)) return REAL(rename)(from, to);
    AROUND(CHANGE, -1, REAL(rename)(from, to), note("rename", to, 0, strlen(from), from));
}

int mkdir(const char *name, mode_t mode) {
    if (!ours(name)) return REAL(mkdir)(name, mode);
    AROUND(CHANGE, -1, REAL(mkdir)(name, mode), note("mkdir", name, 0, 0, NULL));
}

int connect(int fd, const struct sockaddr *to, socklen_t length) {
    if (!(watched & NETWORK) || (to->sa_family != AF_INET && to->sa_family != AF_INET6)) return REAL(connect)(fd, to, length);
    AROUND(NETWORK, -1, REAL(connect)(fd, to, length), );
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    if (!(watched & NETWORK) || !is_network(fd)) return REAL(send)(fd, bytes, length, flags);
    AROUND(NETWORK, -1, REAL(send)(fd, bytes, length, flags), note("send", "", 0, result, bytes));
}

ssize_t recv(int fd, void *bytes, size_t length, int flags) {
    /* Only its end is an effect: while it waits, others must have their turn. */
    ssize_t result = REAL(recv)(fd, bytes, length, flags);
    int kept = errno;
    if (watched & NETWORK && result >= 0 && is_network(fd)) {
        if (enter(NETWORK)) return -1;
        leave(NETWORK);
    }
    errno = kept;
    return result;
}
