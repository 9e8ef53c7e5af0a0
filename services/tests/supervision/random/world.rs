//! The services of one sequence: three to six that need each other, each with something of all that a file can say.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_runner::Exit;
use kelson_spec::fleet::Registration;
use kelson_spec::service::{
    Check, Exhausted, Hook, Lifecycle, LifecycleHook, Probe, Readiness, Requirement, RestartPolicy,
    RestartScope, RestartSpec, ServiceEvent, ServiceKind, ServiceSpec, StartMode, WhenDown,
};

use super::dice::Dice;
use crate::health_commands::{Conduct, fails, hangs, passes};
use crate::house::{House, MS, secs};

pub const GROUP: &str = "g";
/// It exists all the time, and nobody knows it at once.
const LATE: &str = "/proc/self";

/// The part of a service that stays when its file changes.
#[derive(Clone)]
struct Nature {
    kind: ServiceKind,
    lifecycle: Option<Lifecycle>,
}

/// All that the files say, and said before.
pub struct World {
    natures: Vec<Nature>,
    /// Of each service its files, the oldest first. The first word of each command is `NAME#VERSION`.
    pub versions: BTreeMap<String, Vec<ServiceSpec>>,
    /// Those that have a file now.
    pub present: Vec<String>,
}

/// A file in a few words: what it says otherwise than most.
pub fn brief(spec: &ServiceSpec) -> String {
    let mut text = format!("{} {:?} {:?} {:?}", spec.name, spec.kind, spec.start, spec.readiness);
    let mut add = |what: &str, holds: bool, value: String| {
        if holds {
            text.push_str(&format!("\n    {what} {value}"));
        }
    };
    for requirement in &spec.depends {
        add("needs", true, format!("{requirement:?}"));
    }
    add("when", !spec.when.is_empty(), format!("{:?}", spec.when));
    add("restart", true, format!("{:?}", spec.restart));
    add("group", spec.group.is_some(), format!("{:?}", spec.lifecycle));
    for check in &spec.health {
        add("check", true, format!("{check:?}"));
    }
    for check in spec.registration_checks() {
        add("check of its registration", true, format!("{check:?}"));
    }
    add("hooks", !spec.hooks.is_empty(), format!("{:?}", spec.hooks));
    add("stop", true, format!("{:?}", spec.stop));
    text
}

/// The service whose main process or hook this is the command of, and the number of its version.
pub fn version_number(command: &str) -> (&str, usize) {
    let (name, number) = command.split(' ').next().unwrap().split_once('#').unwrap();
    (name, number.parse().unwrap())
}

pub fn name(index: usize) -> String {
    format!("s{index}")
}

impl World {
    pub fn draw(dice: &mut Dice) -> World {
        let count = usize::try_from(3 + dice.roll(4)).unwrap();
        let mut natures: Vec<Nature> = (0..count)
            .map(|_| Nature {
                kind: if dice.one_in(4) { ServiceKind::Oneshot } else { ServiceKind::Service },
                lifecycle: None,
            })
            .collect();
        if dice.one_in(3) {
            draw_group(dice, &mut natures);
        }
        let mut world = World { natures, versions: BTreeMap::new(), present: Vec::new() };
        for index in 0..count {
            world.present.push(name(index));
            world.write(dice, index);
        }
        world
    }

    pub fn names(&self) -> Vec<String> {
        (0..self.natures.len()).map(name).collect()
    }

    /// The files as they are now.
    pub fn files(&self) -> Vec<ServiceSpec> {
        self.present.iter().map(|name| self.newest(name).clone()).collect()
    }

    pub fn newest(&self, name: &str) -> &ServiceSpec {
        self.versions[name].last().unwrap()
    }

    /// The version of whose main process or hook this is the command.
    pub fn version(&self, command: &str) -> &ServiceSpec {
        let (name, number) = version_number(command);
        &self.versions[name][number]
    }

