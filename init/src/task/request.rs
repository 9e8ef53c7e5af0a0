//! What can be asked of `kelson-task`, and how it is written as arguments.

use std::ffi::{CString, OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Mount a file system; a disk that has not come yet is waited for. An empty type: look what it is.
    Mount {
        source: String,
        target: PathBuf,
        fs_type: String,
        options: String,
        patience: Duration,
    },
    /// Which device a source names, and what file system is on it; a disk that has not come yet is waited for. The
    /// answer is the type (`ext4`, or `-` where it is not known), a space, and the path of the device.
    Identify {
        source: String,
        patience: Duration,
    },
    /// Change the options of a mount.
    Remount {
        target: PathBuf,
        options: String,
    },
    Unmount {
        target: PathBuf,
    },
    /// Make a folder in one that is there, with these permissions; one that is there already is left as it is.
    MakeFolder {
        path: PathBuf,
        mode: u32,
    },
    /// Check the ext4 file system on a device, if the program for it is there.
    Check {
        device: PathBuf,
    },
    /// Write out everything that waits to be written.
    Sync,
    /// Whether a path exists.
    Stat {
        path: PathBuf,
    },
    LoadModules {
        names: Vec<String>,
    },
    SwapOff {
        device: PathBuf,
    },
    /// Take the file away from a loop device.
    DetachLoop {
        device: PathBuf,
    },
    /// Stir a saved seed into the kernel's randomness and save a new one.
    LoadSeed {
        path: PathBuf,
    },
    SaveSeed {
        path: PathBuf,
    },
    /// Set these kernel parameters, in their order; one that fails does not keep the others.
    SetParameters {
        settings: Vec<(String, String)>,
    },
    /// Set the host name to this one, else to that of `/etc/hostname`.
    SetHostName {
        name: Option<String>,
    },
    /// Make sure that there is a machine id. Where the disk cannot be written, this file holds it for the run.
    SetMachineId {
        transient: PathBuf,
    },
    /// Set the clock from the hardware's.
    SetClock,
    SetUpLoopback,
    /// Set up an interface that exists, given by its name and number.
    SetUpInterface {
        name: String,
        index: u32,
        address: IpAddr,
        prefix: u8,
        gateway: Option<IpAddr>,
    },
    /// Write this file of name servers, and make `/etc/resolv.conf` lead to it.
    WriteResolver {
        resolver: PathBuf,
        servers: Vec<IpAddr>,
    },
    /// Make the mounts of the machine read-only in the mount namespaces of what runs in these cgroups.
    ReadOnly {
        cgroups: Vec<PathBuf>,
    },
}

/// The name under which it runs.
pub const PERSONALITY: &str = "kelson-task";

impl Request {
    /// The arguments, `argv[0]` first. `None` where a word holds a NUL.
    pub fn to_arguments(&self) -> Option<Vec<CString>> {
        let mut words: Vec<OsString> = vec![PERSONALITY.into(), self.verb().into()];
        match self {
            Request::Mount { source, target, fs_type, options, patience } => {
                let patience = patience.as_millis().to_string();
                words.extend([source.into(), target.into(), fs_type.into(), options.into(), patience.into()]);
            }
            Request::Identify { source, patience } => {
                words.extend([source.into(), patience.as_millis().to_string().into()]);
            }
            Request::Remount { target, options } => words.extend([target.into(), options.into()]),
            Request::Unmount { target: path }
            | Request::Check { device: path }
            | Request::Stat { path }
            | Request::SwapOff { device: path }
            | Request::DetachLoop { device: path }
            | Request::LoadSeed { path }
            | Request::SaveSeed { path } => words.push(path.into()),
            Request::MakeFolder { path, mode } => words.extend([path.into(), format!("{mode:o}").into()]),
            Request::Sync | Request::SetClock | Request::SetUpLoopback => {}
            Request::LoadModules { names } => words.extend(names.iter().map(OsString::from)),
            Request::SetParameters { settings } => {
                words.extend(settings.iter().flat_map(|(key, value)| [key.into(), value.into()]));
            }
            Request::SetHostName { name } => words.extend(name.iter().map(OsString::from)),
            Request::SetMachineId { transient } => words.push(transient.into()),
            Request::SetUpInterface { name, index, address, prefix, gateway } => {
                words.extend([name.into(), index.to_string().into(), format!("{address}/{prefix}").into()]);
                words.extend(gateway.map(|gateway| gateway.to_string().into()));
            }
            Request::WriteResolver { resolver, servers } => {
                words.push(resolver.into());
                words.extend(servers.iter().map(|server| server.to_string().into()));
            }
            Request::ReadOnly { cgroups } => words.extend(cgroups.iter().map(OsString::from)),
        }
        words.into_iter().map(|word| CString::new(word.into_vec()).ok()).collect()
    }

