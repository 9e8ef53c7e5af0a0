//! `secret`: the secrets that services get as files.

use std::fs::File;
use std::io::{IsTerminal as _, Read, stdin};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kelson_proto::v1::{ListSecretsRequest, RemoveSecretRequest, Secret, SetSecretRequest};
use kelson_spec::secrets::LONGEST_VALUE;

use crate::call::{Call, Run};
use crate::console::keyboard::typed;
use crate::failure::{Failure, answer, answer_within};
use crate::output::{
    Page, Table, Terminal, Tone, cell, escape, object, or_dash, print, size, some, toned, views,
};

/// The value is on standard input.
const INPUT: &str = "-";
/// By one more a value is seen to be longer.
const MOST: u64 = LONGEST_VALUE as u64 + 1;
/// The disk of the host may be slow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Keep, list and remove the secrets that services get as files
///
/// Examples:
///   kelsonctl secret set db-password
///   kelsonctl secret list
///   kelsonctl secret remove db-password
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// Keep a value under a name, in the place of the one before
    ///
    /// The host seals the value and never returns it. The bytes of a file and
    /// of a pipe are kept as they are, with a newline at their end if there is
    /// one. A terminal asks for one line and does not show it.
    ///
    /// Examples:
    ///   kelsonctl secret set db-password
    ///   kelsonctl secret set tls-key key.pem
    ///   openssl rand -hex 32 | kelsonctl secret set token
    #[command(verbatim_doc_comment)]
    Set {
        /// The name of the secret
        #[arg(value_name = "NAME")]
        secret: String,
        /// The file with the value; `-`: standard input
        #[arg(value_name = "FILE", default_value = INPUT, hide_default_value = true)]
        file: PathBuf,
    },
    /// List the secrets, without their values
    ///
    /// Examples:
    ///   kelsonctl secret list -o json | jq -r '.[] | select(.outdated != []).name'
    #[command(verbatim_doc_comment)]
    List {},
    /// Remove a secret
    ///
    /// Examples:
    ///   kelsonctl secret remove db-password
    #[command(verbatim_doc_comment)]
    Remove {
        /// The name of the secret
        #[arg(value_name = "NAME")]
        secret: String,
        /// Also where a service uses it: that waits for it at its next start
        #[arg(long)]
        force: bool,
    },
}

views! {
    // `set_at`: null where it cannot be opened, and `trouble` says why. `source`: null where an operator set it. `outdated`:
    // the services that run with an earlier value.
    Secret: secret {
        name, size, set_at, author: some(&secret.author), source: some(&secret.source), trouble: some(&secret.trouble),
        services, outdated,
    }
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let mut secrets = call.client()?.secrets();
        match self.action {
            Action::Set { secret, file } => {
                let value = value(&secret, &file)?;
                let request = SetSecretRequest { name: secret.clone(), value };
                let outdated = answer_within(TIMEOUT, secrets.set(request)).await?.outdated;
                let shown = object!(name: secret, outdated: outdated);
                print(&call.item(&shown, || format!("secret {} is set\n", escape(&secret)))?)?;
                if !outdated.is_empty() {
                    let services = outdated.join(" ");
                    call.note(&format!(
                        "{} run with the value before; `kelsonctl restart {services}` gives them the new one",
                        outdated.join(", ")
                    ));
                }
                Ok(())
            }
            Action::List {} => {
                let secrets = answer(secrets.list(ListSecretsRequest {})).await?.secrets;
                call.show(&secrets, || Page::Table(table(&secrets, &call.terminal)))
            }
            Action::Remove { secret, force } => {
                let request = RemoveSecretRequest { name: secret.clone(), force };
                answer_within(TIMEOUT, secrets.remove(request)).await?;
                print(
                    &call.item(&object!(name: secret), || {
                        format!("secret {} is removed\n", escape(&secret))
                    })?,
                )
            }
        }
    }
}

fn table(secrets: &[Secret], terminal: &Terminal) -> Table {
    let now = SystemTime::now();
    let author = |secret: &&Secret| match some(&secret.source) {
        Some(source) => cell(format!("source {source}")),
        None => or_dash(some(&secret.author)),
    };
    let services = |secret: &&Secret| {
        let shown = secret.services.iter().map(|name| match secret.outdated.contains(name) {
            true => format!("{name} (older)"),
            false => name.clone(),
        });
        let shown: Vec<String> = shown.collect();
        match secret.outdated.is_empty() {
            true => or_dash(some(&shown.join(", "))),
            false => toned(Tone::Waiting, shown.join(", ")),
        }
    };
    Table::of(secrets)
        .left("SECRET", |secret| &secret.name)
        .right("SIZE", |secret| or_dash(secret.set_at.map(|_| size(secret.size))))
        .left("SET", |secret| or_dash(secret.set_at.as_ref().map(|at| terminal.time(at, now))))
        .cut("BY", author)
        .cut("SERVICES", services)
        .cut("TROUBLE", |secret| toned(Tone::Bad, &secret.trouble))
        .into()
}

/// The value in a file or on standard input.
fn value(name: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    let is_input = file == Path::new(INPUT);
    if is_input && stdin().is_terminal() {
        return typed(&format!("value of {}", escape(name)));
    }
    let failed = |error| Failure::Failed(format!("{}: {error}", file.display()));
    let input: Box<dyn Read> =
        if is_input { Box::new(stdin()) } else { Box::new(File::open(file).map_err(failed)?) };
    let mut value = Vec::new();
    input.take(MOST).read_to_end(&mut value).map_err(failed)?;
    if value.len() > LONGEST_VALUE {
        return Err(Failure::Usage(format!("the value is longer than {LONGEST_VALUE} bytes")));
    }
    Ok(value)
}
