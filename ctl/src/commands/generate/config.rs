//! `gen config`: a context with a certificate of its own, ready for KELSONCONFIG.

use std::path::PathBuf;
use std::time::Duration;

use kelson_api::client::Endpoint;
use kelson_proto::access::Role;

use super::cert::own_name;
use super::made::{Made, Signer, role, tell, until};
use crate::call::Call;
use crate::contexts::{Context, File, KELSONCONFIG, folder_of};
use crate::failure::Failure;
use crate::output::{escape, print};
use crate::pki::{self, Algorithm, Authority, Holder};

/// Make a context with a certificate of its own
///
/// The file is ready for KELSONCONFIG: it contains certificates and key as text.
/// --context names the context, or else the host of --endpoint. Other contexts
/// in the file are kept.
///
/// Examples:
///   kelsonctl gen config --ca pki --endpoint 192.0.2.7:50000 --context edge-1
///   kelsonctl gen config --ca pki -e edge-1:50000 --role os:reader --name ann
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    signer: Signer,
    /// os:reader, os:operator or os:admin
    #[arg(
        long,
        value_name = "ROLE",
        default_value = "os:admin",
        value_parser = role(),
        hide_possible_values = true
    )]
    role: Role,
    /// Common name of the client [default: the role's]
    #[arg(long = "name", value_name = "CN", value_parser = pki::parse_name)]
    common_name: Option<String>,
    /// The validity of the certificate
    #[arg(long, value_name = "D", default_value = "30d", value_parser = pki::parse_valid)]
    valid: Duration,
    /// Its key
    #[arg(long, value_enum, value_name = "A", default_value = "p256")]
    algorithm: Algorithm,
    /// The file [default: KELSONCONFIG's, or kelsonconfig]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a context that exists
    #[arg(long)]
    force: bool,
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { signer, role, common_name, valid, algorithm, out, force } = arguments;
    let endpoint = call.choice.machine()?;
    let Endpoint::Remote { host, .. } = &endpoint else {
        return Err(Failure::Usage(format!(
            "{endpoint} is a socket, which needs no certificate; give the HOST:PORT of a machine"
        )));
    };
    let context = call.choice.context.clone().unwrap_or_else(|| host.clone());
    let (path, word) = match (out, &call.choice.config) {
        (Some(path), _) => (path, "--out"),
        (None, Some(path)) => (path.clone(), KELSONCONFIG),
        (None, None) => ("kelsonconfig".into(), "kelsonconfig"),
    };
    // All that can be wrong is found before a key is made.
    let mut file = File::read_or_begin(&path, word)?;
    if file.contexts.contains_key(&context) && !force {
        return Err(Failure::Failed(format!(
            "{} has a context {context:?} already; nothing was written (--force replaces it, --context NAME gives \
             another name)",
            path.display()
        )));
    }
    let authority = Authority::read(&signer.ca, signer.ca_key.as_deref())?;
    let common_name = common_name.unwrap_or_else(|| own_name(role).to_owned());
    let pair = authority.issue(&common_name, Holder::Client(role), algorithm, valid)?;
    file.add(
        context.clone(),
        Context {
            endpoint: endpoint.to_string(),
            ca: Some(authority.pem.clone()),
            certificate: Some(pair.certificate.clone()),
            key: Some(pair.key.clone()),
        },
    );
    file.write(&path)?;
    let made = Made::new(&pair, std::slice::from_ref(&path), common_name);
    let made = Made { role: Some(role.name()), context: Some(context.clone()), ..made };
    let line = format!("the context {context:?} of {:?} as {role}, {}", made.common_name, until(&pair));
    tell(call, &made, &pair, &[line])?;
    if call.is_table() && call.choice.config.as_ref() != Some(&path) {
        let name = path.file_name().unwrap_or_default();
        let whole = folder_of(&path)?.join(name).display().to_string();
        let whole = escape(&whole);
        print(&format!("use it by: export KELSONCONFIG='{whole}', or: kelsonctl config merge '{whole}'\n"))?;
    }
    if file.current.as_ref() != Some(&context) && call.is_table() {
        print(&format!("make it the current one by: kelsonctl config use '{}'\n", escape(&context)))?;
    }
    Ok(())
}
