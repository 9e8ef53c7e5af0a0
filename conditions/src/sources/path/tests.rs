//! Paths followed for real: by PID 1's own task on `/dev/shm`, through a process's worth of code under `/tmp`.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};

use kelson_helper::task::WATCH_PATHS;
use kelson_helper::{CONTROL, Launched, Start};
use tokio::time::{Instant, sleep, timeout};

use super::tree::Tree;
use super::walk::{Finding, Question, Type};
use super::*;
use crate::missing::sentence;

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(base: &str) -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(base).join(format!("kelson-paths-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("makes a folder");
        Folder(path)
    }

    fn on_memory() -> Folder {
        let folder = Folder::new("/dev/shm");
        assert!(is_memory(&folder.0), "/dev/shm must be a tmpfs");
        folder
    }

    fn on_disk() -> Folder {
        let folder = Folder::new("/tmp");
        assert!(!is_memory(&folder.0), "/tmp must not be a memory file system");
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn make(&self, name: &str) {
        fs::create_dir_all(self.at(name)).expect("makes a folder");
    }

    fn write(&self, name: &str) {
        fs::write(self.at(name), "").expect("makes a file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_memory(path: &Path) -> bool {
    let table = fs::read("/proc/self/mountinfo").expect("proc is mounted");
    mounts::Mounts::parse(&table).of(path).is_memory()
}

/// The behaviour of the next process.
enum Behaviour {
    Serve,
    /// Never reads or answers, as on a dead disk.
    Hang,
    Fail,
}

#[derive(Default)]
struct Spawner {
    script: Mutex<VecDeque<Behaviour>>,
    spawned: AtomicUsize,
    /// Leases that were not dropped.
    alive: Arc<AtomicUsize>,
    /// Cuts a process's connection.
    cuts: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Launcher for Spawner {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        assert_eq!(start.arguments, [WATCH_PATHS]);
        let behaviour = self.script.lock().expect("lock").pop_front().unwrap_or(Behaviour::Serve);
        self.spawned.fetch_add(1, Ordering::Relaxed);
        let socket = start.take(CONTROL).expect("it has one");
        let mut kept = None;
        match behaviour {
            Behaviour::Fail => return Box::pin(async { Err(io::Error::other("out of processes")) }),
            Behaviour::Hang => kept = Some(socket),
            Behaviour::Serve => {
                let task = tokio::spawn(async move { helper::serve_paths(socket).await });
                self.cuts.lock().expect("lock").push(task.abort_handle());
            }
        }
        self.alive.fetch_add(1, Ordering::Relaxed);
        let alive = Arc::clone(&self.alive);
        let kill = move || {
            let _held = &kept;
            alive.fetch_sub(1, Ordering::Relaxed);
        };
        launched(kill)
    }
}

fn launched(kill: impl Fn() + Send + Sync + 'static) -> BoxFuture<'static, io::Result<Launched>> {
    let exit = Box::pin(std::future::pending());
    Box::pin(async { Ok(Launched { pid: 7, start_time: 0, exit, kill: Box::new(kill) }) })
}

fn paths() -> (Arc<Spawner>, Paths) {
    scripted([])
}

fn scripted(script: impl Into<VecDeque<Behaviour>>) -> (Arc<Spawner>, Paths) {
    let spawner = Arc::new(Spawner { script: Mutex::new(script.into()), ..Spawner::default() });
    (Arc::clone(&spawner), Paths::new(spawner))
}

/// Waits until the condition has this level, and is sure of it.
async fn becomes(condition: &mut PathCondition, exists: bool) {
    let path = condition.asked.0.clone();
    let reached = timeout(Duration::from_secs(10), async {
        while condition.presence.borrow().answer() != Some(exists) {
            condition.changed().await;
        }
    });
    reached.await.unwrap_or_else(|_| panic!("{path:?}: exists is not {exists}"));
    assert_eq!(condition.holds(), exists);
    assert_eq!(condition.missing().is_empty(), exists);
}

/// Everything that can happen to a path, in either kind of place.
async fn comes_and_goes(folder: &Folder, paths: &Paths) {
    let file = folder.at("a/b/file");
    let mut condition = paths.condition(&file);
    assert_eq!(sentence(&condition.missing()), format!("path {file:?} to exist"));
    becomes(&mut condition, false).await;

    folder.make("a");
    folder.make("a/b");
    folder.write("a/b/file");
    becomes(&mut condition, true).await;
    fs::remove_file(&file).expect("removes");
    becomes(&mut condition, false).await;
    folder.write("a/b/other");
    fs::rename(folder.at("a/b/other"), &file).expect("moves in");
    becomes(&mut condition, true).await;
    fs::rename(&file, folder.at("a/b/other")).expect("moves out");
    becomes(&mut condition, false).await;
    fs::hard_link(folder.at("a/b/other"), &file).expect("links");
    becomes(&mut condition, true).await;

    // A folder further up is moved away, and another takes its place.
    fs::rename(folder.at("a"), folder.at("moved")).expect("moves");
    becomes(&mut condition, false).await;
    folder.make("a/b");
    folder.write("moved/b/in-the-old-place");
    folder.write("a/b/file");
    becomes(&mut condition, true).await;
    fs::remove_dir_all(folder.at("a")).expect("removes");
    becomes(&mut condition, false).await;
    folder.make("a/b");
    folder.write("a/b/file");
    becomes(&mut condition, true).await;

    // A file where a folder was.
    fs::remove_dir_all(folder.at("a")).expect("removes");
    folder.write("a");
    becomes(&mut condition, false).await;
}

async fn links(folder: &Folder, paths: &Paths) {
    symlink("target/file", folder.at("link")).expect("links");
    let mut condition = paths.condition(folder.at("link"));
    becomes(&mut condition, false).await;
    folder.make("target");
    folder.write("target/file");
    becomes(&mut condition, true).await;
    fs::remove_file(folder.at("target/file")).expect("removes");
    becomes(&mut condition, false).await;

    // The link is swapped at once for one to another place, by an absolute path and `..`.
    folder.make("elsewhere/deep");
    symlink(folder.at("elsewhere/deep/../deep/.."), folder.at("new")).expect("links");
    fs::rename(folder.at("new"), folder.at("link")).expect("swaps");
    becomes(&mut condition, true).await;
    fs::remove_dir_all(folder.at("elsewhere")).expect("removes");
    becomes(&mut condition, false).await;

    symlink("circle", folder.at("circle")).expect("links");
    let mut circle = paths.condition(folder.at("circle"));
    becomes(&mut circle, false).await;
}

#[tokio::test]
async fn a_path_on_memory_comes_and_goes_without_a_process() {
    let (spawner, paths) = paths();
    let folder = Folder::on_memory();
    comes_and_goes(&folder, &paths).await;
    links(&folder, &paths).await;
    assert_eq!(spawner.spawned.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_path_on_a_disk_comes_and_goes_through_one_process() {
    let (spawner, paths) = paths();
    let folder = Folder::on_disk();
    comes_and_goes(&folder, &paths).await;
    links(&folder, &paths).await;
    assert_eq!(spawner.spawned.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_link_from_memory_to_a_disk_is_followed_by_the_process() {
    let (spawner, paths) = paths();
    let (memory, disk) = (Folder::on_memory(), Folder::on_disk());
    memory.write("here");
    symlink(memory.at("here"), memory.at("link")).expect("links");
    let mut condition = paths.condition(memory.at("link"));
    becomes(&mut condition, true).await;
    assert_eq!(spawner.spawned.load(Ordering::Relaxed), 0);

    symlink(disk.at("there"), memory.at("new")).expect("links");
    fs::rename(memory.at("new"), memory.at("link")).expect("swaps");
    becomes(&mut condition, false).await;
    assert_eq!(spawner.spawned.load(Ordering::Relaxed), 1);
    disk.write("there");
    becomes(&mut condition, true).await;

    // And back: from the disk to memory.
    fs::remove_file(disk.at("there")).expect("removes");
    symlink(memory.at("later"), disk.at("there")).expect("links");
    becomes(&mut condition, false).await;
    memory.write("later");
    becomes(&mut condition, true).await;
    fs::remove_file(memory.at("link")).expect("removes");
    becomes(&mut condition, false).await;
}

#[tokio::test]
async fn the_process_ends_when_its_socket_closes() {
    let (process, ended) = std::sync::mpsc::channel();
    /// The real entry, with a runtime of its own.
    struct Real(std::sync::mpsc::Sender<std::thread::JoinHandle<io::Result<()>>>);
    impl Launcher for Real {
        fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
            let socket = start.take(CONTROL).expect("it has one");
            self.0.send(std::thread::spawn(move || path_helper(socket))).expect("somebody waits");
            launched(|| {})
        }
    }
    let paths = Paths::new(Arc::new(Real(process)));
    let folder = Folder::on_disk();
    assert_eq!(paths.exists_now(&folder.0, Duration::from_secs(10)).await, Some(true));
    assert_eq!(paths.exists_now(folder.at("x"), Duration::from_secs(10)).await, Some(false));
    // Nobody wants a path any more: the process is ended.
    let ended =
        tokio::task::spawn_blocking(move || ended.recv().expect("it was started").join().expect("joins"));
    timeout(Duration::from_secs(10), ended).await.expect("in time").expect("joins").expect("a good end");
}

#[tokio::test]
async fn a_process_that_dies_is_replaced_and_its_answers_are_forgotten() {
    let (spawner, paths) = paths();
    let folder = Folder::on_disk();
    folder.write("file");
    let mut condition = paths.condition(folder.at("file"));
    becomes(&mut condition, true).await;
    for cut in spawner.cuts.lock().expect("lock").drain(..) {
        cut.abort();
    }
    timeout(Duration::from_secs(10), condition.changed()).await.expect("it is no longer known");
    assert!(!condition.holds());
    assert_eq!(spawner.alive.load(Ordering::Relaxed), 0, "the dead process is let go");
    fs::remove_file(folder.at("file")).expect("removes");
    becomes(&mut condition, false).await;
    assert_eq!(spawner.spawned.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_file_system_that_does_not_answer_says_so_and_hurts_nobody_else() {
    let (spawner, paths) = scripted([Behaviour::Hang]);
    let (memory, disk) = (Folder::on_memory(), Folder::on_disk());
    let path = disk.at("file");
    let mut stuck = paths.condition(&path);
    let start = Instant::now();
    timeout(Duration::from_secs(60), stuck.changed()).await.expect("the text changes");
    assert!((2000..2100).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert_eq!(
        sentence(&stuck.missing()),
        format!("path {path:?} to exist (its file system does not answer)")
    );
    assert_eq!(paths.exists_now(&path, Duration::from_secs(1)).await, None);
    memory.write("file");
    assert_eq!(paths.exists_now(memory.at("file"), Duration::from_secs(1)).await, Some(true));
    assert_eq!(spawner.spawned.load(Ordering::Relaxed), 1);
    drop(stuck);
    // Ended a second after the last path, whether it answers or not.
    while spawner.alive.load(Ordering::Relaxed) > 0 {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn processes_that_cannot_be_started_are_asked_for_ever_more_rarely() {
    let failures = 8;
    let (spawner, paths) = scripted((0..failures).map(|_| Behaviour::Fail).collect::<VecDeque<_>>());
    let disk = Folder::on_disk();
    let path = disk.at("file");
    let mut condition = paths.condition(&path);
    let start = Instant::now();
    timeout(Duration::from_secs(5), condition.changed()).await.expect("the text changes");
    let text = "no process to look for it could be started: out of processes";
    assert_eq!(sentence(&condition.missing()), format!("path {path:?} to exist ({text})"));
    disk.write("file");
    while spawner.spawned.load(Ordering::Relaxed) < failures {
        sleep(Duration::from_millis(50)).await;
    }
    // 1 + 2 + 4 + 8 + 16 + 30 + 30
    assert_eq!(start.elapsed().as_secs(), 91);
    timeout(Duration::from_secs(60), condition.wait()).await.expect("the next one answers");
    assert_eq!(start.elapsed().as_secs(), 121);
}

#[tokio::test]
async fn a_path_longer_than_paths_can_be_is_missing() {
    let (spawner, paths) = paths();
    let long = Folder::on_disk().at(&"x".repeat(5000));
    assert_eq!(paths.exists_now(long, Duration::from_secs(10)).await, Some(false));
    assert_eq!(spawner.spawned.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn many_conditions_of_one_path_share_it_and_nothing_stays() {
    let (_, paths) = paths();
    let folder = Folder::on_memory();
    let mut conditions: Vec<PathCondition> = (0..100).map(|_| paths.condition(folder.at("file"))).collect();
    assert_eq!(lock(&paths.shared.registry).wanted.len(), 1);
    folder.write("file");
    for condition in &mut conditions {
        becomes(condition, true).await;
    }
    drop(conditions);
    assert!(lock(&paths.shared.registry).wanted.is_empty());
    let ended = async {
        while lock(&paths.shared.registry).hub.is_some() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), ended).await.expect("the task ends after the last condition");
    let mut again = paths.condition(folder.at("file"));
    becomes(&mut again, true).await;
}

#[tokio::test]
async fn after_the_end_nothing_is_followed() {
    let (_, paths) = paths();
    let folder = Folder::on_memory();
    let mut before = paths.condition(folder.at("file"));
    becomes(&mut before, false).await;
    paths.end().await;
    // The hub, and with it the table of mounts, is gone: all that held the state are the two sides of the condition.
    assert_eq!(Arc::strong_count(&paths.shared), 2);
    folder.write("file");
    let after = paths.condition(folder.at("other"));
    sleep(Duration::from_millis(50)).await;
    assert_eq!((before.level(), after.level()), (Level::DoesNotHold, Level::Unknown));
    assert!(lock(&paths.shared.registry).hub.is_none());
}

#[tokio::test]
async fn a_device_is_one_by_its_type_and_a_file_of_its_name_is_none() {
    let folder = Folder::on_memory();
    let (_, paths) = paths();
    let link = folder.at("by-label");
    let (mut device, mut path) = (paths.device(&link), paths.condition(&link));
    becomes(&mut device, false).await;
    assert_eq!(sentence(&device.missing()), format!("device {link:?} to exist"));
    symlink("/dev/null", &link).expect("links");
    becomes(&mut device, true).await;
    becomes(&mut path, true).await;
    fs::remove_file(&link).expect("removes");
    becomes(&mut device, false).await;
    folder.write("by-label");
    becomes(&mut path, true).await;
    assert_eq!(device.level(), Level::DoesNotHold);
    assert_eq!(sentence(&device.missing()), format!("device {link:?} to exist (it is not a device)"));
}

#[tokio::test]
async fn watches_are_shared_and_taken_away() {
    let folder = Folder::on_memory();
    folder.make("a");
    let mut tree = Tree::new();
    assert_eq!(tree.want(1, folder.at("a/x"), Question::Exists, vec![]), Finding::Missing);
    let one = tree.watched_folders();
    assert_eq!(tree.want(2, folder.at("a/y"), Question::Exists, vec![]), Finding::Missing);
    assert_eq!(tree.watched_folders(), one, "the same folders");
    folder.write("a/x");
    assert_eq!(changes(&mut tree).await, [(1, Finding::Exists(Type::Other))]);
    tree.forget(1);
    assert_eq!(tree.watched_folders(), one);
    tree.forget(2);
    assert_eq!(tree.watched_folders(), 0);
}

#[tokio::test]
async fn names_that_nobody_wants_wake_nobody() {
    let folder = Folder::on_memory();
    let mut tree = Tree::new();
    tree.want(1, folder.at("x"), Question::Exists, vec![]);
    for number in 0..100 {
        folder.write(&format!("other-{number}"));
    }
    folder.write("x");
    assert_eq!(changes(&mut tree).await, [(1, Finding::Exists(Type::Other))]);
}

#[tokio::test]
async fn an_overflow_of_the_queue_loses_nothing() {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("inotify");
    let limit: usize = limit.trim().parse().expect("a number");
    let folder = Folder::on_memory();
    let mut tree = Tree::new();
    tree.want(1, folder.at("x"), Question::Exists, vec![]);
    let mount = tree.mounts().of(&folder.0).key.id;
    let changed = Question::Changed { writes: false, number: 1 };
    assert_eq!(tree.want(2, folder.at("y"), changed, vec![mount]), Finding::Missing);
    // Two names in turn: the kernel merges only what follows upon its like.
    folder.write("a");
    for _ in 0..=limit / 4 {
        fs::rename(folder.at("a"), folder.at("b")).expect("moves");
        fs::rename(folder.at("b"), folder.at("a")).expect("moves");
    }
    folder.write("x");
    // What was lost may have been a change of the other path.
    let mut found = Vec::new();
    while found.len() < 2 {
        found.extend(changes(&mut tree).await);
    }
    found.sort_by_key(|(id, _)| *id);
    assert_eq!(found, [1, 2].map(|id| (id, Finding::Exists(Type::Other))));
}

#[tokio::test(start_paused = true)]
async fn what_the_kernel_makes_in_proc_is_looked_for() {
    // No inotify event tells of a thread's folder.
    let (_, paths) = paths();
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (number, mut numbers) = tokio::sync::mpsc::unbounded_channel();
    let thread = std::thread::spawn(move || {
        number.send(nix::unistd::gettid().as_raw()).expect("sends");
        told.recv().expect("is told");
    });
    let id = numbers.recv().await.expect("a number");
    let path = PathBuf::from(format!("/proc/{}/task/{id}/comm", std::process::id()));
    assert_eq!(paths.exists_now(&path, Duration::from_secs(10)).await, Some(true));
    let mut condition = paths.condition(&path);
    becomes(&mut condition, true).await;
    tell.send(()).expect("tells");
    thread.join().expect("joins");
    let gone = timeout(Duration::from_secs(30), async {
        while condition.holds() {
            condition.changed().await;
        }
    });
    gone.await.expect("it is gone");
}

async fn changes(tree: &mut Tree) -> Vec<(u64, Finding)> {
    let found = timeout(Duration::from_secs(10), async {
        loop {
            let changes = tree.changes().await;
            if !changes.found.is_empty() {
                return changes.found;
            }
        }
    });
    found.await.expect("something changes")
}

mod mounted {
    //! Mounts come and go, on a thread with a mount namespace of its own.

    use nix::mount::{MntFlags, MsFlags, mount, umount2};

    use super::*;

    fn in_new_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
        let thread = std::thread::spawn(move || {
            // SAFETY: unshare changes this thread alone.
            let done = unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) };
            assert_eq!(done, 0, "needs root: {}", io::Error::last_os_error());
            let nothing: Option<&str> = None;
            mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).expect("private");
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(test());
        });
        thread.join().expect("the test's thread");
    }

    fn tmpfs(at: &Path) {
        mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some("size=64k")).expect("mounts");
    }

    /// Mounts a folder of a disk somewhere else: a mount of its own, and no memory.
    fn bind(from: &Path, at: &Path) {
        let nothing: Option<&str> = None;
        mount(Some(from), at, nothing, MsFlags::MS_BIND, nothing).expect("mounts");
    }

    async fn spawned(spawner: &Spawner, count: usize) {
        assert_eq!(spawner.spawned.load(Ordering::Relaxed), count);
    }

    /// A tmpfs is mounted over a folder, and unmounted.
    async fn covered_and_uncovered(folder: &Folder, paths: &Paths) {
        folder.make("m");
        folder.write("m/below");
        let mut below = paths.condition(folder.at("m/below"));
        let mut above = paths.condition(folder.at("m/deep/above"));
        becomes(&mut below, true).await;
        becomes(&mut above, false).await;
        tmpfs(&folder.at("m"));
        becomes(&mut below, false).await;
        folder.make("m/deep");
        folder.write("m/deep/above");
        becomes(&mut above, true).await;
        umount2(&folder.at("m"), MntFlags::MNT_DETACH).expect("unmounts");
        becomes(&mut above, false).await;
        becomes(&mut below, true).await;
    }

    #[test]
    fn a_mount_over_a_folder_on_memory() {
        in_new_namespace(|| async {
            let (spawner, paths) = paths();
            covered_and_uncovered(&Folder::on_memory(), &paths).await;
            spawned(&spawner, 0).await;
        });
    }

    #[test]
    fn a_mount_over_a_folder_on_a_disk() {
        in_new_namespace(|| async {
            let (spawner, paths) = paths();
            covered_and_uncovered(&Folder::on_disk(), &paths).await;
            assert!(spawner.spawned.load(Ordering::Relaxed) >= 1);
        });
    }

    #[test]
    fn a_disk_that_is_mounted_below_memory_gets_a_process_of_its_own() {
        in_new_namespace(|| async {
            let (spawner, paths) = paths();
            let (memory, disk) = (Folder::on_memory(), Folder::on_disk());
            memory.make("mnt");
            let mut inside = paths.condition(memory.at("mnt/file"));
            becomes(&mut inside, false).await;
            disk.write("file");
            let mut direct = paths.condition(disk.at("file"));
            becomes(&mut direct, true).await;
            spawned(&spawner, 1).await;
            bind(&disk.0, &memory.at("mnt"));
            becomes(&mut inside, true).await;
            spawned(&spawner, 2).await;
            fs::remove_file(disk.at("file")).expect("removes");
            becomes(&mut inside, false).await;
            becomes(&mut direct, false).await;
            disk.write("file");
            becomes(&mut inside, true).await;
            umount2(&memory.at("mnt"), MntFlags::MNT_DETACH).expect("unmounts");
            becomes(&mut inside, false).await;
            becomes(&mut direct, true).await;
        });
    }

    #[test]
    fn a_link_to_a_dead_disk_stops_no_other_path_of_its_own_disk() {
        in_new_namespace(|| async {
            let (spawner, paths) = scripted([Behaviour::Serve, Behaviour::Hang]);
            let (memory, disk, dead) = (Folder::on_memory(), Folder::on_disk(), Folder::on_disk());
            memory.make("mnt");
            bind(&dead.0, &memory.at("mnt"));
            symlink(memory.at("mnt/file"), disk.at("link")).expect("links");
            dead.write("file");
            disk.write("file");
            let mut stuck = paths.condition(disk.at("link"));
            let mut good = paths.condition(disk.at("file"));
            becomes(&mut good, true).await;
            let silent = async {
                while *stuck.presence.borrow() != Presence::Silent {
                    stuck.changed().await;
                }
            };
            timeout(Duration::from_secs(10), silent).await.expect("the dead disk does not answer");
            spawned(&spawner, 2).await;
            fs::remove_file(disk.at("file")).expect("removes");
            becomes(&mut good, false).await;
            // The dead disk is let go: its process with it, and the path leads nowhere.
            umount2(&memory.at("mnt"), MntFlags::MNT_DETACH).expect("unmounts");
            becomes(&mut stuck, false).await;
        });
    }
}

fn trigger(event: PathEvent, path: &Path) -> PathTrigger {
    PathTrigger { event, path: path.display().to_string() }
}

#[tokio::test]
async fn a_folder_has_something_in_it_or_not() {
    for folder in [Folder::on_memory(), Folder::on_disk()] {
        let (_, paths) = paths();
        let spool = folder.at("spool");
        let mut any = paths.trigger(&trigger(PathEvent::NotEmpty, &spool));
        let mut jobs = paths.trigger(&trigger(PathEvent::Exists, &folder.at("spool/*.job")));
        becomes(&mut any, false).await;
        assert_eq!(sentence(&any.missing()), format!("something in {spool:?}"));
        folder.make("spool");
        for name in ["spool/.hidden", "spool/.hidden.job", "spool/backup~"] {
            folder.write(name);
        }
        folder.write("spool/a");
        becomes(&mut any, true).await;
        assert_eq!(jobs.level(), Level::DoesNotHold);
        folder.write("spool/a.job");
        becomes(&mut jobs, true).await;
        fs::remove_file(folder.at("spool/a")).expect("removes");
        fs::remove_file(folder.at("spool/a.job")).expect("removes");
        becomes(&mut any, false).await;
        becomes(&mut jobs, false).await;
        // A file is no folder.
        fs::remove_dir_all(&spool).expect("removes");
        folder.write("spool");
        let mut other = paths.trigger(&trigger(PathEvent::NotEmpty, &spool));
        becomes(&mut other, false).await;
        assert!(!any.holds());
    }
}

/// What a folder or file undergoes, and what it is to the two events of a change.
#[tokio::test]
async fn a_change_is_seen_once_and_stays() {
    type Change = fn(&Folder);
    let write = |folder: &Folder, name: &str| {
        use std::io::Write as _;
        let mut file = fs::OpenOptions::new().append(true).open(folder.at(name)).expect("opens");
        file.write_all(b"x").expect("writes");
        // It stays open: only a write has happened.
        std::mem::forget(file);
    };
    let changes: [(&str, Change, bool, bool); 8] = [
        ("file", |folder| drop(fs::write(folder.at("file"), "new")), true, true),
        ("file", |folder| fs::remove_file(folder.at("file")).expect("removes"), true, true),
        ("file", |folder| fs::rename(folder.at("other"), folder.at("file")).expect("moves"), true, true),
        ("missing", |folder| folder.write("missing"), true, true),
        ("folder", |folder| folder.write("folder/new"), true, true),
        ("folder", |folder| drop(fs::write(folder.at("folder/old"), "new")), true, true),
        ("file", |folder| folder.write("neighbour"), false, false),
        ("missing/below", |folder| folder.write("neighbour"), false, false),
    ];
    let make = || {
        let folder = Folder::on_disk();
        folder.make("folder");
        for name in ["file", "other", "folder/old"] {
            folder.write(name);
        }
        folder
    };
    for (name, change, closes, writes) in changes {
        let (folder, (_, paths)) = (make(), paths());
        let mut both = [PathEvent::Changed, PathEvent::Modified]
            .map(|event| paths.trigger(&trigger(event, &folder.at(name))));
        for one in &mut both {
            becomes(one, false).await;
        }
        change(&folder);
        for (one, expected) in both.iter_mut().zip([closes, writes]) {
            if expected {
                becomes(one, true).await;
                let mut after = paths.trigger(&trigger(PathEvent::Changed, &folder.at(name)));
                becomes(&mut after, false).await;
                assert!(one.holds() && one.again().holds(), "it stays one");
            }
        }
        // What was asked after it, of the same process: its answer comes after one that would be wrong.
        let mut last = paths.condition(folder.at("file"));
        while last.level() == Level::Unknown {
            last.changed().await;
        }
        assert_eq!(both.map(|one| one.holds()), [closes, writes], "{name}");
    }
    let (folder, (_, paths)) = (make(), paths());
    let [mut closed, mut written] = [PathEvent::Changed, PathEvent::Modified]
        .map(|event| paths.trigger(&trigger(event, &folder.at("file"))));
    becomes(&mut closed, false).await;
    becomes(&mut written, false).await;
    write(&folder, "file");
    becomes(&mut written, true).await;
    assert!(!closed.holds(), "nobody has closed it");
}