    /// Writes the file of a service again.
    pub fn write(&mut self, dice: &mut Dice, index: usize) {
        let name = name(index);
        let version = self.versions.get(&name).map_or(0, Vec::len);
        let spec = self.file(dice, index, &format!("{name}#{version}"));
        self.versions.entry(name).or_default().push(spec);
    }

    fn file(&self, dice: &mut Dice, index: usize, mark: &str) -> ServiceSpec {
        let name = name(index);
        let nature = self.natures[index].clone();
        let service = nature.kind == ServiceKind::Service;
        let mut spec = ServiceSpec::process(&name, [mark]);
        spec.kind = nature.kind;
        spec.start = if dice.one_in(8) { StartMode::Manual } else { StartMode::Auto };
        spec.depends = self.depends(dice, index);
        if dice.one_in(25) && index > 0 {
            spec.when = vec![Requirement::service(self::name(0), ServiceEvent::Running)];
        }
        spec.restart = restart(dice, nature.kind);
        if let Some(lifecycle) = nature.lifecycle {
            spec.group = Some(GROUP.into());
            spec.lifecycle = lifecycle;
            spec.restart.scope = dice.pick(&[RestartScope::Service, RestartScope::Group]);
        }
        if service && dice.one_in(4) {
            spec.readiness = Readiness::Notify;
        }
        spec.start_timeout = secs(15);
        if service && dice.one_in(2) {
            spec.health = (0..=dice.roll(2)).map(|number| check(dice, mark, number)).collect();
        }
        if service && dice.one_in(4) {
            let check = Check { restart_after: 0, startup: false, ..check(dice, mark, 9) };
            spec.register = Some(Registration { checks: vec![check], ..Registration::default() });
        }
        let mut hooks = |kind: &str, most: u64| -> Vec<Hook> {
            if !dice.one_in(5) {
                return Vec::new();
            }
            let hook = |number| Hook::new([mark.to_owned(), format!("{kind}{number}")], secs(3));
            (0..=dice.roll(most)).map(hook).collect()
        };
        spec.hooks.pre = hooks("pre", 2);
        spec.hooks.post_start = hooks("postStart", 1);
        spec.hooks.pre_stop = hooks("preStop", 2);
        spec.hooks.post = hooks("post", 2);
        spec.stop.delay = dice.pick(&[Duration::ZERO, Duration::ZERO, secs(2)]);
        spec.stop.timeout = dice.pick(&[secs(1), secs(4)]);
        spec
    }

    /// Only those before it, so that there is no circle.
    fn depends(&self, dice: &mut Dice, index: usize) -> Vec<Requirement> {
        let own = self.natures[index].lifecycle;
        let mut depends: Vec<Requirement> = Vec::new();
        for (other, nature) in self.natures.iter().enumerate().take(index) {
            // As `kelson-load` makes of groups.
            if let (Some(own), Some(its)) = (own, nature.lifecycle) {
                let main = |one: Lifecycle| one == Lifecycle::default();
                let event = match own.hook {
                    None if !own.sidecar && its.hook == Some(LifecycleHook::Prestart) => {
                        Some(ServiceEvent::Finished)
                    }
                    None if !own.sidecar && its.sidecar => Some(ServiceEvent::Up),
                    Some(LifecycleHook::Poststart) if main(its) => Some(ServiceEvent::Up),
                    Some(LifecycleHook::Poststop) if main(its) => Some(ServiceEvent::Down),
                    _ => None,
                };
                depends.extend(event.map(|event| Requirement::service(name(other), event)));
            }
            if dice.roll(9) >= 4 || own.is_some_and(|own| own.hook == Some(LifecycleHook::Poststop)) {
                continue;
            }
            let event = match dice.roll(10) {
                0 => ServiceEvent::Running,
                1 if nature.kind == ServiceKind::Oneshot => ServiceEvent::Finished,
                2 if dice.one_in(3) => ServiceEvent::Down,
                3 => ServiceEvent::Settled,
                _ => ServiceEvent::Up,
            };
            let when_down = match event {
                ServiceEvent::Up | ServiceEvent::Running => {
                    dice.pick(&[WhenDown::Ignore, WhenDown::Ignore, WhenDown::Stop, WhenDown::Restart])
                }
                ServiceEvent::Finished | ServiceEvent::Down | ServiceEvent::Settled => WhenDown::Ignore,
            };
            depends.push(Requirement::Service { name: name(other), event, when_down });
        }
        if index > 1 && dice.one_in(12) {
            let up = |index| Requirement::service(name(index), ServiceEvent::Up);
            depends.push(Requirement::Any(vec![up(0), up(1)]));
        }
        if dice.one_in(4) {
            depends.push(Requirement::Path(LATE.into()));
        }
        depends
    }
}

