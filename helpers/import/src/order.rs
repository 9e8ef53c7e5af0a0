//! What a unit needs, and what it comes after.

use std::path::PathBuf;

use kelson_spec::names::is_point;
use kelson_spec::service::{RefusedRequest, Requirement, ServiceEvent, StartMode, WhenDown};

use crate::conditions;
use crate::draft::Draft;
use crate::finding::Outcome;
use crate::other_unit::{BOOT, NETWORKS, NOTHING, OF_THE_END, Other, PASSIVE, STAGES, other};
use crate::settings::Setting;
use crate::sockets;
use crate::unit_name::{UnitName, kelson_name};
use crate::values::boolean;

/// The units of a key, each with the values of its specifiers, and what is to be said of each.
pub fn each(
    draft: &mut Draft<'_>,
    setting: &Setting,
    mut of: impl FnMut(&mut Draft<'_>, &str) -> Outcome,
) -> Outcome {
    let words = setting.list().iter().flat_map(|value| value.split_ascii_whitespace());
    let words: Vec<String> = words.map(str::to_owned).collect();
    let one = |word: &String| match draft.expanded(word) {
        Ok(unit) => of(draft, &unit),
        Err(outcome) => outcome,
    };
    words.iter().map(one).collect()
}

/// Whether the unit also comes after the other.
fn is_after(draft: &Draft<'_>, unit: &str) -> bool {
    draft
        .settings
        .units("Unit", "After")
        .iter()
        .any(|word| draft.expanded(word).is_ok_and(|after| after == unit))
}

/// Whether one of these keys names the other.
fn is_in(draft: &Draft<'_>, keys: &[&str], unit: &str) -> bool {
    let mut words = keys.iter().flat_map(|key| draft.settings.units("Unit", key));
    words.any(|word| draft.expanded(word).is_ok_and(|other| other == unit))
}

/// `Sockets=` of a service.
pub fn sockets(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    each(draft, setting, |draft, unit| sockets::given(draft, unit))
}

pub fn after(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    each(draft, setting, |draft, unit| match other(unit) {
        Other::Moot(why) => Outcome::kept(format!("{unit}: {why}")),
        Other::Condition(Requirement::Mount(_), _) if !is_in(draft, &["Requires", "BindsTo"], unit) => {
            Outcome::kept(format!("{unit}: {BOOT}"))
        }
        Other::Condition(requirement, why) => {
            draft.depends(requirement);
            if is_point(unit) {
                draft.depends(Requirement::service(unit, ServiceEvent::Settled));
            }
            Outcome::approximated(format!("{unit}: {why}"))
        }
        Other::Point => {
            draft.depends(Requirement::service(unit, ServiceEvent::Settled));
            Outcome::kept(format!("{unit}: `after`"))
        }
        Other::Socket(_) if sockets::is_own(draft, unit) => Outcome::kept(format!("{unit}: see its own key")),
        Other::Service(_) | Other::Socket(_) if is_in(draft, &["Requires", "BindsTo", "Requisite"], unit) => {
            Outcome::kept(format!("{unit}: `depends`"))
        }
        Other::Service(name) | Other::Socket(name) => {
            draft.depends(Requirement::service(name, ServiceEvent::Settled));
            Outcome::kept(format!("{unit}: `after`"))
        }
        Other::Strange if unit.ends_with(".automount") => {
            Outcome::kept(format!("{unit}: Kelson mounts nothing at its first use"))
        }
        Other::Strange => {
            Outcome::rejected(format!("the service does not wait for {unit}, which Kelson does not have"))
        }
    })
}

pub fn requires(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    needs(draft, setting, WhenDown::Ignore)
}

pub fn binds_to(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    needs(draft, setting, WhenDown::Stop)
}

fn needs(draft: &mut Draft<'_>, setting: &Setting, when_down: WhenDown) -> Outcome {
    each(draft, setting, |draft, unit| match other(unit) {
        Other::Moot(why) => Outcome::kept(format!("{unit}: {why}")),
        Other::Condition(requirement, why) => {
            draft.depends(requirement);
            match when_down {
                WhenDown::Ignore => Outcome::approximated(format!("{unit}: {why}")),
                WhenDown::Stop | WhenDown::Restart => Outcome::rejected(format!(
                    "the service runs on when {unit} goes; it waits for it before a start"
                )),
            }
        }
        Other::Socket(_) if sockets::is_own(draft, unit) => sockets::given(draft, unit),
        Other::Socket(name) => {
            let text =
                format!("{unit}: the service waits until {name} is up, or its sockets take connections");
            draft.depends(Requirement::Service { name, event: ServiceEvent::Up, when_down });
            Outcome::approximated(text)
        }
        Other::Service(name) => {
            draft.depends(Requirement::Service { name, event: ServiceEvent::Up, when_down });
            Outcome::approximated(match (when_down, is_after(draft, unit)) {
                (WhenDown::Ignore, true) => {
                    format!(
                        "{unit}: the service waits until the other is up, and does not fail or restart with it"
                    )
                }
                (WhenDown::Ignore, false) => {
                    format!("{unit}: the service waits until the other is up; systemd starts both at once")
                }
                (WhenDown::Stop | WhenDown::Restart, _) => {
                    format!("{unit}: the service waits until the other is up, and is stopped when that ends")
                }
            })
        }
        Other::Point if PASSIVE.contains(&unit) => Outcome::kept(format!("{unit}: it starts nothing")),
        Other::Point => Outcome::rejected(format!(
            "the service starts whether what {unit} stands for is there or not; write `depends` for what it needs"
        )),
        Other::Strange => Outcome::rejected(format!(
            "{unit} is of a kind that Kelson does not have; the service starts without it"
        )),
    })
}

pub fn wants(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    each(draft, setting, |draft, unit| match other(unit) {
        Other::Moot(why) => Outcome::kept(format!("{unit}: {why}")),
        Other::Condition(requirement, why) => {
            draft.depends(requirement);
            Outcome::approximated(format!("{unit}: {why}"))
        }
        Other::Socket(_) if sockets::is_own(draft, unit) => sockets::given(draft, unit),
        Other::Socket(name) => {
            Outcome::kept(format!("{name} starts by itself if its own file says `start: onDemand`"))
        }
        Other::Service(name) => {
            Outcome::kept(format!("{name} starts by itself if its own file says `start: auto`"))
        }
        Other::Point => {
            Outcome::kept(format!("{unit}: the services of it start by themselves, with `start: auto`"))
        }
        Other::Strange => {
            Outcome::rejected(format!("{unit} is of a kind that Kelson does not have; it is not started"))
        }
    })
}

pub fn before(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    each(draft, setting, |draft, unit| {
        let name = match other(unit) {
            _ if OF_THE_END.contains(&unit) => {
                return Outcome::kept(format!("{unit}: Kelson stops every service before the end"));
            }
            _ if STAGES.contains(&unit) => {
                return Outcome::kept(format!("{unit}: nothing comes after all services"));
            }
            Other::Moot(NOTHING) => return Outcome::kept(format!("{unit}: {NOTHING}")),
            Other::Service(name) | Other::Socket(name) => name,
            // What sets up interfaces by itself is a service like others; Kelson's own set-up is the boot's.
            Other::Moot(_) if NETWORKS.contains(&unit) => kelson_name(unit.trim_end_matches(".service")),
            Other::Point | Other::Condition(..) if is_point(unit) => unit.to_owned(),
            Other::Moot(why) => {
                return Outcome::rejected(format!(
                    "the service starts after {unit}, and not before it: {why}"
                ));
            }
            Other::Point | Other::Condition(..) | Other::Strange => {
                return Outcome::rejected(format!("{unit} does not wait for this service"));
            }
        };
        if !draft.before.contains(&name) && name != draft.spec.name {
            draft.before.push(name);
        }
        Outcome::kept(format!("{unit}: `before`"))
    })
}

/// The order that every unit has with the start and the end of the host, unless it says no.
pub fn default_dependencies(_: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match boolean(setting.last()) {
        Some(false) => Outcome::approximated(
            "the service starts after the boot's own tasks and is stopped before them, and not beside them",
        ),
        _ => Outcome::kept("the service starts after the boot's own tasks, and is stopped before the end"),
    }
}

pub fn conflicts(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    each(draft, setting, |draft, unit| {
        if OF_THE_END.contains(&unit) {
            return Outcome::kept(format!("{unit}: Kelson stops every service before the end"));
        }
        if unit == "systemd-timesyncd.service" {
            return Outcome::approximated(format!(
                "{unit}: Kelson does not stop its own synchronisation of the clock; leave `time` out of the machine file"
            ));
        }
        // Whatever it is to the order of a start, here it is a service.
        match UnitName::new(unit) {
            Some(name) => {
                let name = kelson_name(&name.bare);
                if name != draft.spec.name && !draft.spec.conflicts.contains(&name) {
                    draft.spec.conflicts.push(name);
                }
                Outcome::kept(format!("{unit}: `conflicts`"))
            }
            None => Outcome::rejected(format!(
                "{unit} is not stopped when this service starts, and the other way round"
            )),
        }
    })
}

pub fn part_of(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    each(draft, setting, |draft, unit| match other(unit) {
        Other::Service(name) if name != draft.spec.name && is_in(draft, &["Requires", "BindsTo"], unit) => {
            let part = Requirement::Service { name, event: ServiceEvent::Up, when_down: WhenDown::Restart };
            let same = |known: &&mut Requirement| match (&**known, &part) {
                (Requirement::Service { name: known, .. }, Requirement::Service { name, .. }) => {
                    known == name
                }
                _ => false,
            };
            match draft.spec.depends.iter_mut().find(same) {
                Some(known) => *known = part,
                None => draft.spec.depends.push(part),
            }
            Outcome::approximated(format!(
                "{unit}: the service is stopped with the other, and starts again with it"
            ))
        }
        Other::Service(name) => {
            if name != draft.spec.name && !draft.spec.part_of.contains(&name) {
                draft.spec.part_of.push(name);
            }
            Outcome::approximated(format!(
                "{unit}: `partOf`: a stop or restart of the other by an operator is one of this service too"
            ))
        }
        Other::Point => Outcome::approximated(format!(
            "nothing stops or restarts {unit}, which is a point of the order alone; name the services to `kelsonctl`"
        )),
        _ => Outcome::rejected(format!("a stop or restart of {unit} does not reach this service")),
    })
}

/// `RefuseManualStart=` and `RefuseManualStop=`.
pub fn refuses(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let request = match setting.key.as_str() {
        "RefuseManualStart" => RefusedRequest::Start,
        _ => RefusedRequest::Stop,
    };
    if boolean(setting.last()) == Some(true) {
        draft.spec.refuses.push(request);
    }
    Outcome::as_table()
}

pub fn reload_with(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if draft.settings.service_list("ExecReload").is_empty() {
        return Outcome::kept("a unit without ExecReload= has no reload");
    }
    each(draft, setting, |draft, unit| match other(unit) {
        Other::Service(name) => {
            draft.spec.reload.with.push(name);
            Outcome::as_table()
        }
        _ => Outcome::rejected(format!("a reload of {unit} does not reach this service")),
    })
}

pub fn requires_mounts_for(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    each(draft, setting, |_, path| Outcome::kept(format!("{path}: {BOOT}")))
}

/// `WantedBy=` and `RequiredBy=`.
pub fn wanted_by(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    each(draft, setting, |draft, unit| {
        draft.spec.start = StartMode::Auto;
        match unit.rsplit_once('.') {
            Some((_, "target")) => Outcome::as_table(),
            _ => Outcome::approximated(format!("the service starts with the boot, and not with {unit}")),
        }
    })
}

/// The opposite.
pub fn not(one: Requirement) -> Requirement {
    match one {
        Requirement::Not(inner) => *inner,
        one => Requirement::Not(Box::new(one)),
    }
}

/// A condition that Kelson has: of its value, where it is a plain one.
pub fn condition(
    draft: &mut Draft<'_>,
    setting: &Setting,
    put: fn(&mut Draft<'_>, Requirement),
    of: impl Fn(&str) -> Option<Requirement>,
) -> Outcome {
    // Alternatives of several keys are one question.
    let alone = !conditions::has_alternatives_beside(draft, &setting.key);
    let (mut alternatives, mut outcome) = (Vec::new(), Outcome::default());
    for value in setting.list() {
        let (either, value) = value.strip_prefix('|').map_or((false, value.as_str()), |value| (true, value));
        let value = match draft.expanded(value.trim_start()) {
            Ok(value) => value,
            Err(wrong) => {
                outcome = outcome.and(wrong);
                continue;
            }
        };
        let (negated, plain) = value.strip_prefix('!').map_or((false, value.as_str()), |plain| (true, plain));
        let found = of(plain.trim_start());
        match found.map(|one| if negated { not(one) } else { one }) {
            Some(_) if either && !alone => match conditions::test(&setting.key, &value) {
                Ok(test) => draft.either.push(test),
                Err(wrong) => outcome = outcome.and(wrong),
            },
            Some(requirement) if either => alternatives.push(requirement),
            Some(requirement) => put(draft, requirement),
            None => {
                let text =
                    format!("the service starts also if {value} does not hold; Kelson cannot check this");
                outcome = outcome.and(Outcome::rejected(text));
            }
        }
    }
    match alternatives.len() {
        0 => {}
        1 => alternatives.into_iter().for_each(|only| put(draft, only)),
        _ => put(draft, Requirement::Any(alternatives)),
    }
    outcome
}

fn absolute(value: &str) -> Option<PathBuf> {
    value.starts_with('/').then(|| PathBuf::from(value))
}

pub fn when_path(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    condition(draft, setting, |draft, one| draft.when(one), |value| absolute(value).map(Requirement::Path))
}

pub fn when_mount(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    condition(draft, setting, |draft, one| draft.when(one), |value| absolute(value).map(Requirement::Mount))
}

pub fn when_argument(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    condition(
        draft,
        setting,
        |draft, one| draft.when(one),
        |value| {
            let sound = !value.is_empty() && !value.starts_with(['=', '!']);
            sound.then(|| Requirement::KernelArgument(value.to_owned()))
        },
    )
}

pub fn depends_path(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let outcome = condition(
        draft,
        setting,
        |draft, one| draft.depends(one),
        |value| absolute(value).map(Requirement::Path),
    );
    outcome.and(Outcome::approximated("the service waits for the path; systemd fails the start without it"))
}

pub fn depends_mount(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let outcome = condition(
        draft,
        setting,
        |draft, one| draft.depends(one),
        |value| absolute(value).map(Requirement::Mount),
    );
    outcome.and(Outcome::approximated("the service waits for the mount; systemd fails the start without it"))
}
