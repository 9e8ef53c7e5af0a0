//! A child gets a small table of descriptors, whatever PID 1 holds; and what PID 1 holds is as before.
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::pid_one::{all_processes, as_pid_one, eventually, pipe, processes, read_all};
use kelson_runner::{Cgroup, CgroupRoot, Command, Exit, Processes, Stdio, Step};

/// As many as PID 1 has with 1,000 services, half of them not marked to close.
fn many() -> Vec<OwnedFd> {
    let limit = libc::rlimit { rlim_cur: 8192, rlim_max: 8192 };
    let null = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: plain calls in a process of one test.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        let dup = |number| match number % 2 {
            0 => libc::dup(null.as_raw_fd()),
            _ => libc::fcntl(null.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0),
        };
        (0..4000).map(|number| std::os::fd::FromRawFd::from_raw_fd(dup(number))).collect()
    }
}

/// Number and what stands there.
fn table() -> BTreeMap<i32, String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let named = entries.filter_map(|entry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, link.to_str()?.to_owned()))
    });
    named.filter(|(_, link)| !link.ends_with("/fd")).collect()
}

/// Waits until the table is again as it was, but for what ends by itself.
async fn is_as(before: &BTreeMap<i32, String>) {
    let changed = || {
        let now = table();
        let numbers: BTreeSet<i32> = now.keys().chain(before.keys()).copied().collect();
        let differs = numbers.into_iter().filter(|number| now.get(number) != before.get(number));
        differs
            .map(|number| (number, before.get(&number).cloned(), now.get(&number).cloned()))
            .collect::<Vec<_>>()
    };
    for _ in 0..100 {
        if changed().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("number, before, now: {:?}", changed().into_iter().take(10).collect::<Vec<_>>());
}

fn shell(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script])
}

async fn output(processes: &Processes, command: Command) -> String {
    let (read, write) = pipe();
    let error = write.try_clone().unwrap();
    let command = command.stdout(Stdio::Descriptor(write)).stderr(Stdio::Descriptor(error));
    let child = processes.spawn(command).await.unwrap();
    let text = read_all(read).await;
    assert_eq!(child.exit.await, Exit::Status(0), "{text}");
    text
}

/// The name of the table's size in `/proc/PID/status`.
const SIZE: &str = "sed -n 's/^FDSize:[^0-9]*//p' /proc/$$/status; ls /proc/$$/fd";

fn size_and_numbers(text: &str) -> (u32, Vec<&str>) {
    let (size, numbers) = text.split_once('\n').unwrap();
    (size.parse().unwrap(), numbers.split_whitespace().collect())
}

#[test]
fn p3_a_child_gets_a_small_table_with_its_own_descriptors_alone() {
    as_pid_one(|| async {
        let processes = processes();
        let kept = many();
        // The first start opens what all share.
        output(&processes, shell("true")).await;
        let before = table();
        let text = output(&processes, shell(SIZE)).await;
        let (size, numbers) = size_and_numbers(&text);
        // dash keeps no descriptor of its own for a script of -c.
        assert_eq!(numbers, ["0", "1", "2"]);
        assert!(size <= 256, "the child copied the whole table: {text}");

        let file = std::fs::File::open("/bin/sh").unwrap();
        let high = nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(5000);
        // SAFETY: a descriptor that the kernel just made for us.
        let program: OwnedFd =
            unsafe { std::os::fd::FromRawFd::from_raw_fd(nix::fcntl::fcntl(&file, high).unwrap()) };
        drop(file);
        let command = Command::from_descriptor(program, "sh").args(["-c", SIZE]).descriptor(pipe().0, 7);
        let text = output(&processes, command).await;
        let (size, numbers) = size_and_numbers(&text);
        assert_eq!(numbers, ["0", "1", "2", "7"]);
        assert!(size <= 256, "{text}");

        // More than is reserved for a start: it copies the table, and gets them all the same.
        let mut command = shell(SIZE);
        for number in 3..23 {
            command = command.descriptor(pipe().0, number);
        }
        let text = output(&processes, command).await;
        let (size, numbers) = size_and_numbers(&text);
        assert_eq!(numbers.len(), 23, "{text}");
        assert!(size >= 4096, "{text}");
        is_as(&before).await;
        drop(kept);
    });
}

