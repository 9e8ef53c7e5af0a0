//! `[Service]`: rlimits, and what systemd.resource-control(5) describes.

use crate::attributes::io_weight;
use crate::confinement::{cpu_quota, cpu_weight, delegate, limit, memory_high, memory_max, slice, tasks_max};
use crate::devices::device_access;
use crate::key::Neutral::{Empty, Words};
use crate::key::{Key, kept, lost, moot};

pub const LIMITS: [Key; 16] = [
    kept("LimitCPU", limit, "`limits: {cpu: …}`"),
    kept("LimitFSIZE", limit, "`limits: {fsize: …}`"),
    kept("LimitDATA", limit, "`limits: {data: …}`"),
    kept("LimitSTACK", limit, "`limits: {stack: …}`"),
    kept("LimitCORE", limit, "`limits: {core: …}`"),
    kept("LimitRSS", limit, "`limits: {rss: …}`"),
    kept("LimitNOFILE", limit, "`limits: {nofile: …}`"),
    kept("LimitAS", limit, "`limits: {as: …}`"),
    kept("LimitNPROC", limit, "`limits: {nproc: …}`"),
    kept("LimitMEMLOCK", limit, "`limits: {memlock: …}`"),
    kept("LimitLOCKS", limit, "`limits: {locks: …}`"),
    kept("LimitSIGPENDING", limit, "`limits: {sigpending: …}`"),
    kept("LimitMSGQUEUE", limit, "`limits: {msgqueue: …}`"),
    kept("LimitNICE", limit, "`limits: {nice: …}`"),
    kept("LimitRTPRIO", limit, "`limits: {rtprio: …}`"),
    kept("LimitRTTIME", limit, "`limits: {rttime: …}`"),
];

const ACCOUNTED: &str = "Kelson counts it for every service, as far as the kernel does";
const IO: &str = "the service reads and writes disks without a limit";
const CPUS: &str = "the service runs on every CPU";
const NODES: &str = "the service gets memory of every node";
const MEMORY: &str = "no memory is kept for the service";
const START: &str = "the service has the same share during the boot and after it";
const ADDRESSES: &str = "the service may talk to every address";
const OOMD: &str = "nothing but the kernel ends the service when memory runs out";

pub const RESOURCES: [Key; 53] = [
    kept("Slice", slice, "the one cgroup of all services"),
    kept("Delegate", delegate, "`delegate: true`"),
    lost("DisableControllers", Empty, "every controller can be used below the cgroup of the service"),
    moot("CPUAccounting", ACCOUNTED),
    kept("CPUWeight", cpu_weight, "`resources: {cpuWeight: …}`"),
    lost("StartupCPUWeight", Empty, START),
    lost("CPUShares", Empty, "a share of the old cgroups is no weight; write `resources: {cpuWeight: …}`"),
    lost("StartupCPUShares", Empty, START),
    kept("CPUQuota", cpu_quota, "`resources: {cpuMax: …}`"),
    lost("CPUQuotaPeriodSec", Words(&["100ms"]), "the share is counted within 100 ms"),
    lost("AllowedCPUs", Empty, CPUS),
    lost("StartupAllowedCPUs", Empty, CPUS),
    lost("AllowedMemoryNodes", Empty, NODES),
    lost("StartupAllowedMemoryNodes", Empty, NODES),
    moot("MemoryAccounting", ACCOUNTED),
    lost("MemoryMin", Words(&["0"]), MEMORY),
    lost("DefaultMemoryMin", Words(&["0"]), MEMORY),
    lost("MemoryLow", Words(&["0"]), MEMORY),
    lost("DefaultMemoryLow", Words(&["0"]), MEMORY),
    kept("MemoryHigh", memory_high, "`resources: {memoryHigh: …}`"),
    kept("MemoryMax", memory_max, "`resources: {memoryMax: …}`"),
    lost("MemorySwapMax", Words(&["infinity"]), "the service may use all of the swap"),
    moot("TasksAccounting", ACCOUNTED),
    kept("TasksMax", tasks_max, "`resources: {pidsMax: …}`"),
    moot("IOAccounting", ACCOUNTED),
    kept("IOWeight", io_weight, "`resources: {ioWeight: …}`"),
    lost("StartupIOWeight", Empty, START),
    lost("IODeviceWeight", Empty, "the service has the same share of each disk as the others"),
    lost("IOReadBandwidthMax", Empty, IO),
    lost("IOWriteBandwidthMax", Empty, IO),
    lost("IOReadIOPSMax", Empty, IO),
    lost("IOWriteIOPSMax", Empty, IO),
    lost("IODeviceLatencyTargetSec", Empty, IO),
    lost("BlockIOWeight", Empty, "the service has the same share of the disks as the others"),
    lost("StartupBlockIOWeight", Empty, START),
    lost("BlockIODeviceWeight", Empty, "the service has the same share of each disk as the others"),
    lost("BlockIOReadBandwidth", Empty, IO),
    lost("BlockIOWriteBandwidth", Empty, IO),
    moot("IPAccounting", "Kelson counts no packets, and shows none"),
    lost("IPAddressAllow", Words(&["any"]), ADDRESSES),
    lost("IPAddressDeny", Empty, ADDRESSES),
    lost("IPIngressFilterPath", Empty, ADDRESSES),
    lost("IPEgressFilterPath", Empty, ADDRESSES),
    lost("BPFProgram", Empty, "no program of the kernel is put in force for the service"),
    lost("SocketBindAllow", Words(&["any"]), "the service may listen on every port"),
    lost("SocketBindDeny", Empty, "the service may listen on every port"),
    lost("RestrictNetworkInterfaces", Empty, "the service may use every interface"),
    kept("DeviceAllow", device_access, "`security: {devices: {allow: […]}}`"),
    kept("DevicePolicy", device_access, "`security: {devices: {usual: …}}`"),
    lost("ManagedOOMSwap", Words(&["auto"]), OOMD),
    lost("ManagedOOMMemoryPressure", Words(&["auto"]), OOMD),
    lost("ManagedOOMMemoryPressureLimit", Words(&["0"]), OOMD),
    lost("ManagedOOMPreference", Words(&["none"]), OOMD),
];
