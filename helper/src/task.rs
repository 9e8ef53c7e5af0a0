//! The requests of PID 1 to `kelson-task`, and their form as arguments.
//!
//! `ps` shows the request, and so what hangs (`kelson-task mount /dev/vdb /var ext4`). A request is one line of the table
//! [`Request`] here, and one of the helper's `perform`.

mod words;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_spec::container_network::{ContainerNetworkSpec, Published};
use kelson_spec::network::InterfaceSpec;
use kelson_spec::secrets::SecretUse;
use kelson_spec::service::{Directory, Share, SocketSpec, TerminalSpec, Volume};
use kelson_spec::sources::SourceKind;
use kelson_spec::templates::Template;

pub use words::Octal;
use words::Words;

/// The name under which it runs.
pub const NAME: &str = "kelson-task";

/// The one word that is no request: with it the helper watches paths for the conditions of services.
pub const WATCH_PATHS: &str = "watch-paths";

/// The answer to a check when the kernel's view of the disk is no longer right.
pub const RESTART_NEEDED: &str = "the machine must start again before the disk is written";

/// The longest answer, in bytes: a sentence.
pub const ANSWER_MAX: usize = 16 * 1024;

/// An answer as it is put into a frame: what was done, or why it failed.
pub fn write_answer(result: &Result<String, String>) -> Vec<u8> {
    let (word, text) = match result {
        Ok(text) => ("done ", text),
        Err(text) => ("failed ", text),
    };
    let mut answer = format!("{word}{}", text.replace('\n', " ")).into_bytes();
    answer.truncate(ANSWER_MAX);
    answer
}

/// Reads an answer of [`write_answer`]; `None`: it makes no sense.
pub fn read_answer(answer: &[u8]) -> Option<Result<String, String>> {
    let answer = String::from_utf8_lossy(answer);
    let (word, text) = answer.split_once(' ').unwrap_or((&answer, ""));
    match word {
        "done" => Some(Ok(text.to_owned())),
        "failed" => Some(Err(text.to_owned())),
        _ => None,
    }
}

