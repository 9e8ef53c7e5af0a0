//! The process that takes connections. The key holder sends it the certificate files.

use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::arguments::Arguments;
use super::material::{ALIVE, CLOSING, FILES, Material, READY};
use super::tls::Trust;
use super::{listen, say};
use crate::error::ApidError;

/// The longest message of the key holder.
const LONGEST: u32 = 4 << 20;

/// Serves until the key holder closes the socket or ends.
///
/// # Errors
/// When what the files hold cannot be used, or an address cannot be listened on.
pub fn run(arguments: &Arguments, material: &Material, key_holder: StdUnixStream) -> Result<(), ApidError> {
    let trust = Trust::new(arguments, material)?;
    key_holder.set_nonblocking(true).map_err(ApidError::Runtime)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ApidError::Runtime)?;
    runtime.block_on(async {
        let mut key_holder = UnixStream::from_std(key_holder).map_err(ApidError::Runtime)?;
        let (renew, trust) = watch::channel(trust);
        let endpoint = listen::open(arguments, trust)?;
        let _ = key_holder.write_u8(READY).await;
        heed(&mut key_holder, arguments, &renew).await;
        say("closing");
        let _ = key_holder.write_u8(CLOSING).await;
        endpoint.close().await;
        Ok(())
    })
}

/// Answers the key holder until it closes the socket.
async fn heed(key_holder: &mut UnixStream, arguments: &Arguments, renew: &watch::Sender<Trust>) {
    while let Ok(what) = key_holder.read_u8().await {
        let Ok(length) = key_holder.read_u32().await else { return };
        if length > LONGEST {
            return;
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        if key_holder.read_exact(&mut bytes).await.is_err() {
            return;
        }
        if what == FILES {
            take(&bytes, arguments, renew);
        }
        if key_holder.write_u8(ALIVE).await.is_err() {
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
            say(
                "the certificate files have changed: the endpoint uses the new certificate and trusts the new CA",
            );
        }
        // One of them is written after the other: the next look finds both.
        Err(error) => say(&format!("{error}; the previous files stay in use")),
    }
}
