//! The keys of a service file.

use std::time::Duration;

use super::kinds::{
    choice, command, duration, duration_from, environment, environment_files, form, name, path, signal,
    start_timeout,
};
use super::requirement::requirement;
use super::{Kind, Mapping, checks, confinement, container, needed, with, without};
use kelson_spec::kernel::LIMITS;
use kelson_spec::service::ApiAccess;

/// The shortest time that may be waited for something to happen.
const SHORTEST: Duration = Duration::from_millis(1);

/// The whole file.
pub fn service() -> Mapping {
    let keys = [
        needed(
            "name",
            name(),
            "the file's name without `.yaml`. `apid`, `audit`, `containerd`, `load`, `logd`, `probe`, `shims`, `task` and \
             `unpack` are parts of Kelson and cannot be taken",
        ),
        without("description", Kind::Text, "empty", "for people"),
        needed("process", Kind::Mapping(process), "the program to run"),
        needed("container", Kind::Mapping(container::container), "the image to run"),
        with("environment", environment(), "{}", "the variables of its environment"),
        with(
            "environmentFiles",
            environment_files(),
            "[]",
            "files of `KEY=VALUE` lines; with `-` first one may be missing",
        ),
        with(
            "type",
            choice(&["service", "oneshot"]),
            "service",
            "a `service` runs on; a `oneshot` is up once it has ended successfully",
        ),
        with("start", choice(&["auto", "manual"]), "auto", "`manual`: the boot does not start it"),
        with(
            "when",
            Kind::Mapping(requirement).list(),
            "[]",
            "asked once at the start; if one does not hold, the service is skipped",
        ),
        with("depends", Kind::Mapping(requirement).list(), "[]", "all must hold before each spawn"),
        without("restart", Kind::Mapping(restart), "by type", "what happens after its end"),
        without("group", name(), "none", "the name of the group that it is in"),
        without("lifecycle", Kind::Mapping(lifecycle), "a main", "its part in that group"),
        with(
            "required",
            Kind::Boolean,
            "true",
            "whether the host's health and the end of the boot wait for it",
        ),
        with(
            "readiness",
            Kind::Either(vec![choice(&["none", "notify"]), Kind::Mapping(descriptor)]),
            "none",
            "how it reports that it is ready",
        ),
        with(
            "startTimeout",
            start_timeout(),
            "90s",
            "`none`, or the time from the spawn to ready, and to healthy for the first time if a [check](#health) may restart the service. A run that \
             takes longer has failed. It has no effect without readiness and such a check",
        ),
        with("health", checks::checks(), "[]", "checks that must all pass for it to be up"),
        with("hooks", Kind::Mapping(hooks), "{}", "commands around each run"),
        with("stop", Kind::Mapping(stop), "{signal: SIGTERM, timeout: 10s, delay: 0s}", "how it is stopped"),
        without(
            "user",
            Kind::Form(form("user", "^[^:]+(:[^:]+)?$", "1000:1000")),
            "PID 1's (root); of a container, the image's",
            "`user` or `user:group`, as names or numbers",
        ),
        with("resources", Kind::Mapping(confinement::resources), "{}", "the limits of its cgroup"),
        with(
            "delegate",
            Kind::Boolean,
            "false",
            "`true`: its user may make cgroups below its own and use every controller there. See \
             [delegate](#delegate)",
        ),
        without(
            "limits",
            Kind::Mapping(limits),
            "those PID 1 was given; of a container, `nofile: {soft: 1024, hard: 524288}` besides",
            "rlimits",
        ),
        with("security", Kind::Mapping(confinement::security), "{}", "privileges"),
        with(
            "api",
            choice(&ApiAccess::ALL.map(ApiAccess::name)),
            "none",
            "the calls of PID 1 and logd that its processes may make",
        ),
        with("logs", Kind::Mapping(logs), "{maxSize: 1Mi, maxFiles: 3, console: false}", "its log"),
    ];
    Mapping::new("service", keys).one_of(&["process", "container"])
}

fn process() -> Mapping {
    let keys = [
        needed(
            "command",
            command(),
            "the program (a path, or a name that Kelson looks up in the service's `PATH`) and its arguments. No shell reads \
             them: write `[sh, -c, \"…\"]` for one",
        ),
        with("workingDirectory", path(), "/", "where it starts"),
    ];
    Mapping::new("process", keys)
}

