//! The corpus and all that was ever found, through the targets in an ordinary build.

mod replay;

use kelson_fuzz_targets::TARGETS;
use replay::replay;

macro_rules! replayed {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            let mut replayed = vec![$(stringify!($name)),*, "ctl_responses"];
            replayed.sort_unstable();
            assert_eq!(replayed, names);
        }
    };
}

replayed! {
    api_requests archive archive_documents calendar catalog certificate cgroup_files compose_file configuration dhcp6_messages dhcp_packets
    dns_answer inspect_files
    inspect_frames kernel_line kernel_log layer load_wire log_files logd_packets machine_file machine_words metadata_answer
    metrics_text minisign mountinfo netlink notify
    partition_table path_frames probe_frames registry_documents registry_words router_options sealed_secret seed serial_page service_file signatures smbios spawns state_files state_records superblock talos_files task_answer
    task_words uevent unit_file
    unpack_reports
}
