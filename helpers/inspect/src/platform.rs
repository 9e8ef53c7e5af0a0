//! The machine that the host runs on: hardware, a hypervisor, a cloud. None is named without proof.
//!
//! A cloud is one whose name is in the tables of the firmware, and whose metadata answers too: anybody may write a name.

use std::net::SocketAddr;
use std::time::Duration;

use kelson_proto::v1::Fact;
use kelson_sources::metadata::ask;

use crate::system::{System, bytes, line};

/// The folder of the strings of the firmware (SMBIOS), with this name in sys.
const DMI: &str = "class/dmi/id";
/// How long the metadata of a cloud may take.
const ANSWER: Duration = Duration::from_secs(1);
/// The value of `virtualization` where there is none.
const NO_HYPERVISOR: &str = "no";
/// The header of a question that needs none.
const ANYTHING: &str = "Accept: */*";

/// A cloud, and what proves it.
struct Cloud {
    name: &'static str,
    /// A file of the firmware's strings, and what it says.
    file: &'static str,
    text: &'static str,
    /// What is asked: a path of its metadata that each machine has.
    method: &'static str,
    path: &'static str,
    /// A line of the header.
    header: &'static str,
}

/// As their documentation of metadata and systemd's `detect-virt.c` have them.
const CLOUDS: [Cloud; 9] = [
    Cloud {
        name: "aws",
        file: "sys_vendor",
        text: "Amazon EC2",
        method: "PUT",
        path: "/latest/api/token",
        header: "X-aws-ec2-metadata-token-ttl-seconds: 60",
    },
    Cloud {
        name: "gcp",
        file: "product_name",
        text: "Google Compute Engine",
        method: "GET",
        path: "/computeMetadata/v1/instance/id",
        header: "Metadata-Flavor: Google",
    },
    Cloud {
        name: "azure",
        file: "chassis_asset_tag",
        text: "7783-7084-3265-9085-8269-3286-77",
        method: "GET",
        path: "/metadata/instance?api-version=2021-02-01",
        header: "Metadata: true",
    },
    Cloud {
        name: "oracle",
        file: "chassis_asset_tag",
        text: "OracleCloud.com",
        method: "GET",
        path: "/opc/v2/instance/id",
        header: "Authorization: Bearer Oracle",
    },
    Cloud {
        name: "hetzner",
        file: "sys_vendor",
        text: "Hetzner",
        method: "GET",
        path: "/hetzner/v1/metadata/instance-id",
        header: ANYTHING,
    },
    Cloud {
        name: "digitalocean",
        file: "sys_vendor",
        text: "DigitalOcean",
        method: "GET",
        path: "/metadata/v1/id",
        header: ANYTHING,
    },
    Cloud {
        name: "vultr",
        file: "sys_vendor",
        text: "Vultr",
        method: "GET",
        path: "/v1/instanceid",
        header: ANYTHING,
    },
    Cloud {
        name: "alibaba",
        file: "sys_vendor",
        text: "Alibaba Cloud",
        method: "GET",
        path: "/latest/meta-data/instance-id",
        header: ANYTHING,
    },
    Cloud {
        name: "openstack",
        file: "product_name",
        text: "OpenStack",
        method: "GET",
        path: "/openstack/latest/meta_data.json",
        header: ANYTHING,
    },
];

/// What a hypervisor says of itself by the instruction CPUID, and its name.
const HYPERVISORS: [(&[u8; 12], &str); 8] = [
    (b"KVMKVMKVM\0\0\0", "kvm"),
    (b"TCGTCGTCGTCG", "qemu"),
    (b"VMwareVMware", "vmware"),
    (b"Microsoft Hv", "hyperv"),
    (b"XenVMMXenVMM", "xen"),
    (b"VBoxVBoxVBox", "virtualbox"),
    (b"bhyve bhyve ", "bhyve"),
    (b"ACRNACRNACRN", "acrn"),
];

/// What makers leave in the firmware instead of a name.
const UNSET: [&str; 4] = ["to be filled by o.e.m.", "default string", "not specified", "none"];

/// A string of the firmware; empty: nobody has written it.
fn dmi(system: &System, file: &str) -> String {
    let text = line(&system.sys.join(DMI).join(file));
    if UNSET.contains(&text.to_ascii_lowercase().as_str()) { String::new() } else { text }
}

/// `hardware.*`, `firmware.*`, `virtualization` and `platform`. An empty value is none.
pub fn read(system: &System) -> Vec<Fact> {
    let strings = [
        ("hardware.vendor", "sys_vendor"),
        ("hardware.product", "product_name"),
        ("firmware.vendor", "bios_vendor"),
        ("firmware.version", "bios_version"),
    ];
    let fact = |name: &str, value, source| Fact { name: name.to_owned(), value, source };
    let strings = strings.map(|(name, file)| fact(name, dmi(system, file), format!("/sys/{DMI}/{file}")));
    let virtualization = virtualization(system);
    let is_hardware = virtualization.as_ref().is_some_and(|(value, _)| value == NO_HYPERVISOR);
    let named = |name: &'static str| move |(value, source)| fact(name, value, source);
    let platform = platform(system, is_hardware).map(named("platform"));
    strings.into_iter().chain(virtualization.map(named("virtualization"))).chain(platform).collect()
}

