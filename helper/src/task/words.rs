//! The fields of requests as words of a command line.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::slice::Iter;
use std::time::Duration;

use kelson_spec::container_network::{ContainerNetworkSpec, Published};
use kelson_spec::network::{InterfaceSpec, Prefixed};
use kelson_spec::secrets::SecretUse;
use kelson_spec::service::{Directory, Share, SocketSpec, TerminalSpec, Volume};
use kelson_spec::sources::SourceKind;
use kelson_spec::templates::{OnChange, Template};

/// Permissions, written as they are usually read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Octal(pub u32);

/// One field of a request, as the words of a command line.
pub(super) trait Words: Sized {
    fn put(&self, words: &mut Vec<OsString>);
    /// `None`: words are missing, or say something else.
    fn take(words: &mut Iter<'_, OsString>) -> Option<Self>;
}

/// A field of one word.
trait Word: Sized {
    fn write(&self) -> OsString;
    fn read(word: &OsStr) -> Option<Self>;
}

impl<T: Word> Words for T {
    fn put(&self, words: &mut Vec<OsString>) {
        words.push(self.write());
    }

    fn take(words: &mut Iter<'_, OsString>) -> Option<T> {
        T::read(words.next()?)
    }
}

impl Words for (String, String) {
    fn put(&self, words: &mut Vec<OsString>) {
        words.extend([self.0.write(), self.1.write()]);
    }

    fn take(words: &mut Iter<'_, OsString>) -> Option<(String, String)> {
        Some((String::read(words.next()?)?, String::read(words.next()?)?))
    }
}

/// Stands at the end of a request.
impl<T: Words> Words for Option<T> {
    fn put(&self, words: &mut Vec<OsString>) {
        self.iter().for_each(|word| word.put(words));
    }

    fn take(words: &mut Iter<'_, OsString>) -> Option<Option<T>> {
        if words.len() == 0 { Some(None) } else { T::take(words).map(Some) }
    }
}

/// Stands at the end of a request.
impl<T: Words> Words for Vec<T> {
    fn put(&self, words: &mut Vec<OsString>) {
        self.iter().for_each(|word| word.put(words));
    }

    fn take(words: &mut Iter<'_, OsString>) -> Option<Vec<T>> {
        std::iter::from_fn(|| (words.len() > 0).then(|| T::take(words))).collect()
    }
}

impl Words for Template {
    fn put(&self, words: &mut Vec<OsString>) {
        let Template { source, target, mode, on_change } = self;
        words.extend([source.write(), target.write(), Octal(*mode).write(), on_change.name().into()]);
    }

    fn take(words: &mut Iter<'_, OsString>) -> Option<Template> {
        let (source, target) = (PathBuf::read(words.next()?)?, PathBuf::read(words.next()?)?);
        let Octal(mode) = Octal::read(words.next()?)?;
        let on_change = OnChange::of_name(words.next()?.to_str()?)?;
        Some(Template { source, target, mode, on_change })
    }
}

impl Words for ContainerNetworkSpec {
    fn put(&self, words: &mut Vec<OsString>) {
        words.extend([self.bridge.write(), self.subnet.write(), self.subnet6.write()]);
    }

    fn take(words: &mut Iter<'_, OsString>) -> Option<ContainerNetworkSpec> {
        let (bridge, subnet, subnet6) = (Words::take(words)?, Words::take(words)?, Words::take(words)?);
        Some(ContainerNetworkSpec { bridge, subnet, subnet6 })
    }
}

/// Makes fields of one word.
macro_rules! words {
    ($($kind:ty: $write:expr, $read:expr;)*) => {
        $(impl Word for $kind {
            fn write(&self) -> OsString {
                let write: fn(&$kind) -> String = $write;
                write(self).into()
            }

            fn read(word: &OsStr) -> Option<$kind> {
                let read: fn(&str) -> Option<$kind> = $read;
                read(&String::from_utf8_lossy(word.as_bytes()))
            }
        })*
    };
}

words! {
    String: String::clone, |text| Some(text.to_owned());
    u32: u32::to_string, |text| text.parse().ok();
    IpAddr: IpAddr::to_string, |text| text.parse().ok();
    // In milliseconds.
    Duration: |time| time.as_millis().to_string(), |text| text.parse().ok().map(Duration::from_millis);
    Octal: |mode| format!("{:o}", mode.0), |text| u32::from_str_radix(text, 8).ok().map(Octal);
    SocketAddr: SocketAddr::to_string, |text| text.parse().ok();
    SourceKind: |kind| kind.name().to_owned(), SourceKind::named;
    InterfaceSpec: InterfaceSpec::to_word, |text| InterfaceSpec::from_word(text);
    SecretUse: SecretUse::to_word, SecretUse::from_word;
    Directory: Directory::to_word, Directory::from_word;
    SocketSpec: SocketSpec::to_word, SocketSpec::from_word;
    TerminalSpec: TerminalSpec::to_word, TerminalSpec::from_word;
    Volume: Volume::to_word, Volume::from_word;
    Share: Share::to_word, Share::from_word;
    Prefixed: Prefixed::to_string, |text| text.parse().ok();
    Published: Published::to_string, |text| text.parse().ok();
}

impl Word for OsString {
    fn write(&self) -> OsString {
        self.clone()
    }

    fn read(word: &OsStr) -> Option<OsString> {
        Some(word.to_owned())
    }
}

impl Word for PathBuf {
    fn write(&self) -> OsString {
        self.into()
    }

    fn read(word: &OsStr) -> Option<PathBuf> {
        Some(word.into())
    }
}