    /// Reads the arguments after `argv[0]`.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn from_arguments(words: &[OsString]) -> Result<Request, String> {
        let (verb, rest) = words.split_first().ok_or("nothing is asked for")?;
        let verb = verb.to_str().unwrap_or_default();
        let missing = || format!("\"{verb}\" needs more words after it");
        let text = |index: usize| rest.get(index).map(|word: &OsString| lossy(word)).ok_or_else(missing);
        let path = |index: usize| rest.get(index).map(PathBuf::from).ok_or_else(missing);
        let millis = |index: usize| -> Result<Duration, String> {
            Ok(Duration::from_millis(text(index)?.parse().map_err(|_| missing())?))
        };
        Ok(match verb {
            "mount" => Request::Mount {
                source: text(0)?,
                target: path(1)?,
                fs_type: text(2)?,
                options: text(3)?,
                patience: millis(4)?,
            },
            "identify" => Request::Identify { source: text(0)?, patience: millis(1)? },
            "remount" => Request::Remount { target: path(0)?, options: text(1)? },
            "umount" => Request::Unmount { target: path(0)? },
            "mkdir" => Request::MakeFolder {
                path: path(0)?,
                mode: u32::from_str_radix(&text(1)?, 8).map_err(|_| missing())?,
            },
            "fsck" => Request::Check { device: path(0)? },
            "sync" => Request::Sync,
            "stat" => Request::Stat { path: path(0)? },
            "modules" => Request::LoadModules { names: rest.iter().map(|word| lossy(word)).collect() },
            "swapoff" => Request::SwapOff { device: path(0)? },
            "detach-loop" => Request::DetachLoop { device: path(0)? },
            "load-seed" => Request::LoadSeed { path: path(0)? },
            "save-seed" => Request::SaveSeed { path: path(0)? },
            "sysctl" => Request::SetParameters {
                settings: rest
                    .chunks(2)
                    .map(|pair| match pair {
                        [key, value] => Ok((lossy(key), lossy(value))),
                        _ => Err(missing()),
                    })
                    .collect::<Result<_, _>>()?,
            },
            "hostname" => Request::SetHostName { name: rest.first().map(|word| lossy(word)) },
            "machine-id" => Request::SetMachineId { transient: path(0)? },
            "clock" => Request::SetClock,
            "loopback" => Request::SetUpLoopback,
            "interface" => {
                let index = text(1)?.parse().map_err(|_| missing())?;
                let address = text(2)?;
                let (address, prefix) = address.split_once('/').ok_or_else(missing)?;
                Request::SetUpInterface {
                    name: text(0)?,
                    index,
                    address: address.parse().map_err(|_| missing())?,
                    prefix: prefix.parse().map_err(|_| missing())?,
                    gateway: match rest.get(3) {
                        Some(word) => Some(lossy(word).parse().map_err(|_| missing())?),
                        None => None,
                    },
                }
            }
            "resolver" => Request::WriteResolver {
                resolver: path(0)?,
                servers: rest
                    .iter()
                    .skip(1)
                    .map(|word| lossy(word).parse().map_err(|_| missing()))
                    .collect::<Result<_, _>>()?,
            },
            "read-only" => Request::ReadOnly { cgroups: rest.iter().map(PathBuf::from).collect() },
            _ => return Err(format!("\"{verb}\" is not known")),
        })
    }

    /// The word of the request.
    pub fn verb(&self) -> &'static str {
        match self {
            Request::Mount { .. } => "mount",
            Request::Identify { .. } => "identify",
            Request::Remount { .. } => "remount",
            Request::Unmount { .. } => "umount",
            Request::MakeFolder { .. } => "mkdir",
            Request::Check { .. } => "fsck",
            Request::Sync => "sync",
            Request::Stat { .. } => "stat",
            Request::LoadModules { .. } => "modules",
            Request::SwapOff { .. } => "swapoff",
            Request::DetachLoop { .. } => "detach-loop",
            Request::LoadSeed { .. } => "load-seed",
            Request::SaveSeed { .. } => "save-seed",
            Request::SetParameters { .. } => "sysctl",
            Request::SetHostName { .. } => "hostname",
            Request::SetMachineId { .. } => "machine-id",
            Request::SetClock => "clock",
            Request::SetUpLoopback => "loopback",
            Request::SetUpInterface { .. } => "interface",
            Request::WriteResolver { .. } => "resolver",
            Request::ReadOnly { .. } => "read-only",
        }
    }
}

