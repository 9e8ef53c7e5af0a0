//! `disk`: encrypted disks.

use std::io::{IsTerminal as _, Read as _, stdin};
use std::time::Duration;

use kelson_proto::v1::{RecoveryKeyRequest, UnlockDiskRequest};

use crate::call::{Call, Run};
use crate::console::keyboard::typed;
use crate::failure::{Failure, answer, answer_within};
use crate::output::{escape, object, print};

/// The longest key.
const MOST: u64 = 4096;
/// A key that can be guessed is stretched for seconds, on a slow processor longer.
const OPEN: Duration = Duration::from_secs(150);

/// Open encrypted disks, and get their recovery keys
///
/// Examples:
///   kelsonctl disk unlock data
///   kelsonctl disk recovery data
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// Open an encrypted disk with a key from standard input
    ///
    /// For a disk of `encryption` in machine.yaml whose own key is lost, or
    /// which has none. Kelson then mounts what is in it, and starts the
    /// services that wait for the mount. A terminal does not show the key; a
    /// newline at its end does not belong to it.
    ///
    /// Examples:
    ///   kelsonctl disk unlock data
    ///   pass show edge-1/data | kelsonctl disk unlock data
    #[command(verbatim_doc_comment)]
    Unlock {
        /// The name of the disk
        #[arg(value_name = "NAME")]
        disk: String,
    },
    /// Show the recovery key of an encrypted disk, once
    ///
    /// The host keeps the key in `recoveryFile` since it encrypted the disk.
    /// kelsonctl prints it, and then the host removes the file. Keep the key
    /// away from the host: it opens the disk when the key of the host is lost.
    ///
    /// Examples:
    ///   kelsonctl disk recovery data | pass insert --multiline edge-1/data
    #[command(verbatim_doc_comment)]
    Recovery {
        /// The name of the disk
        #[arg(value_name = "NAME")]
        disk: String,
        /// Leave the file on the host
        #[arg(long)]
        keep: bool,
    },
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        match self.action {
            Action::Unlock { disk } => {
                let request = UnlockDiskRequest { key: key(&disk)?, name: disk };
                let message = answer_within(OPEN, client.machine().unlock_disk(request)).await?.message;
                print(&call.item(&object!(message: message), || format!("{}\n", escape(&message)))?)
            }
            Action::Recovery { disk, keep } => {
                let request = |forget| RecoveryKeyRequest { name: disk.clone(), forget };
                let key = answer(client.machine().recovery_key(request(false))).await?.key;
                print(&call.item(&object!(key: key), || format!("{}\n", escape(&key)))?)?;
                if !keep {
                    answer(client.machine().recovery_key(request(true))).await?;
                }
                Ok(())
            }
        }
    }
}

/// The key on standard input, without the newline at its end.
fn key(disk: &str) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::Failed(format!("the key on standard input: {error}"));
    let mut key = Vec::new();
    if stdin().is_terminal() {
        key = typed(&format!("key of {}", escape(disk)))?;
    } else {
        stdin().take(MOST.saturating_add(2)).read_to_end(&mut key).map_err(failed)?;
        if key.last() == Some(&b'\n') {
            key.pop();
        }
    }
    match key.len() as u64 {
        0 => Err(Failure::Usage("there is no key on standard input".to_owned())),
        length if length > MOST => Err(Failure::Usage(format!("the key is longer than {MOST} bytes"))),
        _ => Ok(key),
    }
}
