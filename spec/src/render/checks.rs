//! Health checks as they stand in a service file.

use super::{duration, list, mapping, number, scalar, words};
use crate::service::{Asks, Check, HttpProbe, NetworkProbe, Probe, ProbeTls};

/// One entry of `health`.
pub fn check(check: &Check) -> String {
    let probe = match &check.probe {
        Probe::Network(network) => (network.kind(), mapping(target(network))),
        Probe::Exec { command } => ("exec", mapping([("command", words(command))])),
    };
    let default = Check::new(&check.name, check.probe.clone());
    let mut entries = vec![("name", scalar(&check.name)), probe];
    duration(&mut entries, "initialDelay", check.initial_delay, default.initial_delay);
    duration(&mut entries, "interval", check.interval, default.interval);
    duration(&mut entries, "timeout", check.timeout, default.timeout);
    number(&mut entries, "successThreshold", check.success_threshold, default.success_threshold);
    number(&mut entries, "failureThreshold", check.failure_threshold, default.failure_threshold);
    number(&mut entries, "restartAfter", check.restart_after, default.restart_after);
    duration(&mut entries, "grace", check.grace, default.grace);
    if check.startup {
        entries.push(("startup", "true".to_owned()));
    }
    mapping(entries)
}

fn target(network: &NetworkProbe) -> Vec<(&'static str, String)> {
    let mut entries = vec![("port", network.port.to_string())];
    if network.address != NetworkProbe::ADDRESS {
        entries.push(("address", scalar(&network.address.to_string())));
    }
    match &network.asks {
        Asks::Tcp => {}
        Asks::Http(http) => asked_by_http(&mut entries, http),
        Asks::Grpc(grpc) => {
            if !grpc.service.is_empty() {
                entries.push(("service", scalar(&grpc.service)));
            }
            secured(&mut entries, grpc.host.as_deref(), grpc.tls.as_ref());
        }
    }
    entries
}

fn asked_by_http(entries: &mut Vec<(&'static str, String)>, http: &HttpProbe) {
    entries.push(("path", scalar(&http.path)));
    secured(entries, http.host.as_deref(), http.tls.as_ref());
    if !http.headers.is_empty() {
        let headers = http.headers.iter().map(|(name, value)| format!("{}: {}", scalar(name), scalar(value)));
        entries.push(("headers", format!("{{{}}}", headers.collect::<Vec<_>>().join(", "))));
    }
    if !http.status.is_empty() {
        let range = |(first, last): &(u16, u16)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        let text = match http.status.as_slice() {
            [one] => range(one),
            several => list(several.iter().map(range)),
        };
        entries.push(("status", text));
    }
    if let Some(body) = &http.body {
        entries.push(("body", scalar(body)));
    }
}

/// The certificates stand in the text themselves: whoever reads it may not have their file.
fn secured(entries: &mut Vec<(&'static str, String)>, host: Option<&str>, tls: Option<&ProbeTls>) {
    if let Some(host) = host {
        entries.push(("host", scalar(host)));
    }
    let Some(tls) = tls else { return };
    entries.push(("scheme", "https".to_owned()));
    entries.push(match &tls.ca {
        Some(ca) => ("ca", scalar(ca)),
        None => ("verify", "false".to_owned()),
    });
}
