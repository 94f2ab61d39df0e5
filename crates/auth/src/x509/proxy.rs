//! Making proxies after RFC 3820: one for ourselves, and one for a peer that asks for our rights.

use crate::UnixTime;
use crate::der::DerError;
use crate::x509::certificate::{Certificate, CertificateError, RSA_BITS_MAX};
use crate::x509::chain::{Chain, ChainError};
use crate::x509::credential::{Credential, CredentialError};
use openssl::asn1::{Asn1Integer, Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::BigNum;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{HasPublic, Id, PKey, PKeyRef, Private};
use openssl::rand::rand_bytes;
use openssl::rsa::Rsa;
use openssl::stack::Stack;
use openssl::x509::extension::KeyUsage;
use openssl::x509::{X509, X509Extension, X509Name, X509NameRef, X509Req};

/// Length of the keys of proxies that we make, bits.
pub const PROXY_BITS: u32 = 2048;

/// Longest request for a proxy that is read, bytes.
const REQUEST_LEN_MAX: usize = 16 << 10;

/// How much earlier than now a proxy begins, for peers with a slow clock, seconds.
const SKEW_S: i64 = 300;

const OID_PROXY_INFO: &str = "1.3.6.1.5.5.7.1.14";

/// `SEQUENCE { SEQUENCE { OID 1.3.6.1.5.5.7.21.1 } }`: inherits all rights.
const INFO_INHERIT_ALL: &[u8] = &[0x30, 12, 0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 21, 1];

/// `SEQUENCE { SEQUENCE { OID 1.3.6.1.4.1.3536.1.1.1.9 } }`: may not start jobs.
const INFO_LIMITED: &[u8] = &[0x30, 15, 0x30, 13, 6, 11, 0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];

/// Why a proxy could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("the credential of {subject} has ended and can make no proxy")]
    Ended { subject: String },
    #[error(
        "a request for a proxy that is too long, not self-signed, or not for an RSA key of 1024 to {RSA_BITS_MAX} bits"
    )]
    Request,
    #[error("the peer did not answer with a certificate; a forwarded private key is not accepted")]
    NoCertificate,
    #[error("the delegated proxy is not for the key that was asked for")]
    OtherKey,
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error("the crypto library failed to make a proxy")]
    Library(#[from] ErrorStack),
}

impl From<DerError> for ProxyError {
    fn from(error: DerError) -> Self {
        Self::Certificate(error.into())
    }
}

/// Makes a proxy for ourselves, valid for `lifetime_s` seconds from `now` but no longer than the credential.
///
/// Makes a key: a tenth of a second of computing.
///
/// # Errors
/// When the credential has ended, or the crypto library fails.
pub fn make_proxy(credential: &Credential, lifetime_s: i64, now: UnixTime) -> Result<Credential, ProxyError> {
    let key = PKey::from_rsa(Rsa::generate(PROXY_BITS)?)?;
    let proxy = sign(credential, &key, now.plus(lifetime_s), now)?;
    below(proxy, credential.chain(), key)
}

/// Signs the proxy that a peer requests with a PKCS#10 request in PEM or DER; gives the proxy in PEM. It is valid as long as the
/// credential.
///
/// # Errors
/// When the request is not good, or the credential has ended.
pub fn sign_request(credential: &Credential, request: &[u8], now: UnixTime) -> Result<Vec<u8>, ProxyError> {
    if request.len() > REQUEST_LEN_MAX {
        return Err(ProxyError::Request);
    }
    let is_pem = request.starts_with(b"-----BEGIN");
    let request = if is_pem { X509Req::from_pem(request) } else { X509Req::from_der(request) };
    let request = request.map_err(|_| ProxyError::Request)?;
    let key = request.public_key().map_err(|_| ProxyError::Request)?;
    let is_usual = key.id() == Id::RSA && (1024..=RSA_BITS_MAX).contains(&key.bits());
    if !is_usual || !request.verify(&key).unwrap_or(false) {
        return Err(ProxyError::Request);
    }
    Ok(sign(credential, &key, credential.valid_until(), now)?.to_pem()?)
}

/// A key of ours for which a peer is asked to sign a proxy.
pub struct ProxyRequest {
    key: PKey<Private>,
    pem: Vec<u8>,
}

