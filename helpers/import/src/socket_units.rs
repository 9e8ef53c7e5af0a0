//! The socket units of a service: they become its `sockets`.

use kelson_load::Json;
use kelson_spec::service::{Requirement, RestartPolicy, ServiceEvent, ServiceKind, SocketSpec, StartMode};

use crate::conditions;
use crate::draft::{Before, Draft};
use crate::finding::{Fate, Finding};
use crate::judgement::{self, finding};
use crate::keys;
use crate::lifecycle::limited;
use crate::settings::{Setting, Settings, Source};
use crate::socket::{Socket, name};
use crate::unit_name::kelson_name;
use crate::values::boolean;

/// A socket unit as it lies on a disk.
#[derive(Debug, Clone)]
pub struct SocketUnit<'t> {
    /// The name of its file: `web.socket`.
    pub name: &'t str,
    /// The fragment, and the drop-ins in the order in which they count.
    pub sources: Vec<Source<'t>>,
}

impl SocketUnit<'_> {
    /// The service unit that it starts: that of its own name, unless it names another; a template, where each connection has
    /// an instance of its own.
    pub fn service(&self) -> String {
        let settings = Settings::read(self.sources.iter().copied());
        let last = |key| settings.get("Socket", key).map(Setting::last);
        let template = if last("Accept").and_then(boolean) == Some(true) { "@" } else { "" };
        let named = last("Service").filter(|name| !name.is_empty());
        let own = || self.name.strip_suffix(".socket").map(|bare| format!("{bare}{template}.service"));
        named.map(str::to_owned).or_else(own).unwrap_or_default()
    }
}

/// Translates the socket units of a service, and says of each of their keys what became of it.
pub fn translate(draft: &mut Draft<'_>, units: &[SocketUnit<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for unit in units {
        let settings = Settings::read(unit.sources.iter().copied());
        draft.socket = Socket { name: name(unit.name), ..Socket::default() };
        draft.socket.spec.options = draft.of_sockets;
        // Other keys mean more with programs.
        draft.socket.programs = programs(draft, &settings);
        findings.extend(judgement::all(draft, &settings, judged));
        // Its alternatives are none of the service's.
        conditions::settle(draft);
        let socket = std::mem::take(&mut draft.socket);
        if !socket.programs.is_empty() {
            before_sockets(draft, unit, &socket.programs);
        }
        if !socket.accepts {
            draft.sockets.extend(socket.written());
        }
    }
    let mut listens = Vec::new();
    draft.sockets.retain(|socket| {
        let Json::Map(entries) = socket else { return false };
        let listen = entries.iter().find(|(key, _)| key == "listen").map(|(_, listen)| listen.clone());
        let is_new = !listens.contains(&listen);
        listens.push(listen);
        is_new
    });
    draft.sockets.truncate(SocketSpec::MOST);
    if !draft.sockets.is_empty() && draft.spec.start == StartMode::Manual {
        match draft.spec.kind {
            ServiceKind::Oneshot => findings.extend(units.first().map(|unit| {
                let sentence =
                    "no connection starts a one-shot; start it with the boot, or by `kelsonctl start`";
                finding("Socket", "Service", unit.name, 0, (Fate::Rejected, sentence.to_owned()))
            })),
            ServiceKind::Service => on_demand(draft),
        }
    }
    findings
}

/// The commands of `ExecStartPre=` with the values of their specifiers; none if one has no value.
fn programs(draft: &Draft<'_>, settings: &Settings) -> Vec<String> {
    let list = settings.get("Socket", "ExecStartPre").map_or(&[][..], Setting::list);
    list.iter().map(|command| draft.expanded(command).ok()).collect::<Option<_>>().unwrap_or_default()
}

/// A one-shot runs the programs, and the service, with it its sockets, waits until it has succeeded.
fn before_sockets(draft: &mut Draft<'_>, unit: &SocketUnit<'_>, programs: &[String]) {
    let bare = unit.name.replace('.', "-");
    // Their specifiers have values already.
    let commands = programs.iter().map(|command| format!("ExecStart={}\n", command.replace('%', "%%")));
    let commands: String = commands.collect();
    let text = format!("[Service]\nType=oneshot\n{commands}[Install]\nWantedBy=sockets.target\n");
    draft.depends(Requirement::service(kelson_name(&bare), ServiceEvent::Up));
    draft.beside.push(Before { unit: format!("{bare}.service"), source: unit.name.to_owned(), text });
}

/// The first connection starts it. A failed run is followed by another at the next connection, as in systemd, within
/// the limit of its starts.
fn on_demand(draft: &mut Draft<'_>) {
    (draft.spec.start, draft.spec.on_demand) = (StartMode::Auto, true);
    if draft.spec.restart.policy == RestartPolicy::Once {
        limited(draft);
        draft.spec.restart.policy = RestartPolicy::Forever;
    }
}

fn judged(draft: &mut Draft<'_>, setting: &Setting) -> (Fate, String) {
    let name = setting.key.as_str();
    match setting.section.as_str() {
        "Unit" if name.starts_with("Condition") || name.starts_with("Assert") => {
            let (fate, sentence) = judgement::judged(draft, setting);
            (fate.max(Fate::Approximated), format!("it counts for the service as a whole: {sentence}"))
        }
        "Unit" => match keys::find("Unit", name) {
            Some(_) => (
                Fate::Kept,
                "the sockets are made once the conditions of the service hold, and others find them then"
                    .to_owned(),
            ),
            None => judgement::judged(draft, setting),
        },
        "Install" => (Fate::Kept, "`start: onDemand`, unless the boot starts the service itself".to_owned()),
        "Socket" if keys::find("Socket", name).is_none() && keys::find("Service", name).is_some() => {
            match draft.socket.programs.is_empty() {
                true => (Fate::Kept, "the socket runs no program of its own".to_owned()),
                false => {
                    (Fate::Rejected, "the programs before the socket run without it, as root".to_owned())
                }
            }
        }
        _ => judgement::judged(draft, setting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_service_is_the_one_that_systemd_starts() {
        for (text, service) in [
            ("", "web.service"),
            ("Accept=no\n", "web.service"),
            ("Accept=yes\n", "web@.service"),
            ("Service=shop.service\n", "shop.service"),
        ] {
            let text = format!("[Socket]\nListenStream=80\n{text}");
            let sources = vec![Source { name: "web.socket", text: &text }];
            assert_eq!(SocketUnit { name: "web.socket", sources }.service(), service);
        }
    }
}
