//! `volumes`: read with their defaults, written as text and read again, and refused where they cannot be.
use crate::folder::{Folder, each_case};
use kelson_load::written;
use kelson_spec::service::{NewFolder, PathSource, TmpfsSource, Volume, VolumeSource};

const MISTAKES: &str = r#"
volumes: [{name: a, target: /a}]
=> 3:11: volumes[0].source: this key is missing; write source: {path: PATH}

volumes: [{name: a, source: {}, target: /a}]
=> 3:29: volumes[0].source: one of the keys path, tmpfs, csi, disk, overlay, image is missing

volumes: [{name: a, source: {path: /s, tmpfs: {}}, target: /a}]
=> 3:40: volumes[0].source: path and tmpfs exclude each other; keep one

volumes: [{name: a, source: {tmpfs: {}, create: {}}, target: /a}]
=> 3:41: volumes[0].source.create: a file system in memory is made at each start; leave create out

volumes: [{name: a, source: {csi: db, create: {}}, target: /a}]
=> 3:39: volumes[0].source.create: its plugin has a volume ready; leave create out

volumes: [{name: a, source: {disk: {device: LABEL=A}, create: {}}, target: /a}]
=> 3:55: volumes[0].source.create: its file system is there already; leave create out

volumes: [{name: a, source: {disk: {}}, target: /a}]
=> 3:36: volumes[0].source.disk.device: this key is missing; write device: DEVICE or LABEL=NAME

volumes: [{name: a, source: {disk: {device: /srv/image}}, target: /a}]
=> 3:45: volumes[0].source.disk.device: "/srv/image" is no name of a disk; write such as SERIAL=WD-123

volumes: [{name: a, source: {disk: {device: LABEL=A, options: ["acl,ro"]}}, target: /a}]
=> 3:64: volumes[0].source.disk.options[0]: write each option as an entry of its own

volumes: [{name: a, source: {overlay: {lower: [/l], upper: /u}}, target: /a}]
=> 3:53: volumes[0].source.overlay.upper: the kernel needs a second folder in the same file system; write it as work

volumes: [{name: a, source: {overlay: {lower: [/l], work: /w}}, target: /a}]
=> 3:53: volumes[0].source.overlay.work: it belongs to upper; write upper, or leave work out

volumes: [{name: a, source: {overlay: {lower: [/l], upper: /u, work: /u/w}}, target: /a}]
=> 3:64: volumes[0].source.overlay.work: neither of upper and work can be within the other; write a folder beside upper

volumes: [{name: a, source: {overlay: {lower: [/l], upper: /u, work: /w, size: 1Mi}}, target: /a}]
=> 3:74: volumes[0].source.overlay.size: what is written is in upper; leave size out

volumes: [{name: a, source: {overlay: {lower: ["/l,x"]}}, target: /a}]
=> 3:48: volumes[0].source.overlay.lower[0]: the path of an overlay cannot hold : , or \; write the path of another folder

volumes: [{name: a, source: {overlay: {lower: [/l]}, create: {}}, target: /a}]
=> 3:54: volumes[0].source.create: what is written is in memory, made at each start; leave create out

volumes: [{name: a, source: {image: "a b"}, target: /a}]
=> 3:37: volumes[0].source.image: "a b" is not a reference of an image, such as demo/nginx:1

volumes: [{name: a, source: {image: a, create: {}}, target: /a}]
=> 3:40: volumes[0].source.create: an image has its files already; leave create out

volumes: [{name: a, source: {path: /s, pull: always}, target: /a}]
=> 3:40: volumes[0].source.pull: this is for an image; write image: NAME:TAG, or leave pull out

volumes: [{name: a, source: {image: a, pull: daily}, target: /a}]
=> 3:46: volumes[0].source.pull: "daily" is not one of ifMissing, always, never

volumes: [{name: a, source: {image: a}, target: /a, readOnly: false}]
=> 3:63: volumes[0].readOnly: nobody writes to an image; leave readOnly out, or write a source such as overlay with a copy of its files

volumes: [{name: a, source: {csi: Db}, target: /a}]
=> 3:35: volumes[0].source.csi: "Db" is not a name; use small letters, digits and -, no - first, at most 63

