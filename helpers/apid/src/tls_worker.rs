//! The process that meets strangers. What it needs of files the keeper sends it.

use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::arguments::Arguments;
use super::key_holder::{ALIVE, CLOSING, FILES, READY};
use super::material::Material;
use super::tls::Trust;
use super::{listen, say};
use crate::error::ApidError;

/// The longest that the keeper sends.
const LONGEST: u32 = 4 << 20;

/// Serves until the keeper closes the socket, or is gone.
///
/// # Errors
/// When what the files hold cannot be used, or an address cannot be listened on.
pub fn run(arguments: &Arguments, material: &Material, keeper: StdUnixStream) -> Result<(), ApidError> {
    let trust = Trust::new(arguments, material)?;
    keeper.set_nonblocking(true).map_err(ApidError::Runtime)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ApidError::Runtime)?;
    runtime.block_on(async {
        let mut keeper = UnixStream::from_std(keeper).map_err(ApidError::Runtime)?;
        let (renew, trust) = watch::channel(trust);
        let door = listen::open(arguments, trust)?;
        let _ = keeper.write_u8(READY).await;
        heed(&mut keeper, arguments, &renew).await;
        say("closing");
        let _ = keeper.write_u8(CLOSING).await;
        door.close().await;
        Ok(())
    })
}

/// Does what the keeper says, until it says no more.
async fn heed(keeper: &mut UnixStream, arguments: &Arguments, renew: &watch::Sender<Trust>) {
    while let Ok(what) = keeper.read_u8().await {
        let Ok(length) = keeper.read_u32().await else { return };
        if length > LONGEST {
            return;
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        if keeper.read_exact(&mut bytes).await.is_err() {
            return;
        }
        if what == FILES {
            take(&bytes, arguments, renew);
        }
        if keeper.write_u8(ALIVE).await.is_err() {
            return;
        }
    }
}

/// A client that is connected stays so, unless its certificate is no longer trusted.
fn take(bytes: &[u8], arguments: &Arguments, renew: &watch::Sender<Trust>) {
    let Some(material) = Material::from_bytes(bytes) else { return };
    match Trust::new(arguments, &material) {
        Ok(trust) => {
            renew.send_replace(trust);
            say("the files of the door have changed: it shows the new certificate and trusts the new CA");
        }
        // One of them is written after the other: the next look finds both.
        Err(error) => say(&format!("{error}; the door goes on with what it had")),
    }
}
