//! Y2: drop-ins, instances of templates, specifiers, words and lists mean what systemd reads in them.

use super::{Probe, differences, under_kelson, under_systemd};

/// Each unit prints what it was given.
fn probes() -> Vec<Probe> {
    vec![
        Probe::new(
            "drop-ins",
            "[Service]\nType=oneshot\nEnvironment=A=1 B=2\nEnvironment=\"C=three words\" 'D=it is'\n\
             ExecStart=$PROGRAM print=first\nWorkingDirectory=/usr\nNice=5\nUMask=0022\nOOMScoreAdjust=100\n",
        )
        .drop_in(
            "probe-drop-ins.service.d/20-later.conf",
            "[Service]\nWorkingDirectory=/var\nEnvironment=B=9\nUMask=0027\n",
        )
        .drop_in(
            "probe-drop-ins.service.d/10-first.conf",
            "[Service]\nExecStart=\nWorkingDirectory=/srv\nNice=7\nOOMScoreAdjust=\n\
             ExecStart=$PROGRAM print=second report-of=env.A report-of=env.B report-of=env.C report-of=env.D \\\n\
             # between the lines\n; and another\n  report-of=cwd report-of=nice 'report-of=status Umask' \\\n\
             report-of=oom_score_adj\n",
        )
        // Read by neither: the name does not end so.
        .drop_in("probe-drop-ins.service.d/30-not.txt", "[Service]\nNice=1\n"),
        Probe::new(
            "prefix-one",
            "[Service]\nType=oneshot\nExecStart=$PROGRAM report-of=env.A report-of=env.B report-of=env.C report-of=nice\n",
        )
        .drop_in("probe-prefix-.service.d/10-a.conf", "[Service]\nEnvironment=A=prefix B=prefix\nNice=2\n")
        .drop_in("probe-prefix-one.service.d/10-a.conf", "[Service]\nEnvironment=A=own\n")
        .drop_in("probe-prefix-.service.d/20-b.conf", "[Service]\nEnvironment=C=prefix\nNice=6\n"),
        Probe::new(
            "resets",
            "[Service]\nType=oneshot\nEnvironment=A=1\nEnvironmentFile=/etc/kelson/environment\n\
             CapabilityBoundingSet=CAP_CHOWN\nSystemCallFilter=~sync\nReadOnlyPaths=/srv\nLimitNOFILE=100:200\n\
             ExecStartPre=$PROGRAM print=before\nUnsetEnvironment=GONE\nNice=4\n\
             ExecStart=$PROGRAM report-of=env.A report-of=env.B report-of=env.FILE 'report-of=status CapBnd' \
             'report-of=limits Max open files' attempt=sync try=/srv/file report-of=nice\n",
        )
        .drop_in(
            "probe-resets.service.d/reset.conf",
            "[Service]\nEnvironment=\nEnvironment=B=2\nEnvironmentFile=\nCapabilityBoundingSet=\n\
             CapabilityBoundingSet=CAP_KILL CAP_FOWNER CAP_DAC_OVERRIDE\nSystemCallFilter=\nReadOnlyPaths=\nLimitNOFILE=300\n\
             ExecStartPre=\nNice=\n",
        ),
        Probe {
            unit: "probe-queue@one-two\\x2dthree.service".to_owned(),
            ..Probe::new(
                "",
                "[Service]\nType=oneshot\nEnvironment=OF=%i\nExecStart=$PROGRAM print=%i print=%I print=%j print=%J \
                 print=%n print=%N print=%p print=%P print=100%% print=%f print=%t print=%S print=%C print=%L print=%E \
                 print=%T print=%V print=%u print=%U print=%g print=%G print=%h report-of=env.OF report-of=nice\n",
            )
        }
        .drop_in("probe-queue@.service.d/both.conf", "[Service]\nNice=3\n")
        .drop_in("probe-queue@.service.d/template.conf", "[Service]\nNice=4\n")
        .drop_in("probe-queue@one-two\\x2dthree.service.d/both.conf", "[Service]\nNice=5\nEnvironment=OF=%N\n"),
        Probe::new(
            "variables",
            "[Service]\nType=oneshot\nEnvironment=ONE=1 \"STEPS=print=x print=y\" EMPTY=\n\
             ExecStart=$PROGRAM print=$ONE print=${ONE} $STEPS ${STEPS} print=$$ONE print=$${ONE} print=${NONE}! $NONE \
             print=<${EMPTY}> $EMPTY print=${ONE}${ONE} print=$ONE/2 \"print=${ONE} quoted\" print=end\n",
        ),
        Probe::new(
            "no-variables",
            "[Service]\nType=oneshot\nEnvironment=ONE=1\nExecStart=:$PROGRAM print=$ONE print=${ONE} print=$$ONE\n",
        ),
        Probe::new(
            "words",
            "[Service]\nType=oneshot\nExecStart=$PROGRAM \"print=a\\tb\" 'print=\\x41\\102' print=\\u00e9 \"print=a\\sb\" \
             'print=it is \"so\"' \"print=it's\" print=a'b c'd \"\" print=back\\\\slash print=end ; $PROGRAM print=two\n\
             ExecStart=-$PROGRAM exit=3\nExecStart=@$PROGRAM other print=three\n",
        ),
        Probe::new(
            "passed-over",
            "# a comment\n; another\n\n[X-Other]\nKey=value\n[Service]\nX-Key=value\nType = oneshot\n\
             ExecStart = $PROGRAM   print=spaces report-of=nice  \nNice=nonsense\n",
        ),
        Probe::new(
            "user",
            "[Service]\nType=oneshot\nUser=www-data\nGroup=mail\n\
             LimitNOFILE=100:200\nLimitCORE=1M\nLimitNPROC=50\nLimitSTACK=infinity\nLimitCPU=2min\nUMask=0077\n\
             ExecStart=$PROGRAM 'report-of=status Uid' 'report-of=status Gid' 'report-of=status Groups' \
             'report-of=limits Max open' 'report-of=limits Max core' 'report-of=limits Max proc' 'report-of=limits Max stack' \
             'report-of=limits Max cpu' 'report-of=status Umask' report-of=env.USER report-of=env.HOME report-of=env.LOGNAME \
             report-of=cwd report-of=env.SHELL\n",
        ),
        Probe::new(
            "groups",
            "[Service]\nType=oneshot\nSupplementaryGroups=daemon\nExecStart=$PROGRAM 'report-of=status Groups'\n",
        ),
        Probe::new(
            "file",
            "[Service]\nType=oneshot\nEnvironment=A=of-unit B=of-unit\nEnvironmentFile=-/no-such\n\
             EnvironmentFile=/etc/kelson/environment\nExecStart=$PROGRAM report-of=env.A report-of=env.B report-of=env.FILE \
             report-of=env.SPACES report-of=env.DOUBLE report-of=env.SINGLE report-of=env.INDENTED report-of=env.EMPTY report-of=env.HASH print=${SPACES}\n",
        )
        .drop_in("probe-file.service.d/steps.conf", "[Service]\nEnvironment=PRINTED=print=${FILE}\n"),
        Probe::new(
            "life",
            "[Unit]\nAfter=probe-words.service probe-user.service\nStartLimitIntervalSec=1min\nStartLimitBurst=3\n\
             [Service]\nType=oneshot\nRestart=on-failure\nRestartSec=1\nTimeoutStartSec=20\nTimeoutStopSec=5\nKillSignal=SIGTERM\n\
             SuccessExitStatus=3\nExecStart=$PROGRAM print=end\n",
        )
        .drop_in(
            "probe-life.service.d/reset.conf",
            "[Unit]\nAfter=\nAfter=probe-file.service\n[Service]\nRestartSec=5\nTimeoutSec=1min 30s\nKillSignal=SIGINT\n\
             SuccessExitStatus=\nSuccessExitStatus=4 SIGUSR1\nKillMode=mixed\n",
        ),
    ]
}