fn lossy(word: &OsStr) -> String {
    String::from_utf8_lossy(word.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_survives_its_arguments() {
        let path = PathBuf::from(OsString::from_vec(b"/a b/\xFF".to_vec()));
        for request in [
            Request::Mount {
                source: "LABEL=x y".to_owned(),
                target: path.clone(),
                fs_type: String::new(),
                options: "ro,noatime".to_owned(),
                patience: Duration::from_millis(1500),
            },
            Request::Identify { source: "LABEL=x y".to_owned(), patience: Duration::from_secs(10) },
            Request::Remount { target: path.clone(), options: "ro".to_owned() },
            Request::Unmount { target: path.clone() },
            Request::MakeFolder { path: path.clone(), mode: 0o700 },
            Request::Check { device: path.clone() },
            Request::Sync,
            Request::Stat { path: path.clone() },
            Request::LoadModules { names: vec!["a".to_owned(), "b".to_owned()] },
            Request::SwapOff { device: path.clone() },
            Request::DetachLoop { device: path.clone() },
            Request::LoadSeed { path: path.clone() },
            Request::SaveSeed { path: path.clone() },
            Request::SetParameters {
                settings: vec![("kernel.x".to_owned(), "1 2".to_owned()), ("y".to_owned(), String::new())],
            },
            Request::SetHostName { name: Some("edge-1".to_owned()) },
            Request::SetHostName { name: None },
            Request::SetMachineId { transient: path.clone() },
            Request::SetClock,
            Request::SetUpLoopback,
            Request::SetUpInterface {
                name: "eth0".to_owned(),
                index: 2,
                address: "fd00::5".parse().unwrap(),
                prefix: 64,
                gateway: Some("fd00::1".parse().unwrap()),
            },
            Request::SetUpInterface {
                name: "eth1".to_owned(),
                index: 3,
                address: "10.0.2.15".parse().unwrap(),
                prefix: 24,
                gateway: None,
            },
            Request::WriteResolver {
                resolver: path.clone(),
                servers: vec!["10.0.2.3".parse().unwrap(), "::1".parse().unwrap()],
            },
            Request::ReadOnly { cgroups: vec![path.clone(), path.clone()] },
        ] {
            let arguments = request.to_arguments().unwrap();
            assert_eq!(arguments[0].to_bytes(), PERSONALITY.as_bytes());
            let words: Vec<OsString> =
                arguments[1..].iter().map(|word| OsString::from_vec(word.to_bytes().to_vec())).collect();
            assert_eq!(Request::from_arguments(&words), Ok(request));
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let ask =
            |words: &[&str]| Request::from_arguments(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(ask(&[]).is_err());
        assert_eq!(ask(&["dance"]), Err("\"dance\" is not known".to_owned()));
        assert_eq!(ask(&["mount", "a"]), Err("\"mount\" needs more words after it".to_owned()));
        for words in [&["sysctl", "a"][..], &["interface", "eth0", "2", "10.0.0.1"], &["resolver", "/r", "x"]]
        {
            assert!(ask(words).is_err(), "{words:?}");
        }
    }
}
