//! A client's bytes, cut at random: a session never panics, the cuts change nothing, and what reads a head takes any.
//!
//! The first byte chooses the size of the pieces.

#![no_main]

use forebay_http_proto::{Conditions, HEAD_LEN_MAX, Next, Session, Target, encode_path, wanted_digests};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [piece_len, bytes @ ..] = input else { return };
    let whole = serve(bytes.chunks(bytes.len().max(1)));
    let cut = serve(bytes.chunks(usize::from(*piece_len).max(1)));
    assert_eq!(whole, cut);
});

/// The requests as text, and the status of a refusal.
fn serve<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Option<u16>) {
    let mut session = Session::default();
    let (mut input, mut requests) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let consumed = match session.handle_input(&input) {
                Err(refusal) => return (requests, Some(refusal.status.0)),
                Ok(Next::NeedMore) => {
                    assert!(input.len() <= HEAD_LEN_MAX);
                    break;
                }
                Ok(Next::Skipped { consumed }) => consumed,
                Ok(Next::Request { consumed, head }) => {
                    if let Ok(target) = Target::parse(head.target) {
                        assert!(encode_path(&target.path).is_ascii());
                        let _ = target.parameter("authz");
                    }
                    let verdict = Conditions { etag: Some("\"1-2\""), mtime: Some(2), now: 9 }.judge(&head);
                    requests.push(format!("{head:?} {verdict:?} {:?}", wanted_digests(&head)));
                    consumed
                }
            };
            assert!(consumed > 0);
            assert!(consumed <= input.len());
            input.drain(..consumed);
        }
    }
    (requests, None)
}
