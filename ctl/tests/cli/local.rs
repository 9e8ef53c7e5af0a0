//! Commands that need no host: help, validate, completion, the manual page.

use std::path::Path;
use std::process::Command;

use crate::fake::Fake;
use crate::samples::Folder;
use crate::transcript::local;
use crate::{Done, at, done, kelsonctl, two};

fn run(words: &str) -> Done {
    done(kelsonctl().args(words.split_whitespace()).output().unwrap())
}

#[test]
fn alone_it_helps() {
    let alone = run("").silent(0);
    assert!(alone.out.contains("Usage: kelsonctl [OPTIONS] [COMMAND]"));
    assert_eq!(alone.out, run("-h").out);
    assert!(run("stop -h").out.contains("kelsonctl stop db --cascade --wait"));
    assert_eq!(run("--version").out, format!("kelsonctl {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run("version --client").out, format!("kelsonctl  {}\n", env!("CARGO_PKG_VERSION")));
}

fn validate(folder: &Path, words: &[&str]) -> Done {
    done(kelsonctl().arg("validate").args(words).arg(folder).output().unwrap())
}

const GOOD: &str = "name: db\nprocess:\n  command: [/bin/true]\n";

/// A folder with these files, which may be in folders.
fn configuration(files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

const BAD: &str = "name: web\nstartTimeout: 5x\nprocess:\n  command: [/bin/true]\n";
const NEEDS: &str = "name: db\nprocess:\n  command: [/bin/true]\ndepends: [{service: mail}]\n";

#[test]
fn each_mistake_of_a_folder_or_a_file_is_pointed_at() {
    let folder = configuration(&[
        ("good/services/db.yaml", GOOD),
        ("bad/services/db.yaml", GOOD),
        ("bad/services/web.yaml", BAD),
        ("empty/kelson/services/none", ""),
        ("nested/kelson/services/db.yaml", GOOD),
        ("other/none", ""),
        ("loose/db.yaml", GOOD),
        ("whole/services/db.yaml", NEEDS),
        ("whole/services/web.yaml", BAD),
        ("whole/services/note.txt", "db"),
        ("whole/groups/shop.yaml", "minimum: 5s\n"),
        ("whole/machine.yaml", "hostname: edge\n"),
        ("alone/db.yaml", NEEDS),
        ("alone/shop.yaml", "minimum: 5s\n"),
        ("alone/edge.yaml", "hostname: edge\nmodules: [loop]\n"),
        ("alone/bad.yaml", "minimum: 5x\n"),
        ("alone/web.yaml", "name: web\nstartTimeout: 5x\nprocess: {command: 1}\n"),
        ("alone/worse.yaml", "hostname: [\n"),
    ]);
    local("validate", &folder);
}

#[test]
fn units_of_systemd_become_service_files() {
    let folder = configuration(&[
        (
            "web.service",
            "[Unit]\nDescription=The web\nAfter=network.target\n[Service]\nType=notify\nExecStart=/usr/bin/web \\\n\
             # not --this\n  --name \"a b\"\nUser=www-data\nKillMode=mixed\n[Install]\nWantedBy=multi-user.target\n",
        ),
        ("web.service.d/20-b.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/web --second\n"),
        ("web.service.d/10-a.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/web --first\n"),
        ("web.service.d/README", "[Service]\nExecStart=\n"),
        (
            "lossy.service",
            "[Service]\nType=forking\nExecStart=/usr/sbin/lossy\nPrivateTmp=true\nPrivteDevices=yes\nKillMode=mixed\n",
        ),
        ("queue@.service", "[Service]\nExecStart=/usr/bin/queue %i %H\nKillMode=mixed\n"),
        ("queue@.service.d/a.conf", "[Service]\nUser=all\nGroup=all\n"),
        ("queue@mail.service.d/a.conf", "[Service]\nUser=mail\n"),
        ("services/none", ""),
    ]);
    std::fs::write(folder.join("binary.service"), [0xff, 0xfe]).unwrap();
    local("import", &folder);
}

#[test]
fn extension_services_of_talos_become_service_files() {
    let folder = configuration(&[
        (
            "client.yaml",
            "name: client\ncontainer:\n  entrypoint: ./client\n  environment: [A=1]\ndepends:\n  - service: cri\n  - configuration: true\n\
             restart: always\n",
        ),
        (
            "config.yaml",
            "kind: ExtensionServiceConfig\nname: client\nconfigFiles:\n  - {content: x, mountPath: /etc/client.conf}\n---\nkind: \
             ContainerConfig\nname: web\nimage: nginx\n---\nmachine: {}\n",
        ),
        ("bad.yaml", "name: bad\ncontainer: {entrypoint: /a}\n"),
        ("services/none", ""),
    ]);
    local("import-talos", &folder);
}

#[test]
fn files_of_other_programs_are_read_beside_service_files() {
    let folder = configuration(&[
        ("services/db.yaml", "name: db\nprocess: {command: [/bin/db]}\nafter: [queue-a]\n"),
        (
            "units/web.service",
            "[Service]\nExecStart=/usr/bin/web\nKillMode=mixed\n[Install]\nWantedBy=multi-user.target\n",
        ),
        ("units/web.service.d/a.conf", "[Service]\nUser=0\n"),
        ("units/queue@a.service", "[Service]\nExecStart=/usr/bin/queue %i\nKillMode=mixed\n"),
        ("units/queue@a.socket", "[Socket]\nListenStream=/run/queue\n"),
        ("units/queue@.service.d/b.conf", "[Service]\nNice=5\n"),
        ("units/queue@.service", "[Service]\nExecStart=/usr/bin/queue %i\n"),
        ("units/lossy.service", "[Service]\nExecStart=/usr/bin/lossy\nSecureBits=keep-caps\n"),
        ("units/masked.service", ""),
        ("units/data.mount", "[Mount]\nWhere=/data\n"),
        ("elsewhere/app.service", "[Service]\nExecStart=/usr/bin/app\nKillMode=mixed\n"),
        ("compose/shop/compose.yaml", "services:\n  page: {image: 'nginx:${TAG}', restart: always}\n"),
        ("compose/shop/.env", "TAG=1.25\n"),
        ("compose/loose.yaml", "services: {}\n"),
        ("talos/bad.yaml", "name: bad\ncontainer: {entrypoint: /a}\n"),
    ]);
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, folder.join("units").join(name)).unwrap();
    };
    link("web.service", "www.service");
    link("../elsewhere/app.service", "renamed.service");
    link("/dev/null", "null.service");
    local("import-folder", &folder);
}

#[test]
fn elsewhere_users_and_files_are_those_of_the_root_or_not_checked() {
    let folder = configuration(&[(
        "services/web.yaml",
        "name: web\nprocess: {command: [tool, x]}\nuser: someone\nenvironmentFiles: [/etc/web.env]\n\
         hooks: {pre: {command: [/bin/link]}, post: {command: [/bin/gone]}}\n",
    )]);
    let unchecked = validate(&folder, &[]);
    assert_eq!((unchecked.status, unchecked.out.as_str()), (0, "1 service, no mistakes\n"));
    assert_eq!(
        unchecked.err,
        format!(
            "kelsonctl: not checked: users and groups, environment files, as this is not the host: {} is not in \
             /etc/kelson; --root DIR looks them up in the root of an image\n",
            folder.display()
        )
    );
    let root = folder.join("root");
    for name in ["etc", "usr/bin", "bin"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let with_root = || validate(&folder, &["--root", root.to_str().unwrap()]);
    let faulty = with_root().silent(1);
    assert!(
        faulty.out.contains("someone") && faulty.out.contains("/etc/web.env does not exist"),
        "{faulty:?}"
    );
    std::fs::write(root.join("etc/passwd"), "someone:x:1000:1000::/:/bin/sh\n").unwrap();
    std::fs::write(root.join("etc/web.env"), "A=1\n").unwrap();
    let program = root.join("usr/bin/tool");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // An absolute link leads to where it leads in that root.
    std::os::unix::fs::symlink("/usr/bin/tool", root.join("bin/link")).unwrap();
    let fine = with_root().silent(0);
    let warning = format!("web.yaml: warning: there is no program /bin/gone in {}\n", root.display());
    assert!(fine.out.ends_with(&format!("{warning}1 service, no mistakes\n")), "{fine:?}");
    assert_eq!(fine.out.matches("warning").count(), 1, "{fine:?}");
    assert!(validate(&folder, &["--root", "/no/such"]).err.contains("--root: /no/such is not a folder"));
}

#[test]
fn the_schemas_of_the_documents_are_the_ones_it_prints() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
    for file in ["service", "machine"] {
        let printed = run(&format!("schema {file}")).silent(0);
        let kept = std::fs::read_to_string(docs.join(format!("{file}.schema.json"))).unwrap();
        assert!(printed.out == kept, "docs/schema/{file}.schema.json is old: hack/docs --renew");
        let schema: serde_json::Value = serde_json::from_str(&printed.out).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert!(schema["properties"]["health"]["description"].is_string(), "{schema}");
    }
    let kept = std::fs::read_to_string(docs.join("volume-file.schema.json")).unwrap();
    assert!(run("schema volume").silent(0).out == kept);
    assert_eq!(run("schema disk").status, 2);
}

#[test]
fn completion_knows_the_services_of_the_host() {
    let fake = Fake::start(two());
    let endpoint = format!("unix://{}", fake.socket().display());
    let complete = |words: &[&str]| {
        let mut command = kelsonctl();
        command.env("KELSON_ENDPOINT", &endpoint).args(["complete", "--"]).args(words);
        done(command.output().unwrap())
    };
    assert_eq!(complete(&["start", ""]).out, "db\trunning\nweb\twaiting\n");
    assert_eq!(complete(&["start", "w"]).out, "web\twaiting\n");
    assert_eq!(
        complete(&["start", "web", ""]).out,
        "db\trunning\n",
        "what stands there is not offered again"
    );
    assert_eq!(complete(&["st"]).out.lines().count(), 3);
    done(at(Path::new("/nowhere.sock"), "complete -- start x").output().unwrap()).silent(0);
}

#[test]
fn scripts_of_the_shells() {
    for (shell, part) in
        [("bash", "complete -o default -F"), ("zsh", "#compdef kelsonctl"), ("fish", "complete -c kelsonctl")]
    {
        let script = run(&format!("completion {shell}")).silent(0);
        assert!(script.out.contains(part), "{shell}: {script:?}");
    }
}

#[test]
fn bash_completes_a_line() {
    let fake = Fake::start(two());
    let folder = Path::new(env!("CARGO_BIN_EXE_kelsonctl")).parent().unwrap();
    let script = format!(
        "PATH={}:$PATH; export KELSON_ENDPOINT=unix://{}; eval \"$(kelsonctl completion bash)\"\n\
         COMP_WORDS=(kelsonctl stop --cascade w); COMP_CWORD=3; _kelsonctl; echo \"${{COMPREPLY[@]}}\"\n\
         COMP_WORDS=(kelsonctl bo); COMP_CWORD=1; _kelsonctl; echo \"${{COMPREPLY[@]}}\"\n\
         COMP_WORDS=(kelsonctl start ''); COMP_CWORD=2; _kelsonctl; echo \"${{COMPREPLY[@]}}\"\n",
        folder.display(),
        fake.socket().display()
    );
    let output = done(Command::new("bash").args(["--norc", "-c", &script]).output().unwrap());
    assert_eq!((output.out.as_str(), output.err.as_str()), ("web\nboot\ndb web\n", ""));
}

/// The shell's output for the script.
fn in_shell(shell: &str, words: &[&str], script: &str, fake: &Fake) -> Done {
    let folder = Path::new(env!("CARGO_BIN_EXE_kelsonctl")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(shell);
    command.env("PATH", path).env("KELSON_ENDPOINT", format!("unix://{}", fake.socket().display()));
    // No files of the user who runs the test.
    command.env("HOME", fake.folder()).env("LANG", "C.UTF-8").args(words).arg(script);
    done(command.output().unwrap_or_else(|error| panic!("{shell}, which hack/deps installs: {error}")))
}

#[test]
fn zsh_completes_a_line() {
    let fake = Fake::start(two());
    // In place of zsh's own menu, what it would be given.
    let script = "compdef() { :; }; _describe() { print -r -- \"${(P@)2}\"; }; _files() { print files; }\n\
                  eval \"$(kelsonctl completion zsh)\"\n\
                  words=(kelsonctl stop --cascade w); CURRENT=4; _kelsonctl\n\
                  words=(kelsonctl start ''); CURRENT=3; _kelsonctl\n\
                  words=(kelsonctl validate /e); CURRENT=3; _kelsonctl\n";
    let done = in_shell("zsh", &["-f", "-c"], script, &fake);
    assert_eq!(done.err, "");
    assert_eq!(done.out, "web:waiting\ndb:running web:waiting\nfiles\n");
}

#[test]
fn fish_completes_a_line() {
    let fake = Fake::start(two());
    let script = "kelsonctl completion fish | source\n\
                  complete -C 'kelsonctl stop --cascade w'\n\
                  complete -C 'kelsonctl start '\n\
                  complete -C 'kelsonctl wait db --for f'\n";
    let done = in_shell("fish", &["--no-config", "-c"], script, &fake);
    assert_eq!(done.err, "");
    assert_eq!(
        done.out,
        "web\twaiting\ndb\trunning\nweb\twaiting\nfinished\tIt ended successfully by itself\n"
    );
}

#[test]
fn the_manual_page_of_the_documents_is_the_one_it_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/man/kelsonctl.1");
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(
        run("man").silent(0).out == kept,
        "docs/man/kelsonctl.1 is old: kelsonctl man >docs/man/kelsonctl.1"
    );
}
