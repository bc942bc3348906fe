/* Drops what was not synced when the power fails: LD_PRELOAD it, and name a folder in UNSYNCED.

   Writes below the folder are passed on and noted. At a random one (UNSYNCED_AFTER) the process ends as a machine does:
   each file is cut back to, or keeps a random part beyond, what its last fsync made safe. A new name that no fsync of its
   folder made safe may be gone. Only what appends, truncates and syncs is covered: that is all that session files do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define MAX 4096
struct known { dev_t dev; ino_t ino; off_t safe; int named; char path[1024]; };
static struct known files[MAX];
static int count, writes, limit = -1;
static const char *root;

static void begin(void) {
    if (limit >= 0) return;
    root = getenv("UNSYNCED");
    const char *after = getenv("UNSYNCED_AFTER");
    limit = after ? atoi(after) : 1 << 30;
    const char *seed = getenv("UNSYNCED_SEED");
    srand(seed ? (unsigned)atoi(seed) : 1);
}

static struct known *entry(int fd) {
    struct stat found;
    char link[64], path[1024];
    begin();
    if (!root || fstat(fd, &found)) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return NULL;
    path[length] = 0;
    if (strncmp(path, root, strlen(root))) return NULL;
    for (int at = 0; at < count; at++)
        if (files[at].dev == found.st_dev && files[at].ino == found.st_ino) {
            strcpy(files[at].path, path);
            return &files[at];
        }
    if (count == MAX) return NULL;
    struct known *made = &files[count++];
    made->dev = found.st_dev; made->ino = found.st_ino;
    made->safe = found.st_size; made->named = found.st_size > 0;
    strcpy(made->path, path);
    return made;
}

static void fail_power(void) {
    for (int at = 0; at < count; at++) {
        struct stat found;
        struct known *one = &files[at];
        if (stat(one->path, &found) || found.st_ino != one->ino || !S_ISREG(found.st_mode)) continue;
        if (!one->named && rand() % 2) { unlink(one->path); continue; }
        if (found.st_size > one->safe) {
            off_t kept = one->safe + rand() % (found.st_size - one->safe + 1);
            if (truncate(one->path, kept)) continue;
            if (rand() % 4 == 0 && kept > one->safe) { /* the size reached the disk, the data did not */
                int fd = open(one->path, O_WRONLY);
                off_t from = one->safe + rand() % (kept - one->safe);
                char zero = 0;
                for (off_t place = from; fd >= 0 && place < kept; place++)
                    if (pwrite64(fd, &zero, 1, place) != 1) break;
                if (fd >= 0) close(fd);
            }
        }
    }
    _exit(137);
}

static void noted(int fd) {
    if (entry(fd) && ++writes >= limit) fail_power();
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write); entry(fd);
    ssize_t done = real(fd, data, size); noted(fd); return done;
}
int fsync(int fd) {
    REAL(fsync);
    struct known *one = entry(fd);
    int done = real(fd);
    struct stat found;
    if (!done && root && !fstat(fd, &found)) {
        if (one && S_ISREG(found.st_mode)) one->safe = found.st_size;
        if (one && S_ISDIR(found.st_mode))
            for (int at = 0; at < count; at++) {
                size_t length = strlen(one->path);
                if (!strncmp(files[at].path, one->path, length) && files[at].path[length] == '/') files[at].named = 1;
            }
    }
    return done;
}
int fdatasync(int fd) { return fsync(fd); }
int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    struct known *one = entry(fd);
    if (one && one->safe > size) one->safe = size;
    return real(fd, size);
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, (off_t)size); }
