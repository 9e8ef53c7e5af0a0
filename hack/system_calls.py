"""The system calls of PID 1, and of its children until their exec, from the output of strace -f -ttt."""
import collections
import re

Call = collections.namedtuple("Call", "time of_child name arguments result")

LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
WHOLE = re.compile(r"(\w+)\((.*)\) += (.*)")
BEGUN = re.compile(r"(\w+)\((.*) <unfinished \.\.\.>")
RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)\) += (.*)")
# How often PID 1 wakes for one operation, and how the client's bytes are cut, differs with the load of the machine.
WAKES = {"epoll_wait", "futex", "restart_syscall", "sched_yield", "recvfrom", "writev"}
WAKES_ANOTHER = r'"\1\0\0\0\0\0\0\0", 8'


def read(file, threads):
    """All calls; `threads` are those of PID 1, all others are children."""
    calls, begun, programs = [], {}, set()
    for line in file.read_text(errors="replace").splitlines():
        found = LINE.fullmatch(line)
        if not found or found[1] in programs:
            continue
        task, time, text = found.groups()
        if call := BEGUN.fullmatch(text):
            begun[task] = (time, *call.groups())
            continue
        if (call := RESUMED.fullmatch(text)) and task in begun:
            time, name, arguments = begun.pop(task)
            arguments, result = arguments + call[1], call[2]
        elif call := WHOLE.fullmatch(text):
            name, arguments, result = call.groups()
        else:
            continue
        of_child = int(task) not in threads
        calls.append(Call(float(time), of_child, name, arguments, result))
        if of_child and name == "execve":
            programs.add(task)
    return calls


class Part:
    """What is counted of some of the calls."""

    def __init__(self, calls):
        # A child resets each signal that was ignored where the host was started, and make ignores other ones than a shell.
        self.of_child = sum(call.of_child and call.name != "rt_sigaction" for call in calls)
        own = [call for call in calls if not call.of_child]
        acts = [call for call in own if not is_wake(call)]
        records = [call for call in acts if call.name == "pwrite64"]
        self.calls, self.wakes = len(acts), len(own) - len(acts)
        self.writes, self.bytes = len(records), sum(int(call.result) for call in records)


def is_wake(call):
    return call.name in WAKES or "EAGAIN" in call.result or (call.name == "write" and WAKES_ANOTHER in call.arguments)
