/* The least that can be done: vfork, exec, reap. No logs, no state, no groups, no API. What is measured is compared
 * with this.
 *
 *   loop BOARD COUNT SERVICE [chain]
 *
 * Starts COUNT services, one after the other (chain: each once the one before has written a newline), and starts one
 * that ended again at once. SIGTERM: sends SIGTERM to all, reaps all, ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *board, *program;
static unsigned count;
static int chain;

static pid_t start(unsigned slot)
{
    char word[4200];
    char *words[] = {"service", word, NULL};
    int ends[2] = {-1, -1};
    snprintf(word, sizeof word, "%s:%u:%u:%c", board, slot, count, chain ? '3' : '-');
    if (chain && pipe2(ends, O_CLOEXEC))
        exit(111);
    pid_t pid = vfork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (chain)
            dup2(ends[1], 3) == ends[1] ? fcntl(3, F_SETFD, 0) : 0;
        execv(program, words);
        _exit(127);
    }
    if (pid < 0)
        exit(112);
    if (chain) {
        char line;
        close(ends[1]);
        if (read(ends[0], &line, 1) != 1)
            exit(113);
        close(ends[0]);
    }
    return pid;
}

int main(int words, char **word)
{
    if (words < 4)
        return 100;
    board = word[1];
    count = (unsigned)atoi(word[2]);
    program = word[3];
    chain = words > 4 && !strcmp(word[4], "chain");
    pid_t *pids = calloc(count, sizeof *pids);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    for (unsigned slot = 0; slot < count; slot++)
        pids[slot] = start(slot);
    while (sigwaitinfo(&signals, NULL) != SIGTERM) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            for (unsigned slot = 0; slot < count; slot++)
                if (pids[slot] == pid)
                    pids[slot] = start(slot);
    }
    for (unsigned slot = 0; slot < count; slot++)
        kill(pids[slot], SIGTERM);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    return 0;
}