pub(super) fn restart() -> Mapping {
    let keys = [
        without(
            "policy",
            choice(&["once", "untilSuccess", "forever", "no", "on-failure", "always"]),
            "`forever`; oneshot: `once`",
            "`once` or `no`: never again. `untilSuccess` or `on-failure`: again until status 0. `forever` or `always`: again after \
             each end (not for a oneshot)",
        ),
        with(
            "delay",
            duration(),
            "1s",
            "before the first restart. It doubles with each further one, up to `maxDelay`, and a random part of up to a quarter \
             is added. It starts over after a run that is longer than `maxDelay` and than 10 s",
        ),
        with("maxDelay", duration(), "30s", "not less than `delay`"),
        with(
            "attempts",
            Kind::Number(0..=1_000_000),
            "0",
            "failures allowed within `interval`; the next one exhausts the budget. 0: no limit. More than 10,000 count as 10,000",
        ),
        with("interval", duration_from(SHORTEST), "5m", "the time in which `attempts` are counted"),
        with(
            "exhausted",
            choice(&["fail", "delay"]),
            "fail",
            "`fail`: the service ends as `failed`. `delay`: it waits for the end of the interval and has a fresh budget",
        ),
        with(
            "scope",
            choice(&["service", "group"]),
            "service",
            "what is restarted when a check asks for it (`restartAfter`), and once the budget of attempts is used up. `group`: \
             all services of its [group](#group-lifecycle), in order",
        ),
    ];
    Mapping::new("restart", keys)
}

fn lifecycle() -> Mapping {
    let keys = [
        without(
            "hook",
            choice(&["prestart", "poststart", "poststop"]),
            "none",
            "`prestart`: before the mains. `poststart`: once they are up. `poststop`: once they are down",
        ),
        with(
            "sidecar",
            Kind::Boolean,
            "false",
            "`true`: up before the mains are started, and stopped after them",
        ),
    ];
    Mapping::new("lifecycle", keys)
}

fn descriptor() -> Mapping {
    let about = "the descriptor to which it writes a newline once it is ready; not for a container";
    Mapping::new("descriptor", [needed("fd", Kind::Number(3..=1023), about)])
}

fn hooks() -> Mapping {
    let place = || Kind::Either(vec![Kind::Mapping(hook).list_of(0, 32), Kind::Mapping(hook)]);
    let keys = [
        with(
            "pre",
            place(),
            "[]",
            "before the main process, in each run; where one fails the start has failed",
        ),
        with("postStart", place(), "[]", "beside the main process, once it is ready"),
        with("preStop", place(), "[]", "beside the main process, before it is stopped"),
        with(
            "post",
            place(),
            "[]",
            "after the main process has ended, however it did, and after a `pre` that failed",
        ),
    ];
    Mapping::new("hooks", keys)
}

fn hook() -> Mapping {
    let keys = [
        needed("command", command(), "as of [process](#process)"),
        with("timeout", duration_from(SHORTEST), "30s", "then it is killed and has failed"),
        with(
            "asRoot",
            Kind::Boolean,
            "false",
            "`true`: runs as root, without the limits of [security](#security). Only for `pre` and `post` of a process",
        ),
    ];
    Mapping::new("hook", keys)
}

pub(super) fn stop() -> Mapping {
    let keys = [
        with(
            "signal",
            signal(),
            "SIGTERM",
            "to the main process: `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`. A container gets its image's if the file names none",
        ),
        with(
            "timeout",
            Kind::Either(vec![duration_from(SHORTEST), choice(&["none", "now"])]),
            "10s",
            "from the signal until the whole cgroup is killed. `now`: at once. `none`: never; only \
             [`shutdown.timeout`](machine-file.md) bounds the stop",
        ),
        with(
            "delay",
            duration(),
            "0s",
            "between \"no longer up\" and the signal, so that no new client is routed to it; it ends early when the process \
             ends. A service that is stopped because it failed, and was not up, has no delay",
        ),
    ];
    Mapping::new("stop", keys)
}

pub(super) fn limits() -> Mapping {
    let value = || Kind::Either(vec![limit_value(), Kind::Mapping(limit)]);
    let keys = LIMITS.map(|(name, _)| {
        without(name, value(), "PID 1's", "for soft and hard alike, or `{soft: …, hard: …}`")
    });
    Mapping::new("limits", keys)
}

fn limit_value() -> Kind {
    Kind::Either(vec![Kind::Size(0), choice(&["unlimited"])])
}

fn limit() -> Mapping {
    let keys = [
        needed("soft", limit_value(), "what counts; not above `hard`"),
        needed("hard", limit_value(), "up to which the service may raise it"),
    ];
    Mapping::new("limit", keys)
}

pub(super) fn logs() -> Mapping {
    let keys = [
        with("maxSize", Kind::Size(4096), "1Mi", "of one file before it is rotated"),
        with("maxFiles", Kind::Number(1..=100), "3", "files in all, the current one included"),
        without(
            "rateLimit",
            Kind::Number(1..=10_000),
            "all lines are kept",
            "lines kept in a second; logd counts and drops the others",
        ),
        with("console", Kind::Boolean, "false", "lines also go to `/dev/console`"),
    ];
    Mapping::new("logs", keys)
}
