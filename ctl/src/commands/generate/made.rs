//! The common part of `gen ca`, `gen cert` and `gen config`: the signing CA, and the lines about the files.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use kelson_proto::access::Role;

use crate::call::Call;
use crate::failure::Failure;
use crate::output::{Page, escape, note, time, views};
use crate::pki::Pair;
use crate::store::{self, New, PRIVATE, PUBLIC};

/// Which CA signs.
#[derive(Debug, Clone, clap::Args)]
pub struct Signer {
    /// The CA: the folder of `gen ca`, or a certificate
    #[arg(long, value_name = "DIR|FILE")]
    pub ca: PathBuf,
    /// Its key [default: beside it, with the end .key]
    #[arg(long, value_name = "FILE")]
    pub ca_key: Option<PathBuf>,
}

/// Reads the role of a client.
pub fn role() -> impl TypedValueParser<Value = Role> {
    let named = |name: String| Role::named(name.as_bytes()).ok_or("no role");
    PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(named)
}

/// Makes the folder for files, where it is not there.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path)
        .map_err(|error| Failure::Failed(format!("cannot make the folder {}: {error}", path.display())))
}

/// The files that were made.
#[derive(Debug)]
pub struct Made {
    pub files: Vec<String>,
    pub common_name: String,
    /// None: it is no certificate of a client.
    pub role: Option<&'static str>,
    /// The names and addresses of a machine.
    pub hosts: Vec<String>,
    pub until: String,
    /// None: no file of contexts was written.
    pub context: Option<String>,
}

impl Made {
    /// A certificate with its key, in these files.
    pub fn new(pair: &Pair, files: &[PathBuf], common_name: String) -> Made {
        Made {
            files: files.iter().map(|path| path.display().to_string()).collect(),
            common_name,
            role: None,
            hosts: Vec::new(),
            until: time::rfc3339(&pair.until),
            context: None,
        }
    }
}

views! {
    Made: made { files, common_name, role, hosts, until, context }
}

/// Says what was made: a line a file, `lines` beside [`Made::files`].
pub fn tell(call: &Call, made: &Made, pair: &Pair, lines: &[String]) -> Result<(), Failure> {
    if pair.is_cut {
        note("the CA ends before the time that was asked for, and the certificate ends with it");
    }
    let line = |(file, what): (&String, &String)| format!("wrote {}: {}\n", escape(file), escape(what));
    call.show(made, || Page::Text(made.files.iter().zip(lines).map(line).collect()))
}

/// `until 2026-12-21T09:48:05.000Z`.
pub fn until(pair: &Pair) -> String {
    format!("until {}", time::rfc3339(&pair.until))
}

/// Writes a certificate with its key, under these names.
pub fn write(pair: &Pair, [certificate, key]: &[PathBuf; 2], force: bool) -> Result<(), Failure> {
    let key = New { path: key.clone(), text: pair.key.clone(), mode: PRIVATE };
    let certificate = New { path: certificate.clone(), text: pair.certificate.clone(), mode: PUBLIC };
    store::create(&[key, certificate], force)
}

/// A file in a folder, named as short as it can be.
pub fn within(folder: &Path, name: &str) -> PathBuf {
    if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) }
}
