//! The command line of `kelson-unpack`, written and read in one place.

use std::ffi::OsString;
use std::path::PathBuf;

use kelson_spec::verify::{Demand, VerifyRule};

/// The request to one `kelson-unpack`, and its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    pub work: Work,
    pub places: UnpackerOptions,
}

/// Where images come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackerOptions {
    /// Folders of archives; the first that holds a reference counts.
    pub images: Vec<PathBuf>,
    pub containerd_socket: PathBuf,
    /// `/run/kelson`: locks are in `unpack/` below it.
    pub runtime_dir: PathBuf,
    /// The folder in which facts about archives are remembered between boots.
    pub state_dir: PathBuf,
    /// Which images may run.
    pub verify: Vec<VerifyRule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    Unpack {
        image: String,
        purpose: Purpose,
    },
    List,
    /// Which archives there are, without opening one.
    Look,
    Prune {
        /// References of the images that stay.
        keep: Vec<String>,
        dry_run: bool,
    },
}

/// What an image is unpacked for. `user`: `user[:group]` instead of the config's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// A container of containerd.
    Container { user: Option<String> },
    /// The container of this service, which PID 1 runs itself, without containerd. What its last container wrote goes.
    Native { user: Option<String>, service: String },
    /// A volume: its files alone, which may be those of an artifact.
    Volume,
}

/// The name by which the personality is called.
pub const NAME: &str = "kelson-unpack";

/// The descriptor to which it reports.
pub const REPORT_DESCRIPTOR: i32 = 3;

const USAGE: &str = "usage: kelson-unpack unpack|list|look|prune --containerd SOCKET --runtime-dir DIR --state-dir DIR \
                     [--images DIR]… [--verify PATTERN DEMAND KEY SIGNED-AS]… [--user USER] [--native SERVICE] [--volume] [--dry-run] \
                     [--] [IMAGE…]";

impl Arguments {
    /// The words behind `argv[0]`.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        words.push(
            match self.work {
                Work::Unpack { .. } => "unpack",
                Work::List => "list",
                Work::Look => "look",
                Work::Prune { .. } => "prune",
            }
            .into(),
        );
        let mut flag =
            |name: &str, value: &PathBuf| words.extend([name.into(), value.as_os_str().to_owned()]);
        let places = &self.places;
        flag("--containerd", &places.containerd_socket);
        flag("--runtime-dir", &places.runtime_dir);
        flag("--state-dir", &places.state_dir);
        for folder in &places.images {
            flag("--images", folder);
        }
        for VerifyRule { pattern, demand, signed_as } in &places.verify {
            let text = |text: &Option<String>| text.clone().unwrap_or_default().into();
            let key = demand.key().map(|key| key.as_os_str().to_owned()).unwrap_or_default();
            words.extend(["--verify".into(), text(pattern), demand.word().into(), key, text(signed_as)]);
        }
        match &self.work {
            Work::Unpack { image, purpose } => {
                let (user, service) = match purpose {
                    Purpose::Container { user } => (user.as_ref(), None),
                    Purpose::Native { user, service } => (user.as_ref(), Some(service)),
                    Purpose::Volume => {
                        words.push("--volume".into());
                        (None, None)
                    }
                };
                for (flag, value) in [("--user", user), ("--native", service)] {
                    if let Some(value) = value {
                        words.extend([flag.into(), value.into()]);
                    }
                }
                words.extend(["--".into(), image.into()]);
            }
            Work::List | Work::Look => {}
            Work::Prune { keep, dry_run } => {
                if *dry_run {
                    words.push("--dry-run".into());
                }
                words.push("--".into());
                words.extend(keep.iter().map(OsString::from));
            }
        }
        words
    }

    /// Reads what [`words`](Self::words) wrote; the error is a sentence with the usage.
    pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        Self::read(words).map_err(|error| format!("{error}; {USAGE}"))
    }

    fn read(mut words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let work = words.next().ok_or("nothing to do was named")?;
        let (mut images, mut socket, mut runtime_dir, mut state_dir) = (Vec::new(), None, None, None);
        let (mut user, mut native, mut names) = (None, None, Vec::new());
        let (mut is_volume, mut dry_run) = (false, false);
        let mut verify = Vec::new();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{} needs a value", word.display()));
            match word.to_str() {
                Some("--images") => images.push(PathBuf::from(value()?)),
                Some("--containerd") => socket = Some(PathBuf::from(value()?)),
                Some("--runtime-dir") => runtime_dir = Some(PathBuf::from(value()?)),
                Some("--state-dir") => state_dir = Some(PathBuf::from(value()?)),
                Some("--user") => user = Some(text(value()?)?),
                Some("--native") => native = Some(text(value()?)?),
                Some("--verify") => {
                    let given = |word| text(word).map(|text| Some(text).filter(|text| !text.is_empty()));
                    let (pattern, demand) = (given(value()?)?, text(value()?)?);
                    let demand =
                        Demand::of(&demand, value()?.into()).ok_or(format!("{demand} is no demand"))?;
                    verify.push(VerifyRule { pattern, demand, signed_as: given(value()?)? });
                }
                Some("--volume") => is_volume = true,
                Some("--dry-run") => dry_run = true,
                Some("--") => {
                    for name in words.by_ref() {
                        names.push(text(name)?);
                    }
                }
                Some(name) if !name.starts_with('-') => names.push(name.to_owned()),
                _ => return Err(format!("{} is not known", word.display())),
            }
        }
        let work = match work.to_str() {
            Some("unpack") => match names.as_slice() {
                [image] => {
                    let purpose = match native {
                        Some(service) => Purpose::Native { user, service },
                        None if is_volume => Purpose::Volume,
                        None => Purpose::Container { user },
                    };
                    Work::Unpack { image: image.clone(), purpose }
                }
                _ => return Err(format!("unpack takes one image, not {}", names.len())),
            },
            Some("list") => Work::List,
            Some("look") => Work::Look,
            Some("prune") => Work::Prune { keep: names, dry_run },
            _ => return Err(format!("{} is not known", work.display())),
        };
        let places = UnpackerOptions {
            images,
            containerd_socket: socket.ok_or("--containerd is missing")?,
            runtime_dir: runtime_dir.ok_or("--runtime-dir is missing")?,
            state_dir: state_dir.ok_or("--state-dir is missing")?,
            verify,
        };
        Ok(Self { work, places })
    }
}

