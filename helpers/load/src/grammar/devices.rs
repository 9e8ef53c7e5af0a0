//! `devices` of the machine file.

use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::values::{map, octal, some_text, word};
use crate::decode::{Decoder, quoted};
use crate::json::Json;
use crate::schema::{Kind, form};
use crate::tree::Node;
use kelson_spec::devices::{DeviceRule, DevicesSpec};

/// All bits of permissions: chmod(2).
const MODES: u32 = 0o7777;

/// What is done with devices.
pub fn devices() -> Mapping<DevicesSpec> {
    keys! {
        Mapping::new("devices", DevicesSpec::default);
        key "rules" rules = Mapping::codec(rule).list("a list of rules"),
            "owners, permissions and further names of nodes below `/dev`";
    }
}

fn rule() -> Mapping<DeviceRule> {
    let setting = ("attribute", "^[A-Za-z0-9_:.-]+(/[A-Za-z0-9_:.-]+)*$", "idVendor");
    keys! {
        Mapping::new("device-rule", DeviceRule::default);
        needed "subsystem" subsystem = pattern("tty"), "subsystem: tty",
            "the subsystem of the device in sysfs, as a pattern";
        means "name" name = pattern("ttyUSB*").optional(), "any",
            "the name of the node below `/dev`, as a pattern";
        key "attributes" attributes =
            map(setting, "give it one or remove it", |name, _| attribute_mistake(name), pattern("0403")),
            "attributes of the device in sysfs, or of a device above it that has one of this name, as patterns";
        means "owner" owner = account("user", "root", |d, node, text| {
                d.credentials(node, &format!("{text}:0")).map(|found| found.uid)
            }).optional(), "the kernel's, mostly `root`", "the user that owns the node";
        means "group" group = account("group", "root", |d, node, text| {
                d.credentials(node, &format!("0:{text}")).map(|found| found.gid)
            }).optional(), "the kernel's, mostly `root`", "the group of the node";
        means "mode" mode = octal("mode", MODES, "0660").optional(), "the kernel's, mostly `0600`", "the permissions of the node";
        means "link" link = link().optional(), "none",
            "the name of a link below `/dev` that leads to the node. Of several devices with the same link, \
             the first has it until it goes";
    }
    .strict()
}

/// A pattern as fnmatch(3) has it, without a space.
pub fn pattern(sample: &'static str) -> Codec<String> {
    word("pattern", r"^[^ ]+$", sample)
        .but(|text| text.contains(char::is_whitespace).then_some("a pattern has no space; write ? for one"))
}

fn account(
    name: &'static str,
    sample: &'static str,
    resolve: impl Fn(&mut Decoder<'_>, &Node, &str) -> Option<u32> + 'static,
) -> Codec<u32> {
    Codec::new(
        move || Kind::Form(form(name, "^[^:]+$", sample)),
        move |d, node| {
            let text = some_text().decode(d, node)?;
            resolve(d, node, &text)
        },
        |id, _| Json::Text(id.to_string()),
    )
}

fn link() -> Codec<String> {
    word("path below `/dev`", "^[A-Za-z0-9#+.:=@_-]+(/[A-Za-z0-9#+.:=@_-]+)*$", "serial/gps").but(|text| {
        (!is_path(text, "#+.:=@_-"))
            .then(|| format!("{} is not a name below /dev; write such as serial/gps", quoted(text)))
    })
}

fn attribute_mistake(name: &str) -> Option<String> {
    (!is_path(name, "_:.-"))
        .then(|| format!("{} is not the name of an attribute, such as idVendor", quoted(name)))
}

/// Whether it is a relative path of plain letters that leads to no folder above.
fn is_path(text: &str, others: &str) -> bool {
    text.split('/').all(|part| {
        !matches!(part, "" | "." | "..")
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || others.contains(letter))
    })
}
