//! `fleet init`: users in etcd, so that each host writes its own keys alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_fleet::certificates;
use kelson_spec::fleet::FleetSpec;

use super::access::{CA, ISSUER, ROOT, SETTINGS, Settings, Store, call, text};
use super::done::Done;
use crate::call::Call;
use crate::commands::generate::made::{Signer, make_folder, until, write};
use crate::failure::Failure;
use crate::pki::{self, Algorithm, Authority, Holder};
use crate::store::{self, New, PUBLIC};

#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The members of etcd: https://HOST:PORT, with commas
    #[arg(long, value_name = "URL", required = true, value_delimiter = ',')]
    endpoints: Vec<String>,
    #[command(flatten)]
    signer: Signer,
    /// The beginning of all keys
    #[arg(long, value_name = "PREFIX", default_value = FleetSpec::PREFIX)]
    prefix: String,
    /// The validity of both certificates
    #[arg(long, value_name = "D", default_value = "365d", value_parser = pki::parse_valid)]
    valid: Duration,
    /// The folder for the files
    #[arg(long, value_name = "DIR", default_value = "fleet")]
    out: PathBuf,
    /// Make both certificates again
    #[arg(long)]
    renew: bool,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { endpoints, signer, prefix, valid, out, renew } = arguments;
    if let Some(plain) = endpoints.iter().find(|endpoint| !endpoint.starts_with("https://")) {
        return Err(Failure::Usage(format!(
            "{plain}: etcd knows its clients by their certificates, so the endpoint must begin with https://"
        )));
    }
    let authority = Authority::read(&signer.ca, signer.ca_key.as_deref())?;
    let mut done = Done::default();
    files(
        &authority,
        &Settings { endpoints: endpoints.clone(), prefix: prefix.clone() },
        valid,
        &out,
        renew,
        &mut done,
    )?;
    let prepared = prepare(Settings { endpoints, prefix }, &out, &mut done).await;
    // What was done stays, and is not done again by the next call.
    done.show(call)?;
    prepared
}

/// Writes what is not there yet.
fn files(
    authority: &Authority,
    settings: &Settings,
    valid: Duration,
    out: &Path,
    renew: bool,
    done: &mut Done,
) -> Result<(), Failure> {
    make_folder(out)?;
    let settings = New { path: out.join(SETTINGS), text: text(settings)?, mode: PUBLIC };
    let ca = New { path: out.join(CA), text: authority.pem.clone(), mode: PUBLIC };
    store::create(&[settings, ca], true)?;
    for (name, user) in [(ROOT, ROOT), (ISSUER, certificates::ISSUER)] {
        let paths = ["pem", "key"].map(|end| out.join(format!("{name}.{end}")));
        let path = paths[0].display();
        if !renew && paths.iter().all(|path| path.exists()) {
            done.add(format!("kept {path}: the certificate of {user}"));
            continue;
        }
        let pair = authority.issue(user, Holder::Member, Algorithm::P256, valid)?;
        write(&pair, &paths, true)?;
        done.add(format!("wrote {path}: the certificate of {user}, {}", until(&pair)));
    }
    Ok(())
}

/// Brings the users to etcd.
async fn prepare(settings: Settings, out: &Path, done: &mut Done) -> Result<(), Failure> {
    let spec = settings.of(out, ROOT);
    let anonymous = FleetSpec { certificate: None, key: None, ..spec.clone() };
    let mut root = Store::new(spec).await?;
    if certificates::connect(&anonymous).await.is_ok() {
        return Err(Failure::Failed(
            "etcd also lets in clients without a certificate, so it cannot know them; start it with --client-cert-auth \
             --trusted-ca-file, and call this again. No user was made"
                .to_owned(),
        ));
    }
    root.user_of(ROOT, ROOT).await?;
    root.user_of(certificates::ISSUER, ROOT).await?;
    done.add(format!("etcd has the users {ROOT} and {}, which may do everything", certificates::ISSUER));
    call("enable users for", "the fleet", root.client.auth_client().auth_enable()).await?;
    // It knows whether the store takes the user from the certificate.
    call("read as", ROOT, root.client.get("/", None)).await?;
    done.add("etcd asks each client for its rights".to_owned());
    Ok(())
}
