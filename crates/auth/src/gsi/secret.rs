//! Tags that prove who has which key, and the messages that the shared key seals.

use crate::gsi::GSI_VERSION_DIGESTS;
use crate::gsi::buffer::{Buffer, bucket};
use crate::gsi::error::GsiError;
use crate::gsi::raw_rsa;
use crate::{SessionCipher, SessionKey};
use openssl::error::ErrorStack;
use openssl::memcmp;
use openssl::pkey::{Private, Public};
use openssl::rand::rand_bytes;
use openssl::rsa::RsaRef;
use openssl::sha::sha256;
use zeroize::Zeroizing;

/// Bytes of our tags, as of those of all known peers.
const TAG_LEN: usize = 8;

/// Longest tag that we sign for a peer, bytes. It must stay shorter than any digest with its name: signed without a digest of its
/// own, such a tag would be our signature under whatever the digest is of.
const TAG_LEN_MAX: usize = 16;

/// Prefix of a tag in its digest.
const TAG_CONTEXT: &[u8] = b"XRD-GSI-RTAG-v1";

/// The signed form of a tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TagForm {
    Plain,
    /// SHA-256 of a context and the tag: no signature of anything else is made of it.
    Digest,
}

impl TagForm {
    /// The form that a peer of this version signs.
    pub(crate) const fn of_version(version: u32) -> Self {
        if version >= GSI_VERSION_DIGESTS { Self::Digest } else { Self::Plain }
    }

    fn text(self, tag: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => tag.to_vec(),
            Self::Digest => sha256(&[TAG_CONTEXT, tag].concat()).to_vec(),
        }
    }
}

/// A random tag that the peer is to sign.
pub(crate) struct Tag([u8; TAG_LEN]);

impl Tag {
    /// Letters, as stock peers send.
    pub(crate) fn new() -> Result<Self, ErrorStack> {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789./";
        let mut tag = [0; TAG_LEN];
        rand_bytes(&mut tag)?;
        Ok(Self(tag.map(|byte| LETTERS.get(usize::from(byte & 63)).copied().unwrap_or(b'A'))))
    }

    pub(crate) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Checks that the message carries this tag, signed with the key.
    pub(crate) fn check(&self, message: &Buffer<'_>, form: TagForm, key: &RsaRef<Public>) -> Result<(), GsiError> {
        let signed = message.get(bucket::SIGNED_TAG).ok_or(GsiError::Missing("a signed tag"))?;
        let tag = raw_rsa::recover(key, signed).ok_or(GsiError::Tag)?;
        let expected = form.text(&self.0);
        if tag.len() == expected.len() && memcmp::eq(&tag, &expected) { Ok(()) } else { Err(GsiError::Tag) }
    }
}

/// Signs the tag of the peer's message.
pub(crate) fn sign_tag(message: &Buffer<'_>, form: TagForm, key: &RsaRef<Private>) -> Result<Vec<u8>, GsiError> {
    let tag = message.get(bucket::TAG).filter(|tag| (1..=TAG_LEN_MAX).contains(&tag.len()));
    let tag = tag.ok_or(GsiError::Missing("a tag of at most 16 bytes"))?;
    Ok(raw_rsa::sign(key, &form.text(tag))?)
}

/// The cipher of a name on the wire, with or without the length of its initialisation vector: `aes-128-cbc#16`.
pub(crate) fn cipher_of(name: &str) -> Option<SessionCipher> {
    SessionCipher::from_name(name.split_once('#').map_or(name, |(name, _)| name))
}

/// Opens the main bucket of a message.
pub(crate) fn open_main(message: &Buffer<'_>, key: &SessionKey) -> Result<Zeroizing<Vec<u8>>, GsiError> {
    let sealed = message.get(bucket::MAIN).ok_or(GsiError::Missing("a main part"))?;
    Ok(key.open(sealed)?)
}

/// The text of a bucket.
pub(crate) fn text_of<'a>(message: &Buffer<'a>, bucket: u32, name: &'static str) -> Result<&'a str, GsiError> {
    let text = message.get(bucket).and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.map(|text| text.trim_end_matches('\0')).ok_or(GsiError::Missing(name))
}

/// The number of a bucket.
pub(crate) fn number_of(message: &Buffer<'_>, bucket: u32) -> Option<u32> {
    message.get(bucket)?.try_into().ok().map(u32::from_be_bytes)
}
