//! What a service gets of the environment of PID 1: `environment: {inherit: …}`.

use std::collections::BTreeMap;

use kelson_tests::{Host, PATIENCE, until};

/// The variables that the last run of a service has printed, Kelson's own without their values.
#[track_caller]
fn variables(host: &Host, name: &str, run: usize) -> BTreeMap<String, String> {
    let text = until(&format!("run {run} of {name}"), PATIENCE, || {
        let said = host.ctl(&["logs", "--run", &run.to_string(), name]);
        (said.status == 0 && said.stdout.contains("KELSON_RUN=")).then_some(said.stdout)
    });
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let own =
        |name: &str, value: &str| if name.starts_with("KELSON_") { String::new() } else { value.to_owned() };
    pairs.map(|(name, value)| (name.to_owned(), own(name, value))).collect()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = [("KELSON_RUN", ""), ("KELSON_SERVICE", "")];
    pairs.iter().chain(&own).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_service_gets_what_its_file_asks_for_in_every_incarnation() {
    const PRINT: &str = "process: {command: [/usr/bin/env]}\ntype: oneshot\n";
    const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut host = Host::builder()
        .variable("GIVEN", "by the engine, with = and spaces")
        .variable("OVER", "theirs")
        .variable("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/given")
        .service("all", &format!("{PRINT}environment: {{inherit: all, OVER: mine, OWN: 1}}\n"))
        .service("some", &format!("{PRINT}environment: {{inherit: [GIVEN, MISSING], OWN: 1}}\n"))
        .service("user", &format!("{PRINT}environment: {{inherit: [OVER]}}\nuser: '65534'\n"))
        .service("none", PRINT)
        .start();
    let given = ("GIVEN", "by the engine, with = and spaces");
    let names = ["all", "some", "user", "none"];
    for run in 1..=3 {
        let all = [given, ("OVER", "mine"), ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/given"), ("OWN", "1")];
        assert_eq!(variables(&host, "all", run), map(&all));
        assert_eq!(variables(&host, "some", run), map(&[given, ("PATH", USUAL), ("OWN", "1")]));
        let user = variables(&host, "user", run);
        assert_eq!(user.get("OVER").map(String::as_str), Some("theirs"), "{user:?}");
        assert_eq!(variables(&host, "none", run), map(&[("PATH", USUAL)]));
        match run {
            1 => drop(host.ctl(&["reexec"]).ok()),
            2 => host.crash(|| host.signal(libc::SIGSEGV)),
            _ => break,
        }
        for name in names {
            host.ctl(&["restart", name]).ok();
        }
    }
    host.poweroff();
}

#[test]
fn facts_about_the_host_are_there_at_each_start() {
    const PRINT: &str =
        "process: {command: [/usr/bin/env, \"GIVEN=--node=${NODE}\"]}\ntype: oneshot\nexpand: true\n";
    let facts = "{NODE: hostName, BOOT: bootId, ARCH: architecture, RELEASE: kernel, CORES: cpus, LIMIT: memory, \
                 ME: service, OVER: kernel}";
    let text = format!(
        "{PRINT}environmentFacts: {facts}\nenvironment: {{OVER: mine}}\n\
         resources: {{memoryMax: 64Mi, cpuMax: 0.5}}\n"
    );
    let kernel = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap().trim_end().to_owned()
    };
    let mut host = Host::builder().service("web", &text).service("free", &text.replace("0.5", "512")).start();
    let (web, free) = (variables(&host, "web", 1), variables(&host, "free", 1));
    let own = web["NODE"].as_str();
    assert!(!own.is_empty() && web["GIVEN"] == format!("--node={own}"), "{web:?}");
    let expected = [
        ("BOOT", kernel("random/boot_id")),
        ("RELEASE", kernel("osrelease")),
        ("ARCH", std::env::consts::ARCH.to_owned()),
        ("CORES", "1".to_owned()),
        ("LIMIT", (64 << 20).to_string()),
        ("ME", "web".to_owned()),
        ("OVER", "mine".to_owned()),
    ];
    for (name, value) in expected {
        assert_eq!(web[name], value, "{name}");
    }
    let all = std::thread::available_parallelism().unwrap().get();
    assert_eq!((free["CORES"].as_str(), free["ME"].as_str()), (all.to_string().as_str(), "free"));
    host.poweroff();
}

#[test]
fn variables_in_commands_are_expanded_where_the_file_says_so() {
    let commands = "process: {command: [$PROGRAM, $STEPS, 'print=<${GIVEN} ${KELSON_SERVICE} ${UNSET}>', 'print=$$A $B', \
                    serve]}
hooks: {pre: {command: [$PROGRAM, 'print=pre ${GIVEN}']}}
environment: {inherit: [GIVEN], STEPS: 'print=one \"print=two words\"'}
";
    let check =
        "health: [{name: look, exec: {command: [$PROGRAM, 'print=check ${GIVEN}']}, initialDelay: 0s}]\n";
    let mut host = Host::builder()
        .variable("GIVEN", "by init")
        .service("web", &format!("{commands}{check}expand: true\n"))
        .service("plain", &commands.replace("$STEPS", "print=$STEPS"))
        .up(&["web", "plain"]);
    let lines = |name: &str| {
        let text = host.ctl(&["logs", name]).ok().stdout;
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    host.wait_log("web", "$A $B");
    assert_eq!(lines("web"), ["pre by init", "one", "two words", "<by init web >", "$A $B"]);
    host.wait_log("plain", "$$A $B");
    assert_eq!(lines("plain"), ["pre ${GIVEN}", "$STEPS", "<${GIVEN} ${KELSON_SERVICE} ${UNSET}>", "$$A $B"]);
    let status = host.ctl(&["status", "web"]).ok().stdout;
    assert!(status.contains("check by init"), "{status}");
    // An operator's command is meant as it is written.
    assert_eq!(host.ctl(&["exec", "web", "--", "/bin/echo", "${GIVEN}"]).ok().stdout, "${GIVEN}\n");
    host.poweroff();
}