impl ProxyRequest {
    /// Makes a key, and the request for a proxy of the one whom `chain` stands for. Costs a tenth of a second of computing.
    ///
    /// # Errors
    /// When the crypto library fails.
    pub fn new(chain: &Chain) -> Result<Self, ProxyError> {
        let key = PKey::from_rsa(Rsa::generate(PROXY_BITS)?)?;
        let mut request = X509Req::builder()?;
        request.set_version(0)?;
        request.set_subject_name(&name_below(chain.leaf().subject_name(), &serial()?)?.0)?;
        request.set_pubkey(&key)?;
        let mut extensions = Stack::new()?;
        extensions.push(proxy_info(chain.is_limited())?)?;
        extensions.push(key_usage()?)?;
        request.add_extensions(&extensions)?;
        request.sign(&key, MessageDigest::sha256())?;
        Ok(Self { key, pem: request.build().to_pem()? })
    }

    /// The request in PEM.
    pub fn pem(&self) -> &[u8] {
        &self.pem
    }

    /// Takes the signed proxy, PEM or DER, as the next below `chain`. Whether the chain that it makes is trusted is for those
    /// to ask to whom it is shown.
    ///
    /// # Errors
    /// When it is not for our key, or does not continue the chain.
    pub fn take(&self, proxy: &[u8], chain: &Chain) -> Result<Credential, ProxyError> {
        let is_pem = proxy.starts_with(b"-----BEGIN");
        let proxy = if is_pem { X509::from_pem(proxy) } else { X509::from_der(proxy) };
        let proxy = proxy.map_err(|_| ProxyError::NoCertificate)?;
        if !proxy.public_key()?.public_eq(&self.key) {
            return Err(ProxyError::OtherKey);
        }
        below(proxy, chain, self.key.clone())
    }
}

/// The credential of the proxy that stands below the leaf of `chain`.
fn below(proxy: X509, chain: &Chain, key: PKey<Private>) -> Result<Credential, ProxyError> {
    let proxy = Certificate::from_x509(proxy)?;
    let mut certificates = vec![proxy.clone()];
    certificates.extend_from_slice(chain.certificates());
    let longer = Chain::from_certificates(certificates)?;
    if longer.leaf() != &proxy || longer.proxies().len() != chain.proxies().len() + 1 {
        return Err(ProxyError::Chain(ChainError::Apart { subject: proxy.subject().to_owned() }));
    }
    Ok(Credential::new(longer, key)?)
}

fn sign<T: HasPublic>(
    credential: &Credential,
    key: &PKeyRef<T>,
    end: UnixTime,
    now: UnixTime,
) -> Result<X509, ProxyError> {
    let issuer = credential.chain().leaf();
    let (start, end) = (now.plus(-SKEW_S).max(issuer.valid_from), end.min(credential.valid_until()));
    if end <= now {
        return Err(ProxyError::Ended { subject: issuer.subject().to_owned() });
    }
    let serial = serial()?;
    let (name, number) = name_below(issuer.subject_name(), &serial)?;
    let mut proxy = X509::builder()?;
    proxy.set_version(2)?;
    proxy.set_serial_number(&number)?;
    proxy.set_issuer_name(issuer.subject_name())?;
    proxy.set_subject_name(&name)?;
    proxy.set_not_before(&*Asn1Time::from_unix(start.0)?)?;
    proxy.set_not_after(&*Asn1Time::from_unix(end.0)?)?;
    proxy.set_pubkey(key)?;
    proxy.append_extension(proxy_info(credential.chain().is_limited())?)?;
    proxy.append_extension(key_usage()?)?;
    proxy.sign(credential.key(), MessageDigest::sha256())?;
    Ok(proxy.build())
}

/// A random positive number of 31 bits, which is a proxy's serial number and the end of its name.
fn serial() -> Result<BigNum, ErrorStack> {
    let mut bytes = [0; 4];
    rand_bytes(&mut bytes)?;
    BigNum::from_u32((u32::from_be_bytes(bytes) >> 1).max(1))
}

/// The issuer's name with the number as one more common name, and the number.
fn name_below(issuer: &X509NameRef, serial: &BigNum) -> Result<(X509Name, Asn1Integer), ErrorStack> {
    let mut name = X509Name::builder()?;
    for entry in issuer.entries() {
        name.append_entry(entry)?;
    }
    name.append_entry_by_nid(Nid::COMMONNAME, &serial.to_dec_str()?)?;
    Ok((name.build(), serial.to_asn1_integer()?))
}

fn proxy_info(is_limited: bool) -> Result<X509Extension, ErrorStack> {
    let info = if is_limited { INFO_LIMITED } else { INFO_INHERIT_ALL };
    X509Extension::new_from_der(&*Asn1Object::from_str(OID_PROXY_INFO)?, true, &*Asn1OctetString::new_from_bytes(info)?)
}

fn key_usage() -> Result<X509Extension, ErrorStack> {
    KeyUsage::new().critical().digital_signature().key_encipherment().build()
}
