//! The buffers of the handshake: a step and typed buckets, one such buffer nested in another.

/// Longest buffer that is read, bytes.
pub const BUFFER_LEN_MAX: usize = 64 << 10;

/// Most buckets of a buffer: no peer sends more than ten.
pub const BUCKETS_MAX: usize = 16;

/// The protocol's name, with which each buffer begins.
const NAME: &[u8] = b"gsi\0";

/// The steps of the handshake.
pub(crate) mod step {
    /// Client: asks for the server's certificate.
    pub(crate) const CLIENT_CERTREQ: u32 = 1000;
    /// Client: sends its certificate.
    pub(crate) const CLIENT_CERT: u32 = 1001;
    /// Client: answers a request for a proxy.
    pub(crate) const CLIENT_SIGPXY: u32 = 1002;
    /// Server: sends its certificate.
    pub(crate) const SERVER_CERT: u32 = 2001;
    /// Server: asks for a proxy.
    pub(crate) const SERVER_PXYREQ: u32 = 2002;
}

/// The types of buckets that are used.
pub(crate) mod bucket {
    pub(crate) const END: u32 = 0;
    pub(crate) const CRYPTO_MODULE: u32 = 3000;
    pub(crate) const MAIN: u32 = 3001;
    /// A public key in PEM; without signatures, the Diffie-Hellman values in clear.
    pub(crate) const PUBLIC_KEY: u32 = 3004;
    /// The Diffie-Hellman values, signed.
    pub(crate) const CIPHER: u32 = 3005;
    /// A random tag, which the peer signs.
    pub(crate) const TAG: u32 = 3006;
    pub(crate) const SIGNED_TAG: u32 = 3007;
    pub(crate) const MESSAGE: u32 = 3011;
    pub(crate) const VERSION: u32 = 3014;
    pub(crate) const CERTIFICATES: u32 = 3022;
    pub(crate) const ISSUER_HASHES: u32 = 3023;
    pub(crate) const PROXY_REQUEST: u32 = 3024;
    pub(crate) const OPTIONS: u32 = 3019;
    pub(crate) const CIPHER_NAMES: u32 = 3025;
    pub(crate) const DIGEST_NAMES: u32 = 3026;
}

/// Why bytes were refused as a buffer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BufferError {
    #[error("a GSI message of {len} bytes, more than {BUFFER_LEN_MAX}")]
    TooLong { len: usize },
    #[error("a message that is not one of GSI")]
    NotGsi,
    #[error("a GSI message that ends within a bucket of type {bucket}")]
    Truncated { bucket: u32 },
    #[error("a GSI message of more than {BUCKETS_MAX} buckets")]
    TooManyBuckets,
    #[error("a GSI message with two buckets of type {bucket}")]
    Twice { bucket: u32 },
}

/// A buffer that was read: borrows its buckets from the message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Buffer<'a> {
    /// The step of the handshake that the message is.
    pub step: u32,
    /// Types and contents, in their order.
    pub buckets: Vec<(u32, &'a [u8])>,
}

impl<'a> Buffer<'a> {
    /// Reads a message. A missing end marker is accepted, and bytes after one are ignored.
    ///
    /// # Errors
    /// When it is too long, has too many buckets, or is cut off.
    pub fn parse(message: &'a [u8]) -> Result<Self, BufferError> {
        if message.len() > BUFFER_LEN_MAX {
            return Err(BufferError::TooLong { len: message.len() });
        }
        let mut rest = message.strip_prefix(NAME).ok_or(BufferError::NotGsi)?;
        let step = take_u32(&mut rest).ok_or(BufferError::NotGsi)?;
        let mut buckets: Vec<(u32, &[u8])> = Vec::new();
        while let Some(bucket) = take_u32(&mut rest).filter(|&bucket| bucket != bucket::END) {
            let len = take_u32(&mut rest).and_then(|len| usize::try_from(len).ok());
            let (content, after) =
                len.and_then(|len| rest.split_at_checked(len)).ok_or(BufferError::Truncated { bucket })?;
            rest = after;
            if buckets.len() == BUCKETS_MAX {
                return Err(BufferError::TooManyBuckets);
            }
            if buckets.iter().any(|&(known, _)| known == bucket) {
                return Err(BufferError::Twice { bucket });
            }
            buckets.push((bucket, content));
        }
        Ok(Self { step, buckets })
    }

