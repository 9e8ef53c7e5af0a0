//! The addresses of a name: `/etc/hosts`, then the name servers of `/etc/resolv.conf`, by the C library's resolver.
//!
//! The program is static. Its C library can look into files and ask name servers by itself; for anything else that
//! `/etc/nsswitch.conf` names (mdns, resolve) it would load the modules of a dynamic library that may be another
//! version. So this asks it not to read that file. Seen with glibc 2.36: it then opens `hosts`, `host.conf` and
//! `resolv.conf` alone, and resolves in an empty root.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _};

use tokio::sync::oneshot;

use super::{Failure, LookUp};

/// # Errors
/// [`Failure::NotReachable`] when the name is not known, or nobody could be asked.
pub async fn addresses(host: &str, look_up: LookUp) -> Result<Vec<IpAddr>, Failure> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    // The meaning of this name needs no file.
    if host == "localhost" {
        return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    }
    // A thread of its own: a name server may be silent for longer than anybody waits, and the end of the program waits
    // for the threads of the runtime.
    let (answer, answered) = oneshot::channel();
    let name = host.to_owned();
    let asking = std::thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        // Nobody may be waiting any more.
        let _ = answer.send(look_up(&name));
    });
    let found = match asking {
        Ok(_) => answered.await.map_err(|_| "the resolver ended".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    found.and_then(|found| found.map_err(|error| error.to_string())).map_err(|why| {
        // The standard library puts its own words in front.
        let why = why.trim_start_matches("failed to lookup address information: ");
        unknown(host, why)
    })
}

/// Asks the C library.
///
/// # Errors
/// The name is not known, or nobody could be asked.
pub fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    look_into_files_and_dns();
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// Nobody answered in time.
pub fn silent(host: &str) -> Failure {
    unknown(host, &format!("no name server answers within {} s", super::CONNECT_TIMEOUT.as_secs()))
}

fn unknown(host: &str, why: &str) -> Failure {
    Failure::NotReachable(format!(
        "the name {host} has no address: {why} (/etc/hosts and the name servers of /etc/resolv.conf were asked)"
    ))
}

#[cfg(target_env = "gnu")]
fn look_into_files_and_dns() {
    use std::ffi::{c_char, c_int};
    use std::sync::Once;

    unsafe extern "C" {
        /// In `nss.h` of glibc.
        fn __nss_configure_lookup(database: *const c_char, line: *const c_char) -> c_int;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both are texts with an end, which glibc copies. Nothing in this program looks a name up before, as
        // this is the only place that does.
        let _ = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    });
}

/// Other C libraries have no modules.
#[cfg(not(target_env = "gnu"))]
fn look_into_files_and_dns() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_and_localhost_are_not_looked_up() {
        let address: IpAddr = "10.1.2.3".parse().unwrap();
        let never: LookUp = |_| panic!("it is looked up");
        assert_eq!(addresses("10.1.2.3", never).await.unwrap(), [address]);
        assert!(addresses("localhost", never).await.unwrap().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
