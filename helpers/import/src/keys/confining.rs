//! `[Service]`: the sandbox of systemd.exec(5).

use crate::confinement::{ambient, architectures, bounding_set, no_new_privileges, protect_system};
use crate::key::Neutral::{Empty, No, Words};
use crate::key::{Key, kept, lost, moot, nearly};
use crate::view::{inaccessible, private_tmp, protect_home, read_only, read_write};

const ROOT: &str =
    "the service has the root of the host; a [container](../service-file.md#container) has one of its own";
const PATHS: &str = "the service sees these paths as the host has them";

pub const KEYS: [Key; 52] = [
    kept(
        "NoNewPrivileges",
        no_new_privileges,
        "`security: {noNewPrivileges: …}`; without the key it is false, as in systemd",
    ),
    kept("CapabilityBoundingSet", bounding_set, "`security: {capabilities: {drop: […]}}`"),
    kept("AmbientCapabilities", ambient, "`security: {capabilities: {add: […]}}`"),
    lost("SecureBits", Empty, "root and a change of the user give and take capabilities as usual"),
    kept("ProtectSystem", protect_system, "`security: {readOnlyPaths: …}`, or `readOnlyRoot` for `strict`"),
    kept("ProtectHome", protect_home, "`security: {hiddenPaths: …}`, or `readOnlyPaths`"),
    nearly("PrivateTmp", private_tmp, "`security: {privateTmp: true}`, in memory"),
    lost("PrivateDevices", No, "the service sees every device of the host"),
    lost("PrivateNetwork", No, "the service has the network of the host"),
    lost("NetworkNamespacePath", Empty, "the service has the network of the host"),
    lost("PrivateUsers", No, "the service sees every user of the host"),
    lost("PrivateMounts", No, "what the service mounts, the host sees"),
    lost("PrivateIPC", No, "the service shares System V IPC with the host"),
    lost("IPCNamespacePath", Empty, "the service shares System V IPC with the host"),
    lost("ProtectHostname", No, "the service can change the name of the host, if it has the capability"),
    lost("ProtectClock", No, "the service can set the clock, if it has the capability"),
    lost("ProtectKernelTunables", No, "the service can write to /proc/sys and /sys, as far as its user can"),
    lost("ProtectKernelModules", No, "the service can load modules, if it has the capability"),
    lost("ProtectKernelLogs", No, "the service can read the log of the kernel, if it has the capability"),
    lost("ProtectControlGroups", No, "the service can write to the cgroups, as far as its user can"),
    lost("ProtectProc", Words(&["default"]), "the service sees the processes of other users in /proc"),
    lost("ProcSubset", Words(&["all"]), "the service sees all of /proc"),
    lost(
        "SystemCallFilter",
        Empty,
        "in place of these calls, the default profile of Kelson is in force (`seccomp: default`)",
    ),
    kept(
        "SystemCallArchitectures",
        architectures,
        "`native`, beside `SystemCallFilter=`: the default profile of Kelson refuses all others",
    ),
    moot("SystemCallErrorNumber", "it is the answer to a call that `SystemCallFilter=` forbids"),
    lost("SystemCallLog", Empty, "calls are not logged"),
    lost("MemoryDenyWriteExecute", No, "the service can make memory that it can both write and execute"),
    lost("RestrictNamespaces", No, "the service can make namespaces"),
    lost("RestrictRealtime", No, "the service can ask for realtime scheduling, if it has the capability"),
    lost("RestrictSUIDSGID", No, "the service can make setuid files"),
    lost("RestrictAddressFamilies", Empty, "the service can open sockets of every family"),
    lost("RestrictFileSystems", Empty, "the service can open files of every kind of file system"),
    lost("LockPersonality", No, "the service can change its personality"),
    kept("ReadWritePaths", read_write, "`security: {writablePaths: …}`"),
    kept("ReadOnlyPaths", read_only, "`security: {readOnlyPaths: …}`"),
    nearly(
        "InaccessiblePaths",
        inaccessible,
        "`security: {hiddenPaths: …}`: empty, where systemd denies access",
    ),
    lost("ExecPaths", Empty, "the service can execute every program"),
    lost("NoExecPaths", Empty, "the service can execute programs below these paths"),
    lost("BindPaths", Empty, PATHS),
    lost("BindReadOnlyPaths", Empty, PATHS),
    lost("TemporaryFileSystem", Empty, PATHS),
    lost("MountFlags", Words(&["shared"]), "what the service mounts, the host sees"),
    lost("MountAPIVFS", No, ROOT),
    lost("RootDirectory", Words(&["/"]), ROOT),
    lost("RootImage", Empty, ROOT),
    lost("RootImageOptions", Empty, ROOT),
    lost("RootHash", Empty, ROOT),
    lost("RootHashSignature", Empty, ROOT),
    lost("RootVerity", Empty, ROOT),
    lost("ExtensionDirectories", Empty, ROOT),
    lost("ExtensionImages", Empty, ROOT),
    lost("MountImages", Empty, ROOT),
];
