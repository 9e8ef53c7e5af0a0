//! The settings of a program in its image's config.

use kelson_image::Digest;
use serde::Deserialize;

use super::bounded::{List, parse};
use super::error::Trouble;
use super::platform::Platform;

/// The config, as far as Kelson asks it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    pub platform: Platform,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    /// `NAME=VALUE`.
    pub environment: Vec<String>,
    /// `user[:group]`, names or numbers; empty: root.
    pub user: String,
    /// Empty: `/`.
    pub working_directory: String,
    /// As it stands there: `SIGQUIT`, `QUIT` or `3`.
    pub stop_signal: Option<String>,
    /// Digests of the uncompressed layers, lowest first.
    pub diff_ids: Vec<Digest>,
}

/// As many layers as the kernel's overlayfs takes, and more than any tool makes.
pub(super) const MAX_LAYERS: usize = 500;
/// Words of a command line, variables of an environment.
const MAX_WORDS: usize = 4096;

#[derive(Deserialize)]
struct Written {
    os: Option<String>,
    architecture: Option<String>,
    variant: Option<String>,
    config: Option<Process>,
    rootfs: Option<RootFs>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Process {
    entrypoint: List<String, MAX_WORDS>,
    cmd: List<String, MAX_WORDS>,
    env: List<String, MAX_WORDS>,
    user: Option<String>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: List<Digest, MAX_LAYERS>,
}

impl Config {
    /// Whether it is the config of a manifest with this number of layers.
    pub fn fits(&self, manifest: Digest, layers: usize) -> Result<(), Trouble> {
        match self.diff_ids.len() {
            diff_ids if diff_ids == layers => Ok(()),
            diff_ids => Err(Trouble::Layers { manifest, layers, diff_ids }),
        }
    }

    /// The platform of its image: the one that its descriptor has written, or its own.
    pub fn platform_or(&self, written: Option<Platform>, file: &str) -> Result<Platform, Trouble> {
        let platform = written.unwrap_or_else(|| self.platform.clone());
        if platform.os.is_empty() || platform.architecture.is_empty() {
            let text = "it says no os and architecture".to_owned();
            return Err(Trouble::Json { file: file.to_owned(), text });
        }
        Ok(platform)
    }

    /// Reads the JSON of a config, which stands in `file`.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Trouble> {
        let written: Written = parse(file, bytes)?;
        let process = written.config.unwrap_or_default();
        Ok(Self {
            platform: Platform {
                os: written.os.unwrap_or_default(),
                architecture: written.architecture.unwrap_or_default(),
                variant: written.variant.unwrap_or_default(),
            },
            entrypoint: process.entrypoint.0,
            command: process.cmd.0,
            environment: process.env.0,
            user: process.user.unwrap_or_default(),
            working_directory: process.working_dir.unwrap_or_default(),
            stop_signal: process.stop_signal.filter(|signal| !signal.is_empty()),
            diff_ids: written.rootfs.map(|rootfs| rootfs.diff_ids.0).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_says_what_runs() {
        let digest = super::super::hasher::Hasher::of(b"layer");
        let text = format!(
            r#"{{"os":"linux","architecture":"arm64","variant":"v8","created":"x","config":{{"Entrypoint":["/a"],
            "Cmd":null,"Env":["A=1"],"User":"www:1","WorkingDir":"/srv","StopSignal":"SIGQUIT","Labels":{{"a":"b"}}}},
            "rootfs":{{"type":"layers","diff_ids":["{digest}"]}},"history":[{{}}]}}"#
        );
        let config = Config::parse("config", text.as_bytes()).unwrap();
        assert_eq!(config.platform, Platform::new("linux", "arm64", "v8"));
        assert_eq!((config.entrypoint, config.command), (vec!["/a".to_owned()], vec![]));
        assert_eq!((config.user.as_str(), config.working_directory.as_str()), ("www:1", "/srv"));
        assert_eq!(config.stop_signal.as_deref(), Some("SIGQUIT"));
        assert_eq!(config.diff_ids, [digest]);
    }

    #[test]
    fn a_config_may_say_nothing() {
        assert_eq!(Config::parse("config", b"{}").unwrap(), Config::default());
        let error = Config::parse("the config", br#"{"config":{"Env":7}}"#).unwrap_err().to_string();
        assert!(error.contains("the config") && error.contains("list"), "{error}");
    }
}
