//! Three machines at the same time, asked as one: side by side, with one of them down, and ended together.

use kelson_tests::{Output, Vm, paths, remote};

const NAMES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
const WEB: &str = "process: {command: [$PROGRAM, serve]}";

/// Each machine's service `web`: the machine, and the PID there.
fn webs(output: &Output) -> Vec<(String, Option<i64>)> {
    let services: Vec<serde_json::Value> = output.json();
    let webs = services.into_iter().filter(|service| service["name"] == "web");
    webs.map(|web| (web["node"].as_str().unwrap_or_default().to_owned(), web["pid"].as_i64())).collect()
}

#[test]
fn three_machines_are_asked_as_one_and_one_of_them_is_down() {
    let builders = NAMES.map(|name| {
        Vm::builder(&format!("several-{name}")).machine(&format!("hostname: {name}\n")).service("web", WEB)
    });
    let mut machines = Vm::together(builders);
    for machine in &machines {
        machine.wait_up(&["web"]);
    }
    let doors = [0, 1, 2].map(|place| (NAMES[place], machines[place].port()));
    let away = remote::clients(&doors, paths::test_logs().join("several.contexts"));
    let of =
        |place: usize| (NAMES[place].to_owned(), machines[place].client().service("web").pid.map(i64::from));
    let all = [of(0), of(1), of(2)];
    let left = [all[0].clone(), all[2].clone()];
    assert_eq!(webs(&away.run(&["-n", "all", "services", "-o", "json"]).ok()), all);
    let table = away.run(&["-n", "all", "services"]).ok().stdout;
    assert!(table.starts_with("NODE") && NAMES.iter().all(|name| table.contains(name)), "{table}");
    let versions: Vec<serde_json::Value> = away.run(&["-n", "all", "version", "-o", "json"]).ok().json();
    let hosts: Vec<&str> = versions.iter().filter_map(|said| said["server"]["hostname"].as_str()).collect();
    assert_eq!(hosts, NAMES);

    // Nobody is there any more to refuse a connection.
    assert!(machines[1].cut(), "it was running");
    let asked = away.run(&["-n", "all", "services", "-o", "json"]).expect(3);
    assert_eq!(webs(&asked), left);
    let told: Vec<&str> = asked.stderr.lines().collect();
    assert!(matches!(told[..], [line] if line.starts_with("kelsonctl: edge-2: ")), "{asked:?}");
    let restarted = away.run(&["-n", "edge-1,edge-3", "restart", "--wait", "web"]).ok();
    assert!(restarted.stdout.contains("edge-1  web: "), "{restarted:?}");
    assert!(restarted.stdout.contains("edge-3  web: "), "{restarted:?}");

    let ended = away.run(&["-n", "all", "poweroff"]).expect(3);
    assert!(ended.stderr.contains("kelsonctl: edge-2: "), "{ended:?}");
    assert!(
        machines[0].wait_end() && machines[2].wait_end(),
        "{} {}",
        machines[0].said(),
        machines[2].said()
    );
}
