//! Health checks (H1 to H7): where commands run and as whom, what is asked over the network and by whom, what becomes of
//! a service when who asks dies, and what `status` tells.

mod csi;
mod h1_network_checks;
mod h4_exec_checks;
mod h7_node_health;
mod probe_dies;
mod startup_checks;

use kelson_tests::Host;
use serde_json::Value;

/// A check in a service's status.
#[track_caller]
fn check(host: &Host, service: &str, name: &str) -> Value {
    let status: Value = host.ctl(&["status", service, "-o", "json"]).ok().json();
    let checks = status["checks"].as_array().cloned().unwrap_or_default();
    checks.into_iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {status}"))
}

/// The text of a check's last result.
fn last_output(check: &Value) -> String {
    let results = check["results"].as_array().cloned().unwrap_or_default();
    results.last().and_then(|result| result["output"].as_str()).unwrap_or_default().to_owned()
}

/// PID 1's own process that asks.
#[track_caller]
fn probe(host: &Host) -> i32 {
    host.wait_for("probe", "to ask", |probe| probe.up).pid.expect("it runs")
}
