//! `gen`: a CA, what it signs for people and machines, and files of contexts, without any other program.

mod ca;
mod cert;
mod config;

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use kelson_proto::access::Role;

use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::text::escape;
use crate::output::views::views;
use crate::output::{note, print, time};
use crate::pki::Pair;

/// Make a CA, certificates, and files of contexts
///
/// A machine that trusts the CA is reached with the certificates that it signs.
/// Nothing is revoked: certificates of clients are short-lived, and made anew.
/// Whoever has the CA's key can make an administrator: keep it off the machines.
#[derive(Debug, Clone, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kelsonctl gen ca --out pki
  kelsonctl gen cert --ca pki --server --host 192.0.2.7 --name edge-1
  kelsonctl gen cert --ca pki --role os:reader --name ann
  kelsonctl gen config --ca pki --endpoint 192.0.2.7:50000 --context edge-1"
)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum What {
    Ca(ca::Arguments),
    Cert(cert::Arguments),
    Config(config::Arguments),
}

/// Which CA signs.
#[derive(Debug, Clone, clap::Args)]
struct Signer {
    /// The CA: the folder of `gen ca`, or a certificate
    #[arg(long, value_name = "DIR|FILE")]
    ca: PathBuf,
    /// Its key [default: beside it, with the end .key]
    #[arg(long, value_name = "FILE")]
    ca_key: Option<PathBuf>,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        match self.what {
            What::Ca(arguments) => ca::run(call, arguments),
            What::Cert(arguments) => cert::run(call, arguments),
            What::Config(arguments) => config::run(call, arguments),
        }
    }
}

/// Reads the role of a client.
fn role() -> impl TypedValueParser<Value = Role> {
    let named = |name: String| Role::named(name.as_bytes()).ok_or("no role");
    PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(named)
}

/// Makes the folder for files, where it is not there.
fn make_folder(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path)
        .map_err(|error| Failure::Failed(format!("cannot make the folder {}: {error}", path.display())))
}

/// What was made.
#[derive(Debug)]
struct Made {
    files: Vec<String>,
    common_name: String,
    /// None: it is no certificate of a client.
    role: Option<&'static str>,
    /// The names and addresses of a machine.
    hosts: Vec<String>,
    until: String,
    /// None: no file of contexts was written.
    context: Option<String>,
}

views! {
    Made: made { files, common_name, role, hosts, until, context }
}

/// Says what was made: a line a file, `lines` beside [`Made::files`].
fn tell(call: &Call, made: &Made, pair: &Pair, lines: &[String]) -> Result<(), Failure> {
    if pair.is_cut {
        note("the CA ends before the time that was asked for, and the certificate ends with it");
    }
    if !call.is_table() {
        return call.format.print(made);
    }
    let mut out = String::new();
    for (file, what) in made.files.iter().zip(lines) {
        out += &format!("wrote {}: {}\n", escape(file), escape(what));
    }
    print(&out)
}

/// `until 2026-12-21T09:48:05.000Z`.
fn until(pair: &Pair) -> String {
    format!("until {}", time::rfc3339(&pair.until))
}

/// A file in a folder, named as short as it can be.
fn within(folder: &Path, name: &str) -> PathBuf {
    if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) }
}
