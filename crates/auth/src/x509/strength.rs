//! Keys and signatures that are strong enough.
//!
//! Proxies may be signed with SHA-1, as those of `xrdgsiproxy` 5.5.3 and of delegation by XRootD 5.5.3 are: they live for
//! hours, and who could make two of one signature is the owner of the certificate above. Everything else needs SHA-2.

use crate::x509::certificate::Certificate;
use crate::x509::trust::TrustError;
use openssl::nid::Nid;
use openssl::pkey::Id;

/// Shortest RSA key, bits.
const RSA_BITS_MIN: u32 = 1024;

/// Shortest key of an elliptic curve, bits.
const CURVE_BITS_MIN: u32 = 224;

/// Checks the way from a leaf to a trusted authority; how that one was signed does not matter.
pub(crate) fn check(path: &[Certificate]) -> Result<(), TrustError> {
    for (at, certificate) in path.iter().enumerate() {
        let weak = |reason| Err(TrustError::Weak { subject: certificate.subject().to_owned(), reason });
        let key = certificate.public_key()?;
        let bits_min = if matches!(key.id(), Id::RSA | Id::RSA_PSS) { RSA_BITS_MIN } else { CURVE_BITS_MIN };
        if key.bits() < bits_min {
            return weak("a short key");
        }
        let is_anchor = at + 1 == path.len();
        let algorithm = certificate.x509().signature_algorithm().object().nid();
        match algorithm.signature_algorithms().map(|parts| parts.digest) {
            Some(Nid::MD2 | Nid::MD4 | Nid::MD5 | Nid::MDC2) if !is_anchor => return weak("a signature with MD5"),
            Some(Nid::SHA1) if !is_anchor && !certificate.is_proxy() => return weak("a signature with SHA-1"),
            _ => {}
        }
    }
    Ok(())
}
