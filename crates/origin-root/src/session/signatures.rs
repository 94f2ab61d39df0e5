//! Signs the requests for which a server demands it.

use forebay_auth::{RequestSigner, SessionKey, SigningPolicy};
use forebay_proto::{Request, RequestCode, StreamId, request::Sigver, response::SigningRequirements};

/// Bytes of the fixed part of a request: stream id, number, parameters and length of the payload.
const HEADER_LEN: usize = 24;

/// Signatures are SHA-256 hashes, sealed with the session's key.
const CRYPTO_SHA256: u8 = 0x01;

/// Flag of signatures whose payload is not part of what is signed.
const FLAG_NO_DATA: u8 = 0x01;

/// The signer for a session; `None` when the server demands no signatures.
pub(super) fn signer(wanted: Option<&SigningRequirements>, key: Option<SessionKey>) -> Option<RequestSigner> {
    let SigningRequirements { options, level, overrides } = wanted?;
    Some(RequestSigner::new(SigningPolicy::from_wire(*options, *level, overrides), key))
}

/// `frames`, several whole requests, with a signature before each one that needs it.
pub(super) fn with_signatures(mut frames: &[u8], signer: &mut RequestSigner) -> Result<Vec<u8>, String> {
    let mut signed = Vec::with_capacity(frames.len() + 128);
    while let Some((header, rest)) = frames.split_first_chunk::<HEADER_LEN>() {
        let [stream0, stream1, code0, code1, .., len0, len1, len2, len3] = *header;
        let len = usize::try_from(u32::from_be_bytes([len0, len1, len2, len3])).unwrap_or(usize::MAX);
        let (payload, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        let signature = signer.sign(header, payload).map_err(|error| error.to_string())?;
        if let Some(signature) = signature {
            let sigver = Sigver {
                signed: RequestCode(u16::from_be_bytes([code0, code1])),
                version: 0,
                flags: if signature.leaves_out_payload { FLAG_NO_DATA } else { 0 },
                sequence: signature.sequence,
                crypto: CRYPTO_SHA256,
                signature: &signature.sealed,
            };
            // A signature has the stream id of the request that it precedes.
            Request::Sigver(sigver).encode(StreamId([stream0, stream1]), &mut signed);
        }
        signed.extend_from_slice(header);
        signed.extend_from_slice(payload);
        frames = behind;
    }
    Ok(signed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::{FileHandle, request};

    #[test]
    fn a_signature_stands_before_each_request_that_needs_one() {
        let wanted = |level| SigningRequirements { options: 2, level, overrides: Vec::new() };
        let mut frames = Vec::new();
        let open = request::Open { mode: 0, options: Default::default(), options_extended: 0, path: b"/f" };
        Request::Open(open).encode(StreamId([0, 1]), &mut frames);
        Request::Close(request::Close { handle: FileHandle([0; 4]) }).encode(StreamId([0, 2]), &mut frames);
        let signatures = |level| {
            let mut signer = signer(Some(&wanted(level)), None).unwrap();
            let signed = with_signatures(&frames, &mut signer).unwrap();
            let (mut rest, mut codes) = (signed.as_slice(), Vec::new());
            while let Some((header, behind)) = rest.split_first_chunk::<HEADER_LEN>() {
                codes.push(u16::from_be_bytes([header[2], header[3]]));
                let len = u32::from_be_bytes(header[20..].try_into().unwrap());
                rest = &behind[len as usize..];
            }
            codes
        };
        assert_eq!(signatures(0), [3010, 3003]);
        assert_eq!(signatures(2), [3029, 3010, 3003], "an open is signed from `standard` on");
        assert_eq!(signatures(4), [3029, 3010, 3029, 3003]);
        assert!(signer(None, None).is_none());
    }
}
