//! A certificate and its key.

use super::{TlsError, TrustAnchors, error::reason_of};
use openssl::{
    pkey::{PKey, Private},
    ssl::SslContextBuilder,
    stack::Stack,
    x509::{X509, X509StoreContext, X509VerifyResult},
};
use std::{
    fs::File,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// The files of a certificate and its key; one file may contain both, as for proxies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Credential {
    /// PEM file with the certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    /// PEM file with the private key, without a pass phrase; not readable for all users.
    pub key: PathBuf,
}

/// Longest file of certificates or keys in bytes: a chain of proxies has some 10 kB.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Permission bits of other users.
const MODE_OF_OTHERS: u32 = 0o007;

impl Credential {
    /// Sets the credential in `builder`.
    pub(super) fn install(&self, builder: &mut SslContextBuilder) -> Result<(), TlsError> {
        let chain = self.chain()?;
        let unusable = |reason: &str| TlsError::file(&self.certificate, reason);
        let (first, rest) = chain.split_first().ok_or_else(|| unusable("contains no PEM certificate"))?;
        let refused = |errors| unusable(&format!("cannot be used: {}", reason_of(&errors)));
        builder.set_certificate(first).map_err(refused)?;
        for certificate in rest {
            builder.add_extra_chain_cert(certificate.clone())?;
        }
        builder.set_private_key(&*self.private_key()?).and_then(|()| builder.check_private_key()).map_err(|_| {
            let certificate = self.certificate.display();
            TlsError::file(&self.key, format!("does not contain the key of the certificate in {certificate}"))
        })
    }

    /// Intermediate certificates to a trusted root that the file lacks. The certificate is not verified here: that is up to the
    /// peers.
    pub(super) fn missing_authorities(&self, trust: &TrustAnchors) -> Result<Vec<X509>, TlsError> {
        let chain = self.chain()?;
        let [own] = chain.as_slice() else { return Ok(Vec::new()) };
        let found = X509StoreContext::new()?.init(&*trust.store()?, own, &*Stack::new()?, |context| {
            context.verify_cert()?;
            Ok(context.chain().map_or_else(Vec::new, |chain| chain.iter().skip(1).map(ToOwned::to_owned).collect()))
        })?;
        let is_root = |authority: &X509| authority.issued(authority) == X509VerifyResult::OK;
        Ok(found.into_iter().filter(|authority| !is_root(authority)).collect())
    }

    fn chain(&self) -> Result<Vec<X509>, TlsError> {
        chain_of(&self.certificate, &read(&self.certificate)?)
    }

    fn private_key(&self) -> Result<PKey<Private>, TlsError> {
        let unusable = |reason: &str| TlsError::file(&self.key, reason);
        let mode = std::fs::metadata(&self.key).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & MODE_OF_OTHERS != 0) {
            return Err(unusable("is a private key accessible to all users: run chmod o-rwx on it"));
        }
        let bytes = read(&self.key)?;
        // Without this OpenSSL would prompt for a pass phrase on the terminal.
        PKey::private_key_from_pem_callback(&bytes, |_| Ok(0))
            .map_err(|_| unusable("contains no PEM private key without a pass phrase"))
    }
}

/// The certificates in `pem`, which is what the file at `path` holds.
pub(super) fn chain_of(path: &Path, pem: &[u8]) -> Result<Vec<X509>, TlsError> {
    X509::stack_from_pem(pem)
        .map_err(|errors| TlsError::file(path, format!("contains no PEM certificate: {}", reason_of(&errors))))
}

/// What a file of certificates or keys holds.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let mut bytes = Zeroizing::new(Vec::new());
    File::open(path)
        .and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| TlsError::file(path, format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(TlsError::file(path, format!("is longer than {FILE_LEN_MAX} bytes: not a certificate file")));
    }
    Ok(bytes)
}
