//! What the kernel's command line says about modules: `MODULE.PARAMETER=VALUE`, as for what is built in, and
//! `modprobe.blacklist=MODULE,MODULE`. The kernel leaves both to the program that loads the modules.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};

use kelson_sys::command_line;

/// The word for modules that no device may load.
const BLACKLIST: &str = "modprobe.blacklist=";

/// The words of a command line that are about modules.
#[derive(Debug, Default)]
pub struct Parameters {
    /// Name of a module → its parameters, as `finit_module(2)` takes them.
    of: BTreeMap<String, CString>,
    blacklist: BTreeSet<String>,
}

impl Parameters {
    /// Those of the running kernel; none if its command line cannot be read.
    pub fn of_running_kernel() -> Parameters {
        Parameters::read(&std::fs::read_to_string(command_line::PATH).unwrap_or_default())
    }

    pub fn read(line: &str) -> Parameters {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        let mut blacklist = BTreeSet::new();
        for word in command_line::split(line) {
            if let Some(names) = word.strip_prefix(BLACKLIST) {
                blacklist.extend(names.split(',').map(canonical));
                continue;
            }
            let name = word.split('=').next().unwrap_or_default();
            let Some((module, parameter)) = name.split_once('.') else { continue };
            let value = word.get(name.len()..).unwrap_or_default();
            let text = texts.entry(canonical(module)).or_default();
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(parameter);
            // The kernel splits them as it splits its command line.
            match value.strip_prefix('=').filter(|value| value.contains(char::is_whitespace)) {
                Some(value) => text.extend(["=\"", value, "\""]),
                None => text.push_str(value),
            }
        }
        let of = texts.into_iter().filter_map(|(module, text)| Some((module, CString::new(text).ok()?)));
        Parameters { of: of.collect(), blacklist }
    }

    /// The parameters of a module by its name in [`canonical`] form.
    pub fn of(&self, module: &str) -> &CStr {
        self.of.get(module).map_or(c"", CString::as_c_str)
    }

    /// True if no device may load this module, by its name in [`canonical`] form.
    pub fn are_against(&self, module: &str) -> bool {
        self.blacklist.contains(module)
    }
}

/// The name of a module in one form: dash and underscore are one to modprobe.
pub fn canonical(name: &str) -> String {
    name.trim().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_gets_its_words_of_the_command_line() {
        let line = "ro console=ttyS0 watchdog.stop_on_reboot=0 snd-hda-intel.model=\"a b\" snd_hda_intel.single_cmd \
                    root=/dev/a.b kelson.disk=/dev/vda";
        let parameters = Parameters::read(line);
        assert_eq!(parameters.of("watchdog"), c"stop_on_reboot=0");
        assert_eq!(parameters.of("snd_hda_intel"), c"model=\"a b\" single_cmd");
        assert_eq!(parameters.of("root"), c"");
        assert_eq!(parameters.of("overlay"), c"");
    }

    #[test]
    fn a_blacklist_names_modules() {
        let parameters = Parameters::read("modprobe.blacklist=nouveau,i2c-piix4 modprobe.blacklist=floppy");
        assert!(parameters.are_against("nouveau") && parameters.are_against("i2c_piix4"));
        assert!(parameters.are_against("floppy") && !parameters.are_against("overlay"));
        assert_eq!(parameters.of("modprobe"), c"");
    }
}
