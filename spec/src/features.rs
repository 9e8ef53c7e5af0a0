//! The parts of Kelson that a build of `init` may leave out.

use std::fmt;

/// A part of Kelson that a build may leave out, with its helper process if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Calls from other machines: `kelson-apid`.
    Apid,
    /// Services from images: containerd's client and `kelson-unpack`.
    Containerd,
    /// Devices are followed: `kelson-devices`.
    Devices,
    /// Work on disks: checking, formatting, partitions, encryption, growth, swap, disks that come after the boot.
    Disks,
    /// The membership in a fleet, and what services register: `kelson-fleet`.
    Fleet,
    /// Looking at the machine over the API: `kelson-inspect`.
    Inspect,
    /// Reboots without the firmware.
    Kexec,
    /// More of a network than static addresses; interfaces after the boot: `kelson-net`.
    Net,
    /// Checks over the network: `kelson-probe`.
    Probes,
    /// Images from registries: `kelson-pull`.
    Pull,
    /// The reflection of the API, for clients that do not know it.
    Reflection,
    /// Secrets of services.
    Secrets,
    /// Configuration from outside the configuration folder.
    Sources,
    /// The clock is kept right by SNTP: `kelson-timesync`.
    Timesync,
    /// What units of systemd need and few small hosts do: reload, folders, attributes and a view of the file system.
    Units,
    /// Volumes of services.
    Volumes,
}

impl Feature {
    /// Sorted by name.
    pub const ALL: [Feature; 16] = [
        Feature::Apid,
        Feature::Containerd,
        Feature::Devices,
        Feature::Disks,
        Feature::Fleet,
        Feature::Inspect,
        Feature::Kexec,
        Feature::Net,
        Feature::Probes,
        Feature::Pull,
        Feature::Reflection,
        Feature::Secrets,
        Feature::Sources,
        Feature::Timesync,
        Feature::Units,
        Feature::Volumes,
    ];

    /// As cargo names it.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Apid => "apid",
            Feature::Containerd => "containerd",
            Feature::Devices => "devices",
            Feature::Disks => "disks",
            Feature::Fleet => "fleet",
            Feature::Inspect => "inspect",
            Feature::Kexec => "kexec",
            Feature::Net => "net",
            Feature::Probes => "probes",
            Feature::Pull => "pull",
            Feature::Reflection => "reflection",
            Feature::Secrets => "secrets",
            Feature::Sources => "sources",
            Feature::Timesync => "timesync",
            Feature::Units => "units",
            Feature::Volumes => "volumes",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// Something was asked for that only a build with this feature has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingFeature(pub Feature);

impl fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        write!(
            f,
            "this init was built without the feature {name}; use the full init, or build one with FEATURES={name}"
        )
    }
}

/// The features of this build: those of this crate, which a build of `init` chooses.
///
/// The compiler leaves out what stands behind `if const { OWN.has(…) }` of a feature that is not here.
pub const OWN: Features = Features::NONE
    .and(Feature::Apid, cfg!(feature = "apid"))
    .and(Feature::Containerd, cfg!(feature = "containerd"))
    .and(Feature::Devices, cfg!(feature = "devices"))
    .and(Feature::Disks, cfg!(feature = "disks"))
    .and(Feature::Fleet, cfg!(feature = "fleet"))
    .and(Feature::Inspect, cfg!(feature = "inspect"))
    .and(Feature::Kexec, cfg!(feature = "kexec"))
    .and(Feature::Net, cfg!(feature = "net"))
    .and(Feature::Probes, cfg!(feature = "probes"))
    .and(Feature::Pull, cfg!(feature = "pull"))
    .and(Feature::Reflection, cfg!(feature = "reflection"))
    .and(Feature::Secrets, cfg!(feature = "secrets"))
    .and(Feature::Sources, cfg!(feature = "sources"))
    .and(Feature::Timesync, cfg!(feature = "timesync"))
    .and(Feature::Units, cfg!(feature = "units"))
    .and(Feature::Volumes, cfg!(feature = "volumes"));

/// The features of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features(u16);

impl Features {
    pub const NONE: Features = Features(0);
    pub const ALL: Features = Features::NONE
        .and(Feature::Apid, true)
        .and(Feature::Containerd, true)
        .and(Feature::Devices, true)
        .and(Feature::Disks, true)
        .and(Feature::Fleet, true)
        .and(Feature::Inspect, true)
        .and(Feature::Kexec, true)
        .and(Feature::Net, true)
        .and(Feature::Probes, true)
        .and(Feature::Pull, true)
        .and(Feature::Reflection, true)
        .and(Feature::Secrets, true)
        .and(Feature::Sources, true)
        .and(Feature::Timesync, true)
        .and(Feature::Units, true)
        .and(Feature::Volumes, true);

    /// These, and `feature` if the build has it.
    #[must_use]
    pub const fn and(self, feature: Feature, has: bool) -> Features {
        Features(if has { self.0 | feature.bit() } else { self.0 })
    }

    pub const fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// # Errors
    /// The build does not have it.
    pub fn require(self, feature: Feature) -> Result<(), MissingFeature> {
        if self.has(feature) { Ok(()) } else { Err(MissingFeature(feature)) }
    }

    /// The names of those that the build has, sorted.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Feature::ALL.into_iter().filter(move |feature| self.has(*feature)).map(Feature::name)
    }

    /// The names of those that the build lacks, sorted.
    pub fn missing(self) -> impl Iterator<Item = &'static str> {
        Feature::ALL.into_iter().filter(move |feature| !self.has(*feature)).map(Feature::name)
    }
}

/// Those of the full build.
impl Default for Features {
    fn default() -> Features {
        Features::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_has_what_it_was_given() {
        let some =
            Features::NONE.and(Feature::Probes, true).and(Feature::Apid, true).and(Feature::Inspect, false);
        assert_eq!(some.names().collect::<Vec<_>>(), ["apid", "probes"]);
        assert_eq!(
            some.missing().collect::<Vec<_>>(),
            [
                "containerd",
                "devices",
                "disks",
                "fleet",
                "inspect",
                "kexec",
                "net",
                "pull",
                "reflection",
                "secrets",
                "sources",
                "timesync",
                "units",
                "volumes"
            ]
        );
        assert_eq!(some.require(Feature::Probes), Ok(()));
        let missing = some.require(Feature::Containerd).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "this init was built without the feature containerd; use the full init, or build one with FEATURES=containerd"
        );
        assert!(Feature::ALL.into_iter().all(|feature| Features::ALL.has(feature)));
        // As the tests of the workspace are built.
        #[cfg(feature = "full")]
        assert_eq!(OWN, Features::ALL);
        assert_eq!((Features::NONE.names().count(), Features::ALL.missing().count()), (0, 0));
    }
}
