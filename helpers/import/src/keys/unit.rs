//! `[Unit]`.

use crate::conditions::{assert_by_shell, condition_by_shell};
use crate::ends::{on_failure, on_success};
use crate::facts::when_fact;
use crate::key::Neutral::{Empty, No, Words};
use crate::key::{Key, kept, lost, moot, nearly};
use crate::lifecycle::number;
use crate::lifecycle::time;
use crate::order::{
    after, before, binds_to, conflicts, default_dependencies, depends_mount, depends_path, part_of, refuses,
    reload_with, requires, requires_mounts_for, wants, when_argument, when_mount, when_path,
};
use crate::texts::description;

const RELOADED: &str = "a reload of one of the two units does not reach the other";
const STOPPED: &str = "a stop of one of the two units does not reach the other";
const JOB: &str = "Kelson has no queue of jobs that could hang: a start is bounded by `startTimeout`, a stop by `stop.timeout`";
const ACTION: &str =
    "nothing happens to the host: write `onExit: stop` if the host is there for this service";

pub const KEYS: [Key; 42] = [
    kept("Description", description, "`description`"),
    moot("Documentation", "for people"),
    moot("SourcePath", "for people"),
    kept("Wants", wants, "Kelson starts every service with `start: auto` by itself"),
    nearly("Requires", requires, "`depends: [{service: …}]`: the service waits until the other is up"),
    nearly("BindsTo", binds_to, "`depends: [{service: …, whenDown: stop}]`"),
    lost(
        "Requisite",
        Empty,
        "the service starts whether the other unit runs or not; `depends` would wait for it",
    ),
    lost(
        "Upholds",
        Empty,
        "the other unit is not started again because of this one; give it `restart: {policy: forever}`",
    ),
    nearly(
        "PartOf",
        part_of,
        "`partOf`; `depends: [{service: …, whenDown: restart}]`, if the unit also requires the other",
    ),
    kept("Before", before, "`before`, for services and points such as `network.target`"),
    kept(
        "After",
        after,
        "what the boot does first holds already; `after` and `depends` for services and points",
    ),
    kept("Conflicts", conflicts, "`conflicts`; Kelson stops every service before the end of the host"),
    kept("OnFailure", on_failure, "`onFailure`; import that unit too"),
    kept("OnSuccess", on_success, "`onSuccess`; import that unit too"),
    moot("OnFailureJobMode", "it says how `OnFailure=` starts its units"),
    moot("OnSuccessJobMode", "it says how `OnSuccess=` starts its units"),
    moot("OnFailureIsolate", "it says how `OnFailure=` starts its units"),
    lost("PropagatesReloadTo", Empty, RELOADED),
    kept("ReloadPropagatedFrom", reload_with, "`reload: {with: […]}`"),
    lost("PropagatesStopTo", Empty, STOPPED),
    lost("StopPropagatedFrom", Empty, STOPPED),
    lost(
        "JoinsNamespaceOf",
        Empty,
        "the service does not share /tmp and namespaces with the other unit alone: it shares the host's",
    ),
    kept(
        "RequiresMountsFor",
        requires_mounts_for,
        "Kelson mounts all of its machine file before the first service starts",
    ),
    lost("StopWhenUnneeded", No, "the service runs on when no other needs it"),
    kept("RefuseManualStart", refuses, "`refuses: [start]`"),
    kept("RefuseManualStop", refuses, "`refuses: [stop]`"),
    moot("AllowIsolate", "Kelson has no command that stops everything but one unit"),
    moot("IgnoreOnIsolate", "Kelson has no command that stops everything but one unit"),
    kept("DefaultDependencies", default_dependencies, "every service starts after the boot's own tasks"),
    lost("JobTimeoutSec", Words(&["infinity", "0"]), JOB),
    lost("JobRunningTimeoutSec", Words(&["infinity", "0"]), JOB),
    lost("JobTimeoutAction", Words(&["none"]), JOB),
    moot("JobTimeoutRebootArgument", "it says how `JobTimeoutAction=` reboots"),
    kept("StartLimitIntervalSec", time, "`restart: {interval: …}`"),
    kept(
        "StartLimitBurst",
        number,
        "`restart: {attempts: …}`, one less: the first start is none after a failure",
    ),
    lost("StartLimitAction", Words(&["none"]), ACTION),
    lost("FailureAction", Words(&["none"]), ACTION),
    lost("SuccessAction", Words(&["none"]), ACTION),
    moot("FailureActionExitStatus", "it is of an action after a failure"),
    moot("SuccessActionExitStatus", "it is of an action after a success"),
    moot("RebootArgument", "it says how an action of the unit reboots"),
    moot("CollectMode", "Kelson keeps nothing of a service whose file is gone"),
];

const ALWAYS: &str =
    "the service starts whether this holds or not; check it in a `pre` hook, which fails the start";
const TESTED: &str = "a `pre` hook with `condition: true` tests it in a shell";
const FACT: &str = "`when: [{fact: …}]`; `!` is `not`";
const ASSERTED: &str = "a `pre` hook tests it in a shell";
const NO_ASSERTION: &str = "the start does not fail if this does not hold; check it in a `pre` hook";

