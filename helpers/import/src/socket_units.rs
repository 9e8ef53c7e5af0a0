//! The socket units of a service: they become its `sockets`.

use kelson_load::Json;
use kelson_spec::service::{Requirement, RestartPolicy, ServiceEvent, ServiceKind, SocketSpec, StartMode};

use crate::draft::{Before, Draft};
use crate::finding::{Fate, Finding};
use crate::judgement::finding;
use crate::lifecycle::limited;
use crate::part_unit::{self, PartUnit};
use crate::settings::{Setting, Settings};
use crate::socket::{Socket, name};
use crate::unit_name::kelson_name;

/// Translates the socket units of a service, and says of each of their keys what became of it.
pub fn translate(draft: &mut Draft<'_>, units: &[PartUnit<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for unit in units {
        draft.socket = Socket { name: name(unit.name), ..Socket::default() };
        let settings = unit.settings();
        draft.socket.spec.options = draft.of_sockets;
        // Other keys mean more with programs.
        draft.socket.programs = programs(draft, &settings);
        findings.extend(part_unit::judged(draft, &settings, "Socket"));
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
fn before_sockets(draft: &mut Draft<'_>, unit: &PartUnit<'_>, programs: &[String]) {
    let bare = unit.name.replace('.', "-");
    // Their specifiers have values already.
    let commands = programs.iter().map(|command| format!("ExecStart={}\n", command.replace('%', "%%")));
    let commands: String = commands.collect();
    let text = format!("[Service]\nType=oneshot\n{commands}[Install]\nWantedBy=sockets.target\n");
    draft.depends(Requirement::service(kelson_name(&bare), ServiceEvent::Up));
    draft.beside.push(Before { unit: format!("{bare}.service"), source: unit.name.to_owned(), text });
}

/// The first connection or path starts it. A failed run is followed by another at the next one, as in systemd, within
/// the limit of its starts.
pub fn on_demand(draft: &mut Draft<'_>) {
    (draft.spec.start, draft.spec.on_demand) = (StartMode::Auto, true);
    if draft.spec.restart.policy == RestartPolicy::Once {
        limited(draft);
        if draft.spec.kind == ServiceKind::Service {
            draft.spec.restart.policy = RestartPolicy::Forever;
        }
    }
}
