//! A client's bytes, cut at random: a server's session never panics, and the cuts change nothing.
//!
//! The first byte chooses the size of the pieces, the second whether handshake and login are put before the rest.

#![no_main]

use forebay_proto::limits::REQUEST_LEN_MAX;
use forebay_proto::{Input, Request, ServerOptions, ServerSession, SessionId};
use libfuzzer_sys::fuzz_target;

const HANDSHAKE: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 7, 0xdc];
const LOGIN: &[u8] = &[0, 0, 0x0b, 0xbf, 0, 0, 0, 1, b'u', 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0x85, 0, 0, 0, 0, 0];

fuzz_target!(|input: &[u8]| {
    let [piece_len, set_up, rest @ ..] = input else { return };
    let prefix: &[&[u8]] = if set_up & 1 == 0 { &[] } else { &[HANDSHAKE, LOGIN] };
    let bytes = [prefix.concat().as_slice(), rest].concat();
    let whole = serve(bytes.chunks(bytes.len().max(1)));
    let cut = serve(bytes.chunks(usize::from(*piece_len).max(1)));
    assert_eq!(whole, cut);
});

/// What a session makes of `pieces`: its own answers, the requests as text, and whether the connection goes on.
fn serve<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<String>, bool) {
    let mut session = ServerSession::new(ServerOptions::CACHE);
    let (mut input, mut out, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let consumed = match session.handle_input(&input, &mut out) {
                Err(_) => return (out, requests, false),
                Ok(Input::NeedMore { at_least }) => {
                    assert!(at_least > input.len());
                    assert!(at_least <= REQUEST_LEN_MAX);
                    break;
                }
                Ok(Input::Skipped { consumed }) => {
                    assert!(consumed > 0);
                    consumed
                }
                Ok(Input::Request { consumed, stream_id, request }) => {
                    requests.push(format!("{stream_id:?} {request:?}"));
                    match request {
                        Request::Login(login) => {
                            session.accept_login(stream_id, &login, SessionId([1; 16]), &mut out);
                        }
                        Request::Bind(_) => session.accept_bind(stream_id, 1, &mut out),
                        _ => {}
                    }
                    consumed
                }
            };
            assert!(consumed <= input.len());
            input.drain(..consumed);
        }
    }
    (out, requests, true)
}
