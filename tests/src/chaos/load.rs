//! The services that run on a host while faults are injected into its PID 1.
//!
//! By their names it is known what is to be looked at: [`WRITER`] writes numbered lines all the time, [`RESTLESS`] ends
//! and is started again all the time, the others rest in one state each, which [`is_settled`] knows.

use std::path::Path;

use crate::ctl::Service;
use crate::paths;

/// Begins the name of what writes numbered lines, and notes in `FILES/NAME` which was the last.
pub const WRITER: &str = "n-";
/// Begins the name of what ends with a failure again and again, until `FILES/enough` is there: each run adds its PID to
/// `FILES/NAME.runs` and writes one line.
pub const RESTLESS: &str = "restless-";
/// The one-shot that is run once: it adds its PID to `FILES/once.runs`.
pub const ONCE: &str = "once";
/// The file that lets what is restless come to its end.
pub const ENOUGH: &str = "enough";
/// The service that injects the faults and judges the others.
pub const JUDGE: &str = "judge";
/// The service that nobody starts, in whose file the judge writes `start: auto`.
pub const MANUAL: &str = "manual";
/// A service that has nothing to report after its start.
pub const QUIET: &str = "told";
/// The group of [`QUIET`] and of the service that needs it.
pub const GROUP: &str = "shop";
/// The container, whose lines are numbered too.
pub const BOXED: &str = "boxed";

/// The services on a host, and how many of each.
#[derive(Debug, Clone)]
pub struct Load {
    /// Services that write numbered lines, a line each `every`.
    pub writers: usize,
    pub every: &'static str,
    /// Services that are restarted all the time, and for how long each runs and rests.
    pub restless: usize,
    pub rest: &'static str,
    /// The port of a server with a check; none for 0.
    pub port: u16,
    /// An image with the program of steps: a container of it runs, too.
    pub image: Option<&'static str>,
}

/// The faults that are injected, and how the host is reached by what injects them.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Several, with commas between them, take turns.
    pub fault: &'static str,
    pub times: u32,
    /// Before each fault a part of it, by chance, passes.
    pub pause: &'static str,
    /// The time after which a step counts as hung.
    pub bound: &'static str,
    /// The program `kelson-chaos` and the folder of `kelsonctl`, as the host sees them.
    pub program: String,
    pub binaries: String,
    /// `init.sock` is in it.
    pub runtime: String,
    pub logs: String,
    /// A folder that the services may write to.
    pub files: String,
    /// The folder of the service files.
    pub config: String,
    /// PID 1 has to be one that makes mistakes on demand.
    pub faulty: bool,
}

impl Plan {
    /// On a host in a PID namespace; `$DIR` is filled in by the host.
    #[track_caller]
    pub fn of_host(fault: &'static str, times: u32, pause: &'static str) -> Plan {
        Plan {
            fault,
            times,
            pause,
            bound: "20s",
            program: paths::binary("kelson-chaos").display().to_string(),
            binaries: folder_of(&paths::binary("kelsonctl")),
            runtime: "$DIR/run".to_owned(),
            logs: "$DIR/log".to_owned(),
            files: "$DIR".to_owned(),
            config: "$DIR/config/services".to_owned(),
            faulty: false,
        }
    }

    /// The same with a PID 1 that makes mistakes on demand.
    #[track_caller]
    pub fn of_faulty_host(fault: &'static str, times: u32, pause: &'static str) -> Plan {
        let binaries = folder_of(&paths::faulty_binary("kelsonctl"));
        Plan { binaries, faulty: true, ..Plan::of_host(fault, times, pause) }
    }

    /// On a machine, to which the program was brought along.
    pub fn of_machine(fault: &'static str, times: u32, pause: &'static str) -> Plan {
        Plan {
            fault,
            times,
            pause,
            bound: "60s",
            program: "$DIR/kelson-chaos".to_owned(),
            binaries: "/usr/bin".to_owned(),
            runtime: "/run/kelson".to_owned(),
            logs: "/var/log/kelson".to_owned(),
            files: "/tmp".to_owned(),
            config: "/etc/kelson/services".to_owned(),
            faulty: false,
        }
    }

