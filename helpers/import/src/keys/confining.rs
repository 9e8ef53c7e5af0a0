//! `[Service]`: the sandbox of systemd.exec(5).

use crate::confinement::{ambient, bounding_set, no_new_privileges, protect_system};
use crate::key::Neutral::{Empty, No, Words};
use crate::key::{Key, kept, lost, moot, nearly};
use crate::sandbox::{
    address_families, architectures, namespaces, own_namespace, private_devices, proc_subset, protect_proc,
    switch, system_calls,
};
use crate::view::{
    bind, exec, inaccessible, no_exec, private_mounts, private_tmp, protect_home, read_only, read_write,
};

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
    kept(
        "PrivateDevices",
        private_devices,
        "`security: {privateDevices: true}`, without the capabilities `mknod` and `sys_rawio`",
    ),
    kept("PrivateNetwork", own_namespace, "`security: {privateNetwork: true}`"),
    lost("NetworkNamespacePath", Empty, "the service has the network of the host"),
    kept("PrivateUsers", own_namespace, "`security: {privateUsers: true}`"),
    kept("PrivateMounts", private_mounts, "a view of the files of the host of its own, by other keys"),
    lost("PrivateIPC", No, "the service shares System V IPC with the host"),
    lost("IPCNamespacePath", Empty, "the service shares System V IPC with the host"),
    kept("ProtectHostname", switch, "`security: {protect: [hostname]}`"),
    kept("ProtectClock", switch, "`security: {protect: [clock]}`"),
    kept("ProtectKernelTunables", switch, "`security: {protect: [kernelTunables]}`"),
    kept("ProtectKernelModules", switch, "`security: {protect: [kernelModules]}`"),
    nearly(
        "ProtectKernelLogs",
        switch,
        "`security: {protect: [kernelLogs]}`: /dev/kmsg is empty and takes what is written, where systemd denies access",
    ),
    kept("ProtectControlGroups", switch, "`security: {protect: [controlGroups]}`"),
    kept("ProtectProc", protect_proc, "`security: {protect: [processes]}`"),
    kept("ProcSubset", proc_subset, "`security: {protect: [kernelFiles]}`"),
    kept(
        "SystemCallFilter",
        system_calls,
        "`security: {systemCalls: {allow: […], deny: […]}}`, with `noNewPrivileges: true` for root too",
    ),
    kept("SystemCallArchitectures", architectures, "`security: {restrict: [otherArchitectures]}`"),
    moot("SystemCallErrorNumber", "`answer` of `systemCalls`"),
    lost("SystemCallLog", Empty, "calls are not logged"),
    kept("MemoryDenyWriteExecute", switch, "`security: {restrict: [writableCode]}`"),
    kept("RestrictNamespaces", namespaces, "`security: {namespaces: {allow: […]}}`"),
    kept("RestrictRealtime", switch, "`security: {restrict: [realtime]}`"),
    kept("RestrictSUIDSGID", switch, "`security: {restrict: [setUserId]}`"),
    kept("RestrictAddressFamilies", address_families, "`security: {addressFamilies: {allow: […]}}`"),
    lost("RestrictFileSystems", Empty, "the service can open files of every kind of file system"),
    kept("LockPersonality", switch, "`security: {restrict: [personality]}`"),
    kept("ReadWritePaths", read_write, "`security: {writablePaths: …}`"),
    kept("ReadOnlyPaths", read_only, "`security: {readOnlyPaths: …}`"),
    nearly(
        "InaccessiblePaths",
        inaccessible,
        "`security: {hiddenPaths: …}`: empty, where systemd denies access",
    ),
    kept("ExecPaths", exec, "`security: {execPaths: …}`"),
    kept("NoExecPaths", no_exec, "`security: {noExecPaths: …}`"),
    kept("BindPaths", bind, "`security: {bindPaths: …}`"),
    kept("BindReadOnlyPaths", bind, "`security: {bindReadOnlyPaths: …}`"),
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
