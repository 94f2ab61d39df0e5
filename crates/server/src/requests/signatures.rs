//! Signatures of requests. They are checked where the client shares a key with the server and the connection is not encrypted.

use crate::{
    base::status::Failure,
    requests::context::{ConnectionContext, Role},
};
use forebay_auth::{RequestSignature, SessionKey, SignatureChecker, SigningError, SigningLevel, SigningPolicy};
use forebay_proto::{
    ErrorCode, Request, RequestCode, ServerSession, StreamId,
    request::{Change, Sigver},
};
use forebay_types::Side;

/// The only known form of signatures.
const FORM: u8 = 0;

/// Digests by SHA-256, sealed with the key of the login.
const SHA256: u8 = 1;

/// The checker of a client that shares `key` with the server; `None` if no signatures are needed, as on encrypted connections.
pub(crate) fn checker(
    level: SigningLevel,
    key: Option<SessionKey>,
    session: &ServerSession,
) -> Option<Box<SignatureChecker>> {
    let stays_clear = !session.is_tls() && !session.is_tls_due();
    // TLS protects the requests already.
    let key = key.filter(|_| stays_clear && level != SigningLevel::None)?;
    Some(Box::new(SignatureChecker::new(SigningPolicy::new(level), key)))
}

impl ConnectionContext {
    /// Whether `request`, which came as `bytes`, is to be answered. A request with a missing or wrong signature is refused, and
    /// ends the connection.
    pub(crate) fn is_authentic(&mut self, stream_id: StreamId, request: &Request<'_>, bytes: &[u8]) -> bool {
        let Role::Main(main) = &mut self.role else { return true };
        let Some(checker) = &mut main.signatures else { return true };
        match check(checker, request, bytes) {
            Ok(is_for_us) => is_for_us,
            Err(text) => {
                if self.state.front.refusal_log.has_room() {
                    let peer = &self.peer;
                    let identity = &main.caller.identity;
                    tracing::warn!(%peer, %identity, reason = text, "a request was refused for its signature");
                }
                // An attacker who can change one request could change the next one too.
                self.is_ending = true;
                let failure =
                    Failure { code: ErrorCode::SIGNATURE_ERROR, text: text.into(), side: Side::Authorization };
                self.fail(stream_id, &failure);
                false
            }
        }
    }
}

/// Takes a signature, or checks a request. Returns whether it is to be answered, or why it is refused.
fn check(checker: &mut SignatureChecker, request: &Request<'_>, bytes: &[u8]) -> Result<bool, String> {
    match request {
        Request::Sigver(signature) => {
            checker.handle_signature(signature_of(signature)?).map(|()| false).map_err(text_of)
        }
        // Their data was dropped on arrival, so the signature cannot be checked. They have no effect here, signed or not.
        Request::Change(Change { code: RequestCode::WRITE | RequestCode::PGWRITE | RequestCode::WRITEV, .. }) => {
            checker.forget_signature();
            Ok(true)
        }
        _ => {
            let (header, payload) = bytes.split_first_chunk().ok_or("a request without a header")?;
            checker.check(header, payload).map(|()| true).map_err(text_of)
        }
    }
}

/// The text for the client, with the name of the request.
fn text_of(error: SigningError) -> String {
    match error {
        SigningError::Missing { request } => {
            format!("{} is not signed, as this server demands where there is no TLS", RequestCode(request))
        }
        SigningError::Mismatch { request } => format!("the signature of {} is wrong", RequestCode(request)),
        error => error.to_string(),
    }
}

