//! The phases of a machine's boot.
//!
//! [`early`] needs no configuration and comes first; `kelson-load` reads the files after it; [`disks`] and [`settings`] do
//! what they say. The services come after that, and are the supervisor's.

use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_helper::task::Request;
use kelson_spec::MachineSpec;
use kelson_spec::builtin::SAVED_TIME;
use kelson_spec::encryption::EncryptionSpec;
use kelson_spec::machine::{MountSpec, SwapSpec};

use super::absent::Absent;
use super::{Order, Phase, Task, disks, mounts, network, partitions, root, state_folder, swap};
use crate::options::Options;
use crate::{log, signals};

/// The file that carries the kernel's randomness from one run to the next.
pub const RANDOM_SEED: &str = "/var/lib/kelson/random-seed";
/// The machine id of this run, in the runtime folder, where the disk cannot be written.
pub const MACHINE_ID: &str = "machine-id";
/// In the runtime folder: the file of hosts, to which `/etc/hosts` leads where the image has none.
pub const HOSTS: &str = "hosts";
/// How long drivers may take to start.
const MODULES: Duration = Duration::from_secs(60);
/// How long a setting may wait for its disk.
const STEP: Duration = Duration::from_secs(10);

/// Before the configuration is read: the kernel's file systems, our own folders, the root.
pub fn early(options: &Options, launcher: Arc<dyn Launcher>) -> Vec<Phase> {
    let runtime = options.runtime_dir.clone();
    let own = Phase::new("runtime", Order::InTurn)
        // First, so that the console shows why another fails.
        .task(Task::call("kernel log", || Ok(log::lift_rate_limit().map(|()| String::new())?)))
        .task(Task::call("runtime folders", move || mounts::runtime_folders(&runtime, true)).essential())
        .task(Task::call("ctrl-alt-del", || Ok(signals::catch_ctrl_alt_del().map(|()| String::new())?)));
    vec![mounts::phase(), own, root::phase(launcher)]
}

/// The phases of the boot after which the disks of the machine file are mounted.
pub fn disks(
    options: &Options,
    machine: &MachineSpec,
    launcher: &Arc<dyn Launcher>,
    absent: &Absent,
    watchdog: Task,
) -> Vec<Phase> {
    // The watchdog's driver may be a module, and what comes after it can hang on a disk.
    let mut phases = vec![modules(machine, launcher), Phase::new("watchdog", Order::InTurn).task(watchdog)];
    phases.extend(partitions::phase(&machine.partitions, &[], launcher, absent));
    phases.extend(mounts_of(&machine.encryption, &machine.mounts, launcher, absent));
    let state = state_folder::task(Arc::clone(launcher), options.state_dir.clone());
    phases.push(Phase::new("mounts", Order::InTurn).task(state));
    phases.extend(swap::phase(&machine.swap, launcher));
    phases
}

/// The phases for a machine file that was found on the disks of `done`: what it names besides.
pub fn further_disks(
    machine: &MachineSpec,
    done: &MachineSpec,
    launcher: &Arc<dyn Launcher>,
    absent: &Absent,
) -> Vec<Phase> {
    let further: Vec<MountSpec> =
        machine.mounts.iter().filter(|mount| !done.mounts.contains(mount)).cloned().collect();
    let encrypted = machine.encryption.iter().filter(|disk| !done.encryption.contains(disk));
    let encrypted: Vec<EncryptionSpec> = encrypted.cloned().collect();
    let parts = partitions::phase(&machine.partitions, &done.partitions, launcher, absent);
    let mut phases: Vec<Phase> =
        parts.into_iter().chain(mounts_of(&encrypted, &further, launcher, absent)).collect();
    let swap: Vec<SwapSpec> = machine.swap.iter().filter(|swap| !done.swap.contains(swap)).cloned().collect();
    phases.extend(swap::phase(&swap, launcher));
    if machine.modules != done.modules || (machine.devices.is_some() && done.devices.is_none()) {
        phases.insert(0, modules(machine, launcher));
    }
    phases
}

/// The modules that the machine file names, and drivers.
pub fn modules(machine: &MachineSpec, launcher: &Arc<dyn Launcher>) -> Phase {
    let request = Request::LoadModules { names: machine.modules.clone() };
    let task = Task::request("kernel modules", launcher, request, MODULES);
    let drivers = || Task::request("drivers", launcher, Request::LoadDrivers, MODULES);
    Phase::new("modules", Order::InTurn)
        .task(task.when(!machine.modules.is_empty(), "none are named"))
        .tasks(machine.devices.is_some().then(drivers))
}

fn mounts_of(
    encrypted: &[EncryptionSpec],
    mounts: &[MountSpec],
    launcher: &Arc<dyn Launcher>,
    absent: &Absent,
) -> impl Iterator<Item = Phase> + use<> {
    let groups = disks::tasks(launcher, encrypted, mounts, absent).into_iter();
    groups.map(|group| Phase::new("mounts", Order::SideBySide).tasks(group))
}