/// Some of the services in the order of their parts, with a main among them.
fn draw_group(dice: &mut Dice, natures: &mut [Nature]) {
    let mut part = 0;
    let last = natures.len() - 1;
    let mut has_main = false;
    for (index, nature) in natures.iter_mut().enumerate() {
        part += dice.roll(2);
        let part = if index == last && !has_main { 1 } else { part };
        if dice.one_in(5) && has_main {
            continue;
        }
        let hook = match part {
            0 => Some(LifecycleHook::Prestart),
            1 | 2 => None,
            3 => Some(LifecycleHook::Poststart),
            _ => Some(LifecycleHook::Poststop),
        };
        // A prestart member is a one-shot, or a sidecar.
        let sidecar = part == 0 && nature.kind == ServiceKind::Service;
        has_main |= hook.is_none();
        nature.lifecycle = Some(Lifecycle { hook, sidecar });
    }
}

fn restart(dice: &mut Dice, kind: ServiceKind) -> RestartSpec {
    let policies = match kind {
        ServiceKind::Service => {
            [RestartPolicy::Forever, RestartPolicy::Forever, RestartPolicy::Once, RestartPolicy::UntilSuccess]
        }
        ServiceKind::Oneshot => [
            RestartPolicy::Once,
            RestartPolicy::Once,
            RestartPolicy::UntilSuccess,
            RestartPolicy::UntilSuccess,
        ],
    };
    RestartSpec {
        policy: dice.pick(&policies),
        // Without a pause there would be no end to what happens at one instant.
        delay: dice.pick(&[300 * MS, secs(1), secs(3)]),
        max_delay: secs(8),
        attempts: dice.pick(&[0, 0, 1, 2]),
        interval: dice.pick(&[secs(10), secs(60)]),
        exhausted: dice.pick(&[Exhausted::Fail, Exhausted::Delay]),
        scope: RestartScope::Service,
        ..RestartSpec::default()
    }
}

fn check(dice: &mut Dice, mark: &str, number: u64) -> Check {
    let failure_threshold = u32::try_from(1 + dice.roll(3)).unwrap();
    Check {
        initial_delay: dice.pick(&[Duration::ZERO, secs(1)]),
        interval: dice.pick(&[secs(1), secs(3)]),
        timeout: secs(1),
        success_threshold: dice.pick(&[1, 1, 2]),
        failure_threshold,
        restart_after: dice.pick(&[0, 0, 2, 3]),
        grace: dice.pick(&[Duration::ZERO, secs(4)]),
        startup: dice.one_in(5),
        ..Check::new(
            &format!("check{number}"),
            Probe::Exec { command: vec![mark.to_owned(), format!("check{number}")] },
        )
    }
}

fn short(dice: &mut Dice) -> Duration {
    match dice.roll(8) {
        0 => 1500 * MS,
        1..=3 => MS,
        _ => MS * u32::try_from(dice.roll(600)).unwrap(),
    }
}

