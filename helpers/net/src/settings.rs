//! The arguments of the process: `FOLDER`, and a word for each interface of the machine file.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use kelson_spec::network::InterfaceSpec;

/// What PID 1 says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Of the leases and of the file of name servers.
    pub folder: PathBuf,
    /// In the order of the machine file.
    pub interfaces: Vec<InterfaceSpec>,
}

impl Settings {
    /// `None`: PID 1 would not have written it.
    pub fn read(words: &[OsString]) -> Option<Settings> {
        let (folder, words) = words.split_first()?;
        let interfaces = words.iter().map(|word| InterfaceSpec::from_word(word.to_str()?));
        Some(Settings { folder: folder.into(), interfaces: interfaces.collect::<Option<_>>()? })
    }

    /// Whether the host takes the name that a server gives.
    pub fn takes_host_name(&self) -> bool {
        self.interfaces.iter().any(|spec| spec.dhcp.is_some_and(|dhcp| dhcp.host_name))
    }

    /// The name servers of the machine file.
    pub fn name_servers(&self) -> Vec<IpAddr> {
        self.interfaces.iter().flat_map(|spec| &spec.dns).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::choice::testing::named;

    #[test]
    fn words_become_settings() {
        let read = |words: &[&str]| Settings::read(&words.iter().map(OsString::from).collect::<Vec<_>>());
        let spec = InterfaceSpec { dns: vec!["1.1.1.1".parse().unwrap()], ..named("eth0") };
        let settings = read(&["/run/x", &spec.to_word(), &named("*").to_word()]).unwrap();
        assert_eq!(settings.folder, PathBuf::from("/run/x"));
        assert_eq!(settings.name_servers(), spec.dns);
        assert_eq!(settings.interfaces, [spec, named("*")]);
        assert_eq!(read(&["/run/x", "eth0"]), None);
        assert_eq!(read(&[]), None);
    }
}
