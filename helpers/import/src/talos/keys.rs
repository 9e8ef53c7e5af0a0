//! The tables of keys of Talos's documents.

use super::draft::{self, Part};
use super::{bounds, configuration, container, depends, extension, mounts};
use crate::key::{kept, moot, nearly};

/// Every part, in the order of the documents.
pub const PARTS: [Part; 19] = [
    EXTENSION,
    CONTAINER,
    mounts::KEYS,
    bounds::SECURITY,
    depends::KEYS,
    CONFIGURATION,
    configuration::FILE,
    CONTAINER_CONFIG,
    container::RUN_AS,
    mounts::OF_CONTAINER,
    mounts::VOLUME,
    mounts::MEMORY,
    mounts::HOST_PATH,
    bounds::OF_CONTAINER,
    bounds::CAPABILITIES,
    bounds::NETWORK,
    bounds::RESOURCES,
    bounds::LIMITS,
    depends::OF_CONTAINER,
];

pub const EXTENSION: Part = Part {
    title: "Extension service",
    keys: &[
        kept("name", draft::name, "`name`"),
        nearly(
            "container",
            |draft, value| CONTAINER.read(draft, value).and(extension::image(draft)),
            "`container: {image: NAME}`, of an image that you make; see below",
        ),
        kept("depends", depends::entries, "`depends`; see below"),
        kept("restart", extension::restart, "`restart: {policy: …}`, after 5 seconds as in Talos"),
        kept("logToConsole", extension::log_to_console, "`logs: {console: true}`"),
    ],
};

pub const CONTAINER: Part = Part {
    title: "Extension service: `container`",
    keys: &[
        kept("entrypoint", extension::entrypoint, "the first word of `container: {command: …}`"),
        kept("environment", draft::environment, "`environment`"),
        nearly(
            "environmentFile",
            extension::environment_file,
            "`environmentFiles`, which is read with the service file and not at each start",
        ),
        kept("args", extension::arguments, "the further words of `container: {command: …}`"),
        kept("mounts", mounts::entries, "`container: {mounts: …}`; see below"),
        kept("security", |draft, value| bounds::SECURITY.read(draft, value), "see below"),
    ],
};

pub const CONFIGURATION: Part = Part {
    title: "`ExtensionServiceConfig`",
    keys: &[
        moot("apiVersion", "the form of the document"),
        moot("kind", "the kind of the document"),
        moot("name", "the extension service whose file is given too"),
        nearly(
            "configFiles",
            configuration::config_files,
            "files of the host, which the container sees read-only; `--files DIR` writes them",
        ),
        kept("environment", draft::environment, "`environment`, over that of the service"),
    ],
};

pub const CONTAINER_CONFIG: Part = Part {
    title: "`ContainerConfig`",
    keys: &[
        moot("apiVersion", "the form of the document"),
        moot("kind", "the kind of the document"),
        kept("name", draft::name, "`name`"),
        kept("image", container::image, "`container: {image: …}`, with the registry that Talos adds"),
        kept("entrypoint", container::entrypoint, "`container: {command: …}`"),
        kept(
            "args",
            container::arguments,
            "`container: {arguments: …}`; with `entrypoint` a part of `command`",
        ),
        kept("workingDir", container::working_directory, "`container: {workingDirectory: …}`"),
        kept("runAs", |draft, value| container::RUN_AS.read(draft, value), "`user`; see below"),
        kept("environment", draft::environment, "`environment`"),
        kept("mounts", container::mounts, "`container: {mounts: …}`; see below"),
        kept("security", bounds::security, "see below"),
        kept("network", |draft, value| bounds::NETWORK.read(draft, value), "see below"),
        kept("resources", |draft, value| bounds::RESOURCES.read(draft, value), "see below"),
        kept("dependsOn", |draft, value| depends::OF_CONTAINER.read(draft, value), "`depends`; see below"),
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
