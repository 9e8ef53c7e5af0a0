//! `[Service]`: what systemd.exec(5) says of processes.

use crate::attributes::{
    app_armor, cpu_affinity, cpu_scheduling, directories, io_scheduling, nice, oom_score, preserve, umask,
};
use crate::confinement::{group, log_burst, user, working_directory};
use crate::dynamic_user::dynamic_user;
use crate::environment::{environment, environment_file, pass_environment, unset_environment};
use crate::input::{data, input, of_terminal, utmp};
use crate::key::Neutral::{Empty, No, Words};
use crate::key::{Key, kept, lost, moot, nearly};
use crate::lifecycle::time;
use crate::output::output;
use crate::sandbox::remove_ipc;

const LOG_NAME: &str = "the log of a service has the name of the service";

pub const KEYS: [Key; 68] = [
    kept("WorkingDirectory", working_directory, "`process: {workingDirectory: …}`"),
    kept("User", user, "`user`; `SHELL` is /bin/sh, also of a user without a login shell"),
    kept("Group", group, "`user: USER:GROUP`"),
    lost(
        "SupplementaryGroups",
        Empty,
        "the service has the groups of its user alone; add the user to these in /etc/group",
    ),
    nearly(
        "DynamicUser",
        dynamic_user,
        "`user: dynamic`, with what systemd sets besides; the user has a number and no name, and its folders are below /var/lib and not /var/lib/private",
    ),
    lost("PAMName", Empty, "no PAM session is opened: no limits, groups and environment of one"),
    kept("UMask", umask, "`umask`"),
    kept("Nice", nice, "`nice`"),
    kept("OOMScoreAdjust", oom_score, "`oomScoreAdjust`"),
    lost("CoredumpFilter", Empty, "a core dump has the parts that the kernel chooses"),
    nearly("IOSchedulingClass", io_scheduling, "`ionice` runs the main program"),
    nearly("IOSchedulingPriority", io_scheduling, "`ionice` runs the main program"),
    nearly("CPUSchedulingPolicy", cpu_scheduling, "`chrt` runs the main program"),
    nearly("CPUSchedulingPriority", cpu_scheduling, "`chrt` runs the main program"),
    lost("CPUSchedulingResetOnFork", No, "its children inherit how it is scheduled"),
    kept("CPUAffinity", cpu_affinity, "`cpuAffinity`; not `numa`"),
    lost("NUMAPolicy", Words(&["default"]), "the kernel chooses the memory of the service"),
    lost("NUMAMask", Empty, "the kernel chooses the memory of the service"),
    lost("TimerSlackNSec", Empty, "timers of the service have the slack of the kernel"),
    lost("Personality", Empty, "the program sees the architecture of the host"),
    lost("IgnoreSIGPIPE", No, "SIGPIPE ends the program"),
    kept(
        "Environment",
        environment,
        "`environment`; beside `EnvironmentFile=`, which replaces it, `environmentDefaults`",
    ),
    nearly(
        "EnvironmentFile",
        environment_file,
        "`environmentFiles`: Kelson reads them with the service file, not at each start; a line of theirs does not go on in the next, and one that begins with `;` or has no `=` is a mistake, where systemd passes over it",
    ),
    nearly("PassEnvironment", pass_environment, "`environment: {inherit: […]}`: the variables of `init`"),
    kept("UnsetEnvironment", unset_environment, "variables that nothing sets"),
    kept("StandardInput", input, "`process: {stdin: …}`, `{terminal: …}` or `sockets: [{stdin: true}]`"),
    kept("StandardOutput", output, "the [log](../logs.md) of the service; `logs: {console: true}`"),
    kept("StandardError", output, "the [log](../logs.md) of the service"),
    kept("StandardInputText", data, "`process: {stdin: {text: …}}`"),
    kept("StandardInputData", data, "`process: {stdin: {text: …}}`, of what is UTF-8"),
    kept("TTYPath", of_terminal, "`process: {terminal: {path: …}}`"),
    kept("TTYReset", of_terminal, "`process: {terminal: {reset: …}}`"),
    kept("TTYVHangup", of_terminal, "`process: {terminal: {hangUp: …}}`"),
    kept("TTYVTDisallocate", of_terminal, "`process: {terminal: {clear: …}}`"),
    kept("TTYRows", of_terminal, "`process: {terminal: {rows: …}}`"),
    kept("TTYColumns", of_terminal, "`process: {terminal: {columns: …}}`"),
    moot("SyslogIdentifier", LOG_NAME),
    moot("SyslogFacility", "logs have no facilities"),
    lost("SyslogLevel", Words(&["info"]), "lines of the log have no level"),
    moot("SyslogLevelPrefix", "a line is kept as it is"),
    lost("LogLevelMax", Words(&["debug", "7"]), "lines of every level are kept"),
    kept("LogRateLimitIntervalSec", time, "`logs: {rateLimit: …}`, with the next key"),
    kept("LogRateLimitBurst", log_burst, "`logs: {rateLimit: …}`: lines in a second"),
    lost("LogExtraFields", Empty, "lines of the log have no fields"),
    moot("LogNamespace", "each service has a log of its own"),
    nearly("UtmpIdentifier", utmp, "Kelson writes no record to utmp; agetty and login write their own"),
    lost("UtmpMode", Words(&["init"]), "no session is written to utmp"),
    kept("RuntimeDirectory", directories, "`directories: {runtime: …}`"),
    moot("RuntimeDirectoryMode", "`directories: {runtime: [{mode: …}]}`, with the key before"),
    kept("RuntimeDirectoryPreserve", preserve, "`directories: {preserve: …}`"),
    kept("StateDirectory", directories, "`directories: {state: …}`"),
    moot("StateDirectoryMode", "`directories: {state: [{mode: …}]}`, with the key before"),
    kept("CacheDirectory", directories, "`directories: {cache: …}`"),
    moot("CacheDirectoryMode", "`directories: {cache: [{mode: …}]}`, with the key before"),
    kept("LogsDirectory", directories, "`directories: {logs: …}`"),
    moot("LogsDirectoryMode", "`directories: {logs: [{mode: …}]}`, with the key before"),
    kept("ConfigurationDirectory", directories, "`directories: {configuration: …}`"),
    moot("ConfigurationDirectoryMode", "`directories: {configuration: [{mode: …}]}`, with the key before"),
    lost("SetCredential", Empty, "the service gets no such file; write `secrets`"),
    lost("SetCredentialEncrypted", Empty, "the service gets no such file; write `secrets`"),
    lost("LoadCredential", Empty, "the service gets no such file; write `secrets`"),
    lost("LoadCredentialEncrypted", Empty, "the service gets no such file; write `secrets`"),
    kept("RemoveIPC", remove_ipc, "`removeIpc`, of a user other than root"),
    lost("ExecSearchPath", Empty, "programs without a path are looked up in `PATH`"),
    lost("SELinuxContext", Empty, "the service has the label that its program gives it"),
    nearly("AppArmorProfile", app_armor, "a shell that runs the main program asks for the profile"),
    lost("SmackProcessLabel", Empty, "the service has the label of Kelson"),
    lost("KeyringMode", Words(&["inherit"]), "the service shares the keyring of Kelson's session"),
];