/// The phases of the boot that apply the other keys of the machine file.
pub fn settings(options: &Options, machine: &MachineSpec, launcher: &Arc<dyn Launcher>) -> Vec<Phase> {
    let ask = |name, request, deadline| Task::request(name, launcher, request, deadline);
    let mut phases = Vec::new();
    let from_kernel = || options.kernel.ip.iter().find_map(|word| word.hostname.clone());
    let name = machine.hostname.clone().or_else(from_kernel);
    let hosts = options.runtime_dir.join(HOSTS);
    let transient = options.runtime_dir.join(MACHINE_ID);
    phases.push(
        Phase::new("settings", Order::SideBySide)
            .task(
                ask("kernel parameters", Request::SetParameters { settings: machine.sysctl.clone() }, STEP)
                    .when(!machine.sysctl.is_empty(), "none are named"),
            )
            .task(ask("further kernel interfaces", Request::MountInterfaces, STEP))
            .task(ask("host name", Request::SetHostName { name, hosts }, STEP))
            .task(ask("machine id", Request::SetMachineId { transient }, STEP))
            .task(ask("clock", Request::SetClock { saved: SAVED_TIME.into() }, STEP))
            .task(ask("random seed", Request::LoadSeed { path: RANDOM_SEED.into() }, STEP)),
    );
    phases.extend(machine.nftables.as_ref().map(|file| network::firewall(launcher, file)));
    phases.push(network::phase(launcher, &machine.network, &options.runtime_dir));
    phases
}

#[cfg(test)]
mod tests {
    use kelson_spec::devices::DevicesSpec;
    use kelson_spec::network::{InterfaceSpec, Matches};

    use super::*;
    use crate::boot::Sequence;
    use crate::options::Mode;
    use crate::task::testing::Scripted;

    /// The machine file names something for each task.
    fn machine() -> MachineSpec {
        MachineSpec {
            modules: vec!["softdog".to_owned()],
            devices: Some(DevicesSpec::default()),
            mounts: vec![MountSpec {
                source: "LABEL=VAR".to_owned(),
                target: "/mnt/var".into(),
                fs_type: "ext4".to_owned(),
                ..MountSpec::default()
            }],
            sysctl: vec![("kernel.panic".to_owned(), "1".to_owned())],
            network: vec![InterfaceSpec {
                addresses: vec!["127.0.0.9/8".parse().unwrap()],
                dns: vec!["127.0.0.9".parse().unwrap()],
                ..InterfaceSpec::new(Matches::Name("lo".to_owned()))
            }],
            nftables: Some("/etc/nftables.conf".into()),
            ..MachineSpec::default()
        }
    }

    /// PID 1 itself touches no disk in these phases, and no step keeps another waiting.
    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_holds_up_no_task_beyond_its_deadline() {
        let launcher: Arc<dyn Launcher> = Arc::new(Scripted::new(|_| None));
        // A tmpfs: nothing is to be mounted there.
        let words = ["--state-dir", "/dev/shm/kelson"].map(str::to_owned);
        let options = Options::gather(&words, Mode::Machine, kelson_spec::Features::ALL, || None);
        let watchdog = Task::call("watchdog", || Ok(String::new()));
        let sequence = Sequence::new(Duration::ZERO, None, Vec::new());
        sequence
            .run_all(disks(&options, &machine(), &launcher, &Absent::new(sequence.sender()), watchdog))
            .await
            .unwrap();
        sequence.run_all(settings(&options, &machine(), &launcher)).await.unwrap();
        let report = sequence.report().borrow().clone();
        let late: Vec<(String, Option<Duration>)> = report
            .phases
            .iter()
            .flat_map(|phase| &phase.tasks)
            .filter(|task| task.error.as_ref().is_some_and(|error| error.contains("did not answer within")))
            .map(|task| (task.name.clone(), task.duration))
            .collect();
        let seconds = |name: &str, seconds| (name.to_owned(), Some(Duration::from_secs(seconds)));
        assert_eq!(
            late,
            [
                seconds("kernel modules", 60),
                seconds("drivers", 60),
                seconds("mount /mnt/var", 30),
                seconds("kernel parameters", 10),
                seconds("further kernel interfaces", 10),
                seconds("host name", 10),
                seconds("machine id", 10),
                seconds("clock", 10),
                seconds("random seed", 10),
                seconds("nftables", 30),
                seconds("loopback", 30),
                seconds("interfaces", 35),
                seconds("name servers", 10),
            ]
        );
        assert_eq!(sequence.elapsed(), Duration::from_secs(60 + 60 + 30 + 10 + 30 + 35));
    }
}
