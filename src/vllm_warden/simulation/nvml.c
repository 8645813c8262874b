/* nvml.c - a stand-in libnvidia-ml.so.1 whose GPUs are directories, for machines without one.
 * Build: cc -O2 -Wall -fPIC -shared -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 nvml.c
 * Use:   LD_LIBRARY_PATH=<dir of the .so> WARDEN_SIMULATED_GPUS=<state dir> any program that loads NVML
 *
 * $WARDEN_SIMULATED_GPUS/    every call sees what the files say now, so engines and tests just write files;
 *                            only total and reserved, once read, need a change in their gpuN/ to be read again
 *   init_error               nvmlReturn_t that nvmlInit gives (9 = driver not loaded); absent = 0
 *   driver_version
 *   linger_seconds           how long the driver takes to give back the memory of a process that died:
 *                            it drains evenly over that time, owned by nobody; absent = at once
 *   gpu0/ gpu1/ ...          consecutive from 0
 *     name uuid busid total reserved temp power_mw util_gpu util_mem ecc_corrected ecc_uncorrected
 *     stuck                  bytes in use that belong to no process (a leak the driver never freed)
 *     error                  nvmlReturn_t for every call on this GPU (15 = GPU is lost)
 *     delay_ms               each query on this GPU blocks that long (a hanging driver)
 *     procs/<pid>            "BYTES"; counted while <pid> lives, then lingers
 *     procs/<pid>.dead       made by whoever first saw <pid> dead; its time stamp starts the lingering
 *     events                 append "TYPE DATA\n" (8 79 = Xid 79): goes to sets registered earlier
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define API __attribute__((visibility("default"))) int
#define MAXG 16
typedef unsigned int u32; typedef unsigned long long u64;
enum { OK = 0, UNINIT = 1, INVAL = 2, UNSUP = 3, NOTFOUND = 6, SMALL = 7, TIMEOUT = 10, LOST = 15, VERSION = 25 };
typedef struct { int index; } Dev;
typedef struct { u64 total, free, used; } Mem;
typedef struct { u32 version; u64 total, reserved, free, used; } Mem2;
typedef struct { u32 pid; u64 used; u32 gi, ci; } Proc;
typedef struct { u32 pid; u64 used; } Proc1;     /* what the unversioned calls take */
typedef struct { char legacy[16]; u32 domain, bus, device, devid, subsys; char busid[32]; } Pci;
typedef struct { Dev *dev; u64 type, data; u32 gi, ci; } Event;
typedef struct { u64 mask[MAXG]; long off[MAXG]; } Set;
typedef struct { dev_t dev; ino_t ino; off_t size; struct timespec at; int sure; } Stamp;
typedef struct { int pid, fd; u64 bytes; Stamp file; } Held;    /* fd: a pidfd, NONE or DEAD */
typedef struct { Stamp folder, list; u64 total, reserved; int here; Held *held; int count; } Seen;
enum { NONE = -1, DEAD = -2, HAS_DELAY = 1, HAS_ERROR = 2, HAS_STUCK = 4 };
static Dev devs[MAXG]; static int refs;
static Seen seen[MAXG]; static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int path(char *b, size_t n, Dev *d, const char *f) {
    const char *root = getenv("WARDEN_SIMULATED_GPUS"); if (!root) root = "/nonexistent";
    return d ? snprintf(b, n, "%s/gpu%d/%s", root, (int)(d - devs), f) : snprintf(b, n, "%s/%s", root, f);
}
static int rd(Dev *d, const char *f, char *out, size_t n, const char *dflt) {
    /* no stdio: a daemon that samples eight GPUs would be measured by what this costs */
    char p[512]; path(p, sizeof p, d, f); int h = open(p, O_RDONLY | O_CLOEXEC);
    ssize_t got = h < 0 ? -1 : read(h, out, n - 1);
    if (h >= 0) close(h);
    if (got <= 0) { snprintf(out, n, "%s", dflt); return 0; }
    out[got] = 0; out[strcspn(out, "\n")] = 0; return 1;
}
static u64 num(Dev *d, const char *f, u64 dflt) { char b[64]; return rd(d, f, b, sizeof b, "") ? strtoull(b, 0, 0) : dflt; }
static int count(void) { char p[512]; int n = 0; while (n < MAXG) { path(p, sizeof p, &devs[n], ""); if (access(p, F_OK)) break; n++; } return n; }
static double seconds_since(struct timespec t) { struct timespec now; clock_gettime(CLOCK_REALTIME, &now); return (now.tv_sec - t.tv_sec) + (now.tv_nsec - t.tv_nsec) / 1e9; }
/* Whether a file or folder is as it was when it got its stamp; else it gets a new one, and is read after that.
 * Two changes within one tick of the kernel's clock look alike, so a stamp taken soon after a change is not believed. */
