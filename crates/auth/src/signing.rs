//! Signatures of requests: which requests need one, how they are made, and what is checked.
//!
//! A signature is a digest of sequence number, request header and payload, sealed with the key of the handshake. It comes in a
//! request of its own directly before the one that it signs. Both sides derive from the server's announcement what needs one.

use crate::session_key::{SessionKey, SessionKeyError};
use forebay_types::named_enum;
use openssl::memcmp;
use openssl::sha::Sha256;

/// Length of a request's header in bytes.
const HEADER_LEN: usize = 24;

/// Length of a digest in bytes.
const DIGEST_LEN: usize = 32;

/// Longest signature in bytes: a vector, and a digest with its padding.
pub const SIGNATURE_LEN_MAX: usize = 64;

/// Numbers of requests begin here.
const FIRST_REQUEST: u16 = 3000;

named_enum! {
    /// How much is signed. The order is that of the numbers on the wire.
    #[derive(Default, Ord, PartialOrd)]
    pub enum SigningLevel {
        #[default]
        None = "none",
        /// Requests that change or remove files.
        Compatible = "compatible",
        Standard = "standard",
        /// Every use of an open file but reading, too.
        Intense = "intense",
        Pedantic = "pedantic",
    }
}

impl SigningLevel {
    /// The number on the wire.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }

    /// The level of a number on the wire; those above the last are as the last.
    pub fn from_wire(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Pedantic)
    }
}

/// Whether a request needs a signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Need {
    Never,
    IfRisky,
    Always,
}

/// The announcement of a server: which requests are to be signed, and how.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SigningPolicy {
    level: SigningLevel,
    /// Whether data that is written is part of what is signed.
    signs_data: bool,
    /// Whether requests are signed even without a key. Such signatures detect transmission errors, not forgery.
    is_forced: bool,
    /// Requests by number that do not follow the level.
    overrides: Vec<(u16, Need)>,
}

/// Option of a server's announcement: data that is written is signed, too.
const OPTION_DATA: u8 = 0x01;
/// Option of a server's announcement: sign without a key, too.
const OPTION_FORCE: u8 = 0x02;

impl SigningPolicy {
    /// A policy of a server of ours.
    pub const fn new(level: SigningLevel) -> Self {
        Self { level, signs_data: false, is_forced: false, overrides: Vec::new() }
    }

    /// The policy that a server announces: its options, its level, and pairs of request and need that differ from the level.
    pub fn from_wire(options: u8, level: u8, overrides: &[(u8, u8)]) -> Self {
        let need = |number| match number {
            0 => Need::Never,
            1 => Need::IfRisky,
            _ => Need::Always,
        };
        let overrides = overrides.iter().map(|&(request, number)| (FIRST_REQUEST + u16::from(request), need(number)));
        Self {
            level: SigningLevel::from_wire(level),
            signs_data: options & OPTION_DATA != 0,
            is_forced: options & OPTION_FORCE != 0,
            overrides: overrides.collect(),
        }
    }

    /// Whether the request of this header must be signed.
    #[must_use]
    pub fn needs_signature(&self, header: &[u8; HEADER_LEN]) -> bool {
        let request = request_of(header);
        let overridden = self.overrides.iter().rev().find(|(number, _)| *number == request).map(|(_, need)| *need);
        match overridden.unwrap_or_else(|| need_of(request, self.level)) {
            Need::Never => false,
            Need::IfRisky => is_risky(request, header),
            Need::Always => true,
        }
    }

    /// Whether the payload of a request is left out of what is signed.
    fn leaves_out_payload(&self, request: u16) -> bool {
        matches!(request, WRITE | PGWRITE) && !self.signs_data
    }
}

const AUTH: u16 = 3000;
const QUERY: u16 = 3001;
const CHMOD: u16 = 3002;
const CLOSE: u16 = 3003;
const GPFILE: u16 = 3005;
const PROTOCOL: u16 = 3006;
const LOGIN: u16 = 3007;
const MKDIR: u16 = 3008;
const MV: u16 = 3009;
const OPEN: u16 = 3010;
const PING: u16 = 3011;
const CHKPOINT: u16 = 3012;
const RM: u16 = 3014;
const RMDIR: u16 = 3015;
const SET: u16 = 3018;
const WRITE: u16 = 3019;
const FATTR: u16 = 3020;
const ENDSESS: u16 = 3023;
const BIND: u16 = 3024;
const PGWRITE: u16 = 3026;
const TRUNCATE: u16 = 3028;
const SIGVER: u16 = 3029;
const PGREAD: u16 = 3030;
const WRITEV: u16 = 3031;

