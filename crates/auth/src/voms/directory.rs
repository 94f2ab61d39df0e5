//! Which servers may speak for an organization: `.lsc` files and certificates of a vomsdir.

use crate::x509::{Certificate, CertificateError, name};
use openssl::x509::X509;
use std::collections::HashMap;

/// Longest file that is read, bytes.
pub const LSC_LEN_MAX: usize = 64 << 10;

/// Most names of a chain.
const CHAIN_NAMES_MAX: usize = 16;

/// Why a file of a vomsdir cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VomsDirError {
    #[error("a .lsc file of {len} bytes, more than {LSC_LEN_MAX}")]
    TooLong { len: usize },
    #[error(
        "a .lsc file holds the names of a server's certificate, of its issuer, and so on, each on a line; chains are \
             separated by `------ NEXT CHAIN ------`"
    )]
    Chain,
    #[error("line {line} of the .lsc file is not a name in slash form")]
    Line { line: usize },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The servers that may hand out attributes, by organization.
#[derive(Debug, Default)]
pub struct VomsDir {
    organizations: HashMap<String, Servers>,
}

/// The servers of one organization.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// Names of server, its issuer, the issuer's issuer, each list a server.
    chains: Vec<Vec<String>>,
    pub(crate) certificates: Vec<Certificate>,
}

impl VomsDir {
    /// Adds an `.lsc` file of an organization, `VOMSDIR/ORGANIZATION/HOST.lsc`.
    ///
    /// # Errors
    /// When it is not understood; then nothing of it is added.
    pub fn add_lsc(&mut self, organization: &str, bytes: &[u8]) -> Result<(), VomsDirError> {
        if bytes.len() > LSC_LEN_MAX {
            return Err(VomsDirError::TooLong { len: bytes.len() });
        }
        let text = String::from_utf8_lossy(bytes);
        let mut chains = vec![Vec::new()];
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.starts_with("---") {
                chains.push(Vec::new());
            } else if line.starts_with('/') {
                chains.last_mut().expect("the list begins with a chain").push(name::with_one_spelling(line));
            } else if !line.is_empty() && !line.starts_with('#') {
                return Err(VomsDirError::Line { line: number });
            }
        }
        if chains.iter().any(|chain| !(2..=CHAIN_NAMES_MAX).contains(&chain.len())) {
            return Err(VomsDirError::Chain);
        }
        self.organizations.entry(organization.to_owned()).or_default().chains.append(&mut chains);
        Ok(())
    }

    /// Adds the certificates of an organization's servers, in PEM.
    ///
    /// # Errors
    /// When one of them cannot be read; then none is added.
    pub fn add_certificates(&mut self, organization: &str, pem: &[u8]) -> Result<(), VomsDirError> {
        let certificates = X509::stack_from_pem(pem).map_err(CertificateError::from)?;
        let certificates = certificates.into_iter().map(Certificate::from_x509).collect::<Result<Vec<_>, _>>()?;
        self.organizations.entry(organization.to_owned()).or_default().certificates.extend(certificates);
        Ok(())
    }

    /// The organizations with an entry, in no order.
    pub fn organizations(&self) -> impl Iterator<Item = &str> {
        self.organizations.keys().map(String::as_str)
    }

    pub(crate) fn servers(&self, organization: &str) -> Option<&Servers> {
        self.organizations.get(organization)
    }
}

impl Servers {
    /// Whether the certificates, the server's first, have the names of one of the chains.
    pub(crate) fn lists(&self, certificates: &[Certificate]) -> bool {
        let Some(first) = certificates.first() else { return false };
        // An authority that signs itself is named as the issuer of the one below it.
        let signed = certificates.iter().filter(|certificate| certificate.subject() != certificate.issuer);
        let mut names = vec![name::with_one_spelling(first.subject())];
        names.extend(signed.map(|certificate| name::with_one_spelling(&certificate.issuer)));
        self.chains.contains(&names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_several_servers_are_read_and_other_files_refused() {
        let mut dir = VomsDir::default();
        let file = "/DC=org/CN=voms.one\n/DC=org/CN=CA\n------ NEXT CHAIN ------\n/DC=org/CN=voms.two\r\n/DC=org/CN=Sub\n/DC=org/CN=CA\n";
        dir.add_lsc("atlas", file.as_bytes()).unwrap();
        let servers = dir.servers("atlas").unwrap();
        assert_eq!(servers.chains.len(), 2);
        assert_eq!(servers.chains[1], ["/DC=org/CN=voms.two", "/DC=org/CN=Sub", "/DC=org/CN=CA"]);
        assert_eq!(dir.organizations().collect::<Vec<_>>(), ["atlas"]);
        assert!(dir.servers("cms").is_none());
        let mut dir = VomsDir::default();
        for file in ["", "/CN=voms.one", "/CN=a\n/CN=b\n---\n", "/CN=a\n/CN=b\n---\n/CN=c"] {
            assert!(matches!(dir.add_lsc("atlas", file.as_bytes()), Err(VomsDirError::Chain)), "{file}");
        }
        assert!(matches!(dir.add_lsc("atlas", b"/CN=a\nCN=b"), Err(VomsDirError::Line { line: 2 })));
        assert!(matches!(dir.add_lsc("atlas", &vec![b'\n'; LSC_LEN_MAX + 1]), Err(VomsDirError::TooLong { .. })));
        assert!(dir.servers("atlas").is_none());
    }
}
