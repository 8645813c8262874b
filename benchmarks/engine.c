/* engine.c - the smallest program that vllm-warden takes for a vLLM server, so that what is timed
 * is the supervisor and not the start of Python. It is the interpreter in the first line of a
 * script named vllm; given an option (the daemon asks for vLLM's version) it becomes the real Python that it was compiled with.
 *
 * Its first action is to append "PID CLOCK_BOOTTIME" (nanoseconds) to the file named by BENCH_STARTS.
 * With BENCH_REPLAY it prints that file line by line, appends "PID CLOCK_REALTIME" to BENCH_ENDS
 * after the last line, and exits 1. Otherwise it serves HTTP on the port after --port until killed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void stamp(const char *variable, clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    const char *path = getenv(variable);
    char line[64];
    int size = snprintf(line, sizeof line, "%d %lld\n", (int)getpid(),
                        now.tv_sec * 1000000000LL + now.tv_nsec);
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file >= 0) {
        if (write(file, line, size) != size) _exit(74);
        close(file);
    }
}

static int replay(const char *path) {
    FILE *log = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    if (!log) return 66;
    while ((size = getline(&line, &room, log)) > 0)
        if (write(1, line, size) != size) return 74;
    stamp("BENCH_ENDS", CLOCK_REALTIME);
    return 1;
}

static void answer(int peer) {
    char request[8192], reply[1024];
    ssize_t size;
    while ((size = recv(peer, request, sizeof request - 1, 0)) > 0) {
        request[size] = 0;
        const char *length = strcasestr(request, "content-length:"), *body = strstr(request, "\r\n\r\n");
        long missing = length && body ? atol(length + 15) - (request + size - body - 4) : 0;
        while (missing > 0 && (size = recv(peer, reply, sizeof reply, 0)) > 0) missing -= size;
        const char *text = !strncmp(request, "GET /v1/models", 14) ? "{\"data\":[{\"id\":\"m\"}]}"
                         : !strncmp(request, "POST /v1/completions", 20) ? "{\"choices\":[{\"text\":\"1\"}]}"
                         : "";
        int filled = snprintf(reply, sizeof reply,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
            strlen(text), text);
        if (send(peer, reply, filled, MSG_NOSIGNAL) != filled) break;
    }
    close(peer);
}

static int serve(int port) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    signal(SIGCHLD, SIG_IGN);
    int one = 1, listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (void *)&address, sizeof address) || listen(listening, 64)) return 69;
    for (;;) {
        int peer = accept(listening, NULL, NULL);
        if (peer < 0) continue;
        if (!fork()) { close(listening); answer(peer); _exit(0); }
        close(peer);
    }
}

int main(int count, char **words) {
    if (count > 1 && words[1][0] == '-') {
        words[0] = BENCH_PYTHON;
        execv(BENCH_PYTHON, words);
        return 127;
    }
    stamp("BENCH_STARTS", CLOCK_BOOTTIME);
    const char *log = getenv("BENCH_REPLAY");
    if (log) return replay(log);
    int port = 0;
    for (int at = 1; at + 1 < count; at++)
        if (!strcmp(words[at], "--port")) port = atoi(words[at + 1]);
    return serve(port);
}
