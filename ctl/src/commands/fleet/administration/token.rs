//! `fleet token`: lets new hosts into a fleet.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kelson_fleet::certificates::{Credentials, Token, token_user};

use super::access::{Folder, ROOT, call as called, now, number, parse_validity, text};
use super::done::Done;
use crate::call::Call;
use crate::commands::generate::made::{Signer, until};
use crate::failure::Failure;
use crate::pki::{Algorithm, Authority, Holder};
use crate::store::{self, New, PRIVATE};

#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    signer: Signer,
    /// The names of hosts that may join, with * and ?
    #[arg(long = "host", value_name = "PATTERN", required = true, value_delimiter = ',')]
    hosts: Vec<String>,
    /// The names that they may register, with * and ?
    #[arg(long = "services", value_name = "PATTERN", value_delimiter = ',')]
    services: Vec<String>,
    /// The number of hosts that may join
    #[arg(long, value_name = "N", default_value_t = 1)]
    uses: u32,
    /// How long it can be used
    #[arg(long = "for", value_name = "D", default_value = "1h", value_parser = parse_validity)]
    valid: Duration,
    /// The file of the token
    #[arg(long, value_name = "FILE", default_value = "token")]
    out: PathBuf,
    /// Replace a file that exists
    #[arg(long)]
    force: bool,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { folder, signer, hosts, services, uses, valid, out, force } = arguments;
    let authority = Authority::read(&signer.ca, signer.ca_key.as_deref())?;
    let mut root = folder.connect(ROOT).await?;
    let user = token_user(number()?);
    let pair = authority.issue(&user, Holder::Member, Algorithm::P256, valid)?;
    let (from, until_seconds) = (now(), u64::try_from(pair.until.seconds).unwrap_or_default());
    let token = Token { hosts, services, uses, until: until_seconds };
    let credentials = Credentials {
        user: user.clone(),
        services: BTreeSet::new(),
        from,
        until: until_seconds,
        pem: format!("{}{}", pair.certificate, pair.key),
    };
    store::create(&[New { path: out.clone(), text: credentials.to_string(), mode: PRIVATE }], force)?;
    let key = root.access.token(&user);
    let stored = async {
        called("write", &key, root.client.put(key.as_str(), text(&token)?, None)).await?;
        let permissions = root.access.of_asker(&user);
        root.user(&user, &permissions).await
    };
    if let Err(failure) = stored.await {
        drop(std::fs::remove_file(&out));
        return Err(failure);
    }
    let mut done = Done::default();
    done.add(format!(
        "wrote {}: a token for {uses} of the hosts {}, {}",
        out.display(),
        token.hosts.join(", "),
        until(&pair)
    ));
    done.show(call)
}