    /// The content of the bucket of a type.
    pub fn get(&self, bucket: u32) -> Option<&'a [u8]> {
        self.buckets.iter().find(|&&(known, _)| known == bucket).map(|&(_, content)| content)
    }
}

/// Writes a message: a step, buckets, the end marker.
#[must_use]
pub fn write_buffer(step: u32, buckets: &[(u32, &[u8])]) -> Vec<u8> {
    let len = NAME.len() + 8 + buckets.iter().map(|(_, content)| 8 + content.len()).sum::<usize>();
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(NAME);
    message.extend(step.to_be_bytes());
    for (bucket, content) in buckets {
        let len = u32::try_from(content.len()).expect("what we send is far below 4 GiB");
        message.extend(bucket.to_be_bytes());
        message.extend(len.to_be_bytes());
        message.extend_from_slice(content);
    }
    message.extend(bucket::END.to_be_bytes());
    message
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (field, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_be_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_messages_are_read_and_others_refused() {
        let message = write_buffer(1000, &[(3000, b"ssl"), (3014, &[0, 0, 0x29, 0x68])]);
        assert_eq!(message, b"gsi\0\0\0\x03\xe8\0\0\x0b\xb8\0\0\0\x03ssl\0\0\x0b\xc6\0\0\0\x04\0\0\x29\x68\0\0\0\0");
        let buffer = Buffer::parse(&message).unwrap();
        assert_eq!((buffer.step, buffer.get(3000), buffer.get(3001)), (1000, Some(&b"ssl"[..]), None));
        assert_eq!(Buffer::parse(&message[..message.len() - 4]).unwrap(), buffer);
        assert_eq!(Buffer::parse(&[message.as_slice(), b"padding"].concat()).unwrap(), buffer);
        for (message, error) in [
            (&b""[..], BufferError::NotGsi),
            (b"gsi", BufferError::NotGsi),
            (b"sss\0\0\0\x03\xe8", BufferError::NotGsi),
            (b"gsi\0\0\0\x03", BufferError::NotGsi),
            (b"gsi\0\0\0\x03\xe8\0\0\x0b\xb8", BufferError::Truncated { bucket: 3000 }),
            (b"gsi\0\0\0\x03\xe8\0\0\x0b\xb8\0\0\0\x04ssl", BufferError::Truncated { bucket: 3000 }),
            (b"gsi\0\0\0\x03\xe8\0\0\x0b\xb8\xff\xff\xff\xffssl", BufferError::Truncated { bucket: 3000 }),
        ] {
            assert_eq!(Buffer::parse(message), Err(error), "{message:?}");
        }
        assert_eq!(Buffer::parse(&write_buffer(1, &[(5, b""), (5, b"")])), Err(BufferError::Twice { bucket: 5 }));
    }

    #[test]
    fn limits_hold_on_both_sides_of_the_edge() {
        let of = |count: u32| write_buffer(1, &(1..=count).map(|bucket| (bucket, &b""[..])).collect::<Vec<_>>());
        assert_eq!(Buffer::parse(&of(16)).unwrap().buckets.len(), BUCKETS_MAX);
        assert_eq!(Buffer::parse(&of(17)), Err(BufferError::TooManyBuckets));
        let filled = |len: usize| write_buffer(1, &[(1, &vec![0; len - 20])]);
        assert!(Buffer::parse(&filled(BUFFER_LEN_MAX)).is_ok());
        assert_eq!(Buffer::parse(&filled(BUFFER_LEN_MAX + 1)), Err(BufferError::TooLong { len: BUFFER_LEN_MAX + 1 }));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut message in proptest::collection::vec(any::<u8>(), 0..200), is_gsi: bool) {
            if is_gsi {
                message.splice(..0, NAME.iter().copied());
            }
            if let Ok(buffer) = Buffer::parse(&message) {
                let written = write_buffer(buffer.step, &buffer.buckets);
                prop_assert_eq!(Buffer::parse(&written), Ok(buffer));
            }
        }
    }
}