fn signature_of(sigver: &Sigver<'_>) -> Result<RequestSignature, String> {
    let Sigver { signed, version, flags, sequence, crypto, signature } = sigver;
    if (*version, *crypto) != (FORM, SHA256) {
        return Err(format!("signatures of form {version} by algorithm {crypto} are not known: use SHA-256"));
    }
    let leaves_out_payload = flags & 1 != 0;
    Ok(RequestSignature { request: signed.0, sequence: *sequence, leaves_out_payload, sealed: signature.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_auth::{InitVector, RequestSigner, SessionCipher};
    use forebay_proto::{
        FileHandle, OpenOptions, Params, RequestHeader,
        request::{Close, Open},
    };

    const STREAM: StreamId = StreamId([0, 7]);

    fn encoded(request: &Request<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        request.encode(STREAM, &mut bytes);
        bytes
    }

    /// A client and its server.
    struct Pair {
        signer: RequestSigner,
        checker: SignatureChecker,
    }

    impl Pair {
        fn new() -> Self {
            let policy = || SigningPolicy::new(SigningLevel::Pedantic);
            let key = || SessionKey::new(SessionCipher::Aes256Cbc, &[3; 32], InitVector::Sent).unwrap();
            let signer = RequestSigner::new(policy(), Some(key()));
            Self { signer, checker: SignatureChecker::new(policy(), key()) }
        }

        fn signature(&mut self, request: &Request<'_>) -> RequestSignature {
            let bytes = encoded(request);
            let (header, payload) = bytes.split_first_chunk().unwrap();
            self.signer.sign(header, payload).unwrap().unwrap()
        }

        fn take(&mut self, signature: &RequestSignature) -> Result<bool, String> {
            self.take_formed(signature, FORM, SHA256)
        }

        fn take_formed(&mut self, signature: &RequestSignature, version: u8, crypto: u8) -> Result<bool, String> {
            let RequestSignature { request, sequence, leaves_out_payload, sealed } = signature;
            let sigver = Request::Sigver(Sigver {
                signed: RequestCode(*request),
                version,
                flags: u8::from(*leaves_out_payload),
                sequence: *sequence,
                crypto,
                signature: sealed,
            });
            check(&mut self.checker, &sigver, &encoded(&sigver))
        }

        fn check(&mut self, request: &Request<'_>) -> Result<bool, String> {
            check(&mut self.checker, request, &encoded(request))
        }
    }

    fn open(path: &[u8]) -> Request<'_> {
        Request::Open(Open { mode: 0, options: OpenOptions::READ, options_extended: 0, path })
    }

    #[test]
    fn signed_requests_are_answered_and_signatures_are_not() {
        let mut pair = Pair::new();
        let close = Request::Close(Close { handle: FileHandle::default() });
        for request in [open(b"/a"), close] {
            let signature = pair.signature(&request);
            assert_eq!(pair.take(&signature), Ok(false));
            assert_eq!(pair.check(&request), Ok(true));
        }
    }

    #[test]
    fn added_changed_and_repeated_requests_and_other_forms_are_refused() {
        let mut pair = Pair::new();
        assert!(pair.check(&open(b"/a")).unwrap_err().contains("is not signed"));
        let signature = pair.signature(&open(b"/a"));
        assert_eq!(pair.take(&signature), Ok(false));
        assert!(pair.check(&open(b"/b")).unwrap_err().contains("wrong"));
        let signature = pair.signature(&open(b"/a"));
        assert_eq!(pair.take(&signature), Ok(false));
        assert_eq!(pair.check(&open(b"/a")), Ok(true));
        assert!(pair.take(&signature).unwrap_err().contains("not above"));
        for (version, crypto) in [(1, SHA256), (FORM, 0x81), (FORM, 2)] {
            assert!(pair.take_formed(&signature, version, crypto).unwrap_err().contains("not known"));
        }
    }

    #[test]
    fn a_write_uses_up_its_signature_unchecked() {
        let mut pair = Pair::new();
        let signature = pair.signature(&open(b"/a"));
        assert_eq!(pair.take(&signature), Ok(false));
        let header =
            RequestHeader { stream_id: STREAM, code: RequestCode::WRITE, params: Params::default(), payload_len: 0 };
        let write = Request::decode(&header, b"").unwrap();
        assert_eq!(check(&mut pair.checker, &write, b"the rest of its data, or of the next request"), Ok(true));
        assert!(pair.check(&open(b"/a")).unwrap_err().contains("is not signed"));
    }
}