/// What the host runs on, and what says so.
fn platform(system: &System, is_hardware: bool) -> Option<(String, String)> {
    // Firecracker's own tables of ACPI have this author; the strings of the firmware are not there.
    let table = "firmware/acpi/tables/FACP";
    if bytes(&system.sys.join(table)).unwrap_or_default().get(10..16) == Some(b"FIRECK") {
        return Some(("firecracker".to_owned(), format!("/sys/{table}")));
    }
    if let Some(cloud) = CLOUDS.iter().find(|cloud| dmi(system, cloud.file).starts_with(cloud.text)) {
        let source = format!("/sys/{DMI}/{}, http://{}", cloud.file, system.metadata.ip());
        return answers(cloud, system.metadata).then(|| (cloud.name.to_owned(), source));
    }
    if dmi(system, "sys_vendor") == "QEMU" {
        return Some(("qemu".to_owned(), format!("/sys/{DMI}/sys_vendor")));
    }
    is_hardware.then(|| ("metal".to_owned(), format!("/proc/cpuinfo, /sys/{DMI}/sys_vendor")))
}

/// The hypervisor, or that there is none: the processor says so, and somebody says that they made the machine.
fn virtualization(system: &System) -> Option<(String, String)> {
    if let Some(signature) = system.hypervisor {
        let (_, name) = HYPERVISORS.iter().find(|(known, _)| **known == signature)?;
        return Some(((*name).to_owned(), "CPUID".to_owned()));
    }
    let file = "hypervisor/type";
    let kind = line(&system.sys.join(file));
    if !kind.is_empty() {
        return Some((kind, format!("/sys/{file}")));
    }
    let info = system.proc("cpuinfo").unwrap_or_default();
    let (_, flags) = info.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'))?;
    let has_none = !flags.split_whitespace().any(|flag| flag == "hypervisor");
    let is_made = !dmi(system, "sys_vendor").is_empty();
    (has_none && is_made).then(|| (NO_HYPERVISOR.to_owned(), "/proc/cpuinfo".to_owned()))
}

/// Whether the metadata of a cloud answers with something.
fn answers(cloud: &Cloud, metadata: SocketAddr) -> bool {
    let answer = ask(metadata, cloud.method, cloud.path, cloud.header, ANSWER);
    answer.is_ok_and(|body| body.is_some_and(|body| !body.trim_ascii().is_empty()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::system::testing::Played;

    fn facts(system: &System) -> (Option<String>, Option<String>) {
        let facts = read(system);
        let value = |name: &str| facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
        (value("virtualization"), value("platform"))
    }

    fn some(virtualization: &str, platform: &str) -> (Option<String>, Option<String>) {
        let value = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (value(virtualization), value(platform))
    }

    /// Metadata that answers each question so; what it was asked comes from the thread.
    fn metadata(answer: &'static str) -> (SocketAddr, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        (address, thread)
    }

    #[test]
    fn a_cloud_is_one_whose_metadata_answers() {
        let mut played = Played::new(&[("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")]);
        played.system.hypervisor = Some(*b"KVMKVMKVM\0\0\0");
        // Nobody listens.
        assert_eq!(facts(&played.system), some("kvm", ""));
        for (answer, platform) in [
            ("HTTP/1.0 200 OK\r\n\r\ntoken", "aws"),
            ("HTTP/1.0 200 OK\r\n\r\n\n", ""),
            ("HTTP/1.0 404 Not Found\r\n\r\nno", ""),
            ("token", ""),
            ("", ""),
        ] {
            let (address, thread) = metadata(answer);
            played.system.metadata = address;
            assert_eq!(facts(&played.system), some("kvm", platform), "{answer:?}");
            let asked = thread.join().unwrap();
            assert!(asked.starts_with("PUT /latest/api/token HTTP/1.1\r\n"), "{asked:?}");
            assert!(asked.contains("\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n"), "{asked:?}");
        }
    }

    #[test]
    fn no_platform_is_guessed() {
        let hardware = ("sys/class/dmi/id/sys_vendor", "Maker\n");
        let unset = ("sys/class/dmi/id/sys_vendor", "To Be Filled By O.E.M.\n");
        let flags = |flags: &'static str| ("proc/cpuinfo", flags);
        let qemu = ("sys/class/dmi/id/sys_vendor", "QEMU\n");
        let acpi = ("sys/firmware/acpi/tables/FACP", "FACP\0\0\0\0\0\0FIRECKtable");
        for (files, hypervisor, expected) in [
            (vec![], None, some("", "")),
            (vec![hardware, flags("flags\t: fpu vme\n")], None, some("no", "metal")),
            (vec![unset, flags("flags\t: fpu vme\n")], None, some("", "")),
            // A processor that says nothing, and a machine that nobody says to have made.
            (vec![hardware], None, some("", "")),
            (vec![flags("flags\t: fpu\n")], None, some("", "")),
            (vec![hardware, flags("flags\t: fpu hypervisor\n")], None, some("", "")),
            (vec![hardware, flags("flags\t: fpu\n")], Some(*b"unknown one\0"), some("", "")),
            (vec![qemu], Some(*b"TCGTCGTCGTCG"), some("qemu", "qemu")),
            (vec![acpi], Some(*b"KVMKVMKVM\0\0\0"), some("kvm", "firecracker")),
            (vec![("sys/hypervisor/type", "xen\n")], None, some("xen", "")),
        ] {
            let mut played = Played::new(&files);
            played.system.hypervisor = hypervisor;
            assert_eq!(facts(&played.system), expected, "{files:?}");
        }
    }
}