/// Makes requests, their words, and both directions between them.
macro_rules! requests {
    ($(#[$about:meta])* $requests:ident: $($(#[$doc:meta])* $verb:literal => $name:ident $({ $($field:ident: $kind:ty),* })?,)*) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $requests {
            $($(#[$doc])* $name $({ $($field: $kind),* })?,)*
        }

        impl $requests {
            /// The word of the request.
            pub fn verb(&self) -> &'static str {
                match self {
                    $($requests::$name $({ $($field: _),* })? => $verb,)*
                }
            }

            fn put(&self, words: &mut Vec<OsString>) {
                match self {
                    $($requests::$name $({ $($field),* })? => { $($($field.put(words);)*)? })*
                }
            }

            /// The arguments that stand for it.
            pub fn to_arguments(&self) -> Vec<OsString> {
                let mut words: Vec<OsString> = vec![self.verb().into()];
                self.put(&mut words);
                words
            }

            /// Reads the arguments, those after `argv[0]`.
            ///
            /// # Errors
            /// A sentence that says what is wrong.
            pub fn from_arguments(words: &[OsString]) -> Result<$requests, String> {
                let (verb, rest) = words.split_first().ok_or("nothing is asked for")?;
                let verb = verb.to_str().unwrap_or_default();
                let mut rest = rest.iter();
                let missing = || format!("\"{verb}\" needs more words after it");
                match verb {
                    $($verb => Ok($requests::$name $({
                        $($field: Words::take(&mut rest).ok_or_else(missing)?),*
                    })?),)*
                    _ => Err(format!("\"{verb}\" is not known")),
                }
            }
        }
    };
}

requests! {
    /// One call.
    Request:
    /// Mount a file system; a disk that has not come yet is waited for. An empty type: look what it is.
    "mount" => Mount { source: String, target: PathBuf, fs_type: String, options: String, patience: Duration },
    /// Which device a source names, and what file system is on it; a disk that has not come yet is waited for. The
    /// answer is the type (`ext4`, or `-` where it is not known), a space, and the path of the device.
    "identify" => Identify { source: String, patience: Duration },
    /// Change the options of a mount.
    "remount" => Remount { target: PathBuf, options: String },
    "umount" => Unmount { target: PathBuf },
    /// Mount what this kernel offers beyond what every machine needs.
    "mount-interfaces" => MountInterfaces,
    /// Make a folder in one that is there, with these permissions; one that is there already is left as it is.
    "mkdir" => MakeFolder { path: PathBuf, mode: Octal },
    /// Check the ext4 file system on a device, if the program for it is there.
    "fsck" => Check { device: PathBuf },
    /// Make a file system of this type on a disk that is blank.
    "format" => Format { source: String, fs_type: String },
    /// Make the partitions that a disk lacks, each named by a word of its spec.
    "make-partitions" => MakePartitions { source: String, partitions: Vec<String> },
    /// Let a partition grow, if it is the last one of a disk that has become larger.
    "grow-partition" => GrowPartition { device: PathBuf },
    /// Let a mounted file system grow to the size of its device.
    "grow-fs" => GrowFileSystem { device: PathBuf, target: PathBuf, fs_type: String },
    /// Open the encrypted disk on a device with the key in a file; what is in it gets this name.
    "open-disk" => OpenDisk { name: String, device: PathBuf, key_file: PathBuf },
    /// The same with a key that the TPM has.
    "open-disk-by-tpm" => OpenDiskByTpm { name: String, device: PathBuf },
    /// The same with the key that descriptor 3 gives.
    "unlock-disk" => UnlockDisk { name: String, device: PathBuf },
    /// Encrypt a disk that is blank, and open it: with a recovery key, which is put into a file, with a key for the TPM while
    /// these registers of it are as they are now (`-`: none), and with the key in a file.
    "encrypt" => EncryptDisk {
        name: String,
        source: String,
        recovery_file: PathBuf,
        registers: String,
        key_file: Option<PathBuf>
    },
    /// The recovery key in a file.
    "recovery-key" => RecoveryKey { file: PathBuf },
    "forget-recovery-key" => ForgetRecoveryKey { file: PathBuf },
    /// Take away a device of the device mapper.
    "remove-mapping" => RemoveMapping { name: String },
    /// Write out everything that waits to be written.
    "sync" => Sync,
    /// Copy a file to descriptor 3.
    "copy-file" => CopyFile { path: PathBuf },
    /// Whether a path exists.
    "stat" => Stat { path: PathBuf },
    /// The PID that a file has, once it has one; the answer is the number.
    "pid-file" => ReadPidFile { path: PathBuf, patience: Duration },
    /// Bring what a source of the configuration gives to its folder below `folder`. A disk is waited for, and so is the server
    /// of metadata.
    "source" => CollectSource { kind: SourceKind, patience: Duration, folder: PathBuf, server: SocketAddr },
    /// Remember what a source gave to its folder below `folder` in the state folder. Where its disk has not come, take what is
    /// remembered.
    "keep-source" => KeepSource { kind: SourceKind, folder: PathBuf, state: PathBuf },
    /// The words of a [`SecretRequest`] about the secrets in the state folder, and those of sources in the runtime folder.
    "secrets" => Secrets { state: PathBuf, runtime: PathBuf, words: Vec<OsString> },
    /// The words of a [`ContainerNetworkRequest`] about the network of a container, whose namespace this file is.
    "container-network" => ContainerNetwork { namespace: PathBuf, words: Vec<OsString> },
    /// Make the namespaces that these words say (those of `ViewRule`), and send them over descriptor 3: that with the view of
    /// the file system, that of a network, that of users.
    "namespaces" => MakeNamespaces { rules: Vec<String> },
    /// Remove System V and POSIX IPC of a user of which no process is left.
    "remove-ipc" => RemoveIpc { uid: u32 },
    /// The words of a [`DirectoryRequest`].
    "directories" => Directories { words: Vec<OsString> },
    /// The words of a [`SocketRequest`].
    "sockets" => Sockets { words: Vec<OsString> },
    /// The words of an [`InputRequest`].
    "input" => Input { words: Vec<OsString> },
    /// The words of a [`VolumeRequest`].
    "volumes" => Volumes { words: Vec<OsString> },
    /// The words of a [`TemplateRequest`].
    "templates" => Templates { words: Vec<OsString> },
    "modules" => LoadModules { names: Vec<String> },
    /// Load the modules for the devices that the kernel has found.
    "drivers" => LoadDrivers,
    /// Use a swap area; a higher priority is used first.
    "swapon" => SwapOn { device: PathBuf, priority: Option<u32> },
    /// Make a device of compressed memory with a swap area: of this part of the memory, compressed by this algorithm. The
    /// answer is the path of the device.
    "zram" => MakeZram { percent: u32, algorithm: Option<String> },
    "swapoff" => SwapOff { device: PathBuf },
    /// Take the file away from a loop device.
    "detach-loop" => DetachLoop { device: PathBuf },
    /// Stir a saved seed into the kernel's randomness and save a new one.
    "load-seed" => LoadSeed { path: PathBuf },
    "save-seed" => SaveSeed { path: PathBuf },
    /// Change `saved`, whose time the next boot takes for the earliest that can be right.
    "save-clock" => SaveClock { saved: PathBuf },
    /// Credit the bytes of descriptor 3 to the kernel's randomness, and have it draw from them at once.
    "reseed" => Reseed,
    /// Set these kernel parameters, in their order; one that fails does not keep the others.
    "sysctl" => SetParameters { settings: Vec<(String, String)> },
    /// Set the host name to this one, else to that of `/etc/hostname`, and write the file `hosts` with it.
    "hostname" => SetHostName { hosts: PathBuf, name: Option<String> },
    /// Make sure that there is a machine id. Where the disk cannot be written, this file holds it for the run.
    "machine-id" => SetMachineId { transient: PathBuf },
    /// Replace the machine id by a new one, which this file holds where the disk cannot be written.
    "new-machine-id" => RenewMachineId { transient: PathBuf },
    /// Set a clock that is earlier than the program's file or than the last change of `saved`: from the hardware's, else to
    /// the later of both.
    "clock" => SetClock { saved: PathBuf },
    /// Have the kernel read another one for a reboot without the firmware. An empty command line: that of the running
    /// kernel.
    "kexec" => LoadKernel { kernel: PathBuf, command_line: String, initramfs: Option<PathBuf> },
    "loopback" => SetUpLoopback,
    /// Set up interfaces by their static settings; those that have not come yet are waited for.
    "interfaces" => SetUpInterfaces { patience: Duration, interfaces: Vec<InterfaceSpec> },
    /// Have nft load the rules of this file.
    "nftables" => LoadFirewall { file: PathBuf },
    /// Write this file of name servers, and make `/etc/resolv.conf` lead to it.
    "resolver" => WriteResolver { resolver: PathBuf, servers: Vec<IpAddr> },
    /// Make the mounts of the machine read-only in the mount namespaces of what runs in these cgroups.
    "read-only" => ReadOnly { cgroups: Vec<PathBuf> },
}

requests! {
    /// One call about the secrets of services. A build without these leaves it out.
    SecretRequest:
    /// Keep the bytes of descriptor 3 as a secret, sealed.
    "set" => Set { name: String, author: String },
    /// Write to descriptor 3 what is known of the secrets, without their values.
    "list" => List,
    "remove" => Remove { name: String },
    /// Place secrets in the folder of a service with this user and group.
    "place" => Place { folder: PathBuf, uid: u32, gid: u32, secrets: Vec<SecretUse> },
    /// Replace the file of a secret in the folder of a service that runs.
    "renew" => Renew { folder: PathBuf, secret: SecretUse },
    /// Take the secrets of a service away.
    "withdraw" => Withdraw { folder: PathBuf },
}

impl SecretRequest {
    /// The request with the words of this one.
    pub fn within(&self, state: &Path, runtime: &Path) -> Request {
        Request::Secrets { state: state.to_owned(), runtime: runtime.to_owned(), words: self.to_arguments() }
    }
}

requests! {
    /// One call about the folders of a service.
    DirectoryRequest:
    /// Make those that are missing, and give all of them to this user and group.
    "make" => Make { uid: u32, gid: u32, directories: Vec<Directory> },
    /// Remove those below `/run` first.
    "renew" => Renew { uid: u32, gid: u32, directories: Vec<Directory> },
    /// Remove those below `/run`.
    "remove" => Remove { directories: Vec<Directory> },
}

impl DirectoryRequest {
    /// The request with the words of this one.
    pub fn whole(&self) -> Request {
        Request::Directories { words: self.to_arguments() }
    }
}

requests! {
    /// One call about the sockets of a service.
    SocketRequest:
    /// Make these, and send them over descriptor 3, one a message, in this order.
    "make" => Make { sockets: Vec<SocketSpec> },
    /// Remove the files of these.
    "remove" => Remove { sockets: Vec<SocketSpec> },
}

impl SocketRequest {
    /// The request with the words of this one.
    pub fn whole(&self) -> Request {
        Request::Sockets { words: self.to_arguments() }
    }
}

requests! {
    /// One call about the standard input of a service.
    InputRequest:
    /// Open a file, and send it over descriptor 3.
    "open" => Open { path: PathBuf },
    /// Make a terminal ready for a run, give it to this user, and send it over descriptor 3.
    "take-terminal" => TakeTerminal { terminal: TerminalSpec, uid: Option<u32> },
    /// Make it ready for others, and take it back from this user.
    "leave-terminal" => LeaveTerminal { terminal: TerminalSpec, uid: Option<u32> },
}

impl InputRequest {
    /// The request with the words of this one.
    pub fn whole(&self) -> Request {
        Request::Input { words: self.to_arguments() }
    }
}

requests! {
    /// One call about the volumes of a service, or about a plugin that has some.
    VolumeRequest:
    /// Look for the sources that are paths, and make those that are missing and may be made, for this user and group.
    "prepare" => Prepare { uid: u32, gid: u32, volumes: Vec<Volume> },
    /// Check and mount the disks of these, at no place, and keep them so until descriptor 3 is at its end. The answer has the
    /// words of a [`FoundDisk`](kelson_spec::service::FoundDisk) for each.
    "hold" => Hold { volumes: Vec<Volume> },
    /// Close descriptor 3: who closes the last one of a mount namespace waits for its file systems.
    "release" => Release,
    /// Make the folder of a plugin, whose mounts its containers share, and remove a socket of this name on which nobody listens.
    "plugin" => Plugin { folder: PathBuf, socket: String },
    /// Whether so much of a volume is free, where the process sees it at this path.
    "free" => Free { volume: String, pid: u32, target: PathBuf, at_least: Share },
}

impl VolumeRequest {
    /// The request with the words of this one.
    pub fn whole(&self) -> Request {
        Request::Volumes { words: self.to_arguments() }
    }
}

requests! {
    /// One call about the files that a service gets from templates. A build without a fleet leaves it out.
    TemplateRequest:
    /// Write those that are missing or other ones, for this user and group, before a run. `pending`: the file with what
    /// has still to be done for changes while it ran.
    "place" => Place { runtime: PathBuf, pending: PathBuf, uid: u32, gid: u32, templates: Vec<Template> },
    /// The same while it runs. The answer is what is to be done: the word of `onChange`, or nothing.
    "renew" => Renew { runtime: PathBuf, pending: PathBuf, templates: Vec<Template> },
    /// That is done.
    "settle" => Settle { pending: PathBuf },
}

impl TemplateRequest {
    /// The request with the words of this one.
    pub fn whole(&self) -> Request {
        Request::Templates { words: self.to_arguments() }
    }
}

requests! {
    /// One call about the network of a container. A build without containers leaves it out.
    ContainerNetworkRequest:
    /// Make its namespace again, with the addresses of a place, joined to the bridge, and with ports of the host that lead
    /// there.
    "join" => Join { place: u32, network: ContainerNetworkSpec, ports: Vec<Published> },
    /// Take all of that away.
    "leave" => Leave { place: u32 },
}

impl ContainerNetworkRequest {
    /// The request with the words of this one.
    pub fn of(&self, namespace: &Path) -> Request {
        Request::ContainerNetwork { namespace: namespace.to_owned(), words: self.to_arguments() }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use kelson_spec::service::DirectoryKind;
    use kelson_spec::templates::OnChange;

    use super::*;

    #[test]
    fn every_request_about_secrets_survives_its_arguments() {
        let path = PathBuf::from(OsStr::from_bytes(b"/a b/\xFF"));
        for request in [
            SecretRequest::Set { name: "db".to_owned(), author: "user 0".to_owned() },
            SecretRequest::List,
            SecretRequest::Remove { name: "db".to_owned() },
            SecretRequest::Place {
                folder: path.clone(),
                uid: 1000,
                gid: 1001,
                secrets: vec![SecretUse::of("db"), SecretUse { mode: 0o440, ..SecretUse::of("web") }],
            },
            SecretRequest::Renew { folder: path.clone(), secret: SecretUse::of("db") },
            SecretRequest::Withdraw { folder: path.clone() },
        ] {
            let Request::Secrets { words, .. } = request.within(&path, &path) else { panic!("{request:?}") };
            assert_eq!(SecretRequest::from_arguments(&words), Ok(request));
        }
    }

    #[test]
    fn every_request_about_folders_survives_its_arguments() {
        let kind = DirectoryKind::State;
        let directories = vec![
            Directory { kind, path: "shop".into(), mode: 0o750 },
            Directory { kind: DirectoryKind::Runtime, path: "shop/a b".into(), mode: 0o755 },
        ];
        for request in [
            DirectoryRequest::Make { uid: 1000, gid: 1001, directories: directories.clone() },
            DirectoryRequest::Renew { uid: 0, gid: 0, directories: Vec::new() },
            DirectoryRequest::Remove { directories },
        ] {
            let whole = request.whole();
            assert_eq!(Request::from_arguments(&whole.to_arguments()).as_ref(), Ok(&whole));
            let Request::Directories { words } = whole else { panic!("{request:?}") };
            assert_eq!(DirectoryRequest::from_arguments(&words), Ok(request));
        }
    }

    #[test]
    fn every_request_about_templates_survives_its_arguments() {
        let path = PathBuf::from("/run/kelson");
        let template = Template {
            source: "/etc/a b".into(),
            target: "/run/a".into(),
            mode: 0o640,
            on_change: OnChange::Reload,
        };
        let templates = vec![template, Template { mode: Template::MODE, ..Template::default() }];
        for request in [
            TemplateRequest::Place {
                runtime: path.clone(),
                pending: path.clone(),
                uid: 7,
                gid: 8,
                templates: templates.clone(),
            },
            TemplateRequest::Renew { runtime: path.clone(), pending: path.clone(), templates },
            TemplateRequest::Settle { pending: path },
        ] {
            let Request::Templates { words } = request.whole() else { panic!("{request:?}") };
            assert_eq!(TemplateRequest::from_arguments(&words), Ok(request));
        }
    }

    #[test]
    fn every_request_about_sockets_survives_its_arguments() {
        let sockets = ["udp:[::]:53", "/run/a b"].map(|listen| SocketSpec {
            name: "a".to_owned(),
            listen: listen.to_owned(),
            ..SocketSpec::default()
        });
        for request in [
            SocketRequest::Make { sockets: sockets.to_vec() },
            SocketRequest::Remove { sockets: sockets.to_vec() },
        ] {
            let Request::Sockets { words } = request.whole() else { panic!("{request:?}") };
            assert_eq!(SocketRequest::from_arguments(&words), Ok(request));
        }
    }

    #[test]
    fn every_request_about_the_input_survives_its_arguments() {
        let terminal = TerminalSpec { path: "/dev/ttyS0".into(), hang_up: true, ..TerminalSpec::default() };
        for request in [
            InputRequest::Open { path: "/run/a b".into() },
            InputRequest::TakeTerminal { terminal: terminal.clone(), uid: Some(1000) },
            InputRequest::LeaveTerminal { terminal, uid: None },
        ] {
            let Request::Input { words } = request.whole() else { panic!("{request:?}") };
            assert_eq!(InputRequest::from_arguments(&words), Ok(request));
        }
    }

    #[test]
    fn every_request_about_volumes_survives_its_arguments() {
        let volumes = vec![Volume { name: "data".to_owned(), target: "/a b".into(), ..Volume::default() }];
        let plugin = VolumeRequest::Plugin { folder: "/run/a b".into(), socket: "csi.sock".to_owned() };
        let at_least = Share::Percent(5);
        let free = VolumeRequest::Free { volume: "data".to_owned(), pid: 7, target: "/a b".into(), at_least };
        let hold = VolumeRequest::Hold { volumes: volumes.clone() };
        let prepare = VolumeRequest::Prepare { uid: 1000, gid: 1001, volumes };
        for request in [prepare, hold, VolumeRequest::Release, plugin, free] {
            let Request::Volumes { words } = request.whole() else { panic!("{request:?}") };
            assert_eq!(VolumeRequest::from_arguments(&words), Ok(request));
        }
    }

    #[test]
    fn every_request_about_the_network_of_a_container_survives_its_arguments() {
        let network = ContainerNetworkSpec::default();
        let ports = vec!["8080:80/tcp".parse().unwrap(), "53:53/udp".parse().unwrap()];
        for request in [
            ContainerNetworkRequest::Join { place: 7, network, ports },
            ContainerNetworkRequest::Leave { place: 7 },
        ] {
            let whole = request.of(Path::new("/run/kelson/netns/web"));
            assert_eq!(Request::from_arguments(&whole.to_arguments()).as_ref(), Ok(&whole));
            let Request::ContainerNetwork { words, .. } = whole else { panic!("{request:?}") };
            assert_eq!(ContainerNetworkRequest::from_arguments(&words), Ok(request));
        }
    }

    #[test]
    fn every_request_survives_its_arguments() {
        let path = PathBuf::from(OsStr::from_bytes(b"/a b/\xFF"));
        for request in [
            Request::Mount {
                source: "LABEL=x y".to_owned(),
                target: path.clone(),
                fs_type: String::new(),
                options: "ro,noatime".to_owned(),
                patience: Duration::from_millis(1500),
            },
            Request::Identify { source: "LABEL=x y".to_owned(), patience: Duration::from_secs(10) },
            Request::Remount { target: path.clone(), options: "ro".to_owned() },
            Request::Unmount { target: path.clone() },
            Request::MountInterfaces,
            Request::MakeFolder { path: path.clone(), mode: Octal(0o700) },
            Request::Check { device: path.clone() },
            Request::Format { source: "SERIAL=x".to_owned(), fs_type: "ext4".to_owned() },
            Request::MakePartitions {
                source: "SERIAL=x".to_owned(),
                partitions: vec!["1048576:linux:my data".to_owned(), "-:swap:SWAP".to_owned()],
            },
            Request::GrowPartition { device: path.clone() },
            Request::GrowFileSystem { device: path.clone(), target: path.clone(), fs_type: "xfs".to_owned() },
            Request::OpenDisk { name: "data".to_owned(), device: path.clone(), key_file: path.clone() },
            Request::UnlockDisk { name: "data".to_owned(), device: path.clone() },
            Request::EncryptDisk {
                name: "data".to_owned(),
                source: "SERIAL=x".to_owned(),
                recovery_file: path.clone(),
                registers: "7".to_owned(),
                key_file: Some(path.clone()),
            },
            Request::OpenDiskByTpm { name: "data".to_owned(), device: path.clone() },
            Request::RecoveryKey { file: path.clone() },
            SecretRequest::List.within(&path, &path),
            SecretRequest::Withdraw { folder: path.clone() }.within(&path, &path),
            Request::ForgetRecoveryKey { file: path.clone() },
            Request::RemoveMapping { name: "a b".to_owned() },
            Request::Sync,
            Request::CopyFile { path: path.clone() },
            Request::Reseed,
            Request::RenewMachineId { transient: path.clone() },
            Request::Stat { path: path.clone() },
            Request::ReadPidFile { path: path.clone(), patience: Duration::from_secs(1) },
            Request::CollectSource {
                kind: SourceKind::CommandLine,
                patience: Duration::from_secs(1),
                folder: path.clone(),
                server: "[::1]:80".parse().unwrap(),
            },
            Request::KeepSource { kind: SourceKind::NoCloud, folder: path.clone(), state: path.clone() },
            Request::MakeNamespaces { rules: vec!["hidden:-/home".to_owned()] },
            Request::LoadDrivers,
            Request::LoadModules { names: vec!["a".to_owned(), "b".to_owned()] },
            Request::SwapOn { device: path.clone(), priority: Some(7) },
            Request::SwapOn { device: path.clone(), priority: None },
            Request::MakeZram { percent: 50, algorithm: Some("zstd".to_owned()) },
            Request::SwapOff { device: path.clone() },
            Request::DetachLoop { device: path.clone() },
            Request::LoadSeed { path: path.clone() },
            Request::SaveSeed { path: path.clone() },
            Request::SetParameters {
                settings: vec![("kernel.x".to_owned(), "1 2".to_owned()), ("y".to_owned(), String::new())],
            },
            Request::SetHostName { hosts: path.clone(), name: Some("edge-1".to_owned()) },
            Request::SetHostName { hosts: path.clone(), name: None },
            Request::SetMachineId { transient: path.clone() },
            Request::SetClock { saved: "/var/lib/kelson/clock".into() },
            Request::SaveClock { saved: "/var/lib/kelson/clock".into() },
            Request::LoadKernel {
                kernel: path.clone(),
                command_line: "quiet ro".to_owned(),
                initramfs: Some(path.clone()),
            },
            Request::LoadKernel { kernel: path.clone(), command_line: String::new(), initramfs: None },
            Request::SetUpLoopback,
            Request::SetUpInterfaces {
                patience: Duration::from_secs(5),
                interfaces: vec![
                    InterfaceSpec {
                        addresses: vec!["fd00::5/64".parse().unwrap()],
                        gateway: Some("fd00::1".parse().unwrap()),
                        ..InterfaceSpec::default()
                    },
                    InterfaceSpec { mtu: Some(9000), ..InterfaceSpec::default() },
                ],
            },
            Request::LoadFirewall { file: path.clone() },
            Request::WriteResolver {
                resolver: path.clone(),
                servers: vec!["10.0.2.3".parse().unwrap(), "::1".parse().unwrap()],
            },
            Request::ReadOnly { cgroups: vec![path.clone(), path.clone()] },
        ] {
            assert_eq!(Request::from_arguments(&request.to_arguments()), Ok(request));
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let ask =
            |words: &[&str]| Request::from_arguments(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(ask(&[]).is_err());
        assert_eq!(ask(&["dance"]), Err("\"dance\" is not known".to_owned()));
        assert_eq!(ask(&["mount", "a"]), Err("\"mount\" needs more words after it".to_owned()));
        for words in [&["sysctl", "a"][..], &["interfaces", "2", "eth0"], &["resolver", "/r", "x"]] {
            assert!(ask(words).is_err(), "{words:?}");
        }
    }
}
