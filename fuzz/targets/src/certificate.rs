//! A certificate as a client brings it, and as a file of contexts holds it.

use kelson_apid::certificate::{self, Certificate};
use kelson_proto::access::Role;

/// The bytes are the certificate, and a file of PEM.
pub fn read(data: &[u8]) {
    look(data);
    if let Some(der) = certificate::from_pem(data) {
        assert!(der.len() <= data.len(), "base64 is longer than what it says");
        look(&der);
    }
}

fn look(der: &[u8]) {
    let Some(certificate) = Certificate::read(der) else { return };
    let attributes = certificate.attributes();
    let subject = certificate.subject();
    assert!(subject.is_none() || attributes.is_some(), "who has a subject has attributes");
    for attribute in attributes.into_iter().flatten() {
        let _ = Role::named(attribute.text);
    }
    let _ = (certificate.validity(), certificate.is_ca());
    assert!(certificate.key_identifier().is_none_or(|key| key.len() <= der.len()));
}
