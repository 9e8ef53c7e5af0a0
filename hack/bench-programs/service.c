/* The service of all measurements: says when it started, says that it is ready, and waits for a signal.
 *
 *   service BOARD:SLOT:COUNT:READY     READY is - (nothing), s (sd_notify) or 3 (a newline on descriptor 3)
 *
 * One word, so that it fits into a #! line too: a run script of s6 or runit then costs no shell. Further words are
 * ignored (the kernel adds the script's name). It holds BOARD.alive open for writing: when the last service has
 * ended, whoever reads there is told by the kernel. */
#define _GNU_SOURCE
#include "board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void notify(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!name || strlen(name) >= sizeof address.sun_path)
        _exit(120);
    strcpy(address.sun_path, name);
    if (*name == '@')
        address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    if (fd < 0 || sendto(fd, "READY=1", 7, 0, (struct sockaddr *)&address, length) != 7)
        _exit(121);
    close(fd);
}

int main(int count, char **words)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);

    char path[PATH_MAX], alive[PATH_MAX + 8], ready;
    unsigned slot, slots;
    if (count < 2 || sscanf(words[1], "%4000[^:]:%u:%u:%c", path, &slot, &slots, &ready) != 4 || slot >= slots)
        _exit(122);
    snprintf(alive, sizeof alive, "%s.alive", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int held = open(alive, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || held < 0)
        _exit(123);
    size_t size = sizeof(struct board) + slots * sizeof(struct slot);
    struct board *board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        _exit(124);
    close(fd);

    struct slot *own = &board->slots[slot];
    atomic_store(&own->pid, (uint32_t)getpid());
    atomic_store(&own->started, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    atomic_fetch_add(&own->runs, 1);
    if (ready == 's')
        notify();
    else if (ready == '3' && (write(3, "\n", 1) != 1 || close(3)))
        _exit(125);
    if (atomic_fetch_add(&board->count, 1) + 1 == atomic_load(&board->target)) {
        atomic_store(&board->reached, 1);
        syscall(SYS_futex, &board->reached, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    for (;;)
        pause();
}