/// The table of levels; requests that are not named are signed when everything is.
fn need_of(request: u16, level: SigningLevel) -> Need {
    use SigningLevel::{Compatible, Intense, None, Pedantic, Standard};
    let from = |least: SigningLevel| if level >= least { Need::Always } else { Need::Never };
    match (request, level) {
        (_, None) | (AUTH | LOGIN | PROTOCOL | PING | SIGVER, _) => Need::Never,
        (CHMOD | CHKPOINT | FATTR | GPFILE | MV | RM | RMDIR | TRUNCATE, _) => from(Compatible),
        (MKDIR, _) => from(Standard),
        (OPEN, Compatible) | (SET, Compatible | Standard) | (QUERY, Intense) => Need::IfRisky,
        (OPEN, _) => from(Standard),
        (SET | BIND | CLOSE | ENDSESS | PGREAD | PGWRITE | WRITE | WRITEV, _) => from(Intense),
        _ => from(Pedantic),
    }
}

/// Opens that change a file, queries that reach into plug-ins, and settings with a modifier.
fn is_risky(request: u16, header: &[u8; HEADER_LEN]) -> bool {
    const OPEN_CHANGES: u16 = 0x0002 | 0x0008 | 0x0020 | 0x0200;
    const OPAQUE_QUERIES: [u16; 3] = [16, 32, 64];
    let [_, _, _, _, first0, first1, second0, second1, ..] = *header;
    let [.., modifier, _, _, _, _] = *header;
    match request {
        OPEN => u16::from_be_bytes([second0, second1]) & OPEN_CHANGES != 0,
        QUERY => OPAQUE_QUERIES.contains(&u16::from_be_bytes([first0, first1])),
        SET => modifier != 0,
        _ => false,
    }
}

const fn request_of(header: &[u8; HEADER_LEN]) -> u16 {
    let [_, _, high, low, ..] = *header;
    u16::from_be_bytes([high, low])
}

/// A signature as it travels.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestSignature {
    /// Number of the request that it signs.
    pub request: u16,
    /// Sequence number, strictly increasing.
    pub sequence: u64,
    /// Whether the payload is left out of what is signed.
    pub leaves_out_payload: bool,
    pub sealed: Vec<u8>,
}

/// Why a request was refused, or could not be signed. The connection ends with it.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    #[error("request {request} is not signed")]
    Missing { request: u16 },
    #[error("the signature is for request {signed}, and request {request} followed")]
    OtherRequest { signed: u16, request: u16 },
    #[error("the signature's number {sequence} is not above {last}")]
    Sequence { sequence: u64, last: u64 },
    #[error("a signature of {len} bytes is longer than {SIGNATURE_LEN_MAX}")]
    TooLong { len: usize },
    #[error("the signature of request {request} is wrong")]
    Mismatch { request: u16 },
    #[error("signing a request")]
    Seal(#[from] SessionKeyError),
}

/// Signs the requests of one connection to a server.
#[derive(Debug)]
pub struct RequestSigner {
    policy: SigningPolicy,
    key: Option<SessionKey>,
    sequence: u64,
}

impl RequestSigner {
    /// Signs as `policy` wants, with the key of the handshake if there was one that made one.
    pub const fn new(policy: SigningPolicy, key: Option<SessionKey>) -> Self {
        Self { policy, key, sequence: 0 }
    }

    /// The signature to send before a request; `None` when it needs none.
    ///
    /// # Errors
    /// When the crypto library fails.
    pub fn sign(
        &mut self,
        header: &[u8; HEADER_LEN],
        payload: &[u8],
    ) -> Result<Option<RequestSignature>, SigningError> {
        let can_sign = self.key.is_some() || self.policy.is_forced;
        if !can_sign || !self.policy.needs_signature(header) {
            return Ok(None);
        }
        self.sequence += 1;
        let request = request_of(header);
        let leaves_out_payload = self.policy.leaves_out_payload(request);
        let digest = digest(self.sequence, header, if leaves_out_payload { &[] } else { payload });
        let sealed = self.key.as_ref().map_or_else(|| Ok(digest.to_vec()), |key| key.seal(&digest))?;
        Ok(Some(RequestSignature { request, sequence: self.sequence, leaves_out_payload, sealed }))
    }
}

/// Checks the requests of one client's connection.
///
/// Hand each signature to [`SignatureChecker::handle_signature`], and each request to [`SignatureChecker::check`].
#[derive(Debug)]
pub struct SignatureChecker {
    policy: SigningPolicy,
    key: SessionKey,
    last: u64,
    pending: Option<RequestSignature>,
}

impl SignatureChecker {
    /// Checks as `policy` wants, with the key of the handshake.
    pub const fn new(policy: SigningPolicy, key: SessionKey) -> Self {
        Self { policy, key, last: 0, pending: None }
    }

