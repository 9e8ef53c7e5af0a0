//! For which host the files are read, and what of it is at hand.

use std::path::PathBuf;

use crate::grammar::DecodedMachine;
use crate::imported::{self, Importer};
use kelson_spec::features::{Feature, Features, OWN};
use kelson_spec::machine::MachineSpec;
use kelson_spec::names::CONTAINERD;

/// On what the host runs, as far as the meaning of the files depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Machine,
    Container,
}

impl Mode {
    /// Reads the word of the command line.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "machine" => Some(Mode::Machine),
            "container" => Some(Mode::Container),
            _ => None,
        }
    }

    /// The machine file of a host that has none.
    pub(crate) fn machine_defaults(self) -> DecodedMachine {
        let spec = match self {
            Mode::Machine => MachineSpec::default(),
            Mode::Container => MachineSpec::of_container(),
        };
        DecodedMachine { spec, ..DecodedMachine::default() }
    }
}

/// Where the files lie that specs refer to (`/etc/passwd`, `/etc/group`, environment files), and for whom they are read.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Stands before each absolute path; `/` on the host itself. `None`: those files are not at hand, and what depends on
    /// them is not checked.
    pub root: Option<PathBuf>,
    pub mode: Mode,
    pub containerd: Switch,
    /// Of the `init` that is to run what the files say.
    pub features: Features,
    /// The folder with a folder of each source that gave something ([`kelson_spec::sources`]). `None`: none is read.
    pub layers: Option<PathBuf>,
    /// Translates the files of other programs in a folder.
    pub importer: Importer,
}

/// By which `builtins.containerd.enabled` the service files are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Switch {
    /// The machine file's own.
    #[default]
    AsWritten,
    /// The one with which the host booted: a change of the machine file waits for the next boot.
    AsBooted(Option<bool>),
}

impl Switch {
    /// Reads the word of the command line.
    pub fn parse(word: &str) -> Option<Self> {
        let booted = match word {
            "on" => Some(true),
            "off" => Some(false),
            "unset" => None,
            _ => return None,
        };
        Some(Switch::AsBooted(booted))
    }

    pub(crate) fn enabled(self, machine: &MachineSpec) -> Option<bool> {
        match self {
            Switch::AsWritten => machine.is_enabled(CONTAINERD),
            Switch::AsBooted(enabled) => enabled,
        }
    }
}

impl Default for Sources {
    fn default() -> Self {
        Sources {
            root: Some(PathBuf::from("/")),
            mode: Mode::default(),
            containerd: Switch::default(),
            features: Features::default(),
            layers: None,
            // The program does not have what is behind it without the feature.
            importer: if const { OWN.has(Feature::Units) } {
                imported::by_client
            } else {
                |_| Err(String::new())
            },
        }
    }
}
