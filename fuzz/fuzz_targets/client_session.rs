//! A server's set-up replies, cut at random: a client's session never panics, and the cuts change nothing.
//!
//! The first byte chooses the size of the pieces, the second the purpose and whether good replies come first.

#![no_main]

use forebay_proto::{
    Abilities, ClientError, ClientOptions, ClientPurpose, ClientSession, Peer, Progress, SessionId, TlsUse,
};
use libfuzzer_sys::fuzz_target;

const HANDSHAKE_REPLY: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 5, 0x11, 0, 0, 0, 1];
const PROTOCOL_REPLY: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 5, 0x11, 0, 0x30, 0, 1];

/// Bytes sent, bytes left over, and what is known of the server or what went wrong.
type Outcome = (Vec<u8>, Vec<u8>, Result<Peer, ClientError>);

fuzz_target!(|input: &[u8]| {
    let [piece_len, set_up, rest @ ..] = input else { return };
    let prefix: &[&[u8]] = match set_up & 3 {
        0 => &[],
        1 => &[HANDSHAKE_REPLY],
        _ => &[HANDSHAKE_REPLY, PROTOCOL_REPLY],
    };
    let purpose = if set_up & 4 == 0 {
        ClientPurpose::Login { pid: 1, username: "fuzz".to_owned(), cgi: String::new() }
    } else {
        ClientPurpose::Bind { session_id: SessionId([1; 16]) }
    };
    let options = ClientOptions { purpose, ability: Abilities::FULL_URL, tls: TlsUse::Never };
    let bytes = [prefix.concat().as_slice(), rest].concat();
    let whole = set_up_session(options.clone(), bytes.chunks(bytes.len().max(1)));
    let cut = set_up_session(options, bytes.chunks(usize::from(*piece_len).max(1)));
    assert_eq!(whole.0, cut.0);
    assert_eq!(whole.2, cut.2);
    if whole.2.is_ok() {
        assert_eq!(whole.1, cut.1);
    }
});

fn set_up_session<'a>(options: ClientOptions, pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let mut session = ClientSession::new(options);
    let (mut input, mut out, mut is_ready) = (Vec::new(), Vec::new(), false);
    session.start(&mut out);
    for piece in pieces {
        input.extend_from_slice(piece);
        while !is_ready {
            let consumed = match session.handle_input(&input, &mut out) {
                Err(error) => return (out, input, Err(error)),
                Ok(Progress::NeedMore { at_least }) => {
                    assert!(at_least > input.len());
                    break;
                }
                Ok(
                    Progress::Continue { consumed }
                    | Progress::StartTls { consumed }
                    | Progress::Authenticate { consumed },
                ) => consumed,
                Ok(Progress::Ready { consumed }) => {
                    is_ready = true;
                    consumed
                }
            };
            input.drain(..consumed);
        }
    }
    (out, input, Ok(*session.peer()))
}