volumes: [{name: a, source: {path: /s}, target: /a, usage: {}}]
=> 3:53: volumes[0].usage: this is for a volume of a plugin; write source: {csi: VOLUME}, or leave usage out

volumes: [{name: a, source: {csi: db}, target: /a, usage: {access: writer}}]
=> 3:68: volumes[0].usage.access: "writer" is not one of singleNodeWriter, singleNodeReader, singleNodeSingleWriter, singleNodeMultiWriter, multiNodeReader, multiNodeSingleWriter, multiNodeMultiWriter

volumes: [{name: a, source: {csi: db}, target: /a, usage: {attachment: block}}]
health: [{volume: a, freeAtLeast: 5%}]
=> 4:9: health: check "volume": "a" is a device, of which nothing is free or used

volumes: [{name: a, source: {csi: db}, target: /a, usage: {attachment: block, mountFlags: [ro]}}]
=> 3:79: volumes[0].usage.mountFlags: a device is not mounted; leave mountFlags out, or write attachment: filesystem

volumes: [{name: a, source: {path: s}, target: /a}]
=> 3:36: volumes[0].source.path: "s" is not a path from the root; write it with / first

volumes: [{name: a, source: {path: /s/../t}, target: /a}]
=> 3:36: volumes[0].source.path: a path here cannot hold ..

volumes: [{name: a, source: {path: /s, create: {owner: nobody-knows}}, target: /a}]
=> 3:56: volumes[0].source.create.owner: user "nobody-knows" is not in /etc/passwd

volumes: [{name: a, source: {path: /s, create: {mode: 750}}, target: /a}]
=> 3:55: volumes[0].source.create.mode: this is not a mode; write such as "0750"

volumes: [{name: a, source: {tmpfs: {size: 1}}, target: /a}]
=> 3:44: volumes[0].source.tmpfs.size: 1 is out of range; write at least 4Ki

volumes: [{name: a, source: {path: /s}, target: /}]
=> 3:49: volumes[0].target: the root itself is no volume; write a path below it

volumes: [{name: a, source: {path: /s}, target: /a/../b}]
=> 3:49: volumes[0].target: a path here cannot hold ..

volumes: [{name: a, source: {path: /s}, target: /a}, {name: b, source: {tmpfs: {}}, target: /a/}]
=> 3:93: volumes[1].target: something else of this service is there already; write another path

volumes: [{name: a, source: {path: /s}, target: /a}, {name: a, source: {tmpfs: {}}, target: /b}]
=> 3:10: volumes: two of them have the name a; rename one

volumes: [{name: a, source: {path: /s}, target: /a, options: [exec]}]
=> 3:63: volumes[0].options[0]: "exec" is not one of nosuid, nodev, noexec, noatime, nodiratime
"#;

