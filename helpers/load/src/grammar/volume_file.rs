//! The file of a volume.

use std::collections::BTreeMap;

use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::secrets::name as secret_name;
use super::values::{any_word, map, name, own_name, text, too_many_bytes};
use crate::decode::Decoder;
use crate::tree::Node;
use kelson_spec::volume_file::{Opaque, VolumeFile};

/// The most bytes of a text, and of all entries of a list or of a map, of a request of the Container Storage Interface.
const LONGEST_TEXT: usize = 128;
const MOST_ENTRIES: usize = 4 << 10;

/// Decodes the tree of the file of the volume `stem`; `None` where it has a mistake.
pub fn volume(d: &mut Decoder<'_>, stem: &str, root: &Node) -> Option<VolumeFile> {
    let before = d.diagnostics.len();
    d.stem = stem.to_owned();
    let volume = volume_file().decode(d, root);
    volume.filter(|_| d.diagnostics.len() == before)
}

/// The whole file.
pub fn volume_file() -> Mapping<VolumeFile> {
    keys! {
        Mapping::new("volume-file", VolumeFile::default);
        means "name" name = own_name(), "the file's name",
            "the name of the volume: the name of the file without `.yaml`";
        needed "plugin" plugin = name(), "plugin: ID",
            "the `id` of the [plugin](service-file.md#provides) that has it";
        means "id" id = bounded("volume ID", "vol-17"), "the name of the volume",
            "the name by which the plugin knows it; at most 128 bytes";
        means "fsType" fs_type = bounded("file system", "ext4"), "the plugin decides",
            "the file system that the plugin finds there, or makes";
        key "mountFlags" mount_flags = mount_flags(),
            "the options with which the plugin mounts it; a service may replace them with those of its `usage`";
        key "context" context = context(),
            "texts for the plugin, such as the address of a server. Kelson shows them to nobody else";
        key "parameters" parameters = context(),
            "texts for the plugin when [`kelsonctl volumes create`](kelsonctl.md) has it make the volume";
        key "secrets" secrets if Secrets = secrets(),
            "the [secrets](howto/secrets.md) that the plugin gets with its calls, by the keys that it knows: \
             `{password: {secret: nfs-password}}`";
    }
    .check(|d, seen, volume| {
        volume.name.clone_from(&d.stem);
        if !seen.has("id") {
            volume.id.clone_from(&d.stem);
        }
    })
}

/// The options of a mount that a plugin makes.
pub fn mount_flags() -> Codec<Vec<String>> {
    any_word("mount option", "noatime").list("a list of mount options such as [noatime]").but(|flags| {
        let size = flags.iter().fold(0_usize, |sum, flag| sum.saturating_add(flag.len()));
        too_many_bytes(size, MOST_ENTRIES, "options")
    })
}

fn bounded(what: &'static str, sample: &'static str) -> Codec<String> {
    any_word(what, sample).but(move |text| {
        (text.len() > LONGEST_TEXT)
            .then(|| format!("this text has {} bytes; a {what} has at most {LONGEST_TEXT}", text.len()))
    })
}

/// No message has a part of it: it may be a password.
fn context() -> Codec<Opaque> {
    let entries = map(("key", r"[\s\S]", "server"), "write \"\" for an empty text", no_key, text());
    let opaque = entries.parsed(
        |entries| {
            let size = entries.iter().flat_map(|(key, value)| [key.len(), value.len()]);
            match too_many_bytes(size.fold(0, usize::saturating_add), MOST_ENTRIES, "texts") {
                Some(message) => Err(message),
                None => Ok(Opaque(entries.iter().cloned().collect::<BTreeMap<_, _>>())),
            }
        },
        |opaque| opaque.0.clone().into_iter().collect(),
    );
    opaque.around(|d, node, inner| match node.is_mapping() {
        true => inner(d, node),
        false => d.refuse(node, "a mapping of keys to texts belongs here"),
    })
}

/// `{KEY: {secret: NAME}}`. A value that was written in place of a name is part of no message.
fn secrets() -> Codec<BTreeMap<String, String>> {
    let secret = Mapping::codec(|| {
        keys! {
            Mapping::new("volume-secret", Named::default);
            needed "secret" secret = secret_name(), "secret: NAME",
                "the name of the secret, as `kelsonctl secret set` has it";
        }
    });
    let secret = secret.around(|d, node, inner| match node.is_mapping() {
        true => inner(d, node),
        false => {
            d.refuse(node, "write {secret: NAME}: a volume file has the names of secrets, and no values")
        }
    });
    let entries = map(("key", r"[\s\S]", "password"), "write {secret: NAME}", no_key, secret);
    entries.parsed(
        |entries| {
            let named = |(key, named): &(String, Named)| (key.clone(), named.secret.clone());
            Ok::<_, String>(entries.iter().map(named).collect())
        },
        |secrets: &BTreeMap<String, String>| {
            let named = |(key, secret): (&String, &String)| (key.clone(), Named { secret: secret.clone() });
            secrets.iter().map(named).collect()
        },
    )
}

#[derive(Debug, Clone, Default)]
struct Named {
    secret: String,
}

fn no_key<T>(key: &str, _: &[(String, T)]) -> Option<String> {
    key.is_empty().then(|| "this key is empty".to_owned())
}
