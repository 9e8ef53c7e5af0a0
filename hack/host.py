"""A host in a PID namespace, for the scripts that measure one."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
TIMEOUT = 60


def binary(name):
    return pathlib.Path(os.environ.get("KELSON_BIN_DIR", TOP / "target/x86_64-unknown-linux-gnu/release")) / name


class Host:
    """`init` (the path of another one, if given) as PID 1 of `unshare`, with these files of services and of the machine."""

    def __init__(self, services, machine="", init=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kelson-host-"))
        for name in ("config/services", "images", "state"):
            (self.folder / name).mkdir(parents=True)
        for name, text in services.items():
            (self.folder / f"config/services/{name}.yaml").write_text(f"name: {name}\n{text}\n")
        (self.folder / "config/machine.yaml").write_text(machine)
        command = ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child", init or binary("init")]
        command += ["--mode", "container", "--config", self.folder / "config", "--runtime-dir", self.folder / "run"]
        command += ["--log-dir", self.folder / "log", "--images", self.folder / "images", "--state-dir", self.folder / "state"]
        # A pipe, as in a container: PID 1 writes a line to it with one system call.
        with open(self.folder / "console", "w", encoding="utf-8") as console:
            self.reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=console)
        with self.reader.stdin as pipe:
            self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind is None:
                subprocess.run([binary("kelsonctl"), "-e", f"unix://{self.socket()}", "poweroff"], check=True, stdout=subprocess.DEVNULL)
                self.process.wait(TIMEOUT)
            else:
                self.process.kill()
                self.process.wait()
        self.reader.wait(TIMEOUT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def socket(self):
        return self.folder / "run/init.sock"

    def console(self):
        return (self.folder / "console").read_text(encoding="utf-8", errors="replace")

    def until(self, what, is_so):
        """What `is_so` returns, once that is true."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end and self.process.poll() is None:
            if found := is_so():
                return found
            time.sleep(0.002)
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {what} did not come within {TIMEOUT} s; the console:\n{self.console()}")

    # ---- what it costs ----

    def init(self):
        """PID 1, in the namespace of this script."""
        unshare = self.process.pid
        children = self.until("PID 1", pathlib.Path(f"/proc/{unshare}/task/{unshare}/children").read_text)
        return int(children.split()[0])

    def own(self):
        """PID 1 and its helpers."""
        init = self.init()
        # Each thread has children of its own.
        children = "".join(read(path) for path in pathlib.Path(f"/proc/{init}/task").glob("*/children")).split()
        return [init] + [int(pid) for pid in children if read(f"/proc/{pid}/comm").startswith("kelson-")]

    def threads(self):
        """Those of PID 1."""
        return {int(task.name) for task in pathlib.Path(f"/proc/{self.init()}/task").iterdir()}

    def switches(self):
        """Context switches of all threads of PID 1 and its helpers until now, voluntary and not."""
        tasks = (task for pid in self.own() for task in pathlib.Path(f"/proc/{pid}/task").glob("*/status"))
        return sum(int(count) for task in tasks for count in re.findall(r"_ctxt_switches:\s+(\d+)", read(task)))

    def timers(self, pid):
        """Timers of a process that run: of the kernel's, and the timeouts of what its threads wait for."""
        descriptors = pathlib.Path(f"/proc/{pid}/fdinfo").iterdir()
        running = sum(bool(re.search(r"^it_value: (?!\(0, 0\))", read(info), flags=re.MULTILINE)) for info in descriptors)
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            number, *arguments = read(task / "syscall").split()
            running += number in FOREVER and arguments[3] != FOREVER[number]
        return running

    def memory(self, pid):
        """Bytes that are a process's own: its heap, its stacks, what it has written to its data."""
        return int(re.search(r"^Pss_Anon: +(\d+)", read(f"/proc/{pid}/smaps_rollup"), flags=re.MULTILINE)[1]) * 1024


# Where a call says that it waits without an end: epoll_wait and futex, by number.
FOREVER = {"232": "0xffffffff", "202": "0x0"}


def read(path):
    """The text of a file in /proc; empty once its process has ended."""
    try:
        return pathlib.Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
