//! Clients of a machine whose clock may lag behind: one without a battery or a server of time would refuse every certificate
//! as not valid yet, and an operator could not even look for the reason.

use std::sync::Arc;

use kelson_sys::clock;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
};

/// More certificates than a chain has.
const MOST: usize = 8;

/// Accepts what `strict` does. As long as the kernel does not count its clock as right, it also accepts certificates that are
/// not valid yet. Their ends hold all the same.
#[derive(Debug)]
pub struct EarlyClock {
    pub strict: Arc<dyn ClientCertVerifier>,
    pub is_right: fn() -> bool,
}

impl EarlyClock {
    pub fn of_the_kernel(strict: Arc<dyn ClientCertVerifier>) -> EarlyClock {
        EarlyClock { strict, is_right: clock::is_synchronised }
    }
}

impl ClientCertVerifier for EarlyClock {
    fn offer_client_auth(&self) -> bool {
        self.strict.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.strict.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.strict.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut at = now;
        for _ in 0..MOST {
            match self.strict.verify_client_cert(leaf, between, at) {
                Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
                    not_before, ..
                })) if not_before > at && !(self.is_right)() => {
                    // Another of the chain may begin later still.
                    at = not_before;
                }
                verified => return verified,
            }
        }
        self.strict.verify_client_cert(leaf, between, at)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use tokio_rustls::rustls::RootCertStore;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::server::WebPkiClientVerifier;

    use super::*;

    /// The years in which a certificate is valid.
    fn params(years: std::ops::Range<i32>) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        params
    }

    #[test]
    fn a_clock_that_is_not_known_to_be_right_may_lag_behind_but_ends_hold() {
        let mut authority = params(2026..2036);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let leaf = params(2027..2028).signed_by(&KeyPair::generate().unwrap(), &authority).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.as_ref().der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let strict = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let accepts = |is_right: fn() -> bool, years_after_1970: u64| {
            let now = UnixTime::since_unix_epoch(Duration::from_secs(years_after_1970 * 31_557_600));
            let verifier = EarlyClock { strict: Arc::clone(&strict), is_right };
            verifier.verify_client_cert(leaf.der(), &[], now).is_ok()
        };
        let (right, unknown) = (|| true, || false);
        assert_eq!([0, 55, 57, 59].map(|year| accepts(right, year)), [false, false, true, false]);
        assert_eq!([0, 55, 57, 59].map(|year| accepts(unknown, year)), [true, true, true, false]);
    }
}