#[test]
fn starts_side_by_side_get_each_its_own() {
    as_pid_one(|| async {
        let processes = processes();
        let kept = many();
        // The first start opens what all share.
        output(&processes, shell("true")).await;
        let before = table();
        let mut starts = tokio::task::JoinSet::new();
        for number in 0..400 {
            let processes = processes.clone();
            starts.spawn(async move {
                let script = format!("read -r word <&5; echo {number} $word; echo error {number} >&2");
                let (read, write) = pipe();
                nix::unistd::write(&write, format!("word-{number}\n").as_bytes()).unwrap();
                drop(write);
                let ((out, stdout), (err, stderr)) = (pipe(), pipe());
                let command = shell(&script)
                    .descriptor(read, 5)
                    .stdout(Stdio::Descriptor(stdout))
                    .stderr(Stdio::Descriptor(stderr));
                let child = processes.spawn(command).await.unwrap();
                assert_eq!(child.exit.await, Exit::Status(0));
                // The reader comes to its end: nobody else holds the other end.
                assert_eq!(read_all(out).await, format!("{number} word-{number}\n"));
                assert_eq!(read_all(err).await, format!("error {number}\n"));
            });
        }
        while let Some(result) = starts.join_next().await {
            result.unwrap();
        }
        is_as(&before).await;
        drop(kept);
    });
}

#[test]
fn a_start_that_fails_hangs_or_is_given_up_leaves_the_table_as_it_was() {
    as_pid_one(|| async {
        let processes = processes();
        let root = CgroupRoot::discover().unwrap();
        let frozen = Cgroup::create(&root, "frozen").unwrap();
        frozen.freeze().unwrap();
        let kept = many();
        // The first start opens what all share.
        output(&processes, shell("true")).await;
        let before = table();
        let failing: [fn() -> Command; 3] = [
            || Command::new("/usr/bin/nope"),
            || Command::new("/bin/true").working_directory("/nope"),
            || Command::new("/bin/true").descriptor(pipe().0, 100_000_000),
        ];
        let steps = [Step::Execute, Step::WorkingDirectory, Step::Descriptors];
        for (command, step) in failing.into_iter().zip(steps) {
            let (read, write) = pipe();
            let error = processes.spawn(command().stdout(Stdio::Descriptor(write))).await.unwrap_err();
            assert_eq!(error.step, step, "{error}");
            assert_eq!(read_all(read).await, "", "the end is seen");
        }
        is_as(&before).await;

        // Hung at its very first instruction, while the table is still shared.
        for _ in 0..10 {
            let (read, write) = pipe();
            let command = Command::new("/bin/true")
                .cgroup(frozen.folder().unwrap(), "frozen")
                .stdout(Stdio::Descriptor(write));
            let start = processes.spawn(command);
            let _ = tokio::time::timeout(Duration::from_millis(5), start).await.unwrap_err();
            assert_eq!(read_all(read).await, "", "the end is seen");
        }
        // At any instant.
        for pause in 0..200 {
            let (read, write) = pipe();
            let command = Command::new("/bin/sleep").arg("1000").stdout(Stdio::Descriptor(write));
            let begun = std::time::Instant::now();
            let elapsed = async {
                while begun.elapsed() < Duration::from_micros(pause * 5) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                child = processes.spawn(command) => child.unwrap().signal(libc::SIGKILL),
                () = elapsed => {}
            }
            assert_eq!(read_all(read).await, "");
        }
        eventually("all are killed and reaped", || all_processes().is_empty()).await;
        is_as(&before).await;
        // And the numbers are good for the next.
        let text = output(&processes, shell(SIZE)).await;
        assert!(size_and_numbers(&text).0 <= 256, "{text}");
        frozen.remove().unwrap();
        drop(kept);
    });
}
