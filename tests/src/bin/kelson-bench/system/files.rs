//! The files that each supervisor is given, as its documentation recommends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Programs, Shape, System, name};
use crate::board::Board;

pub fn write(system: System, shape: Shape, services: usize, dir: &Path, board: &Board, programs: &Programs) {
    let word = |slot| board.word(slot, shape.readiness(system));
    match system {
        System::Loop | System::Tini => {}
        System::Kelson => write_kelson(shape, services, dir, word, programs),
        System::Dinit => write_dinit(shape, services, dir, word, programs),
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

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).expect("the folder is writable");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}
