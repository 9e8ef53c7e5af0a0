//! Encrypted disks: made on a blank disk, opened by the key of the machine, and by the recovery key where that is lost.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, VmBuilder, paths, until};

use super::Disk;
use super::disks::{blank, error_of, failure, look};

/// More than 32 bytes.
const KEY: &str = "a key that a test may show to everybody, unlike others";
const MACHINE: &str = "encryption:
  - {name: data, source: SERIAL=DATA, tpm2: {}, recoveryFile: /var/lib/data.recovery, format: ifBlank}
  - {name: pages, source: SERIAL=PAGES, keyFile: /etc/kelson/pages.key, recoveryFile: /var/lib/pages.recovery, format: ifBlank}
mounts:
  - {source: /dev/mapper/data, target: /srv, type: ext4, format: ifBlank}
swap:
  - {source: /dev/mapper/pages, format: ifBlank, wait: 1s}
";

/// The TPM of a machine. What it keeps is gone with it.
struct Tpm {
    child: Child,
    folder: PathBuf,
}

impl Tpm {
    fn new(name: &str) -> Tpm {
        let folder = paths::test_logs().join(format!("{name}.tpm"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the folder of the test is writable");
        Tpm { child: Tpm::start(&folder), folder }
    }

    fn start(folder: &Path) -> Child {
        let mut command = Command::new("swtpm");
        command.args(["socket", "--tpm2", "--tpmstate"]).arg(format!("dir={}", folder.display()));
        command.arg("--ctrl").arg(format!("type=unixio,path={}/socket", folder.display()));
        let child = command.spawn().expect("swtpm is installed");
        until("the TPM", BOOT_PATIENCE, || folder.join("socket").exists().then_some(()));
        child
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(self.folder.join("socket"));
    }

    /// After its machine is off.
    fn restart(&mut self) {
        self.end();
        self.child = Tpm::start(&self.folder);
    }
}

impl Drop for Tpm {
    fn drop(&mut self) {
        self.end();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A machine with these two disks, whose service `data` needs the first.
fn machine(name: &str, tpm: &Tpm, root: &Disk, data: &Disk, pages: &Disk) -> VmBuilder {
    let vm = Vm::builder(name)
        .root_disk(&root.0)
        .machine(MACHINE)
        .qemu(&format!("-chardev socket,id=tpm,path={}/socket", tpm.folder.display()))
        .qemu("-tpmdev emulator,id=tpm0,chardev=tpm -device tpm-tis,tpmdev=tpm0")
        .runs("look", "serve")
        .runs_with("data", "'append=/srv/written', serve", "depends: [{mount: /srv}]");
    [("DATA", data), ("PAGES", pages)].iter().fold(vm, |vm, (serial, disk)| {
        let drive = format!("-drive if=none,format=raw,id={serial},file={}", disk.0.display());
        vm.qemu(&format!("{drive} -device virtio-blk-pci,drive={serial},serial={serial}"))
    })
}

/// The status of `kelsonctl disk unlock` with this key on standard input, and what it said.
fn unlock(vm: &Vm, name: &str, key: &str) -> (Option<i32>, String) {
    let mut command = vm.client().command(&["disk", "unlock", name]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kelsonctl can be started");
    child.stdin.take().expect("a pipe").write_all(key.as_bytes()).expect("kelsonctl reads the key");
    let output = child.wait_with_output().expect("it is our child");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Whether the key opens the disk, as cryptsetup on this computer says.
fn opens(disk: &Path, key: &str) -> bool {
    let mut command = Command::new("cryptsetup");
    command.args(["open", "--test-passphrase", "--key-file", "-"]).arg(disk).stdin(Stdio::piped());
    let mut child = command.spawn().expect("cryptsetup is installed");
    child.stdin.take().expect("a pipe").write_all(key.as_bytes()).expect("cryptsetup reads the key");
    child.wait().expect("it is our child").success()
}

/// Nothing that the machine reports has the key.
#[track_caller]
fn assert_not_shown(vm: &Vm, key: &str) {
    let shown = [
        vm.console(),
        vm.ctl(&["events", "-o", "json"]).ok().stdout,
        vm.ctl(&["boot", "-o", "json"]).ok().stdout,
        vm.ctl(&["logs", "audit"]).ok().stdout,
        vm.ctl(&["dmesg"]).ok().stdout,
    ];
    assert!(shown.iter().all(|text| !text.contains(key)), "a key was shown");
}

/// Ciphers are slow on an emulated processor: the time until the disks are open does not begin before the boot does.
#[track_caller]
fn boot(vm: VmBuilder) -> Vm {
    let mut vm = vm.start();
    vm.wait_console("machine mode");
    vm.wait_console("device-mapper: ioctl");
    vm.wait_answer();
    vm
}

/// The machine is off, and has closed its disks.
#[track_caller]
fn end(vm: &mut Vm) {
    vm.poweroff();
    let console = vm.console();
    assert!(!console.contains("gave up on") && !console.contains("stays open"), "{console}");
}

#[test]
fn k4_a_disk_whose_tpm_or_key_file_is_lost_is_opened_by_the_recovery_key() {
    lost_keys("luks", 0);
}

#[test]
fn long_k4_a_disk_is_opened_by_its_tpm_until_that_is_lost() {
    lost_keys("luks-more", 2);
}

/// The keys of two disks are lost after that many boots that open what the first one has made.
fn lost_keys(name: &str, more_boots: usize) {
    let called = |what: &str| format!("{name}-{what}");
    let (root, data, pages) =
        (Disk::new(&called("root")), blank(&called("data"), 64), blank(&called("pages"), 64));
    let mut tpm = Tpm::new(name);
    let with_keys = |name: &str, tpm: &Tpm| {
        let vm = machine(name, tpm, &root, &data, &pages).file("pages.key", 0o600, KEY);
        let vm = boot(vm);
        vm.wait_up(&["data"]);
        for task in ["open data", "open pages", "mount /srv", "swap /dev/mapper/pages"] {
            assert_eq!(error_of(&vm, task), "", "{task}");
        }
        assert!(look(&vm, "cat=/proc/swaps").contains("/dev/mapper/pages"), "there is no swap");
        vm
    };
    let mut vm = with_keys(&called("new"), &tpm);
    look(&vm, "append=/srv/a text that is encrypted");
    let recovery = vm.ctl(&["disk", "recovery", "data"]).ok().stdout;
    let recovery = recovery.trim_end();
    let again = vm.ctl(&["disk", "recovery", "data"]).expect(1);
    assert!(again.stderr.contains("the recovery key of data is not kept here"), "{again:?}");
    let of_pages = vm.ctl(&["disk", "recovery", "pages"]).ok().stdout;
    assert_not_shown(&vm, recovery);
    end(&mut vm);
    assert!(opens(&data.0, recovery) && opens(&pages.0, KEY) && !opens(&data.0, KEY));
    let bytes = std::fs::read(&data.0).expect("the disk is there");
    assert!(!bytes.windows(24).any(|window| window == b"a text that is encrypted"), "it is not encrypted");

    // The same machine again.
    drop(vm);
    for _ in 0..more_boots {
        tpm.restart();
        end(&mut with_keys(&called("again"), &tpm));
    }

    // Another TPM, and the file with the other key is lost.
    drop(tpm);
    let tpm = Tpm::new(&called("other"));
    let mut vm = boot(machine(&called("lost"), &tpm, &root, &data, &pages));
    vm.wait_up(&["look"]);
    let error = error_of(&vm, "open data");
    assert!(error.contains("with the TPM: /usr/sbin/cryptsetup: exit status: "), "{error}");
    assert!(error.ends_with("; open it with `kelsonctl disk unlock data`"), "{error}");
    assert_eq!(failure(&vm, "/srv"), "it waits for the encrypted disk data, which is not open");
    let error = error_of(&vm, "open pages");
    assert!(error.starts_with("its key: /etc/kelson/pages.key: No such file or directory"), "{error}");
    let (status, said) = unlock(&vm, "data", "another");
    assert!(status == Some(1) && said.contains("this key does not open it"), "{said}");
    let (status, said) = unlock(&vm, "date", recovery);
    assert!(status == Some(1) && said.contains("machine.yaml names data, pages"), "{said}");
    // A later incarnation of PID 1 knows of it, too.
    vm.ctl(&["reexec"]).ok();
    let why = vm.ctl(&["why", "data"]).stdout;
    assert!(why.contains("a file system to be mounted at \"/srv\""), "{why}");
    let (status, said) = unlock(&vm, "data", &format!("{recovery}\n"));
    assert!(status == Some(0) && said.contains("is open as /dev/mapper/data"), "{said}");
    vm.wait_up(&["data"]);
    let boots = more_boots + 2;
    assert_eq!(look(&vm, "cat=/srv/written").lines().count(), boots, "the file of the first boot is there");
    until("the report of the boot", BOOT_PATIENCE, || failure(&vm, "/srv").is_empty().then_some(()));
    assert_eq!(error_of(&vm, "open data"), "");
    assert!(!look(&vm, "cat=/proc/swaps").contains("/dev/mapper/pages"), "the other disk is closed");
    let (status, said) = unlock(&vm, "pages", &of_pages);
    assert_eq!(status, Some(0), "{said}");
    until("the swap", BOOT_PATIENCE, || {
        look(&vm, "cat=/proc/swaps").contains("/dev/mapper/pages").then_some(())
    });
    assert_not_shown(&vm, recovery);
    end(&mut vm);
}
