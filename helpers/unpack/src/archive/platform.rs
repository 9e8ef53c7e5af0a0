//! Which of an image's platforms this host can run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The platform that an image was built for, in the words of Go (`linux/arm64/v8`). The default is none: an artifact has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    /// Empty: the architecture's oldest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

impl Platform {
    pub fn new(os: &str, architecture: &str, variant: &str) -> Self {
        Self { os: os.to_owned(), architecture: architecture.to_owned(), variant: variant.to_owned() }
    }

    /// Whether there is one.
    pub fn is_some(&self) -> bool {
        !self.os.is_empty()
    }

    /// The host's own, with the newest variant that its processor runs.
    pub fn host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", amd64_variant()),
            "x86" => ("386", ""),
            "aarch64" => ("arm64", "v8"),
            "arm" => ("arm", if cfg!(target_feature = "v7") { "v7" } else { "v6" }),
            "powerpc64" if cfg!(target_endian = "little") => ("ppc64le", ""),
            "powerpc64" => ("ppc64", ""),
            "loongarch64" => ("loong64", ""),
            other => (other, ""),
        };
        Self::new("linux", architecture, variant)
    }

    /// How well an image for `image` suits this host: `None`, not at all; the greater, the better. An image for an
    /// older variant runs on a newer processor, never the other way round. An artifact suits each host.
    pub fn suits(&self, image: &Platform) -> Option<u32> {
        if !image.is_some() {
            return Some(0);
        }
        if self.os != image.os || self.architecture != image.architecture {
            return None;
        }
        if self.variant == image.variant {
            return Some(self.level().saturating_add(1));
        }
        let level = image.level();
        (level <= self.level() && (image.variant.is_empty() || level > 0)).then_some(level.saturating_add(1))
    }

    /// The number of the variant; an empty one is the architecture's usual.
    fn level(&self) -> u32 {
        match self.variant.strip_prefix('v') {
            Some(number) => number.parse().unwrap_or(0),
            None if !self.variant.is_empty() => 0,
            None => match self.architecture.as_str() {
                "arm64" => 8,
                "arm" => 7,
                "amd64" => 1,
                _ => 0,
            },
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_some() {
            return f.write_str("artifact");
        }
        write!(f, "{}/{}", self.os, self.architecture)?;
        match self.variant.as_str() {
            "" => Ok(()),
            variant => write!(f, "/{variant}"),
        }
    }
}

/// The levels of the x86-64 psABI, which images name as variants.
#[cfg(target_arch = "x86_64")]
fn amd64_variant() -> &'static str {
    use std::arch::is_x86_feature_detected as has;
    let second = has!("sse4.2") && has!("ssse3") && has!("popcnt") && has!("cmpxchg16b");
    let third = second
        && has!("avx2")
        && has!("bmi1")
        && has!("bmi2")
        && has!("f16c")
        && has!("fma")
        && has!("lzcnt")
        && has!("movbe");
    let fourth = third
        && has!("avx512f")
        && has!("avx512bw")
        && has!("avx512cd")
        && has!("avx512dq")
        && has!("avx512vl");
    match (second, third, fourth) {
        (_, _, true) => "v4",
        (_, true, _) => "v3",
        (true, _, _) => "v2",
        _ => "v1",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn amd64_variant() -> &'static str {
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_runs_its_own_and_older_variants() {
        let table = [
            // host, image, runs
            ("amd64", "v3", "amd64", "", true),
            ("amd64", "v3", "amd64", "v1", true),
            ("amd64", "v3", "amd64", "v3", true),
            ("amd64", "v3", "amd64", "v4", false),
            ("amd64", "", "amd64", "v2", false),
            ("amd64", "v3", "arm64", "", false),
            ("amd64", "v3", "amd64", "weird", false),
            ("arm64", "v8", "arm64", "", true),
            ("arm64", "v8", "arm64", "v8", true),
            ("arm64", "v8", "arm64", "v9", false),
            ("arm64", "v8", "arm", "v7", false),
            ("arm", "v7", "arm", "v5", true),
            ("arm", "v7", "arm", "v6", true),
            ("arm", "v6", "arm", "v7", false),
            ("riscv64", "", "riscv64", "", true),
        ];
        for (host, variant, architecture, image_variant, runs) in table {
            let host = Platform::new("linux", host, variant);
            let image = Platform::new("linux", architecture, image_variant);
            assert_eq!(host.suits(&image).is_some(), runs, "{image} on {host}");
        }
        assert_eq!(Platform::new("linux", "amd64", "").suits(&Platform::new("windows", "amd64", "")), None);
    }

    #[test]
    fn the_newest_variant_suits_best() {
        let host = Platform::new("linux", "amd64", "v3");
        let suits = |variant| host.suits(&Platform::new("linux", "amd64", variant));
        assert!(suits("v3") > suits("v2"));
        assert!(suits("v2") > suits(""));
        assert!(suits("") > host.suits(&Platform::default()), "an artifact is for all hosts");
    }

    #[test]
    fn the_host_runs_what_is_built_for_it_plainly() {
        let host = Platform::host();
        assert!(host.suits(&Platform::new("linux", &host.architecture, "")).is_some(), "{host}");
    }
}