    /// The service that carries it out once it is started by hand.
    pub fn judge(&self) -> (String, String) {
        let Plan { fault, times, pause, bound, program, binaries, runtime, logs, files, config, .. } = self;
        let yaml = format!(
            "process: {{command: ['{program}', 'fault={fault}', times={times}, pause={pause}, bound={bound}, \
             runtime={runtime}, logs={logs}, files={files}, config={config}]}}\n\
             environment: {{KELSON_BIN_DIR: '{binaries}'}}\n\
             type: oneshot\nstart: manual\nrequired: false\nrestart: {{policy: once}}\napi: admin\n"
        );
        (JUDGE.to_owned(), yaml)
    }
}

fn folder_of(file: &Path) -> String {
    file.parent().map(|folder| folder.display().to_string()).unwrap_or_default()
}

impl Load {
    /// The files of all services, by name.
    pub fn services(&self, plan: &Plan) -> Vec<(String, String)> {
        let files = &plan.files;
        let mut all = vec![plan.judge()];
        let mut add = |name: &str, yaml: String| all.push((name.to_owned(), yaml));
        for n in 0..self.writers {
            let steps = format!("'beat={}:40:{files}/{WRITER}{n}'", self.every);
            add(&format!("{WRITER}{n}"), format!("process: {{command: [$PROGRAM, {steps}]}}"));
        }
        for n in 0..self.restless {
            let (name, rest) = (format!("{RESTLESS}{n}"), self.rest);
            let steps = format!(
                "append={files}/{name}.runs, print=ran, sleep={rest}, end-if={files}/{ENOUGH}, exit=3"
            );
            let policy = format!("{{policy: untilSuccess, delay: {rest}, maxDelay: {rest}}}");
            let yaml =
                format!("process: {{command: [$PROGRAM, {steps}]}}\nrestart: {policy}\nrequired: false");
            add(&name, yaml);
        }
        let serve = "process: {command: [$PROGRAM, serve]}";
        let once = format!("process: {{command: [$PROGRAM, append={files}/{ONCE}.runs]}}\ntype: oneshot");
        add(ONCE, once);
        add("long", format!("{serve}\ntype: oneshot\nrequired: false"));
        let notify = "process: {command: [$PROGRAM, 'notify=READY=1', serve]}\nreadiness: notify";
        add(QUIET, format!("{notify}\ngroup: {GROUP}"));
        let needs = format!("[{{service: {QUIET}}}, {{service: {ONCE}, event: finished}}]");
        add("needs", format!("{serve}\ngroup: {GROUP}\ndepends: {needs}"));
        add("waits", format!("{serve}\nrequired: false\ndepends: [{{path: {files}/never}}]"));
        let pauses = "process: {command: [$PROGRAM, exit=3]}\nrestart: {delay: 10h, maxDelay: 10h}";
        add("pauses", format!("{pauses}\nrequired: false"));
        add(MANUAL, format!("{serve}\nstart: manual\nrequired: false"));
        let check = "{name: a, exec: {command: [$PROGRAM]}, interval: 1s, timeout: 50s}";
        add("checked", format!("{serve}\nhealth: [{check}]"));
        if self.port > 0 {
            let (server, port) = (format!("http={}:{files}/page", self.port), self.port);
            let check = format!("{{name: page, http: {{port: {port}}}, interval: 1s, timeout: 50s}}");
            add("page", format!("process: {{command: [$PROGRAM, '{server}']}}\nhealth: [{check}]"));
        }
        if let Some(image) = self.image {
            let steps = "command: [/kelson-test-program, ticker=1s]";
            add(BOXED, format!("container: {{image: '{image}', network: none, {steps}}}"));
        }
        all
    }
}

/// Whether a service of the load is as it stays, or has begun to be restless. A service that is not of the
/// load has to be up.
pub fn is_settled(service: &Service) -> bool {
    let state = service.state.as_str();
    match service.name.as_str() {
        "long" | JUDGE => state == "running",
        "waits" => state == "waiting",
        "pauses" => state == "backoff",
        MANUAL => state == "initialized",
        name if name.starts_with(RESTLESS) => service.restarts > 0,
        _ => service.up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_a_name_of_its_own() {
        let plan = Plan::of_machine("segv", 1, "1s");
        let load = Load { writers: 3, every: "1s", restless: 2, rest: "1s", port: 80, image: Some("a:1") };
        let all = load.services(&plan);
        let names: std::collections::BTreeSet<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|(_, yaml)| yaml.starts_with("process: ") || yaml.starts_with("container: ")));
        assert_eq!(names.iter().filter(|name| name.starts_with(RESTLESS)).count(), 2);
    }
}