fn text(word: OsString) -> Result<String, String> {
    word.into_string().map_err(|word| format!("{} is not UTF-8", word.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(work: Work) -> Arguments {
        let places = UnpackerOptions {
            images: vec!["/a".into(), "-b".into()],
            containerd_socket: "/run/c.sock".into(),
            runtime_dir: "/run/kelson".into(),
            state_dir: "/var/lib/kelson".into(),
            verify: vec![
                VerifyRule {
                    pattern: Some("registry.example/*".to_owned()),
                    demand: Demand::CosignKey("/etc/release.pem".into()),
                    signed_as: Some("-odd".to_owned()),
                },
                VerifyRule { pattern: None, demand: Demand::DigestOnly, signed_as: None },
            ],
        };
        Arguments { work, places }
    }

    #[test]
    fn what_is_written_is_read() {
        for work in [
            Work::Unpack { image: "-odd".to_owned(), purpose: Purpose::Container { user: None } },
            Work::Unpack {
                image: "demo/web:1".to_owned(),
                purpose: Purpose::Native { user: Some("www:web".to_owned()), service: "web".to_owned() },
            },
            Work::Unpack { image: "demo/assets:1".to_owned(), purpose: Purpose::Volume },
            Work::List,
            Work::Prune { keep: vec![], dry_run: false },
            Work::Prune { keep: vec!["a".to_owned(), "--dry-run".to_owned()], dry_run: true },
        ] {
            let arguments = arguments(work);
            assert_eq!(Arguments::parse(arguments.words().into_iter()), Ok(arguments));
        }
    }

    #[test]
    fn a_wrong_word_is_named_with_the_usage() {
        for (words, names) in [
            (vec![], "nothing"),
            (vec!["fly"], "fly"),
            (vec!["unpack", "--user"], "--user needs"),
            (vec!["list", "--what"], "--what"),
            (vec!["list", "--runtime-dir", "/r", "--state-dir", "/s"], "--containerd"),
            (vec!["unpack", "a", "b"], "one image"),
            (vec!["list", "--verify", "*", "trust", "", ""], "trust is no demand"),
            (vec!["list", "--verify", "*", "accept"], "--verify needs a value"),
        ] {
            let error = Arguments::parse(words.into_iter().map(OsString::from)).unwrap_err();
            assert!(error.contains(names) && error.contains("usage:"), "{error}");
        }
    }
}
