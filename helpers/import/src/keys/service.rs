//! `[Service]`: what systemd.service(5) and systemd.kill(5) describe.

use crate::commands::{
    exec_condition, exec_reload, exec_start, exec_start_post, exec_start_pre, exec_stop, exec_stop_post,
};
use crate::ends::{force, prevent, success};
use crate::key::Neutral::{Empty, No, Words};
use crate::key::{Key, kept, lost, moot, nearly};
use crate::lifecycle::{
    bus_name, final_signal, hang_up, kill_mode, kill_signal, kind, notify_access, pid_file,
    remain_after_exit, restart, restart_kill_signal, send_kill, time, timeout_start, watchdog,
};
use crate::order::sockets;
use crate::sockets::non_blocking;

pub const KEYS: [Key; 36] = [
    kept("Type", kind, "the default; `readiness: notify`, `{forks: true}`; `type: oneshot`"),
    lost("ExitType", Words(&["main"]), "the run ends with its main process, and all others are killed"),
    kept("RemainAfterExit", remain_after_exit, "a one-shot is up once it has ended successfully"),
    moot("GuessMainPID", "of a service that forks, the only process that can be the main one is it"),
    kept(
        "PIDFile",
        pid_file,
        "`readiness: {pidFile: …}` of a service that forks; Kelson follows the process of others",
    ),
    kept("BusName", bus_name, "with `Type=dbus` a startup check; a message to the bus starts no service"),
    kept(
        "ExecStart",
        exec_start,
        "`process: {command: […]}`; earlier commands of a one-shot are `pre` hooks. `expand: true` if a command has variables",
    ),
    kept("ExecStartPre", exec_start_pre, "`hooks: {pre: …}`, with `mayFail` for `-`"),
    nearly("ExecStartPost", exec_start_post, "`hooks: {postStart: …}`, beside a service that is up already"),
    kept("ExecCondition", exec_condition, "`hooks: {pre: [{condition: true, …}]}`"),
    kept("ExecReload", exec_reload, "`reload`: hooks, and the signal of a `kill … $MAINPID` at the end"),
    nearly("ExecStop", exec_stop, "`hooks: {preStop: …}`; not if the program ends by itself"),
    nearly(
        "ExecStopPost",
        exec_stop_post,
        "`hooks: {post: …}`, with `KELSON_EXIT_STATUS` in place of `EXIT_STATUS`",
    ),
    kept("RestartSec", time, "`restart: {delay: …, maxDelay: …}`, plus a random part of up to a quarter"),
    kept("Restart", restart, "`restart: {policy: …}`"),
    kept("SuccessExitStatus", success, "`success`"),
    kept("RestartPreventExitStatus", prevent, "`restart: {preventOn: …}`"),
    kept("RestartForceExitStatus", force, "`restart: {forceOn: …}`"),
    kept("TimeoutStartSec", timeout_start, "`startTimeout`, and the `timeout` of hooks; not for a one-shot"),
    kept("TimeoutStopSec", time, "`stop: {timeout: …}`"),
    lost("TimeoutAbortSec", Empty, "a run that the watchdog ends has the time of a stop"),
    lost(
        "TimeoutStartFailureMode",
        Words(&["terminate"]),
        "a start that takes too long is ended by the signal of a stop",
    ),
    lost("TimeoutStopFailureMode", Words(&["terminate"]), "a stop that takes too long is ended by SIGKILL"),
    lost("RuntimeMaxSec", Words(&["infinity", "0"]), "nothing ends a run that takes longer"),
    lost("RuntimeRandomizedExtraSec", Words(&["0"]), "nothing ends a run that takes longer"),
    nearly("WatchdogSec", watchdog, "`watchdog`, with the signal of a stop in place of SIGABRT"),
    lost("RootDirectoryStartOnly", No, "hooks have the root of the service"),
    moot("PermissionsStartOnly", "hooks with `asRoot: true`"),
    kept("NonBlocking", non_blocking, "`sockets: [{nonBlocking: …}]`"),
    kept("NotifyAccess", notify_access, "each process of the service's user may send"),
    kept("Sockets", sockets, "`sockets`, if the files of those units are given beside that of the service"),
    lost("FileDescriptorStoreMax", Words(&["0"]), "descriptors that the program stores are closed"),
    lost("USBFunctionDescriptors", Empty, "the service gets no USB function"),
    lost("USBFunctionStrings", Empty, "the service gets no USB function"),
    lost(
        "OOMPolicy",
        Words(&["continue"]),
        "the service runs on if the kernel kills one of its other processes for memory",
    ),
    moot("TimeoutCleanSec", "Kelson has no command that removes the folders of a service"),
];

pub const STOP: [Key; 7] = [
    kept("KillMode", kill_mode, "`stop: {mode: …}`; not `none`"),
    kept("KillSignal", kill_signal, "`stop: {signal: …}`"),
    kept("RestartKillSignal", restart_kill_signal, "the signal of a stop"),
    kept("SendSIGHUP", hang_up, "`stop: {hangUp: …}`"),
    kept("SendSIGKILL", send_kill, "a stop kills what does not end in time"),
    kept("FinalKillSignal", final_signal, "`stop: {finalSignal: …}`, and SIGKILL 5 s after it"),
    lost("WatchdogSignal", Words(&["SIGABRT"]), "a run that the watchdog ends gets the signal of a stop"),
];