    /// Takes the signature of the request that comes next.
    ///
    /// # Errors
    /// When it is too long, or repeated: close the connection.
    pub fn handle_signature(&mut self, signature: RequestSignature) -> Result<(), SigningError> {
        if signature.sealed.len() > SIGNATURE_LEN_MAX {
            return Err(SigningError::TooLong { len: signature.sealed.len() });
        }
        if signature.sequence <= self.last {
            return Err(SigningError::Sequence { sequence: signature.sequence, last: self.last });
        }
        self.last = signature.sequence;
        self.pending = Some(signature);
        Ok(())
    }

    /// Drops the signature of a request that is not looked at.
    pub fn forget_signature(&mut self) {
        self.pending = None;
    }

    /// Checks a request. A signature that it does not need is dropped.
    ///
    /// # Errors
    /// When it needs a signature that is missing or wrong: close the connection.
    pub fn check(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]) -> Result<(), SigningError> {
        let signature = self.pending.take();
        if !self.policy.needs_signature(header) {
            return Ok(());
        }
        let request = request_of(header);
        let signature = signature.ok_or(SigningError::Missing { request })?;
        if signature.request != request {
            return Err(SigningError::OtherRequest { signed: signature.request, request });
        }
        // Only the policy decides which data is left out. Clients of XRootD 6 say it, too, where there is nothing.
        if signature.leaves_out_payload && !payload.is_empty() && !self.policy.leaves_out_payload(request) {
            return Err(SigningError::Mismatch { request });
        }
        let digest = digest(signature.sequence, header, if signature.leaves_out_payload { &[] } else { payload });
        let is_good = self.key.open(&signature.sealed).is_ok_and(|opened| is_same(&opened, &digest));
        if is_good { Ok(()) } else { Err(SigningError::Mismatch { request }) }
    }
}