/// How a service does what is asked of it from now on.
pub fn behave(dice: &mut Dice, house: &House, name: &str) -> String {
    let fails = |dice: &mut Dice, one_in: u64| dice.one_in(one_in).then(|| "no".to_owned());
    let (open, spawn, close) = (short(dice), short(dice), short(dice));
    let (open_fails, spawn_fails, close_fails) = (fails(dice, 6), fails(dice, 4), fails(dice, 8));
    let obeys = dice.pick(&[None, Some(Duration::ZERO), Some(700 * MS), Some(secs(2))]);
    let out_of_memory = dice.one_in(6);
    let told = format!(
        "{name}: open {open:?} {open_fails:?}, spawn {spawn:?} {spawn_fails:?}, close {close:?} {close_fails:?}, \
         obeys {obeys:?}"
    );
    house.manners(name, |one| {
        (one.open, one.spawn, one.close) = (open, spawn, close);
        (one.open_fails, one.spawn_fails, one.close_fails) = (open_fails, spawn_fails, close_fails);
        (one.obeys, one.out_of_memory) = (obeys, out_of_memory);
    });
    told
}

/// All that can be asked goes well from now on.
pub fn heal(world: &World, house: &House) {
    for (name, versions) in &world.versions {
        house.manners(name, |one| {
            (one.open_fails, one.spawn_fails, one.close_fails) = (None, None, None);
            one.obeys = Some(Duration::ZERO);
        });
        for spec in versions {
            for command in hooks_in_place(spec) {
                house.manners(name, |one| one.hook(&command, Some((Duration::ZERO, Exit::Status(0)))));
            }
            for command in beside(spec) {
                house.played(name, |one| one.commands.set(&command, passes()));
            }
        }
    }
}

/// The commands of `pre` and `post`.
pub fn hooks_in_place(spec: &ServiceSpec) -> Vec<String> {
    spec.hooks.pre.iter().chain(&spec.hooks.post).map(|hook| hook.command.join(" ")).collect()
}

/// The commands that run beside the main process: checks, `postStart`, `preStop`.
pub fn beside(spec: &ServiceSpec) -> Vec<String> {
    let hooks = spec.hooks.post_start.iter().chain(&spec.hooks.pre_stop).map(|hook| hook.command.join(" "));
    let all = spec.health.iter().chain(spec.registration_checks());
    let checks = all.filter_map(|check| match &check.probe {
        Probe::Exec { command } => Some(command.join(" ")),
        Probe::Network(_) | Probe::Csi { .. } | Probe::Volume(_) => None,
    });
    checks.chain(hooks).collect()
}

/// One of its commands does something else from now on.
pub fn change_command(dice: &mut Dice, world: &World, house: &House, name: &str) -> String {
    let spec = world.newest(name);
    let (in_place, beside) = (hooks_in_place(spec), beside(spec));
    let count = (in_place.len() + beside.len()) as u64;
    if count == 0 {
        return String::new();
    }
    let at = usize::try_from(dice.roll(count)).unwrap();
    if let Some(command) = in_place.get(at) {
        let ends = match dice.roll(5) {
            0 => None,
            1 => Some((700 * MS, Exit::Status(0))),
            2 => Some((Duration::ZERO, Exit::Status(2))),
            _ => Some((Duration::ZERO, Exit::Status(0))),
        };
        house.manners(name, |one| one.hook(command, ends));
        return format!("{command}: {ends:?}");
    }
    let command = &beside[at - in_place.len()];
    let (told, conduct) = match dice.roll(8) {
        0 => ("hangs", hangs("hm")),
        1 => ("cannot be killed", Conduct { unkillable: true, after: Some(secs(20)), ..hangs("hm") }),
        2..=4 => ("fails", fails("no")),
        5 => ("passes late", Conduct { after: Some(600 * MS), ..passes() }),
        _ => ("passes", passes()),
    };
    house.played(name, |one| one.commands.set(command, conduct));
    format!("{command}: {told}")
}
