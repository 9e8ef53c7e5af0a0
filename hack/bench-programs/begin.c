/* The first program of a machine: logs when it started, and becomes the init that its arguments name. */
#include <fcntl.h>
#include <unistd.h>

int main(int count, char **words)
{
    static const char line[] = "<0>bench: begin";
    int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
    if (count < 2 || fd < 0 || write(fd, line, sizeof line - 1) < 0)
        return 1;
    execv(words[1], words + 1);
    return 1;
}
