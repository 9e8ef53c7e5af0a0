//! Commands of the operator of a fleet: who may write what in etcd.

mod access;
mod done;
mod init;
mod issue;
mod remove;
mod token;

use crate::call::Call;
use crate::failure::Failure;

#[derive(Debug, Clone, clap::Subcommand)]
pub enum Administer {
    /// Prepare etcd, so that each host can write its own keys alone
    ///
    /// Makes the certificates of the users root and _issuer, adds both to etcd,
    /// and has etcd ask each client for its rights. etcd must have been started
    /// with --client-cert-auth. What is done already is left as it is.
    ///
    /// Examples:
    ///   kelsonctl fleet init --ca pki --endpoints https://etcd-1.example:2379
    #[command(verbatim_doc_comment)]
    Init(init::Arguments),
    /// Make a token, with which hosts join the fleet
    ///
    /// A host whose machine file has `join: FILE` gets its certificate with it
    /// from `fleet issue`. The token is a secret until it is used or expired.
    ///
    /// Examples:
    ///   kelsonctl fleet token --ca pki --host edge-1 --services web,postgres
    ///   kelsonctl fleet token --ca pki --host 'edge-*' --services 'web-*' --uses 20
    #[command(verbatim_doc_comment)]
    Token(token::Arguments),
    /// Give hosts their certificates: answer their requests until killed
    ///
    /// It needs the CA with its key, and of the folder of `fleet init` the files
    /// fleet.json, ca.pem, issuer.pem and issuer.key.
    ///
    /// Examples:
    ///   kelsonctl fleet issue --ca pki
    ///   kelsonctl fleet issue --ca /etc/fleet/pki --access /etc/fleet --valid 7d
    #[command(verbatim_doc_comment)]
    Issue(issue::Arguments),
    /// Remove a host from the fleet; its certificates are of no use then
    ///
    /// Also what it has registered goes. The host can join again with a token.
    ///
    /// Examples:
    ///   kelsonctl fleet remove edge-1
    #[command(verbatim_doc_comment)]
    Remove(remove::Arguments),
}

impl Administer {
    pub async fn run(self, call: &Call) -> Result<(), Failure> {
        match self {
            Administer::Init(arguments) => init::run(call, arguments).await,
            Administer::Token(arguments) => token::run(call, arguments).await,
            Administer::Issue(arguments) => issue::run(arguments).await,
            Administer::Remove(arguments) => remove::run(call, arguments).await,
        }
    }
}