pub const CONDITIONS: [Key; 65] = [
    kept("ConditionPathExists", when_path, "`when: [{path: …}]`; `!` is `not`"),
    nearly("ConditionPathExistsGlob", condition_by_shell, TESTED),
    nearly("ConditionPathIsDirectory", condition_by_shell, TESTED),
    nearly("ConditionPathIsSymbolicLink", condition_by_shell, TESTED),
    kept("ConditionPathIsMountPoint", when_mount, "`when: [{mount: …}]`; `!` is `not`"),
    nearly("ConditionPathIsReadWrite", condition_by_shell, TESTED),
    lost("ConditionPathIsEncrypted", Empty, ALWAYS),
    nearly("ConditionDirectoryNotEmpty", condition_by_shell, TESTED),
    nearly("ConditionFileNotEmpty", condition_by_shell, TESTED),
    nearly("ConditionFileIsExecutable", condition_by_shell, TESTED),
    lost("ConditionNeedsUpdate", Empty, ALWAYS),
    lost("ConditionFirstBoot", Empty, ALWAYS),
    kept("ConditionArchitecture", when_fact, FACT),
    lost("ConditionFirmware", Empty, ALWAYS),
    nearly("ConditionVirtualization", condition_by_shell, TESTED),
    kept("ConditionHost", when_fact, FACT),
    kept("ConditionKernelCommandLine", when_argument, "`when: [{kernelArgument: …}]`; `!` is `not`"),
    kept("ConditionKernelVersion", when_fact, FACT),
    lost("ConditionCredential", Empty, ALWAYS),
    lost("ConditionSecurity", Empty, ALWAYS),
    nearly("ConditionCapability", condition_by_shell, TESTED),
    nearly("ConditionACPower", condition_by_shell, TESTED),
    kept("ConditionMemory", when_fact, FACT),
    lost("ConditionCPUFeature", Empty, ALWAYS),
    kept("ConditionCPUs", when_fact, FACT),
    lost("ConditionEnvironment", Empty, ALWAYS),
    lost("ConditionUser", Empty, ALWAYS),
    lost("ConditionGroup", Empty, ALWAYS),
    lost("ConditionControlGroupController", Empty, ALWAYS),
    lost("ConditionOSRelease", Empty, ALWAYS),
    lost("ConditionMemoryPressure", Empty, ALWAYS),
    lost("ConditionCPUPressure", Empty, ALWAYS),
    lost("ConditionIOPressure", Empty, ALWAYS),
    nearly(
        "AssertPathExists",
        depends_path,
        "`depends: [{path: …}]`: the service waits, where systemd fails the start",
    ),
    nearly("AssertPathExistsGlob", assert_by_shell, ASSERTED),
    nearly("AssertPathIsDirectory", assert_by_shell, ASSERTED),
    nearly("AssertPathIsSymbolicLink", assert_by_shell, ASSERTED),
    nearly(
        "AssertPathIsMountPoint",
        depends_mount,
        "`depends: [{mount: …}]`: the service waits, where systemd fails the start",
    ),
    nearly("AssertPathIsReadWrite", assert_by_shell, ASSERTED),
    lost("AssertPathIsEncrypted", Empty, NO_ASSERTION),
    nearly("AssertDirectoryNotEmpty", assert_by_shell, ASSERTED),
    nearly("AssertFileNotEmpty", assert_by_shell, ASSERTED),
    nearly("AssertFileIsExecutable", assert_by_shell, ASSERTED),
    lost("AssertNeedsUpdate", Empty, NO_ASSERTION),
    lost("AssertFirstBoot", Empty, NO_ASSERTION),
    lost("AssertArchitecture", Empty, NO_ASSERTION),
    nearly("AssertVirtualization", assert_by_shell, ASSERTED),
    lost("AssertHost", Empty, NO_ASSERTION),
    lost("AssertKernelCommandLine", Empty, NO_ASSERTION),
    lost("AssertKernelVersion", Empty, NO_ASSERTION),
    lost("AssertCredential", Empty, NO_ASSERTION),
    lost("AssertSecurity", Empty, NO_ASSERTION),
    nearly("AssertCapability", assert_by_shell, ASSERTED),
    nearly("AssertACPower", assert_by_shell, ASSERTED),
    lost("AssertMemory", Empty, NO_ASSERTION),
    lost("AssertCPUFeature", Empty, NO_ASSERTION),
    nearly("AssertCPUs", assert_by_shell, ASSERTED),
    lost("AssertEnvironment", Empty, NO_ASSERTION),
    lost("AssertUser", Empty, NO_ASSERTION),
    lost("AssertGroup", Empty, NO_ASSERTION),
    lost("AssertControlGroupController", Empty, NO_ASSERTION),
    lost("AssertOSRelease", Empty, NO_ASSERTION),
    lost("AssertMemoryPressure", Empty, NO_ASSERTION),
    lost("AssertCPUPressure", Empty, NO_ASSERTION),
    lost("AssertIOPressure", Empty, NO_ASSERTION),
];
