//! `registries` of the machine file.

use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::secrets::name;
use super::values::{map, path, size, word};
use crate::decode::quoted;
use kelson_spec::registries::{RegistriesSpec, is_registry};

const PATTERN: &str = r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?$";

/// How registries are reached, and how much room their images may take.
pub fn registries() -> Mapping<RegistriesSpec> {
    let proxy = word("`http://HOST:PORT`", "^http://[A-Za-z0-9.-]+:[0-9]+$", "http://proxy.example:3128")
        .parsed(
            |text: &String| {
                let host =
                    text.strip_prefix("http://").filter(|host| is_registry(host) && host.contains(':'));
                let wrong =
                    || format!("{} is not a proxy; write such as http://proxy.example:3128", quoted(text));
                host.map(str::to_owned).ok_or_else(wrong)
            },
            |host| format!("http://{host}"),
        );
    let mistake =
        |registry: &str, _: &[(String, Vec<String>)]| (!is_registry(registry)).then(|| wrong(registry));
    let mirrors = host().some("a list of hosts", "this list is empty; name a mirror, or remove the registry");
    let none = "give it a list of mirrors or remove it";
    keys! {
        Mapping::new("registries", RegistriesSpec::default);
        key "mirrors" mirrors = map(("registry", PATTERN, "registry.example"), none, mistake, mirrors),
            "hosts that are asked [before a registry](howto/registry.md#mirrors), in this order";
        means "ca" ca = path().optional(), "`/etc/ssl/certs/ca-certificates.crt`",
            "a PEM file of the CAs that the certificates of registries must lead to";
        means "proxy" proxy = proxy.optional(), "none", "an HTTP proxy through which all registries are asked";
        key "insecure" insecure = host().list("a list of registries"),
            "registries and mirrors that are asked by plain HTTP, without TLS";
        means "maxSize" max_size = size(1 << 20).optional(), "as much as the disk has",
            "how much room pulled images [may take](howto/registry.md#disk-use). Unused images are removed first";
        means "credentials" credentials = path().optional(), "none",
            "a file of [names and passwords](howto/registry.md#credentials), as `docker login` writes it";
        means "secret" secret if Secrets = name().optional(), "none",
            "the [secret](howto/secrets.md) that has such a file's content. What it knows of a registry goes before the file";
    }
    .strict()
}

fn host() -> Codec<String> {
    word("`HOST` or `HOST:PORT`", PATTERN, "registry.example:5000")
        .but(|text| (!is_registry(text)).then(|| wrong(text)))
}

fn wrong(text: &str) -> String {
    format!("{} is not a registry; write HOST or HOST:PORT, such as registry.example:5000", quoted(text))
}
