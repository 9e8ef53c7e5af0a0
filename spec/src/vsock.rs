//! Where PID 1 takes calls over vsock: `vsock:PORT[,cid=CID][,role=ROLE]`, a word of the kernel's command line.

use crate::service::ApiAccess;
use crate::units::number;

/// The CID of the hypervisor's host.
const HOST: u32 = libc::VMADDR_CID_HOST;

/// A port for one CID, with the rights of all its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VsockSpec {
    pub port: u32,
    /// From there alone connections are taken.
    pub cid: u32,
    pub access: ApiAccess,
}

impl VsockSpec {
    /// Reads the word.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<VsockSpec, &'static str> {
        const WHOLE: &str = "vsock:PORT, such as vsock:5000 or vsock:5000,role=operator";
        let mut words = text.strip_prefix("vsock:").ok_or(WHOLE)?.split(',');
        let port = words.next().and_then(numeral).filter(|port| *port < u32::MAX - 1);
        let port = port.ok_or("vsock:PORT with a port from 1 to 4294967293")?;
        let mut spec = VsockSpec { port, cid: HOST, access: ApiAccess::Admin };
        for word in words {
            match word.split_once('=') {
                Some(("cid", cid)) => {
                    spec.cid = numeral(cid).ok_or("cid=CID with a number from 1 to 4294967294")?;
                }
                Some(("role", role)) => {
                    let access = ApiAccess::ALL.into_iter().find(|access| access.name() == role);
                    let access = access.filter(|access| *access != ApiAccess::None);
                    spec.access = access.ok_or("role=reader, role=operator or role=admin")?;
                }
                _ => return Err("cid=CID or role=ROLE after the port"),
            }
        }
        Ok(spec)
    }
}

/// From 1 on; the largest number means "any" to the kernel.
fn numeral(text: &str) -> Option<u32> {
    number(text).and_then(|number| u32::try_from(number).ok()).filter(|number| (1..u32::MAX).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_right() {
        let spec = |port, cid, access| Ok(VsockSpec { port, cid, access });
        for (text, right) in [
            ("vsock:5000", spec(5000, 2, ApiAccess::Admin)),
            ("vsock:1,cid=3", spec(1, 3, ApiAccess::Admin)),
            ("vsock:4294967293,role=reader", spec(4_294_967_293, 2, ApiAccess::Reader)),
            ("vsock:7,role=operator,cid=1", spec(7, 1, ApiAccess::Operator)),
        ] {
            assert_eq!(VsockSpec::parse(text), right, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, problem) in [
            ("", "vsock:PORT,"),
            ("5000", "vsock:PORT,"),
            ("tcp:5000", "vsock:PORT,"),
            ("vsock:", "a port from 1"),
            ("vsock:0", "a port from 1"),
            ("vsock:4294967294", "a port from 1"),
            ("vsock:3:5000", "a port from 1"),
            ("vsock:5000,cid=", "cid=CID"),
            ("vsock:5000,cid=0", "cid=CID"),
            ("vsock:5000,cid=4294967295", "cid=CID"),
            ("vsock:5000,role=none", "role=reader"),
            ("vsock:5000,role=root", "role=reader"),
            ("vsock:5000,reader", "cid=CID or role=ROLE"),
        ] {
            let why = VsockSpec::parse(text).expect_err(text);
            assert!(why.contains(problem), "{text}: {why}");
        }
    }
}
