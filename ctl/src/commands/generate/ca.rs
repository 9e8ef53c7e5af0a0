//! `gen ca`: a CA of one's own.

use std::path::PathBuf;
use std::time::Duration;

use super::made::{Made, make_folder, tell, until, within, write};
use crate::call::Call;
use crate::failure::Failure;
use crate::pki::{self, Algorithm, DAY};

/// Make a CA: ca.pem and ca.key
///
/// Machines and clients trust the certificate; the key signs theirs.
///
/// Examples:
///   kelsonctl gen ca --out pki
///   kelsonctl gen ca --out pki --name 'Harbour CA' --valid 3650d
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The folder for both files
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Its common name
    #[arg(long = "name", value_name = "CN", default_value = "kelson-ca", value_parser = pki::parse_name)]
    common_name: String,
    /// Its validity, such as 3650d [default: 10 years]
    #[arg(long, value_name = "D", value_parser = pki::parse_valid)]
    valid: Option<Duration>,
    /// Its key
    #[arg(long, value_enum, value_name = "A", default_value = "p256")]
    algorithm: Algorithm,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { out, common_name, valid, algorithm, force } = arguments;
    let pair = pki::authority(&common_name, algorithm, valid.unwrap_or(3650 * DAY))?;
    make_folder(&out)?;
    let paths = ["ca.pem", "ca.key"].map(|name| within(&out, name));
    let made = Made::new(&pair, &paths, common_name);
    let lines = [
        format!("the CA {:?}, {}", made.common_name, until(&pair)),
        "its key, which makes administrators: keep it off the machines".to_owned(),
    ];
    write(&pair, &paths, force)?;
    tell(call, &made, &pair, &lines)
}
