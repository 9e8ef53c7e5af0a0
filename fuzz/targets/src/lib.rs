//! The fuzz targets: each feeds data to a part of Kelson that reads what others wrote, and checks its answer.
//!
//! A target is a function of bytes. It must end soon, take little memory, never panic, and find true what it asserts. The
//! same functions run under libFuzzer (`hack/fuzz`) and, over the corpus and all that was ever found, in `cargo test`.
//!
//! A target goes in by the door that PID 1 or the helper itself uses: bytes come from a file, a pipe or a socket wherever
//! they do in life. So nothing is opened to the public for its sake, and what stands around a parser is tried with it.

mod api;
mod archives;
mod calendar;
mod certificate;
mod cgroup;
mod compose;
mod configuration;
mod ctl;
mod dhcp;
mod dhcp6;
mod dns;
mod grpc;
mod input;
mod inspect;
mod kernel_log;
mod logd;
mod metrics;
mod mounts;
mod network;
mod notify;
mod paths;
mod place;
mod played;
mod probe;
mod registry;
mod routers;
mod secrets;
mod signatures;
mod sources;
mod spawns;
mod state;
mod superblock;
mod talos;
mod task;
mod time;
mod translated;
mod uevent;
mod units;
mod unpack;
mod words;

/// One target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Also of its folders of corpus and findings.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Longer inputs tell nothing new, in bytes.
    pub longest: usize,
    /// A file of `dictionaries/`, without its ending.
    pub dictionary: Option<&'static str>,
}

const fn target(
    name: &'static str,
    run: fn(&[u8]),
    longest: usize,
    dictionary: Option<&'static str>,
) -> Target {
    Target { name, run, longest, dictionary }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("api_requests", api::requests, 4096, Some("names")),
    target("archive", archives::archive, 16384, Some("tar")),
    target("archive_documents", archives::documents, 8192, Some("oci")),
    target("calendar", calendar::expression, 256, Some("calendar")),
    target("catalog", archives::catalog, 4096, Some("oci")),
    target("certificate", certificate::read, 2048, None),
    target("cgroup_files", cgroup::files, 2048, Some("cgroup")),
    target("compose_file", compose::file, 4096, Some("compose")),
    target("configuration", configuration::folder, 8192, Some("yaml")),
    target("ctl_responses", ctl::responses, 4096, Some("names")),
    target("dhcp6_messages", dhcp6::messages, 4096, None),
    target("dhcp_packets", dhcp::packets, 4096, None),
    target("dns_answer", dns::answer, 512, None),
    target("inspect_files", inspect::files, 8192, Some("proc")),
    target("inspect_frames", inspect::frames, 4096, None),
    target("kernel_line", words::kernel_line, 2048, Some("kernel")),
    target("kernel_log", kernel_log::one, 1024, None),
    target("layer", archives::layer, 16384, Some("tar")),
    target("load_wire", configuration::wire, 4096, None),
    target("log_files", logd::files, 8192, Some("log")),
    target("logd_packets", logd::packets, 2048, None),
    target("machine_file", configuration::machine_file, 4096, Some("yaml")),
    target("machine_words", sources::machine_words, 2048, Some("kernel")),
    target("metadata_answer", sources::answer, 1024, None),
    target("metrics_text", metrics::text, 4096, None),
    target("minisign", signatures::by_minisign, 1024, None),
    target("mountinfo", mounts::mountinfo, 8192, Some("mountinfo")),
    target("netlink", network::rtnetlink, 4096, None),
    target("notify", notify::datagram, 4096, Some("notify")),
    target("partition_table", superblock::table, 4096, None),
    target("path_frames", paths::frames, 1024, None),
    target("probe_frames", probe::frames, 4096, None),
    target("registry_documents", registry::documents, 4096, Some("oci")),
    target("registry_words", registry::words, 1024, None),
    target("router_options", routers::options, 2048, None),
    target("sealed_secret", secrets::sealed, 2048, None),
    target("seed", sources::seed, 4096, Some("yaml")),
    target("serial_page", superblock::serial_page, 512, None),
    target("service_file", configuration::service_file, 4096, Some("yaml")),
    target("signatures", signatures::by_cosign, 4096, Some("oci")),
    target("smbios", sources::tables, 4096, None),
    target("spawns", spawns::file, 5000, None),
    target("state_files", state::files, 8192, None),
    target("state_records", state::records, 4096, None),
    target("superblock", superblock::disk, 70000, None),
    target("talos_files", talos::files, 4096, Some("talos")),
    target("task_answer", task::answer, 1024, None),
    target("task_words", task::words, 1024, Some("task")),
    target("uevent", uevent::message, 4096, None),
    target("unit_file", units::file, 4096, Some("unit")),
    target("unpack_reports", unpack::reports, 4096, None),
];

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
