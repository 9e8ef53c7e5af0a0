//! The files that each supervisor is given, as its documentation recommends.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::{Programs, Shape, System, name};
use crate::board::Board;

pub fn write(system: System, shape: Shape, services: usize, dir: &Path, board: &Board, programs: &Programs) {
    let word = |slot| board.word(slot, shape.readiness(system));
    match system {
        System::Loop | System::Tini => {}
        System::Kelson => write_kelson(shape, services, dir, word, programs),
        System::Dinit => write_dinit(shape, services, dir, word, programs),
        System::S6Overlay => write_overlay(services, dir, word, programs),
        _ => write_scandir(system, shape, services, dir, word, programs),
    }
}

fn write_kelson(
    shape: Shape,
    services: usize,
    dir: &Path,
    word: impl Fn(usize) -> String,
    programs: &Programs,
) {
    for folder in ["config/services", "images", "run", "log"] {
        fs::create_dir_all(dir.join(folder)).expect("the folder is writable");
    }
    for slot in 0..services {
        let word = word(slot);
        let mut yaml = format!(
            "name: {}\nprocess: {{command: [\"{}\", \"{word}\"]}}\nrestart: {{policy: forever, delay: 0s}}\n",
            name(slot),
            programs.service.display()
        );
        if shape == Shape::Chain {
            yaml.push_str("readiness: notify\n");
            if let Some(before) = slot.checked_sub(1) {
                yaml.push_str(&format!("depends: [{{service: {}}}]\n", name(before)));
            }
        }
        fs::write(dir.join(format!("config/services/{}.yaml", name(slot))), yaml).expect("it is writable");
    }
}

/// Its log files and its delays are as Kelson's: a file for each service, and a restart at once however often.
fn write_dinit(
    shape: Shape,
    services: usize,
    dir: &Path,
    word: impl Fn(usize) -> String,
    programs: &Programs,
) {
    let folder = dir.join("dinit.d");
    for folder in ["dinit.d", "dinit.d/boot.d", "log"] {
        fs::create_dir_all(dir.join(folder)).expect("the folder is writable");
    }
    fs::write(folder.join("boot"), "type = internal\nwaits-for.d: boot.d\n").expect("it is writable");
    for slot in 0..services {
        let mut text = format!(
            "type = process\ncommand = {} {}\nlogfile = {}/log/{}.log\nrestart = yes\nsmooth-recovery = yes\n\
             restart-delay = 0\nrestart-limit-count = 0\n",
            programs.service.display(),
            word(slot),
            dir.display(),
            name(slot)
        );
        if shape == Shape::Chain {
            text.push_str("ready-notification = pipefd:3\n");
            if let Some(before) = slot.checked_sub(1) {
                text.push_str(&format!("depends-on: {}\n", name(before)));
            }
        }
        fs::write(folder.join(name(slot)), text).expect("it is writable");
        fs::write(folder.join("boot.d").join(name(slot)), "").expect("it is writable");
    }
}

/// The folder of s6-svscan or runsvdir. A run script is the program itself behind `#!`, which costs no shell.
fn write_scandir(
    system: System,
    shape: Shape,
    services: usize,
    dir: &Path,
    word: impl Fn(usize) -> String,
    programs: &Programs,
) {
    let is_s6 = system.is_s6();
    let scan = dir.join("scan");
    fs::create_dir_all(scan.join(".s6-svscan")).expect("the folder is writable");
    // PID 1 ends with this.
    write_script(&scan.join(".s6-svscan/finish"), "#!/bin/true\n");
    for slot in 0..services {
        let folder = scan.join(name(slot));
        fs::create_dir(&folder).expect("the folder is writable");
        let word = word(slot);
        write_script(&folder.join("run"), &format!("#!{} {word}\n", programs.service.display()));
        if shape == Shape::Chain {
            fs::write(folder.join("notification-fd"), "3\n").expect("it is writable");
            fs::write(folder.join("down"), "").expect("it is writable");
        }
        if system.has_logs() {
            fs::create_dir_all(folder.join("log/main")).expect("the folder is writable");
            // What Kelson does by default as well: three files of 1 MiB, each line with its time.
            let logger = if is_s6 { "s6-log T n3 s1048576 ./main" } else { "svlogd -tt ./main" };
            write_script(&folder.join("log/run"), &format!("#!/bin/sh\nexec {logger}\n"));
            if !is_s6 {
                fs::write(folder.join("log/main/config"), "s1048576\nn3\n").expect("it is writable");
            }
        }
    }
}

/// A container whose root is the folder itself. Inside, too, the folder can be reached by the path that it has outside:
/// the words of the services name it.
fn write_overlay(services: usize, dir: &Path, word: impl Fn(usize) -> String, programs: &Programs) {
    let status = Command::new("cp").arg("-a").arg(programs.overlay.join(".")).arg(dir).status();
    assert!(status.expect("cp can be started").success(), "the root of the container cannot be copied");
    let inside = |path: &Path| {
        let path = dir.join(path.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(path.parent().expect("it is below the folder")).expect("the folder is writable");
        path
    };
    symlink("/", inside(dir)).expect("the folder is writable");
    fs::copy(&programs.service, inside(&programs.service)).expect("the folder is writable");
    let etc = dir.join("etc/s6-overlay");
    for slot in 0..services {
        let folder = etc.join("s6-rc.d").join(name(slot));
        fs::create_dir(&folder).expect("the folder is writable");
        fs::write(folder.join("type"), "longrun\n").expect("it is writable");
        write_script(&folder.join("run"), &format!("#!{} {}\n", programs.service.display(), word(slot)));
        fs::write(etc.join("user-bundles.d/user/contents.d").join(name(slot)), "").expect("it is writable");
    }
}

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).expect("the folder is writable");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}
