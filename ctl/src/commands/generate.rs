//! `gen`: a CA, what it signs for people and machines, and files of contexts, without any other program.

mod ca;
mod cert;
mod config;
pub mod made;

use crate::call::{Call, Run};
use crate::failure::Failure;

/// Make a CA, certificates, and files of contexts
///
/// Certificates signed by the CA give access to each machine that trusts it.
/// They cannot be revoked: give clients short-lived ones, and renew them. The
/// key of the CA can make an administrator: keep it off the machines.
///
/// Examples:
///   kelsonctl gen ca --out pki
///   kelsonctl gen cert --ca pki --server --host 192.0.2.7 --name edge-1
///   kelsonctl gen cert --ca pki --role os:reader --name ann
///   kelsonctl gen config --ca pki --endpoint 192.0.2.7:50000 --context edge-1
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
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
