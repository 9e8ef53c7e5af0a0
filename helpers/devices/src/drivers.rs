//! The modules that drive a device, found by the alias that the kernel gives the device (`modalias` in sysfs).

use std::collections::BTreeMap;
use std::path::Path;

use kelson_sys::fnmatch::matches;
use nix::errno::Errno;

use crate::modules::{Loaded, ModuleError, Modules, folder, optional};
use crate::parameters::{Parameters, canonical};

/// Which modules drive which devices.
#[derive(Debug, Default)]
pub struct Drivers {
    modules: Modules,
    /// By the part of an alias before its first wildcard or `:`, which is the name of a bus: the pattern of the device's own
    /// alias and the name of the module.
    patterns: BTreeMap<String, Vec<(String, String)>>,
}

impl Drivers {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// As [`Modules::of_running_kernel`].
    pub fn of_running_kernel() -> Result<Drivers, ModuleError> {
        Drivers::in_folder(&folder()?, Parameters::of_running_kernel())
    }

    /// # Errors
    /// As [`Modules::in_folder`].
    pub fn in_folder(folder: &Path, parameters: Parameters) -> Result<Drivers, ModuleError> {
        let patterns = parse_patterns(&optional(folder, "modules.alias"));
        Ok(Drivers { modules: Modules::in_folder(folder, parameters)?, patterns })
    }

    /// The names of the modules that drive the device of this alias (its `modalias` in sysfs), in the order of the file.
    pub fn names<'a>(&'a self, alias: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let alias = canonical_alias(alias);
        let bus = bus_of(&alias).to_owned();
        // A pattern may have a wildcard within the name of the bus: `acpi*:PNP0C0C:*`.
        let within = (0..=bus.len()).filter_map(move |end| bus.get(..end).map(str::to_owned));
        let patterns = within.filter_map(|bus| self.patterns.get(&bus)).flatten();
        patterns.filter(move |(pattern, _)| matches(pattern, &alias)).map(|(_, module)| module.as_str())
    }

    /// Loads the modules that drive the device of this alias, and names each that is new. That a driver finds no device of its
    /// own is no fault: several may answer to one alias. One on the blacklist of the command line is left out.
    pub fn load(&self, alias: &str, loaded: &mut Vec<String>) -> Vec<ModuleError> {
        let mut errors = Vec::new();
        for name in self.names(alias).filter(|name| !self.modules.parameters.are_against(name)) {
            match self.modules.load(name) {
                Ok(Loaded::New) => loaded.push(name.to_owned()),
                Ok(_) | Err(ModuleError::Refused { errno: Errno::ENODEV, .. }) => {}
                Err(error) => errors.push(error),
            }
        }
        errors
    }
}

/// `alias virtio:d00000002v* virtio_blk`: those that name the alias of a device, by their bus.
fn parse_patterns(text: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut patterns: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["alias", alias, name] = words.as_slice()
            && alias.contains(':')
        {
            let alias = canonical_alias(alias);
            let bus = bus_of(&alias).to_owned();
            patterns.entry(bus).or_default().push((alias, canonical(name)));
        }
    }
    patterns
}

/// The part of an alias or of a pattern of one before which nothing varies.
fn bus_of(alias: &str) -> &str {
    alias.split([':', '*', '?', '[']).next().unwrap_or_default()
}

/// As [`canonical`], but in a set of characters a dash is a range.
fn canonical_alias(alias: &str) -> String {
    let mut within = false;
    let one = |letter: char| {
        match letter {
            '[' => within = true,
            ']' => within = false,
            _ => {}
        }
        if letter == '-' && !within { '_' } else { letter }
    };
    alias.trim().chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_names_its_drivers() {
        let text = "# Aliases extracted from modules themselves.\n\
                    alias virtio:d00000004v* virtio_rng\n\
                    alias virtio:d00000002v* virtio-blk\n\
                    alias acpi*:PNP0C0C:* button\n\
                    alias acpi*:PNP0C0E:* button\n\
                    alias usb:v0403p600[1-5]d*dc* ftdi_sio\n\
                    alias of:N*T*Cacme,sun-4iC* sun\n\
                    alias fs-ext4 ext4\n";
        let drivers = Drivers { patterns: parse_patterns(text), ..Drivers::default() };
        let names = |alias: &str| drivers.names(alias).collect::<Vec<_>>().join(" ");
        assert_eq!(names("virtio:d00000002v00001AF4"), "virtio_blk");
        assert_eq!(names("acpi:PNP0C0C:"), "button");
        assert_eq!(names("usb:v0403p6004d0600dc00"), "ftdi_sio");
        assert_eq!(names("usb:v0403p6006d0600dc00"), "");
        assert_eq!(names("of:NuartT(null)Cacme,sun-4iCacme"), "sun");
        assert_eq!(names("fs-ext4"), "");
        assert_eq!(names("\u{e9}"), "");
    }
}
