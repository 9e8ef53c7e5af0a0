//! Files of proc of which the kernel reports each change, as urgent data.

use std::fs::File;
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use tokio::io::Interest;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::on_demand::publish;

/// How often it is read where it cannot be followed.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Publishes the result of `read`, at once and after each change of `file`. Where the file cannot be followed, it reads every
/// second, and logs `what` (`the hostname is asked`). Ends with the runtime.
pub(crate) async fn follow<T: PartialEq>(
    file: &str,
    what: &str,
    value: &watch::Sender<T>,
    read: impl Fn() -> T,
) {
    // Opened before it is read: a change in between wakes it up.
    let watched = File::open(file).and_then(|file| Watched::new(file, Interest::PRIORITY));
    if let Err(error) = &watched {
        tracing::warn!("{what} every second, since {file} cannot be followed: {error}");
    }
    loop {
        publish(value, read());
        match &watched {
            Ok(watched) => {
                if watched.changed().await.is_err() {
                    return;
                }
            }
            Err(_) => sleep(READ_EVERY).await,
        }
    }
}