fn digest(sequence: u64, header: &[u8; HEADER_LEN], payload: &[u8]) -> [u8; DIGEST_LEN] {
    let mut sha = Sha256::new();
    sha.update(&sequence.to_be_bytes());
    sha.update(header);
    sha.update(payload);
    sha.finish()
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && memcmp::eq(one, other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_key::{InitVector, SessionCipher};

    fn key(byte: u8) -> SessionKey {
        SessionKey::new(SessionCipher::Aes128Cbc, &[byte; 16], InitVector::Sent).unwrap()
    }

    fn header(request: u16) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[2..4].copy_from_slice(&request.to_be_bytes());
        header
    }

    fn with(request: u16, at: usize, value: &[u8]) -> [u8; HEADER_LEN] {
        let mut header = header(request);
        header[at..at + value.len()].copy_from_slice(value);
        header
    }

    fn levels(header: &[u8; HEADER_LEN]) -> String {
        let is_needed = |level| SigningPolicy::new(level).needs_signature(header);
        SigningLevel::ALL.into_iter().map(|level| if is_needed(level) { 'N' } else { '-' }).collect()
    }

    #[test]
    fn levels_say_what_is_signed() {
        for (requests, expected) in [
            ([AUTH, LOGIN, PROTOCOL, PING, SIGVER].as_slice(), "-----"),
            (&[CHMOD, CHKPOINT, FATTR, GPFILE, MV, RM, RMDIR, TRUNCATE], "-NNNN"),
            (&[MKDIR, OPEN], "--NNN"),
            (&[BIND, CLOSE, ENDSESS, PGREAD, PGWRITE, WRITE, WRITEV, SET], "---NN"),
            (&[QUERY, 3004, 3013, 3017, 3021, 3025, 3027, 3016, 3022], "----N"),
        ] {
            for request in requests {
                assert_eq!(levels(&header(*request)), expected, "{request}");
            }
        }
    }

    #[test]
    fn risky_requests_are_signed_earlier() {
        for flag in [0x0002_u16, 0x0008, 0x0020, 0x0200] {
            assert_eq!(levels(&with(OPEN, 6, &flag.to_be_bytes())), "-NNNN", "{flag:x}");
        }
        assert_eq!(levels(&with(OPEN, 6, &0x0410_u16.to_be_bytes())), "--NNN");
        for kind in [16_u16, 32, 64] {
            assert_eq!(levels(&with(QUERY, 4, &kind.to_be_bytes())), "---NN", "{kind}");
        }
        assert_eq!(levels(&with(SET, 19, &[1])), "-NNNN");
    }

    #[test]
    fn announcements_may_differ_from_their_level() {
        let policy = SigningPolicy::from_wire(0x03, 2, &[(10, 0), (17, 2), (1, 1)]);
        assert_eq!((policy.level, policy.signs_data, policy.is_forced), (SigningLevel::Standard, true, true));
        assert!(!policy.needs_signature(&header(OPEN)));
        assert!(policy.needs_signature(&header(3017)));
        assert!(!policy.needs_signature(&header(QUERY)));
        assert!(policy.needs_signature(&with(QUERY, 4, &16_u16.to_be_bytes())));
        assert_eq!(SigningPolicy::from_wire(0, 9, &[]).level, SigningLevel::Pedantic);
        for level in SigningLevel::ALL {
            assert_eq!(SigningLevel::from_wire(level.to_wire()), level);
        }
    }

    /// A pedantic server, and a client of it that has `theirs` as the key.
    fn pair(theirs: u8, ours: u8) -> (RequestSigner, SignatureChecker) {
        let policy = SigningPolicy::new(SigningLevel::Pedantic);
        (RequestSigner::new(policy.clone(), Some(key(theirs))), SignatureChecker::new(policy, key(ours)))
    }

    #[test]
    fn signed_requests_pass_and_without_key_or_force_nothing_is_signed() {
        let (mut signer, mut checker) = pair(1, 1);
        let mut keyless = RequestSigner::new(SigningPolicy::from_wire(OPTION_FORCE, 4, &[]), None);
        for (request, payload) in [(OPEN, b"/a".as_slice()), (3013, b""), (WRITE, b"data"), (3017, b"/b")] {
            let signature = signer.sign(&header(request), payload).unwrap().unwrap();
            assert_eq!((signature.leaves_out_payload, signature.sealed.len()), (request == WRITE, 64));
            let forced = keyless.sign(&header(request), payload).unwrap().unwrap();
            let signed_payload = if request == WRITE { b"" } else { payload };
            assert_eq!((forced.leaves_out_payload, forced.sequence), (request == WRITE, signature.sequence));
            assert_eq!(forced.sealed, digest(forced.sequence, &header(request), signed_payload));
            checker.handle_signature(signature).unwrap();
            checker.check(&header(request), payload).unwrap();
        }
        let mut signer = RequestSigner::new(SigningPolicy::new(SigningLevel::Pedantic), None);
        assert_eq!(signer.sign(&header(OPEN), b"/a").unwrap(), None);
    }

    #[test]
    fn changed_requests_and_foreign_signatures_are_refused() {
        let check = |ours: u8, request: u16, payload: &[u8], change: fn(&mut RequestSignature)| {
            let (mut signer, mut checker) = pair(1, ours);
            let mut signature = signer.sign(&header(OPEN), b"/a").unwrap().unwrap();
            change(&mut signature);
            checker.handle_signature(signature).unwrap();
            checker.check(&header(request), payload)
        };
        assert!(check(1, OPEN, b"/a", |_| ()).is_ok());
        for refused in [
            check(1, OPEN, b"/b", |_| ()),
            check(2, OPEN, b"/a", |_| ()),
            check(1, OPEN, b"/a", |sent| sent.sequence += 1),
            check(1, OPEN, b"/a", |sent| sent.sealed.clear()),
            check(1, OPEN, b"/a", |sent| sent.leaves_out_payload = true),
        ] {
            assert!(matches!(refused, Err(SigningError::Mismatch { request: OPEN })), "{refused:?}");
        }
        assert!(matches!(check(1, RM, b"/a", |_| ()), Err(SigningError::OtherRequest { signed: OPEN, request: RM })));
    }

    #[test]
    fn missing_and_repeated_signatures_are_refused_and_no_payload_may_be_left_out() {
        let (mut signer, mut checker) = pair(1, 1);
        assert!(matches!(checker.check(&header(OPEN), b"/a"), Err(SigningError::Missing { request: OPEN })));
        let signature = signer.sign(&header(OPEN), b"/a").unwrap().unwrap();
        checker.handle_signature(signature.clone()).unwrap();
        checker.check(&header(OPEN), b"/a").unwrap();
        assert!(matches!(checker.check(&header(OPEN), b"/a"), Err(SigningError::Missing { .. })));
        let repeated = checker.handle_signature(signature);
        assert!(matches!(repeated, Err(SigningError::Sequence { sequence: 1, last: 1 })));
        let (mut signer, mut checker) = pair(1, 1);
        let mut signature = signer.sign(&header(CLOSE), b"").unwrap().unwrap();
        signature.leaves_out_payload = true;
        checker.handle_signature(signature).unwrap();
        checker.check(&header(CLOSE), b"").unwrap();
    }

    #[test]
    fn superfluous_signatures_are_dropped() {
        let mut checker = SignatureChecker::new(SigningPolicy::new(SigningLevel::Standard), key(1));
        let nonsense = RequestSignature { request: 3017, sequence: 1, leaves_out_payload: false, sealed: vec![0; 64] };
        checker.handle_signature(nonsense.clone()).unwrap();
        checker.check(&header(3017), b"/a").unwrap();
        let too_long = RequestSignature { sequence: 2, sealed: vec![0; 65], ..nonsense };
        assert!(matches!(checker.handle_signature(too_long), Err(SigningError::TooLong { len: 65 })));
    }
}
