//! `gen cert`: a certificate of somebody who calls, or of a machine that is called.

use std::path::PathBuf;
use std::time::Duration;

use kelson_proto::access::Role;

use super::made::{Made, Signer, make_folder, role, tell, until, within, write};
use crate::call::Call;
use crate::failure::Failure;
use crate::output::list;
use crate::pki::{self, Algorithm, Authority, DAY, Holder};

/// Make a certificate with its key: NAME.pem and NAME.key
///
/// With --role it is the certificate of a client of machines. It contains the
/// role and the validity, and cannot be revoked before it expires. With --server
/// it is the certificate of a machine, with all its names and addresses.
///
/// Examples:
///   kelsonctl gen cert --ca pki --role os:operator --name ann --valid 7d
///   kelsonctl gen cert --ca pki --server --host 192.0.2.7 --host edge-1
#[derive(Debug, Clone, clap::Args)]
#[command(group = clap::ArgGroup::new("holder").args(["role", "server"]).required(true), verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    signer: Signer,
    /// A client: os:reader, os:operator or os:admin
    #[arg(long, value_name = "ROLE", value_parser = role(), hide_possible_values = true)]
    role: Option<Role>,
    /// Of a machine
    #[arg(long, requires = "host")]
    server: bool,
    /// A name or address of the machine
    #[arg(long, value_name = "HOST", num_args = 1.., conflicts_with = "role", value_parser = pki::parse_host)]
    host: Vec<String>,
    /// Its common name [default: the role's, or the host]
    #[arg(long = "name", value_name = "NAME", value_parser = pki::parse_name)]
    common_name: Option<String>,
    /// Its validity [default: 30d; with --server 365d]
    #[arg(long, value_name = "D", value_parser = pki::parse_valid)]
    valid: Option<Duration>,
    /// Its key
    #[arg(long, value_enum, value_name = "A", default_value = "p256")]
    algorithm: Algorithm,
    /// The folder for both files
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { signer, role, host: hosts, common_name, valid, algorithm, out, force, .. } = arguments;
    let (holder, days, default) = match role {
        Some(role) => (Holder::Client(role), 30, own_name(role)),
        None => (Holder::Server(&hosts), 365, hosts.first().map_or("", String::as_str)),
    };
    let common_name = match common_name {
        Some(name) => name,
        // The name of a host may be longer than a common name.
        None => pki::parse_name(default).map_err(|why| {
            Failure::Usage(format!(
                "give a --name: {default:?} cannot be the name of the certificate ({why})"
            ))
        })?,
    };
    let authority = Authority::read(&signer.ca, signer.ca_key.as_deref())?;
    let pair = authority.issue(&common_name, holder, algorithm, valid.unwrap_or(days * DAY))?;
    make_folder(&out)?;
    let paths = ["pem", "key"].map(|end| within(&out, &format!("{common_name}.{end}")));
    if let Some(own) = paths.iter().find(|path| authority.owns(path)) {
        return Err(Failure::Usage(format!(
            "{} is the CA's own and is not overwritten; give another --name or --out",
            own.display()
        )));
    }
    let whose = match role {
        Some(role) => format!("the certificate of {common_name:?} as {role}"),
        None => format!("the certificate of {}", list(&hosts)),
    };
    let lines = [format!("{whose}, {}", until(&pair)), "its key".to_owned()];
    write(&pair, &paths, force)?;
    let made = Made { role: role.map(Role::name), hosts, ..Made::new(&pair, &paths, common_name) };
    tell(call, &made, &pair, &lines)
}

/// `admin`, the name of one who has no name of his own.
pub fn own_name(role: Role) -> &'static str {
    role.name().trim_start_matches("os:")
}
