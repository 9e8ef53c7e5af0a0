//! A check with `startup: true` gates the start: the others begin once it has passed, and it is not asked again.

use std::fs;

use kelson_tests::{Host, eventually, free_port};

use super::{check, last_output};

#[test]
fn a_startup_check_gates_the_start_and_is_asked_no_more() {
    let (boot, port) = (free_port(), free_port());
    let builder = Host::builder().runs_with(
        "web",
        &format!("'spawn=tcp={port}', 'http={boot}:$DIR/boot'"),
        &format!(
            "health:\n\
             - {{name: boot, http: {{port: {boot}}}, startup: true, initialDelay: 0s, interval: 100ms}}\n\
             - {{name: port, tcp: {{port: {port}}}, initialDelay: 0s, interval: 100ms}}"
        ),
    );
    let mut host = builder.start();
    // Before it could answer otherwise it has passed: the next run begins with what stands there now.
    host.wait_up("web");
    fs::write(host.path("boot"), "503 not yet").expect("the test's folder is writable");
    let results = check(&host, "web", "boot")["results"].clone();
    eventually("the other check to go on", || {
        check(&host, "web", "port")["results"].as_array().map_or(0, Vec::len) == 10
    });
    let done = check(&host, "web", "boot");
    assert_eq!((&done["state"], &done["results"]), (&"passing".into(), &results), "{done}");
    assert!(done["startup"] == true && done["lateMs"].is_null(), "{done}");
    assert!(host.service("web").up, "{:?}", host.service("web"));

    host.ctl(&["restart", "web"]).ok();
    host.wait_for("web", "to wait for its start", |web| {
        web.message == "running, waits for check boot: status 503, wanted 200-399"
    });
    let other = check(&host, "web", "port");
    assert!(other["since"].is_null() && other["results"] == serde_json::json!([]), "{other}");
    let table = host.ctl(&["status", "web"]).ok().stdout;
    assert!(table.contains("boot (http, startup)"), "{table}");
    assert!(table.contains("port (tcp): begins once the startup checks pass"), "{table}");
    assert!(last_output(&check(&host, "web", "boot")).contains("503"));
    fs::remove_file(host.path("boot")).expect("it is there");
    host.wait_up("web");
    host.poweroff();
}
