//! The features of this build.

use kelson_spec::{Feature, Features};

/// The compiler leaves out what stands behind `if const { OWN.has(…) }` of a feature that is not here.
pub const OWN: Features = Features::NONE
    .and(Feature::Apid, cfg!(feature = "apid"))
    .and(Feature::Containerd, cfg!(feature = "containerd"))
    .and(Feature::Devices, cfg!(feature = "devices"))
    .and(Feature::Inspect, cfg!(feature = "inspect"))
    .and(Feature::Net, cfg!(feature = "net"))
    .and(Feature::Probes, cfg!(feature = "probes"))
    .and(Feature::Reflection, cfg!(feature = "reflection"))
    .and(Feature::Sources, cfg!(feature = "sources"))
    .and(Feature::Timesync, cfg!(feature = "timesync"));