static int unchanged(const char *p, Stamp *s) {
    struct stat t; if (stat(p, &t)) { memset(s, 0, sizeof *s); return 0; }
    if (s->sure && s->dev == t.st_dev && s->ino == t.st_ino && s->size == t.st_size && s->at.tv_sec == t.st_ctim.tv_sec && s->at.tv_nsec == t.st_ctim.tv_nsec) return 1;
    *s = (Stamp){ t.st_dev, t.st_ino, t.st_size, t.st_ctim, seconds_since(t.st_ctim) > 0.05 };
    return 0;
}
static int here(Dev *d, const char *f) { char p[512]; path(p, sizeof p, d, f); return !access(p, F_OK); }
/* Whether there is such a GPU; notes which of the rare files it has, and how large it is. */
static int look(Dev *d, int *has) {
    char p[512]; Seen *v = &seen[d - devs]; path(p, sizeof p, d, "");
    pthread_mutex_lock(&lock);
    if (!unchanged(p, &v->folder)) {
        v->here = (here(d, "delay_ms") ? HAS_DELAY : 0) | (here(d, "error") ? HAS_ERROR : 0) | (here(d, "stuck") ? HAS_STUCK : 0);
        v->total = num(d, "total", 80ULL << 30); v->reserved = num(d, "reserved", 512ULL << 20);
    }
    *has = v->here; int found = v->folder.ino != 0;
    pthread_mutex_unlock(&lock); return found;
}
static int chk(Dev *d) {                       /* every device call passes here */
    if (!refs) return UNINIT;
    int has;
    if (d < devs || d >= devs + MAXG || !look(d, &has)) return INVAL;
    if (has & HAS_DELAY) usleep(num(d, "delay_ms", 0) * 1000);
    return has & HAS_ERROR ? (int)num(d, "error", OK) : OK;
}
#define CHK(d) do { int r_ = chk(d); if (r_) return r_; } while (0)
static void text(Dev *d, const char *f, char *o, u32 n) {
    char dflt[96]; int i = d - devs;
    if (!strcmp(f, "name")) strcpy(dflt, "NVIDIA H100 80GB HBM3");
    else if (!strcmp(f, "uuid")) sprintf(dflt, "GPU-fa4e0000-0000-4000-8000-%012d", i);
    else sprintf(dflt, "00000000:%02X:00.0", 0x17 + i);
    rd(d, f, o, n, dflt);
}
static int looks_alive(int pid) {
    char sp[64], st[256];
    if (kill(pid, 0) && errno != EPERM) return 0;
    snprintf(sp, sizeof sp, "/proc/%d/stat", pid);
    int s = open(sp, O_RDONLY | O_CLOEXEC);
    ssize_t got = s < 0 ? -1 : read(s, st, sizeof st - 1);
    if (s >= 0) close(s);
    if (got > 0) st[got] = 0;
    char *c = got > 0 ? strrchr(st, ')') : 0;
    return !(c && (c[2] == 'Z' || c[2] == 'X'));   /* a zombie has no memory any more */
}
static int alive(Held *h) {
    if (h->fd == NONE && (h->fd = syscall(SYS_pidfd_open, h->pid, 0)) < 0) { h->fd = errno == ESRCH ? DEAD : NONE; if (h->fd == NONE) return looks_alive(h->pid); }
    if (h->fd == DEAD) return 0;
    struct pollfd f = { h->fd, POLLIN, 0 }; if (poll(&f, 1, 0) <= 0) return 1;
    close(h->fd); h->fd = DEAD; return 0;
}
static void forget(Seen *v) { for (int i = 0; i < v->count; i++) if (v->held[i].fd >= 0) close(v->held[i].fd); free(v->held); v->held = 0; v->count = 0; memset(&v->list, 0, sizeof v->list); }
/* What is left of a dead process's memory: all of it when its death is first seen, then less. */
static u64 lingering(Dev *d, int pid, u64 bytes) {
    char p[512], f[64], b[64]; struct stat st;
    double linger = rd(0, "linger_seconds", b, sizeof b, "0") ? strtod(b, 0) : 0, age;
    if (linger <= 0) return 0;
    snprintf(f, sizeof f, "procs/%d.dead", pid); path(p, sizeof p, d, f);
    int fd = open(p, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0) { close(fd); return bytes; }
    if (stat(p, &st)) return 0;
    age = seconds_since(st.st_mtim); if (age < 0) age = 0;
    return age >= linger ? 0 : (u64)(bytes * (1 - age / linger));
}
/* The processes that hold memory, looked up again only when one came or went. */
static void list(Dev *d, Seen *v) {
    char p[512]; path(p, sizeof p, d, "procs"); if (unchanged(p, &v->list)) return;
    Stamp stamp = v->list; forget(v); v->list = stamp;
    DIR *h = opendir(p); struct dirent *e; if (!h) return;
    while ((e = readdir(h))) {
        int pid = atoi(e->d_name); if (pid <= 0 || strchr(e->d_name, '.')) continue;
        Held *more = realloc(v->held, (v->count + 1) * sizeof *more); if (!more) break;
        v->held = more; more[v->count++] = (Held){ pid, NONE, 0, { 0 } };
    }
    closedir(h);
}
/* Fills in the living processes; *sum is their memory, *ghost what dead ones still hold. */
static int procs(Dev *d, Proc *out, int max, u64 *sum, u64 *ghost) {
    Seen *v = &seen[d - devs]; int n = 0; *sum = *ghost = 0;
    pthread_mutex_lock(&lock); list(d, v);
    for (Held *h = v->held; h < v->held + v->count; h++) {
        char p[512], f[64], b[64]; snprintf(f, sizeof f, "procs/%d", h->pid); path(p, sizeof p, d, f);
        if (!unchanged(p, &h->file)) {
            if (!rd(d, f, b, sizeof b, "")) { h->file.sure = 0; continue; }
            h->bytes = strtoull(b, 0, 0);
        }
        if (!alive(h)) { *ghost += lingering(d, h->pid, h->bytes); continue; }
        *sum += h->bytes;
        if (out && n < max) out[n] = (Proc){ h->pid, h->bytes, ~0u, ~0u };
        n++;
    }
    pthread_mutex_unlock(&lock); return n;
}
static Mem2 mem(Dev *d) {                      /* after chk, which has looked */
    Mem2 m = { 0 }; u64 s, g; Seen *v = &seen[d - devs]; procs(d, 0, 0, &s, &g); m.total = v->total; m.reserved = v->reserved;
    m.used = s + g + (v->here & HAS_STUCK ? num(d, "stuck", 0) : 0); if (m.used > m.total - m.reserved) m.used = m.total - m.reserved;
    m.free = m.total - m.reserved - m.used; return m;
}
/* --- library --- */
API nvmlInitWithFlags(u32 fl) { (void)fl; int r = (int)num(0, "init_error", OK); if (!r) __sync_add_and_fetch(&refs, 1); return r; }
API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlInit(void) { return nvmlInitWithFlags(0); }
API nvmlShutdown(void) {
    if (refs <= 0) return UNINIT;
    if (!__sync_sub_and_fetch(&refs, 1)) { pthread_mutex_lock(&lock); for (int i = 0; i < MAXG; i++) forget(&seen[i]); pthread_mutex_unlock(&lock); }
    return OK;
}
__attribute__((visibility("default"))) const char *nvmlErrorString(int r) {
    switch (r) { case OK: return "Success"; case UNINIT: return "Uninitialized"; case INVAL: return "Invalid Argument"; case UNSUP: return "Not Supported";
    case 4: return "Insufficient Permissions"; case NOTFOUND: return "Not Found"; case SMALL: return "Insufficient Size"; case 9: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout"; case LOST: return "GPU is lost"; case 16: return "GPU requires reset"; case 18: return "Driver/library version mismatch";
    case VERSION: return "Argument Version Mismatch"; default: return "Unknown Error"; }
}
API nvmlSystemGetDriverVersion(char *o, u32 n) { if (!refs) return UNINIT; rd(0, "driver_version", o, n, "580.95.05"); return OK; }
API nvmlSystemGetNVMLVersion(char *o, u32 n) { if (!refs) return UNINIT; char b[64], v[80]; rd(0, "driver_version", b, sizeof b, "580.95.05"); snprintf(v, sizeof v, "13.%s", b); rd(0, "nvml_version", o, n, v); return OK; }
API nvmlSystemGetCudaDriverVersion_v2(int *v) { if (!refs) return UNINIT; *v = 13000; return OK; }
API nvmlSystemGetCudaDriverVersion(int *v) { return nvmlSystemGetCudaDriverVersion_v2(v); }
API nvmlSystemGetProcessName(u32 pid, char *o, u32 n) { char p[64]; snprintf(p, sizeof p, "/proc/%u/comm", pid); FILE *h = fopen(p, "re"); if (!h) return NOTFOUND; if (!fgets(o, n, h)) *o = 0; o[strcspn(o, "\n")] = 0; fclose(h); return OK; }
/* --- finding devices --- */
API nvmlDeviceGetCount_v2(u32 *n) { if (!refs) return UNINIT; *n = count(); return OK; }
API nvmlDeviceGetCount(u32 *n) { return nvmlDeviceGetCount_v2(n); }
API nvmlDeviceGetHandleByIndex_v2(u32 i, Dev **d) { if (!refs) return UNINIT; if (i >= (u32)count()) return INVAL; *d = &devs[i]; int r = (int)num(*d, "error", OK); return r == LOST ? r : OK; }
API nvmlDeviceGetHandleByIndex(u32 i, Dev **d) { return nvmlDeviceGetHandleByIndex_v2(i, d); }
static int by(const char *f, const char *want, Dev **d) { char b[96]; if (!refs) return UNINIT; if (!want) return INVAL; for (int i = 0; i < count(); i++) { text(&devs[i], f, b, sizeof b); if (!strcasecmp(b, want)) { *d = &devs[i]; return OK; } } return NOTFOUND; }
API nvmlDeviceGetHandleByUUID(const char *u, Dev **d) { return by("uuid", u, d); }
API nvmlDeviceGetHandleByPciBusId_v2(const char *b, Dev **d) { char l[64]; if (b && strlen(b) == 12) { snprintf(l, sizeof l, "0000%s", b); b = l; } return by("busid", b, d); }
API nvmlDeviceGetHandleByPciBusId(const char *b, Dev **d) { return nvmlDeviceGetHandleByPciBusId_v2(b, d); }
/* --- facts --- */
API nvmlDeviceGetIndex(Dev *d, u32 *i) { CHK(d); *i = d - devs; return OK; }
API nvmlDeviceGetMinorNumber(Dev *d, u32 *i) { return nvmlDeviceGetIndex(d, i); }
API nvmlDeviceGetName(Dev *d, char *o, u32 n) { CHK(d); text(d, "name", o, n); return OK; }
API nvmlDeviceGetUUID(Dev *d, char *o, u32 n) { CHK(d); text(d, "uuid", o, n); return OK; }
API nvmlDeviceGetPciInfo_v3(Dev *d, Pci *p) { CHK(d); memset(p, 0, sizeof *p); text(d, "busid", p->busid, sizeof p->busid); sscanf(p->busid, "%x:%x:%x", &p->domain, &p->bus, &p->device); snprintf(p->legacy, 16, "%s", p->busid + 4); p->devid = 0x2bb510de; return OK; }
API nvmlDeviceGetPciInfo_v2(Dev *d, Pci *p) { Pci q; int r = nvmlDeviceGetPciInfo_v3(d, &q); if (!r) memcpy(p, &q, 36); return r; }
API nvmlDeviceGetPciInfo(Dev *d, Pci *p) { return nvmlDeviceGetPciInfo_v3(d, p); }
API nvmlDeviceGetCudaComputeCapability(Dev *d, int *a, int *b) { CHK(d); *a = 12; *b = 0; return OK; }
API nvmlDeviceGetMigMode(Dev *d, u32 *c, u32 *p) { CHK(d); *c = *p = 0; return OK; }
API nvmlDeviceGetComputeMode(Dev *d, int *m) { CHK(d); *m = 0; return OK; }
API nvmlDeviceGetPersistenceMode(Dev *d, int *m) { CHK(d); *m = 1; return OK; }
API nvmlDeviceGetDisplayActive(Dev *d, int *m) { CHK(d); *m = 0; return OK; }
API nvmlDeviceGetBrand(Dev *d, int *m) { CHK(d); *m = 2; return OK; }
API nvmlDeviceGetPerformanceState(Dev *d, int *m) { CHK(d); *m = 0; return OK; }
/* --- readings --- */
API nvmlDeviceGetMemoryInfo(Dev *d, Mem *m) { CHK(d); Mem2 v = mem(d); *m = (Mem){ v.total, v.free, v.used + v.reserved }; return OK; } /* v1 counts reserved as used */
API nvmlDeviceGetMemoryInfo_v2(Dev *d, Mem2 *m) { CHK(d); if (m->version != (sizeof(Mem2) | 2 << 24)) return VERSION; u32 v = m->version; *m = mem(d); m->version = v; return OK; }
API nvmlDeviceGetUtilizationRates(Dev *d, u32 *u) { CHK(d); u[0] = num(d, "util_gpu", 0); u[1] = num(d, "util_mem", 0); return OK; }
API nvmlDeviceGetTemperature(Dev *d, int s, u32 *t) { CHK(d); if (s) return INVAL; *t = num(d, "temp", 35); return OK; }
API nvmlDeviceGetTemperatureThreshold(Dev *d, int w, u32 *t) { CHK(d); *t = w == 1 ? 87 : 92; return OK; }
API nvmlDeviceGetPowerUsage(Dev *d, u32 *w) { CHK(d); *w = num(d, "power_mw", 70000); return OK; }
API nvmlDeviceGetEnforcedPowerLimit(Dev *d, u32 *w) { CHK(d); *w = 700000; return OK; }
API nvmlDeviceGetPowerManagementLimit(Dev *d, u32 *w) { return nvmlDeviceGetEnforcedPowerLimit(d, w); }
API nvmlDeviceGetEccMode(Dev *d, int *c, int *p) { CHK(d); *c = *p = 1; return OK; }
API nvmlDeviceGetTotalEccErrors(Dev *d, int err, int ctr, u64 *n) { (void)ctr; CHK(d); *n = num(d, err ? "ecc_uncorrected" : "ecc_corrected", 0); return OK; }
static int running(Dev *d, u32 *n, Proc *o) {
    CHK(d); u64 s, g; int room = o ? (int)*n : 0, have = procs(d, o, room, &s, &g);
    *n = have; return have > room ? SMALL : OK;
}
API nvmlDeviceGetComputeRunningProcesses_v3(Dev *d, u32 *n, Proc *o) { return running(d, n, o); }
API nvmlDeviceGetComputeRunningProcesses_v2(Dev *d, u32 *n, Proc *o) { return running(d, n, o); }
API nvmlDeviceGetComputeRunningProcesses(Dev *d, u32 *n, Proc1 *o) {
    Proc t[256]; u32 room = *n > 256 ? 256 : *n; *n = room; int r = running(d, n, o ? t : 0);
    for (u32 i = 0; o && i < *n && i < room; i++) o[i] = (Proc1){ t[i].pid, t[i].used };
    return r;
}
API nvmlDeviceGetGraphicsRunningProcesses(Dev *d, u32 *n, Proc1 *o) { (void)o; CHK(d); *n = 0; return OK; }
API nvmlDeviceGetGraphicsRunningProcesses_v3(Dev *d, u32 *n, Proc *o) { (void)o; CHK(d); *n = 0; return OK; }
API nvmlDeviceGetMPSComputeRunningProcesses_v3(Dev *d, u32 *n, Proc *o) { (void)o; CHK(d); *n = 0; return OK; }
/* --- what a passively cooled compute card answers with Not Supported, or what clients only want to exist --- */
#define UNSUPPORTED(f) API f(Dev *d) { CHK(d); return UNSUP; }
UNSUPPORTED(nvmlDeviceGetFanSpeed) UNSUPPORTED(nvmlDeviceGetFanSpeed_v2) UNSUPPORTED(nvmlDeviceGetNumFans) UNSUPPORTED(nvmlDeviceGetDisplayMode)
UNSUPPORTED(nvmlDeviceGetSerial) UNSUPPORTED(nvmlDeviceGetClockInfo) UNSUPPORTED(nvmlDeviceGetMaxClockInfo) UNSUPPORTED(nvmlDeviceGetProcessUtilization)
UNSUPPORTED(nvmlDeviceGetCurrentDriverModel) UNSUPPORTED(nvmlDeviceGetDriverModel_v2) UNSUPPORTED(nvmlDeviceGetFieldValues) UNSUPPORTED(nvmlDeviceGetPcieThroughput)
UNSUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration) UNSUPPORTED(nvmlDeviceGetCurrPcieLinkWidth) UNSUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration)
UNSUPPORTED(nvmlDeviceGetMaxPcieLinkWidth) UNSUPPORTED(nvmlDeviceGetNvLinkState) UNSUPPORTED(nvmlDeviceGetTopologyCommonAncestor) UNSUPPORTED(nvmlDeviceGetP2PStatus)
API nvmlDeviceGetEncoderUtilization(Dev *d, u32 *u, u32 *us) { CHK(d); *u = 0; *us = 167000; return OK; }
API nvmlDeviceGetDecoderUtilization(Dev *d, u32 *u, u32 *us) { return nvmlDeviceGetEncoderUtilization(d, u, us); }
API nvmlDeviceGetBAR1MemoryInfo(Dev *d, Mem *m) { CHK(d); *m = (Mem){ 128ULL << 30, (128ULL << 30) - (1 << 20), 1 << 20 }; return OK; }
/* --- events --- */
API nvmlDeviceGetSupportedEventTypes(Dev *d, u64 *t) { CHK(d); *t = 0x1b; return OK; }
API nvmlEventSetCreate(Set **s) { if (!refs) return UNINIT; *s = calloc(1, sizeof **s); return OK; }
API nvmlEventSetFree(Set *s) { free(s); return OK; }
API nvmlDeviceRegisterEvents(Dev *d, u64 types, Set *s) {
    CHK(d); if (types & ~0x1bULL) return UNSUP;
    char p[512]; path(p, sizeof p, d, "events"); FILE *h = fopen(p, "re"); int i = d - devs; s->mask[i] |= types; s->off[i] = 0;
    if (h) { fseek(h, 0, SEEK_END); s->off[i] = ftell(h); fclose(h); } return OK;
}
API nvmlEventSetWait_v2(Set *s, Event *e, u32 ms) {
    struct timespec t0, t; clock_gettime(CLOCK_MONOTONIC, &t0);
    for (;;) {
        for (int i = 0; i < count(); i++) if (s->mask[i]) {
            char p[512], l[128]; path(p, sizeof p, &devs[i], "events"); FILE *h = fopen(p, "re"); if (!h) continue;
            fseek(h, s->off[i], SEEK_SET);
            while (fgets(l, sizeof l, h) && strchr(l, '\n')) {
                u64 ty = 0, da = 0; s->off[i] = ftell(h); sscanf(l, "%llu %llu", &ty, &da);
                if (ty & s->mask[i]) { *e = (Event){ &devs[i], ty, da, ~0u, ~0u }; fclose(h); return OK; }
            }
            fclose(h);
            if (num(&devs[i], "error", OK) == LOST) return LOST;
        }
        clock_gettime(CLOCK_MONOTONIC, &t);
        if ((t.tv_sec - t0.tv_sec) * 1000 + (t.tv_nsec - t0.tv_nsec) / 1000000 >= (long)ms) return TIMEOUT;
        usleep(20000);
    }
}
API nvmlEventSetWait(Set *s, Event *e, u32 ms) { return nvmlEventSetWait_v2(s, e, ms); }