/// Of the last unit: a property as systemd has it, and the words for it in the service file.
const LIFE: [(&str, &str); 9] = [
    ("Restart=on-failure", "policy: untilSuccess"),
    ("RestartUSec=5s", "delay: 5s"),
    ("TimeoutStopUSec=1min 30s", "stop: {signal: SIGINT, timeout: 1m30s"),
    ("TimeoutStartUSec=1min 30s", "[timeout, \"--kill-after=10s\", 90s"),
    ("KillSignal=2", "SIGINT"),
    ("SuccessExitStatus=4 USR1", "success: [4, SIGUSR1]"),
    ("StartLimitBurst=3", "attempts: 2"),
    ("StartLimitIntervalUSec=1min", "interval: 1m"),
    ("After=", "after: [probe-words, probe-user, probe-file]"),
];

/// What is known to differ: unit, systemd's line, Kelson's line.
const KNOWN: [&str; 3] = [
    // The importer says so.
    "probe-groups.service: status Groups: 1  | status Groups:  ",
    // initgroups(3) has the group of the process among the others too.
    "probe-user.service: status Groups: 8  | status Groups:  ",
    // The shell of www-data is nologin.
    "probe-user.service: nothing | env.SHELL /bin/sh",
];

/// Keys that are lost, which the importer says: `@` of a command, a value that is no number, and groups.
const LOST: [&str; 3] = [
    "probe-words.service ExecStart",
    "probe-passed-over.service Nice",
    "probe-groups.service SupplementaryGroups",
];

#[test]
fn long_y2_units_mean_what_systemd_reads_in_them() {
    let probes = probes();
    let prepare = "touch /srv/file\n";
    let systemd = under_systemd("reading-systemd", prepare, &probes);
    let kelson = under_kelson("reading-kelson", prepare, &probes);
    let mut found = differences(&systemd, &kelson);
    let (shown, file) = (&systemd.shown["probe-life.service"], &kelson.shown["probe-life.service"]);
    for (property, words) in LIFE {
        let is_so = shown.lines().any(|line| line.starts_with(property));
        if !is_so || !file.contains(words) {
            found.push(format!("{property} ({is_so}): {words}\n{shown}"));
        }
    }
    let after = shown.lines().find(|line| line.starts_with("After=")).unwrap_or_default();
    for unit in ["probe-words", "probe-user", "probe-file"] {
        assert!(after.contains(unit), "{after}");
    }
    assert_eq!(found, KNOWN, "\n{}\n{file}", found.join("\n"));
    assert_eq!(kelson.lost, LOST);
}
