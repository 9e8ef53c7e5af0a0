//! A storage plugin that others wrote, for Kubernetes: cfgd-csi pulls artifacts from a registry and binds them, read-only.
//! `hack/other-plugin` builds it.

use std::fs;

use kelson_tests::{Host, Image, Registry, Tar, eventually, free_port, paths, process};

/// What is mounted below the folder of the plugin.
fn mounts(host: &Host) -> usize {
    let table = fs::read_to_string(format!("/proc/{}/mountinfo", host.init_pid())).expect("it runs");
    table.lines().filter(|line| line.contains("/run/kelson/csi/cfgd/")).count()
}

#[test]
fn long_artifacts_of_a_registry_are_volumes_of_cfgd_csi() {
    let registry = Registry::start(None);
    let files = Tar::new().file("settings", 0o644, b"from the registry\n");
    registry.push(&[Image { gzip: true, ..Image::without_layers("module:1", &[]).layer(files) }]);
    let program = paths::top().join("out/cache/cfgd-csi/bin/cfgd-csi");
    assert!(program.exists(), "{} is missing: hack/other-plugin builds it", program.display());
    // It takes a path, and not the address of a socket as the interface has it.
    let plugin = format!(
        "process: {{command: [{}]}}\nenvironment: {{CSI_ENDPOINT: /run/kelson/csi/cfgd/csi.sock, \
         CACHE_DIR: $DIR/cache, METRICS_PORT: '{}'}}\nrestart: {{delay: 100ms}}\nprovides: {{csi: {{id: cfgd}}}}\n",
        program.display(),
        free_port()
    );
    let volume = |reference: &str| {
        format!(
            "plugin: cfgd\nid: {reference}\n\
             context: {{module: {reference}, version: '1', ociRef: '{}/{reference}:1'}}\n",
            registry.host
        )
    };
    let uses = |volume: &str| {
        let volumes = format!(
            "volumes: [{{name: data, source: {{csi: {volume}}}, target: $DIR/data, readOnly: true}}]\n"
        );
        process("cat=$DIR/data/settings, serve", &volumes)
    };
    let mut host = Host::builder()
        .own_folder("/run")
        .service("cfgd", &plugin)
        .volume("module", &volume("module"))
        .volume("missing", &volume("missing"))
        .service("a", &uses("module"))
        .service("b", &uses("module"))
        .service("c", &uses("missing"))
        .start();
    host.wait_all_up(&["cfgd", "a", "b"]);
    for name in ["a", "b"] {
        host.wait_log(name, "from the registry");
    }
    eventually("the answer of the plugin", || {
        let why = host.ctl(&["why", "c"]).stdout;
        why.contains("NodeStageVolume of plugin cfgd for missing: INTERNAL: cache pull failed")
    });
    host.ctl(&["stop", "c", "--wait"]).ok();
    let providers = host.ctl(&["volumes", "providers"]).ok().stdout;
    assert!(providers.contains("cfgd"), "{providers}");

    // Volumes stay where they are while the plugin is away, and are released by its next run.
    let (pid, plugin) = (host.pid_of("a"), host.pid_of("cfgd"));
    host.kill(plugin, libc::SIGKILL);
    host.wait_for("cfgd", "another run of the plugin", |now| now.up && now.pid != Some(plugin));
    assert_eq!(host.pid_of("a"), pid);
    host.ctl(&["reexec"]).ok();
    host.wait_all_up(&["cfgd", "a", "b"]);
    assert_eq!((host.pid_of("a"), mounts(&host)), (pid, 2));
    host.ctl(&["stop", "a", "--wait"]).ok();
    assert_eq!(mounts(&host), 1);
    host.ctl(&["stop", "b", "--wait"]).ok();
    assert_eq!(mounts(&host), 0);
    host.poweroff();
}
