//! The chains of clients whose sessions may be resumed.

use super::{PeerCertificate, TlsFacts};
use openssl::{hash::MessageDigest, x509::X509};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The chains of clients whose sessions may be resumed. A ticket contains only the first certificate of a chain, and whether OpenSSL has accepted it.
///
/// They belong to one set of files of the server: when these are read again, tickets are void, and the chains are forgotten with them.
#[derive(Debug, Default)]
pub(super) struct Chains(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The chains that were used last.
    young: HashMap<Fingerprint, Chain>,
    /// Those that were used before the young ones.
    old: HashMap<Fingerprint, Chain>,
    young_len: usize,
}

/// SHA-256 of the first certificate.
type Fingerprint = [u8; 32];

/// The certificates after the first one, in DER: they take a tenth of the memory that OpenSSL needs for them.
type Chain = Vec<Vec<u8>>;

/// Bytes of the chains in use that are remembered: those of some thousand clients. As many again are kept until they are replaced.
const CHAINS_LEN_MAX: usize = 8 << 20;

/// Memory of an entry besides its certificates.
const ENTRY_LEN: usize = 128;

impl Chains {
    /// Remembers the chain of a new session; completes that of a resumed one, if it is still known.
    pub(super) fn complete(&self, mut facts: TlsFacts) -> TlsFacts {
        match &facts.peer {
            PeerCertificate::Verified(chain) => self.remember(chain),
            PeerCertificate::Resumed(leaf) => {
                if let Some(chain) = self.find(leaf) {
                    facts.peer = PeerCertificate::Verified(chain);
                }
            }
            PeerCertificate::None | PeerCertificate::Refused(_) => {}
        }
        facts
    }

    fn remember(&self, chain: &[X509]) {
        let Some((leaf, others)) = chain.split_first() else { return };
        let Some(fingerprint) = fingerprint_of(leaf) else { return };
        // A chain that cannot be written is not remembered.
        let Ok(others) = others.iter().map(|certificate| certificate.to_der()).collect() else { return };
        self.0.lock().insert(fingerprint, others);
    }

    fn find(&self, leaf: &X509) -> Option<Vec<X509>> {
        let others = self.0.lock().take(fingerprint_of(leaf)?)?;
        let others = others.iter().map(|certificate| X509::from_der(certificate).ok());
        std::iter::once(Some(leaf.clone())).chain(others).collect()
    }
}

impl Known {
    fn insert(&mut self, fingerprint: Fingerprint, chain: Chain) {
        let len = len_of(&chain);
        if self.young_len + len > CHAINS_LEN_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_len = 0;
        }
        if self.young.insert(fingerprint, chain).is_none() {
            self.young_len += len;
        }
    }

    /// A copy of a chain, which counts as used.
    fn take(&mut self, fingerprint: Fingerprint) -> Option<Chain> {
        if let Some(chain) = self.young.get(&fingerprint) {
            return Some(chain.clone());
        }
        let chain = self.old.remove(&fingerprint)?;
        self.insert(fingerprint, chain.clone());
        Some(chain)
    }
}

fn len_of(chain: &Chain) -> usize {
    chain.iter().map(Vec::len).sum::<usize>() + ENTRY_LEN
}

fn fingerprint_of(certificate: &X509) -> Option<Fingerprint> {
    certificate.digest(MessageDigest::sha256()).ok()?.as_ref().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_that_are_used_stay_and_others_go() {
        let mut known = Known::default();
        let chain = || vec![vec![0; CHAINS_LEN_MAX / 10 - ENTRY_LEN]];
        let name = |number: u8| [number; 32];
        for number in 0..40 {
            known.insert(name(number), chain());
            assert_eq!(known.take(name(0)), Some(chain()), "it was used after {number}");
        }
        assert_eq!(known.take(name(1)), None);
        assert_eq!(known.take(name(39)), Some(chain()));
        assert!(known.young_len <= CHAINS_LEN_MAX && known.young.len() + known.old.len() <= 20);
    }
}
