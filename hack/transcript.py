"""Types the commands of a page into a shell, and holds the page to what they print.

A block whose first line is `# /PATH` is written to that file. In a block of console each line that begins with `# ` is
typed as root, and the lines below it are what it prints, up to numbers, durations and the width of columns. A comment
`<!-- cause: TEXT -->` before such a block demands this text of its `kelsonctl why`, `status` or `health`.

    transcript.py PAGE --root ROOT [--record]
"""
import argparse
import os
import pathlib
import re
import select
import subprocess
import sys
import time

# For one command. Machines that do other things as well are slow.
LONGEST = 180
BLOCK = re.compile(r"^(?:<!-- cause: ([^\n]*) -->\n)?```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
ANSWERS = re.compile(r"# kelsonctl (why|status|health)\b")
DURATION = re.compile(r"\b(?:\d+(?:\.\d+)? ?(?:ms|s|m|h|d)(?![a-z]) ?)+")


class Shell:
    """One bash, which keeps its folder, variables and children from command to command."""

    def __init__(self, root):
        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        command = ["chroot", str(root), "bash"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, bufsize=0
        )
        self.count = 0

    def run(self, command):
        """The lines that it prints."""
        self.count += 1
        mark = f"-- end of command {self.count} --"
        self.process.stdin.write(f"{{ {command}\n}} </dev/null; echo; echo '{mark}'\n".encode())
        text, end = b"", time.monotonic() + LONGEST
        while f"\n{mark}\n".encode() not in text:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            piece = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not piece:
                reason = "the shell has ended" if ready else f"it has not ended within {LONGEST} s"
                sys.exit(f"transcript: {command}: {reason}; it printed:\n{text.decode(errors='replace')}")
            text += piece
        return text.decode(errors="replace").removesuffix(f"\n{mark}\n").rstrip("\n").splitlines()


def typed(block):
    """(command as it is typed, lines that it prints) of a block of console."""
    found = []
    for line in block.splitlines():
        if line.startswith("# ") or (found and not found[-1][1] and found[-1][0].endswith("\\")):
            if line.startswith("# "):
                found.append([line, []])
            else:
                found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line)
        else:
            sys.exit(f"transcript: {line}: nothing was typed that could print this")
    return found


def same(line):
    """What two lines have in common that differ in numbers, durations and widths alone."""
    line = re.sub(r"\d{4}[-/]\d\d[-/]\d\d[T ][\d:.]+(?:Z| UTC)?", "TIME", line)
    line = re.sub(r"(?<=PID )\d+|(?<=[\[(])\d+(?=[\])])|\d+#\d+", "N", line)
    # As many workers as there are CPUs.
    line = re.sub(r"(\S+ \(N\))(?:, \1)+", r"\1", line)
    line = re.sub(r"\b(Linux|Kelson) \d\S*", r"\1", line)
    line = DURATION.sub("DURATION ", line)
    return " ".join(line.split())


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("page", type=pathlib.Path)
    arguments.add_argument("--root", type=pathlib.Path, required=True)
    arguments.add_argument("--record", action="store_true")
    options = arguments.parse_args()
    text = options.page.read_text()
    shell = Shell(options.root)
    complaints, counts = [], {"commands": 0, "causes": 0}

    def step(found):
        cause, language, block = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        path = re.match(r"# (/\S+)\n", block)
        if language != "console":
            if not path:
                sys.exit(f"transcript: {options.page.name}:{line}: a block that is neither a file nor typed")
            file = options.root / path[1][1:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block)
            return found[0]
        answers, lines = [], []
        for command, shown in typed(block):
            counts["commands"] += 1
            now = shell.run(command[2:])
            if ANSWERS.match(command):
                answers += now
            if [same(one) for one in now] != [same(one) for one in shown]:
                if not options.record:
                    told = "\n  ".join(["it prints:", *now, "and not:", *shown])
                    complaints.append(f"{options.page.name}:{line}: {command}\n  {told}")
            else:
                now = shown
            lines += [command, *now]
        if cause:
            counts["causes"] += 1
            if not any(cause in one for one in answers):
                told = "\n  ".join(answers)
                complaints.append(f"{options.page.name}:{line}: nothing names the cause {cause!r}:\n  {told}")
        return found[0][: found.start(3) - found.start()] + "".join(f"{one}\n" for one in lines) + "```"

    new = BLOCK.sub(step, text)
    shell.process.stdin.close()
    shell.process.wait(LONGEST)
    if options.record:
        options.page.write_text(new)
    for complaint in complaints:
        print(f"transcript: {complaint}", file=sys.stderr)
    if complaints:
        sys.exit(1)
    told = f"{counts['commands']} commands typed, {counts['causes']} causes named"
    print(f"transcript: {options.page.name}: {told}", file=sys.stderr)


main()
