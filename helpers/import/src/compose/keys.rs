//! The tables of keys of the Compose specification.

use super::draft::Part;
use super::{health, limits, network, order, program, storage};
use crate::key::Neutral::{Empty, No, Words};
use crate::key::{kept, lost, moot, nearly};

/// Every part, in the order of the documents.
pub const PARTS: [Part; 7] = [TOP, SERVICE, health::KEYS, DEPLOY, limits::KEYS, order::KEYS, LOGGING];

const ONE_HOST: &str = "of a cluster; Docker Compose does not read it either";
const BUILD: &str = "build the image with a tool such as `buildah`";
const BLOCK: &str = "the service reads and writes disks without a limit";
const SWAP: &str = "the service may use all of the swap";
const REAL_TIME: &str = "the service has no share of real-time scheduling";
const RESOLVER: &str = "the container has `/etc/resolv.conf` of the host";

pub const TOP: Part = Part {
    title: "The file",
    keys: &[
        moot("version", "Docker Compose does not read it either"),
        moot("name", "the folder of its volumes has this name"),
        moot("services", "one service file for each"),
        lost("include", Empty, "what the other files have; `docker compose config` writes them into one"),
        moot("networks", "see `networks` of a service"),
        moot("volumes", "see `volumes` of a service"),
        moot("secrets", "see `secrets` of a service"),
        moot("configs", "see `configs` of a service"),
        lost("models", Empty, "no service runs a model"),
    ],
};

