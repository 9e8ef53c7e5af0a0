//! G6: a cycle, an unknown dependency, a self dependency: refused with the whole path; all that does not need them
//! starts.

use kelson_tests::Host;

#[test]
fn g6_cycles_strangers_and_self_dependencies_are_refused_and_the_rest_starts() {
    let serve = "process: {command: [$PROGRAM, serve]}\n";
    let needs = |list: &str| format!("{serve}depends: [{list}]");
    let mut host = Host::builder()
        .service("a", &needs("{service: b}"))
        .service("b", &needs("{service: c, event: running}"))
        .service("c", &needs("{path: /}, {service: a}"))
        .service("narcissus", &needs("{service: narcissus}"))
        .service("lost", &needs("{service: nobody}"))
        .service("near", &needs("{service: goood}"))
        .service("good", serve)
        .service("better", &needs("{service: good}"))
        // Sound in themselves, but they need a refused one.
        .service("victim", &needs("{service: b}"))
        .service("either", &needs("{any: [{service: a}, {service: good}]}"))
        .start();
    host.wait_all_up(&["good", "better", "either"]);
    for (name, path) in [("a", "a → b → c → a"), ("b", "b → c → a → b"), ("c", "c → a → b → c")]
    {
        let service = host.service(name);
        assert_eq!((service.state.as_str(), service.up, service.pid), ("failed", false, None), "{service:?}");
        assert!(service.message.contains(path), "{path}: {service:?}");
        assert!(service.message.contains(&format!("{name}.yaml:3:")), "file and line: {service:?}");
        assert_eq!(host.states_of(name), ["failed"]);
        // It stays refused, with the same text.
        let start = host.client().act(&["start", name, "--wait"]);
        assert_eq!(start.outcome, "refused", "{start:?}");
        assert!(start.message.contains(path), "{start:?}");
    }
    for (name, text) in [
        ("narcissus", "narcissus waits for itself"),
        ("lost", "there is no service nobody"),
        ("near", "did you mean good?"),
    ] {
        let service = host.service(name);
        assert_eq!((service.state.as_str(), service.pid), ("failed", None), "{service:?}");
        assert!(service.message.contains(text), "{text}: {service:?}");
    }
    let victim = host.service("victim");
    assert_eq!(victim.state, "waiting");
    assert!(victim.message.contains("it failed") && victim.message.contains("b → c → a → b"), "{victim:?}");
    let why = host.ctl(&["why", "victim"]).ok().stdout;
    assert!(why.contains("b → c → a → b"), "{why}");

    // The same beforehand, all at once.
    let config = host.path("config").display().to_string();
    let validate = host.ctl(&["validate", &config]).expect(1);
    let said = validate.stdout + &validate.stderr;
    for text in ["a → b → c → a", "waits for itself", "nobody", "goood"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    host.poweroff();
}
