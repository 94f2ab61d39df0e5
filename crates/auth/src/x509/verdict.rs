//! Errors of the crypto library on a chain, as our own.

use crate::x509::certificate::Certificate;
use crate::x509::trust::TrustError;
use openssl::x509::X509VerifyResult;

// The library's numbers (`X509_V_ERR_*`), which its Rust binding does not name.
const UNABLE_TO_GET_ISSUER: i32 = 2;
const UNABLE_TO_DECRYPT_SIGNATURE: i32 = 4;
const SIGNATURE_FAILURE: i32 = 7;
const NOT_YET_VALID: i32 = 9;
const EXPIRED: i32 = 10;
const SELF_SIGNED: i32 = 18;
const SELF_SIGNED_IN_CHAIN: i32 = 19;
const UNABLE_TO_GET_ISSUER_LOCALLY: i32 = 20;
const UNABLE_TO_VERIFY_LEAF: i32 = 21;
const PATH_LENGTH_EXCEEDED: i32 = 25;
const NO_CERTIFICATE_SIGNING: i32 = 32;
const INVALID_NON_CA: i32 = 37;
const PROXY_PATH_LENGTH_EXCEEDED: i32 = 38;
const NO_DIGITAL_SIGNATURE: i32 = 39;
const INVALID_CA: i32 = 79;

/// The error for what was found at `certificate`.
pub(crate) fn error(result: X509VerifyResult, certificate: &Certificate) -> TrustError {
    let (subject, issuer) = (certificate.subject().to_owned(), certificate.issuer().to_owned());
    match result.as_raw() {
        EXPIRED => TrustError::Expired { subject, at: certificate.valid_until() },
        NOT_YET_VALID => TrustError::NotYetValid { subject, from: certificate.valid_from() },
        UNABLE_TO_GET_ISSUER | UNABLE_TO_GET_ISSUER_LOCALLY | UNABLE_TO_VERIFY_LEAF if certificate.is_proxy() => {
            TrustError::ProxyLink { subject }
        }
        UNABLE_TO_GET_ISSUER
        | UNABLE_TO_GET_ISSUER_LOCALLY
        | UNABLE_TO_VERIFY_LEAF
        | SELF_SIGNED
        | SELF_SIGNED_IN_CHAIN => TrustError::UnknownAuthority { issuer },
        SIGNATURE_FAILURE | UNABLE_TO_DECRYPT_SIGNATURE => TrustError::Signature { subject, issuer },
        PROXY_PATH_LENGTH_EXCEEDED => TrustError::TooDeep { subject },
        INVALID_CA | INVALID_NON_CA | NO_CERTIFICATE_SIGNING | PATH_LENGTH_EXCEEDED => {
            TrustError::NoAuthority { subject }
        }
        NO_DIGITAL_SIGNATURE => TrustError::KeyUsage { subject },
        _ => TrustError::Other { subject, reason: result.error_string() },
    }
}