pub const SERVICE: Part = Part {
    title: "A service",
    keys: &[
        moot("annotations", "nothing reads them"),
        moot("attach", "the output of each service is in its log"),
        nearly("build", program::build, BUILD),
        lost("blkio_config", Empty, BLOCK),
        kept("cap_add", limits::cap_add, "`security: {capabilities: {add: …}}`"),
        kept("cap_drop", limits::cap_drop, "`security: {capabilities: {drop: …}}`"),
        lost("cgroup", Words(&["private"]), "the container has a cgroup namespace of its own"),
        lost("cgroup_parent", Empty, "its cgroup is `kelson/NAME`"),
        kept(
            "command",
            program::command,
            "`container: {arguments: …}`; with `entrypoint` a part of `command`",
        ),
        kept("configs", storage::configs, "a file of the host, bound to its place"),
        nearly("container_name", program::container_name, "the name of the service counts"),
        lost("cpu_count", Empty, "write `cpus`"),
        lost("cpu_percent", Empty, "write `cpus`"),
        nearly("cpu_shares", limits::cpu_shares, "`resources: {cpuWeight: …}`, a 1024th of it times 100"),
        lost("cpu_period", Empty, "write `cpus`"),
        lost("cpu_quota", Empty, "write `cpus`"),
        lost("cpu_rt_period", Empty, REAL_TIME),
        lost("cpu_rt_runtime", Empty, REAL_TIME),
        kept("cpus", limits::cpus, "`resources: {cpuMax: …}`"),
        nearly("cpuset", limits::cpuset, "`cpuAffinity`, with `runtime: kelson`"),
        lost("credential_spec", Empty, "of Windows"),
        kept("depends_on", order::depends_on, "`depends`, or `after` with `required: false`"),
        kept("deploy", |draft, value| DEPLOY.read(draft, value), "see below"),
        moot("develop", "of the development of an image"),
        lost("device_cgroup_rules", Empty, "name the devices in `devices`"),
        kept("devices", storage::devices, "`container: {devices: …}`"),
        lost("dns", Empty, RESOLVER),
        lost("dns_opt", Empty, RESOLVER),
        lost("dns_search", Empty, RESOLVER),
        lost("domainname", Empty, "the container has a host name and no domain"),
        lost("driver_opts", Empty, "no network has drivers"),
        kept("entrypoint", program::entrypoint, "`container: {command: …}`"),
        kept("env_file", program::env_file, "`environmentFiles`"),
        kept("environment", program::environment, "`environment`"),
        moot("expose", "containers reach all ports of each other"),
        lost("extends", Empty, "what the other service has; `docker compose config` writes it into this one"),
        lost(
            "external_links",
            Empty,
            "containers of `network: bridge` reach each other by the names of their services",
        ),
        lost("extra_hosts", Empty, "write the names into `/etc/hosts` of the host"),
        lost("gpus", Empty, "name the devices in `devices`"),
        lost("group_add", Empty, "the groups are those of the image's `/etc/group`"),
        kept("healthcheck", health::healthcheck, "`health`"),
        kept("hostname", program::hostname, "`container: {hostname: …}`"),
        kept("image", program::image, "`container: {image: …}`, with the registry that Docker adds"),
        lost(
            "init",
            No,
            "the program of the image is the first of its PID namespace, and reaps what it leaves behind",
        ),
        lost("ipc", Words(&["private", "shareable"]), "the container has an IPC namespace of its own"),
        lost("isolation", Words(&["default"]), "of Windows"),
        moot("label_file", "nothing reads labels"),
        moot("labels", "nothing reads them"),
        nearly("links", order::links, "`depends`; the other service has its own name alone"),
        kept("logging", |draft, value| LOGGING.read(draft, value), "see below"),
        lost("mac_address", Empty, "the kernel chooses one"),
        kept("mem_limit", limits::memory, "`resources: {memoryMax: …}`"),
        lost("mem_reservation", Empty, "no memory is kept for the service"),
        lost("mem_swappiness", Empty, SWAP),
        lost("memswap_limit", Words(&["-1"]), SWAP),
        lost("models", Empty, "no service runs a model"),
        kept("network_mode", network::mode, "`container: {network: …}`; not `service:` and `container:`"),
        kept("networks", network::networks, "`container: {network: bridge}`, where all reach each other"),
        lost("oom_kill_disable", No, "the kernel ends a process where memory is short"),
        kept("oom_score_adj", limits::oom_score, "`oomScoreAdjust`"),
        lost("pid", Empty, "the container has a PID namespace of its own"),
        kept("pids_limit", limits::pids, "`resources: {pidsMax: …}`"),
        moot("platform", "the image has the architecture of the host"),
        kept("ports", network::ports, "`container: {ports: …}`, each with a port of the host"),
        lost("post_start", Empty, "write `hooks: {postStart: …}`"),
        lost("pre_stop", Empty, "write `hooks: {preStop: …}`"),
        lost(
            "privileged",
            No,
            "the container has the usual capabilities and devices; write `security` and `devices`",
        ),
        nearly("profiles", order::profiles, "`start: manual`"),
        lost("provider", Empty, "no container is the service"),
        kept("pull_policy", program::pull_policy, "`container: {pull: …}`"),
        kept("read_only", limits::read_only, "`security: {readOnlyRoot: true}`"),
        kept("restart", order::restart, "`restart: {policy: …}`, with the pauses of Kelson"),
        lost("runtime", Empty, "runc or Kelson runs the container"),
        lost("scale", Words(&["1"]), "the service runs once"),
        kept("secrets", storage::secrets, "a file of the host, bound to `/run/secrets`"),
        kept("security_opt", limits::security_opt, "`security`"),
        kept("shm_size", storage::shm_size, "a tmpfs of this size at `/dev/shm`"),
        lost("stdin_open", No, "the program reads from `/dev/null`"),
        kept("stop_grace_period", order::stop_grace_period, "`stop: {timeout: …}`"),
        kept("stop_signal", order::stop_signal, "`stop: {signal: …}`"),
        lost("storage_opt", Empty, "the container may fill the disk of its layers"),
        lost("sysctls", Empty, "write `sysctl` in the machine file; it is for the host as a whole"),
        kept("tmpfs", storage::tmpfs, "`container: {mounts: [{source: tmpfs, …}]}`"),
        lost("tty", No, "the program has no terminal"),
        kept("ulimits", limits::ulimits, "`limits`"),
        lost("use_api_socket", No, "no API of Docker is there"),
        kept("user", program::user, "`user`"),
        lost("userns_mode", Words(&["host"]), "write `container: {userNamespace: true}`"),
        lost("uts", Empty, "the container has a host name of its own"),
        kept("volumes", storage::volumes, "`container: {mounts: …}`; a named volume is a folder of the host"),
        lost("volumes_from", Empty, "name the volumes in `volumes`"),
        kept("working_dir", program::working_dir, "`container: {workingDirectory: …}`"),
    ],
};

pub const DEPLOY: Part = Part {
    title: "`deploy`",
    keys: &[
        moot("endpoint_mode", ONE_HOST),
        moot("labels", ONE_HOST),
        lost("mode", Words(&["replicated", "global"]), "the service runs on"),
        moot("placement", ONE_HOST),
        lost("replicas", Words(&["1"]), "the service runs once"),
        kept("resources", limits::deploy, "`resources`: its `limits`; nothing is reserved"),
        kept("restart_policy", |draft, value| order::KEYS.read(draft, value), "see below"),
        moot("rollback_config", ONE_HOST),
        moot("update_config", ONE_HOST),
    ],
};

pub const LOGGING: Part = Part {
    title: "`logging`",
    keys: &[
        lost("driver", Words(&["json-file", "local"]), "`logd` keeps the output"),
        kept(
            "options",
            program::log_options,
            "`logs: {maxSize: …, maxFiles: …}` of `max-size` and `max-file`",
        ),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_rows_or_one_that_says_nothing() {
        PARTS.iter().for_each(|part| crate::key::assert_sound(part.title, part.keys));
    }
}