fn said(text: &str) -> Vec<String> {
    let folder = Folder::of("shop", text);
    folder.root_file("etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    let short = |message: String| message.trim_start_matches("services/shop.yaml:").to_owned();
    folder.messages().into_iter().map(short).collect()
}

#[test]
fn what_a_volume_does_not_say_has_its_default() {
    let folder = Folder::of(
        "shop",
        "process: {command: [/bin/shop]}\nvolumes:\n\
         - {name: b, source: {path: /srv/b, create: {}}, target: /b//c/}\n\
         - {name: a, source: {tmpfs: {}}, target: /a}\n",
    );
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let create = Some(NewFolder { owner: None, mode: 0o755 });
    let path = VolumeSource::Path(PathSource { path: "/srv/b".into(), create });
    let memory = VolumeSource::Tmpfs(TmpfsSource { size: None, mode: 0o755 });
    let volume = |name: &str, source, target: &str| Volume {
        name: name.to_owned(),
        source,
        target: target.into(),
        read_only: false,
        options: Vec::new(),
    };
    assert_eq!(loaded.services[0].volumes, [volume("b", path, "/b/c"), volume("a", memory, "/a")]);
    folder.service("shop", written(&loaded.services[0]).file());
    assert_eq!(folder.load().services, loaded.services);
}

#[test]
fn each_mistake_is_pointed_at() {
    each_case(MISTAKES, |added| said(&format!("process: {{command: [/bin/shop]}}\n{added}")));
}

#[test]
fn a_container_has_each_place_once_and_a_target_has_no_volumes() {
    let container = "container: {image: a, mounts: [{source: /s, target: /a}]}\n\
                     volumes: [{name: a, source: {path: /s}, target: /a}]\n";
    let taken =
        "3:49: volumes[0].target: something else of this service is there already; write another path";
    assert_eq!(said(container), [taken]);
    let none = "3:1: volumes: a target runs no program, so volumes means nothing; leave it out";
    assert_eq!(said("target: {}\nvolumes: [{name: a, source: {path: /s}, target: /a}]\n"), [none]);
    let many = (0..65).map(|n| format!("{{name: v{n}, source: {{path: /s}}, target: /t{n}}}"));
    let many: Vec<String> = many.collect();
    let found = said(&format!("process: {{command: [/bin/shop]}}\nvolumes: [{}]\n", many.join(", ")));
    assert!(found[0].contains("these are 65 volumes; a service has at most 64"), "{found:?}");
}

#[test]
fn two_overlays_write_to_no_folder_of_each_other() {
    let overlay = |name: &str, upper: &str, work: &str| {
        format!(
            "name: {name}\nprocess: {{command: [/bin/shop]}}\n\
             volumes: [{{name: a, source: {{overlay: {{lower: [/l], upper: {upper}, work: {work}}}}}, target: /a}}]\n"
        )
    };
    let folder = Folder::new();
    folder.service("shop", overlay("shop", "/u", "/w"));
    folder.service("till", overlay("till", "/v/x", "/u/"));
    folder.service("desk", overlay("desk", "/v/x/y", "/w-1"));
    folder.service("bank", overlay("bank", "/v/x-1", "/c"));
    let found = folder.messages();
    for (service, own, other, of) in [
        ("shop", "/u", "/u/", "till"),
        ("till", "/u/", "/u", "shop"),
        ("till", "/v/x", "/v/x/y", "desk"),
        ("desk", "/v/x/y", "/v/x", "till"),
    ] {
        let text =
            format!("volumes: {own} and {other} of an overlay of service {of} are one folder or within");
        let is_it =
            |message: &String| message.contains(&format!("{service}.yaml")) && message.contains(&text);
        assert!(found.iter().any(is_it), "{text}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(folder.load().services.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["bank"]);
}

#[test]
fn a_container_has_the_overlays_that_its_runtime_makes() {
    let said_of = |container: &str, folders: &str, more: &str| {
        said(&format!(
            "container: {{image: a{container}}}\n\
             volumes: [{{name: a, source: {{overlay: {{lower: [/l, /k]{folders}}}}}, target: /a{more}}}]\n"
        ))
    };
    let on_disk = ", upper: /u, work: /w";
    assert_eq!(said_of("", on_disk, ""), [""; 0]);
    assert_eq!(said_of("", "", ", readOnly: true"), [""; 0]);
    assert_eq!(said_of(", runtime: kelson", "", ""), [""; 0]);
    assert!(said_of("", "", "")[0].contains("containerd makes no overlay that is written to memory"));
    let mapped = said_of(", runtime: kelson, userNamespace: true", on_disk, "");
    assert!(mapped[0].contains("an overlay cannot map the owners of its files"), "{mapped:?}");
    let long = said_of("", &format!(", upper: /{}, work: /w", "u".repeat(4000)), "");
    assert!(long[0].contains("longer than the kernel takes for an overlay"), "{long:?}");
}

#[test]
fn a_container_with_users_of_its_own_has_no_image_as_a_volume() {
    let said_of = |container: &str| {
        said(&format!(
            "container: {{image: a, runtime: kelson{container}}}\nvolumes: [{{name: a, source: {{image: b}}, target: /a, readOnly: true}}]\n"
        ))
    };
    assert_eq!(said_of(""), [""; 0]);
    let mapped = said_of(", userNamespace: true");
    assert!(mapped[0].contains("the files of an image belong to users of the host"), "{mapped:?}");
}
