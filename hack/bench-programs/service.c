/* The service of all measurements: says when it started, says that it is ready, and waits for a signal.
 *
 *   service BOARD:SLOT:COUNT:READY     READY is - (nothing), s (sd_notify), 3 (a newline on descriptor 3), w (has written
 *                                      64 MiB of lines to its standard output) or k (tells the kernel's log of the first
 *                                      start and of the last, and after that one runs /bench/off)
 *
 * One word, so that it fits into a #! line too: a run script of s6 or runit then costs no shell. Further words are
 * ignored (the kernel adds the script's name). It holds BOARD.alive open for writing: when the last service has
 * ended, whoever reads there is told by the kernel.
 *
 * Built twice. As an ordinary static program, with glibc (-DWITH_LIBC): its start asks the processor for its features,
 * and on a virtual machine each of these questions is an exit to the hypervisor, which can take longer than all else
 * and so hides what the supervisors themselves cost. And without any library (-nostdlib), which hides nothing. */
#include "board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void end(int status)
{
    call(SYS_exit_group, status, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

static unsigned number(const char **text)
{
    unsigned value = 0;
    for (++*text; **text >= '0' && **text <= '9'; ++*text)
        value = value * 10 + (unsigned)(**text - '0');
    return value;
}

static void notify(char **environment)
{
    static const char key[] = "NOTIFY_SOCKET=";
    static struct sockaddr_un address = {.sun_family = AF_UNIX};
    for (; *environment; environment++) {
        unsigned same = 0, length = 0;
        while (key[same] && (*environment)[same] == key[same])
            same++;
        if (key[same])
            continue;
        for (const char *name = *environment + same; name[length]; length++) {
            if (length == sizeof address.sun_path)
                end(119);
            address.sun_path[length] = name[length];
        }
        if (address.sun_path[0] == '@')
            address.sun_path[0] = 0;
        long fd = call(SYS_socket, AF_UNIX, SOCK_DGRAM, 0, 0, 0, 0);
        long size = (long)(offsetof(struct sockaddr_un, sun_path) + length);
        if (fd < 0 || call(SYS_sendto, fd, (long)"READY=1", 7, 0, (long)&address, size) != 7)
            end(121);
        call(SYS_close, fd, 0, 0, 0, 0, 0);
        return;
    }
    end(120);
}

/* Lines of 64 bytes, 64 at a time, as stdio writes to what is no terminal. */
static void write_lines(void)
{
    static char lines[4096];
    for (unsigned i = 0; i < sizeof lines; i++)
        lines[i] = i % 64 == 63 ? '\n' : (char)('a' + i % 26);
    for (long left = 64 << 20; left > 0;) {
        long wrote = call(SYS_write, 1, (long)lines, sizeof lines, 0, 0, 0);
        if (wrote < 0)
            end(126);
        left -= wrote;
    }
}

static void log_to_kernel(const char *line, long length)
{
    long fd = call(SYS_open, (long)"/dev/kmsg", O_WRONLY, 0, 0, 0, 0);
    if (fd < 0 || call(SYS_write, fd, (long)line, length, 0, 0, 0) != length)
        end(118);
    call(SYS_close, fd, 0, 0, 0, 0, 0);
}
#define LOG_TO_KERNEL(line) log_to_kernel(line, sizeof line - 1)

/* Of PID 1's kind; a child, so that the service still is one that runs. */
static void power_off(char **environment)
{
    static char *words[] = {(char *)"/bench/off", 0};
    if (call(SYS_fork, 0, 0, 0, 0, 0, 0) == 0) {
        call(SYS_setsid, 0, 0, 0, 0, 0, 0);
        call(SYS_execve, (long)words[0], (long)words, (long)environment, 0, 0, 0);
        end(117);
    }
}

static void run(long count, char **words, char **environment)
{
    struct timespec now;
    call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);

    static char path[PATH_MAX], alive[PATH_MAX];
    if (count < 2)
        end(122);
    const char *text = words[1];
    unsigned length = 0;
    for (; *text && *text != ':' && length < PATH_MAX - 8; text++, length++)
        path[length] = alive[length] = *text;
    for (unsigned i = 0; i < 7; i++)
        alive[length + i] = ".alive"[i];
    unsigned slot = number(&text), slots = number(&text);
    char ready = *text == ':' ? text[1] : 0;
    if (slot >= slots)
        end(122);

    long fd = call(SYS_open, (long)path, O_RDWR, 0, 0, 0, 0);
    if (fd < 0 || (ready != 'k' && call(SYS_open, (long)alive, O_WRONLY | O_NONBLOCK, 0, 0, 0, 0) < 0))
        end(123);
    long size = (long)(sizeof(struct board) + slots * sizeof(struct slot));
    struct board *board = (void *)call(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if ((unsigned long)board > -4096UL)
        end(124);
    call(SYS_close, fd, 0, 0, 0, 0, 0);

    struct slot *own = &board->slots[slot];
    atomic_store(&own->pid, (uint32_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0));
    atomic_store(&own->started, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    atomic_fetch_add(&own->runs, 1);
    if (ready == 's')
        notify(environment);
    else if (ready == '3' && (call(SYS_write, 3, (long)"\n", 1, 0, 0, 0) != 1 || call(SYS_close, 3, 0, 0, 0, 0, 0)))
        end(125);
    else if (ready == 'w')
        write_lines();
    uint32_t started = atomic_fetch_add(&board->count, 1) + 1;
    if (ready == 'k' && started == 1)
        LOG_TO_KERNEL("<0>bench: first");
    if (ready == 'k' && started == slots) {
        LOG_TO_KERNEL("<0>bench: last");
        power_off(environment);
    }
    if (started == atomic_load(&board->target)) {
        atomic_store(&board->reached, 1);
        call(SYS_futex, (long)&board->reached, FUTEX_WAKE, INT_MAX, 0, 0, 0);
    }
    for (;;)
        call(SYS_pause, 0, 0, 0, 0, 0, 0);
}

#ifdef WITH_LIBC
int main(int count, char **words, char **environment)
{
    run(count, words, environment);
}
#else
__attribute__((used)) void start(long *stack)
{
    char **words = (char **)(stack + 1);
    run(stack[0], words, words + stack[0] + 1);
}

__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start\n");
#endif
