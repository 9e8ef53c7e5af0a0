//! What an `init` that was built without a feature says of the keys that need it.
use kelson_load::{Mode, Sources, load_with};
use kelson_spec::{Feature, Features, MissingFeature};

use crate::folder::Folder;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.machine(
        "api: {listen: [\"0.0.0.0:1\"], ca: /a, certificate: /b, key: /c}\nimages: [/images]\ncontainerNetwork: {}\nregistries: {}\nhostname: small\ntime: {servers: [192.0.2.1]}\nnetwork: [{interface: eth0, dhcp: true}, {interface: br0, bridge: {}}]\ndevices: {}\nsources: {from: [disk]}\nfleet: {endpoints: [\"http://192.0.2.1:2379\"]}\n\
         nftables: /etc/rules\nmounts: [{source: SERIAL=S, target: /srv, type: ext4, format: ifBlank}]\nswap: [{zram: 50}]\npartitions: [{disk: SERIAL=S, create: [{label: A}]}]\nkexec: {kernel: /boot/vmlinuz}\n\
         builtins: {apid: {required: false}, containerd: {enabled: true}, devlog: {enabled: true}, fleet: {resources: {}}, probe: {resources: {}}}\n",
    );
    folder.service("box", "name: box\ncontainer: {image: web}\nuser: www\n");
    folder.service(
        "web",
        "name: web\nuser: www\nprocess: {command: [/bin/web], terminal: {path: /dev/tty1}}\nsecrets: [db]\nexpand: true\nenvironmentFacts: {A: cpus}\nsuccess: [3]\nstop: {hangUp: true}\nreload: {signal: HUP}\numask: \"0027\"\ndirectories: {state: [web]}\nvolumes: [{name: a, source: {tmpfs: {}}, target: /a}, {name: b, source: {image: b, pull: always}, target: /b}]\nremoveIpc: true\nregister: {}\ndisconnect: {stopAfter: 1m}\ntemplates: [{source: /a, target: /run/a}]\nonFailure: [night]\nonSuccess: [night]\nsockets: [{name: a, listen: /run/a}]\npaths: [{exists: /a}]\nsecurity: {hiddenPaths: [/home], privateTmp: true, privateUsers: true, bindPaths: [/srv:/mnt], devices: {}, protect: [clock], systemCalls: {deny: [mount]}}\nhealth: [{tcp: {port: 80}}, {exec: {command: [/bin/ask]}}, {http: {port: 80}}, {csi: /run/csi.sock}, {volume: a, freeAtLeast: 5%}]\n",
    );
    folder.service(
        "night",
        "name: night\nprocess: {command: [/bin/night], stdin: {text: a}}\nwhen: [{fact: {name: platform, is: aws}}]\ntype: oneshot\nschedule: daily\n",
    );
    folder.service("nfs", "name: nfs\nprocess: {command: [/bin/nfs]}\nprovides: {csi: {id: nfs}}\n");
    folder.service("old", "name: old\nprocess: {command: [/bin/old]}\n");
    folder.service("app", "name: app\nprocess: {command: [/bin/app]}\ndepends: [{registered: db}]\n");
    folder.group("shop", "health: [{grpc: {port: 80}}]\n");
    folder
}

fn said(features: Features) -> Vec<String> {
    let folder = folder();
    let sources = Sources { root: None, mode: Mode::Machine, features, ..Sources::default() };
    let loaded = load_with(&folder.config(), &sources);
    assert_eq!(loaded.machine.hostname.as_deref(), Some("small"), "the rest of the machine file holds");
    let sound: Vec<&str> = loaded.services.iter().map(|spec| spec.name.as_str()).collect();
    assert!(sound.contains(&"old"), "{sound:?}");
    loaded.diagnostics.iter().map(|mistake| mistake.message.clone()).collect()
}

#[test]
fn each_key_is_rejected_with_the_feature_that_it_needs() {
    let without = |key: &str, feature: Feature| format!("{key}: {}", MissingFeature(feature));
    assert_eq!(
        said(Features::NONE),
        [
            without("health[0].grpc", Feature::Probes),
            without("api", Feature::Apid),
            without("images", Feature::Containerd),
            without("containerNetwork", Feature::Containerd),
            without("registries", Feature::Pull),
            without("time", Feature::Timesync),
            without("network[0].dhcp", Feature::Net),
            without("network[1].bridge", Feature::Net),
            without("devices", Feature::Devices),
            without("sources", Feature::Sources),
            without("fleet", Feature::Fleet),
            without("nftables", Feature::Net),
            without("mounts[0].format", Feature::Disks),
            without("swap", Feature::Disks),
            without("partitions", Feature::Disks),
            without("kexec", Feature::Kexec),
            without("builtins.apid", Feature::Apid),
            without("builtins.containerd", Feature::Containerd),
            without("builtins.fleet", Feature::Fleet),
            without("builtins.probe", Feature::Probes),
            without("depends[0].registered", Feature::Fleet),
            without("container", Feature::Containerd),
            without("provides", Feature::Volumes),
            without("process.stdin", Feature::Units),
            without("when[0].fact", Feature::Inspect),
            without("schedule", Feature::Units),
            without("process.terminal", Feature::Units),
            without("secrets", Feature::Secrets),
            without("expand", Feature::Units),
            without("environmentFacts", Feature::Units),
            without("success", Feature::Units),
            without("stop.hangUp", Feature::Units),
            without("reload", Feature::Units),
            without("umask", Feature::Units),
            without("directories", Feature::Units),
            without("volumes", Feature::Volumes),
            without("removeIpc", Feature::Units),
            without("register", Feature::Fleet),
            without("disconnect", Feature::Fleet),
            without("templates", Feature::Fleet),
            without("onFailure", Feature::Units),
            without("onSuccess", Feature::Units),
            without("sockets", Feature::Units),
            without("paths", Feature::Units),
            without("security.hiddenPaths", Feature::Units),
            without("security.privateTmp", Feature::Units),
            without("security.privateUsers", Feature::Units),
            without("security.bindPaths", Feature::Units),
            without("security.devices", Feature::Units),
            without("security.protect", Feature::Units),
            without("security.systemCalls", Feature::Units),
            without("health[0].tcp", Feature::Probes),
            without("health[2].http", Feature::Probes),
            without("health[3].csi", Feature::Probes),
            without("health[4].volume", Feature::Volumes),
            without("health[4].freeAtLeast", Feature::Volumes),
        ]
    );
    for feature in Feature::ALL {
        let all_others = Feature::ALL.into_iter().filter(|other| *other != feature);
        let features = all_others.fold(Features::NONE, |features, other| features.and(other, true));
        let mistakes = said(features);
        let end = MissingFeature(feature).to_string();
        let no_key = feature == Feature::Reflection;
        assert_eq!(mistakes.is_empty(), no_key, "{mistakes:?}");
        assert!(mistakes.iter().all(|mistake| mistake.ends_with(&end)), "{mistakes:?}");
    }
    assert_eq!(said(Features::ALL), [""; 0]);
}
