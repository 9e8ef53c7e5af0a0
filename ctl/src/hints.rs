//! Words that people know from other tools, and what does the same here.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of systemctl and its kin, docker, sv, s6, dinitctl, talosctl and the shell; what stands behind `kelsonctl`.
const RELATED: &[(&[&str], &str)] = &[
    (&["help", "h"], "`kelsonctl --help` lists all commands"),
    (
        &["enable", "disable", "mask", "unmask", "is-enabled", "preset"],
        "`start: auto` or `start: manual` in the file of a service decides about the boot; see `kelsonctl cat NAME`, \
         `kelsonctl reload`",
    ),
    (&["daemon-reload", "reload-configuration", "rescan", "update"], "`kelsonctl reload`"),
    (&["daemon-reexec", "upgrade"], "`kelsonctl reexec`"),
    (
        &["up", "run", "create", "wake"],
        "`kelsonctl start NAME`; a new service file is taken up by `kelsonctl reload`",
    ),
    (&["down", "term", "release"], "`kelsonctl stop NAME`"),
    (&["try-restart", "reload-or-restart", "force-reload", "condrestart"], "`kelsonctl restart NAME`"),
    (
        &["is-active", "is-failed", "is-up", "check", "svstat"],
        "`kelsonctl status NAME`, `kelsonctl wait NAME --for up`",
    ),
    (
        &["show", "inspect", "describe", "service", "info", "summary"],
        "`kelsonctl status [NAME]`, `kelsonctl cat NAME`",
    ),
    (&["list-units", "list-unit-files", "units", "unit", "containers", "summarize"], "`kelsonctl services`"),
    (&["apply-config", "set-property", "patch", "replace"], "`kelsonctl apply DIR`, `kelsonctl edit NAME`"),
    (
        &["list-dependencies", "dependencies", "deps", "tree", "list-jobs"],
        "`kelsonctl graph`, `kelsonctl why NAME`",
    ),
    (
        &["journalctl", "journal", "log", "tail"],
        "`kelsonctl logs [NAME]`, `kelsonctl events`, `kelsonctl dmesg`",
    ),
    (&["revert", "undo", "rollout"], "`kelsonctl rollback`, `kelsonctl history`"),
    (&["audit"], "`kelsonctl logs audit`"),
    (
        &["analyze", "systemd-analyze", "blame", "critical-chain", "plot", "boot-time"],
        "`kelsonctl boot blame`",
    ),
    (&["shutdown", "off", "power-off", "exit"], "`kelsonctl poweroff`, `kelsonctl reboot`, `kelsonctl halt`"),
    (&["attach", "shell", "sh", "bash", "ssh", "enter"], "`kelsonctl exec -it NAME /bin/sh`"),
    (&["pause", "unpause", "hup", "usr1", "usr2", "alarm"], "`kelsonctl signal NAME HUP`, or another signal"),
    (
        &["image", "pull", "push", "load", "rmi", "prune"],
        "`kelsonctl images`, `kelsonctl images update IMAGE`, `kelsonctl images prune`",
    ),
    (&["stats", "usage", "resources"], "`kelsonctl top`, `kelsonctl metrics -o table`"),
    (&["port", "ports", "ss", "sockets", "lsof"], "`kelsonctl netstat`"),
    (&["free", "mem"], "`kelsonctl memory`"),
    (&["df", "mount"], "`kelsonctl mounts`"),
    (&["lsblk"], "`kelsonctl disks`"),
    (&["lscpu", "dmidecode", "hostnamectl"], "`kelsonctl facts`"),
    (&["members", "hosts", "peers"], "`kelsonctl fleet hosts`"),
    (&["catalog", "consul", "etcdctl", "discover"], "`kelsonctl registry`, `kelsonctl fleet services`"),
    (&["pstree", "pgrep"], "`kelsonctl processes`"),
    (&["uptime", "hostname", "uname", "systemctl"], "`kelsonctl status`, `kelsonctl version`"),
    (&["date", "clock", "timedatectl"], "`kelsonctl time`"),
    (&["copy", "download"], "`kelsonctl cp SOURCE DEST`"),
    (&["lint", "verify", "parse"], "`kelsonctl validate DIR`"),
    (
        &["login", "context", "contexts", "use-context"],
        "`kelsonctl config contexts`, `kelsonctl config use NAME`",
    ),
    (&["cert", "pki", "certificates"], "`kelsonctl gen`"),
    (&["bugreport", "report", "sosreport", "diagnose"], "`kelsonctl support`"),
];

/// The error with related commands in place of similar letters, where its word is known from another tool.
pub fn with_related(mut error: clap::Error) -> clap::Error {
    let word = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => word.to_owned(),
        _ => return error,
    };
    // Within a command such as `config` the words of that command are the ones to choose from.
    let at_top = matches!(error.get(ContextKind::Usage), Some(ContextValue::StyledStr(usage))
        if usage.to_string().starts_with("Usage: kelsonctl [OPTIONS]"));
    if let Some(tip) = related(&word).filter(|_| at_top) {
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

fn related(word: &str) -> Option<&'static str> {
    RELATED.iter().find(|(words, _)| words.contains(&word)).map(|(_, tip)| *tip)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_word_stands_twice_or_is_a_command() {
        let mut seen = HashSet::new();
        let root = crate::cli::command();
        for word in RELATED.iter().flat_map(|(words, _)| *words) {
            assert!(seen.insert(word), "{word} stands twice");
            assert!(root.find_subcommand(word).is_none(), "{word} is a command");
        }
    }

    #[test]
    fn each_tip_names_commands_that_exist() {
        let root = crate::cli::command();
        for (_, tip) in RELATED {
            let commands: Vec<&str> = tip.split("`kelsonctl ").skip(1).collect();
            assert!(!commands.is_empty(), "{tip}");
            for rest in commands {
                let name = rest.split([' ', '`']).next().unwrap_or_default();
                assert!(name == "--help" || root.find_subcommand(name).is_some(), "{tip}: {name}");
            }
        }
    }
}
