//! A server's session as clients use and misuse it.

use crate::frames::{frame, frames, hex};
use forebay_proto::limits::{ARGUMENT_LEN_MAX, DRAIN_LEN_MAX, REQUEST_LEN_MAX};
use forebay_proto::request::{Bind, ReadElement, Target, encode_read_vector};
use forebay_proto::response::ErrorBody;
use forebay_proto::{
    ErrorCode, Fatal, FileHandle, Input, Params, Request, RequestCode, RequestHeader, ServerOptions, ServerSession,
    SessionId, Status, StreamId, TlsPolicy,
};

const HANDSHAKE: &str = "00000000 00000000 00000000 00000004 000007dc";
const PROTOCOL: &str = "0000 0bbe 00000511 0b 03 00000000000000000000 00000000";
const LOGIN: &str = "0000 0bbf 000038bb 726f6f7400000000 00 dd 85 00 00000000";
const SESSION: SessionId = SessionId([7; 16]);
const FIRST: StreamId = StreamId([1, 0]);

fn request(code: RequestCode, params: Params, payload: &[u8]) -> Vec<u8> {
    announced(code, params, u32::try_from(payload.len()).unwrap(), payload)
}

fn announced(code: RequestCode, params: Params, payload_len: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    RequestHeader { stream_id: FIRST, code, params, payload_len }.encode(&mut out);
    out.extend_from_slice(payload);
    out
}

/// A session after handshake and, on request, login.
fn session(logged_in: bool) -> ServerSession {
    let mut session = ServerSession::new(ServerOptions::CACHE);
    let mut out = Vec::new();
    session.handle_input(&hex(HANDSHAKE), &mut out).unwrap();
    if logged_in {
        let bytes = hex(LOGIN);
        let Input::Request { stream_id, request: Request::Login(login), .. } =
            session.handle_input(&bytes, &mut out).unwrap()
        else {
            panic!()
        };
        session.accept_login(stream_id, &login, SESSION, &mut out);
    }
    session
}

/// Hands `input` over at once; checks that it is answered by the session itself with an error and all consumed.
fn refusal(session: &mut ServerSession, input: &[u8]) -> ErrorCode {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < input.len() {
        let Input::Skipped { consumed } = session.handle_input(&input[at..], &mut out).unwrap() else { panic!() };
        at += consumed;
    }
    let (header, body) = frame(&out);
    assert_eq!((header.stream_id, header.status), (FIRST, Status::ERROR));
    ErrorBody::parse(&body).unwrap().code
}

/// Hands `input` over; checks that it ends the connection, with an error if `code` says so.
fn fatal(session: &mut ServerSession, input: &[u8], code: Option<ErrorCode>) -> Fatal {
    let mut out = Vec::new();
    let fatal = session.handle_input(input, &mut out).unwrap_err();
    let told: Vec<ErrorCode> = frames(&out).iter().map(|(_, body)| ErrorBody::parse(body).unwrap().code).collect();
    assert_eq!(told, Vec::from_iter(code));
    fatal
}

#[test]
fn handshake_and_protocol_may_come_at_once() {
    let mut session = ServerSession::new(ServerOptions::CACHE);
    let (input, mut out) = (hex(&format!("{HANDSHAKE}{PROTOCOL}")), Vec::new());
    assert_eq!(session.handle_input(&input, &mut out), Ok(Input::Skipped { consumed: 20 }));
    assert_eq!(out, hex("0000 0000 00000008 00000511 00000001"));
    out.clear();
    assert_eq!(session.handle_input(&input[20..], &mut out), Ok(Input::Skipped { consumed: 24 }));
    assert_eq!(out, hex("0000 0000 00000008 00000511 00200281"));
    assert_eq!(session.handle_input(&[], &mut out), Ok(Input::NeedMore { at_least: 24 }));
}

#[test]
fn other_protocols_are_recognised_by_their_first_bytes() {
    for input in
        [&b"G"[..], b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", &hex("00000000 00000000 00000000 00000004 000007dd")]
    {
        let mut session = ServerSession::new(ServerOptions::CACHE);
        assert_eq!(fatal(&mut session, input, None), Fatal::NotXrootd);
    }
    let mut session = ServerSession::new(ServerOptions::CACHE);
    assert_eq!(session.handle_input(&[0; 15], &mut Vec::new()), Ok(Input::NeedMore { at_least: 20 }));
}

#[test]
fn clients_of_old_get_old_flags() {
    let mut out = Vec::new();
    let input = hex("0000 0bbe 00000000 00 00 00000000000000000000 00000000");
    session(false).handle_input(&input, &mut out).unwrap();
    assert_eq!(frame(&out).1, hex("00000511 00000001"));
}

#[test]
fn a_login_opens_the_session() {
    let session = session(true);
    assert!(session.is_logged_in());
    assert!(session.accepts_deferred_answers());
}

#[test]
fn an_ancient_client_gets_no_session_id_and_no_deferred_answers() {
    let mut session = session(false);
    let (input, mut out) = (hex("0000 0bbf 000038bb 726f6f7400000000 00 dd 80 00 00000000"), Vec::new());
    let Ok(Input::Request { request: Request::Login(login), stream_id, .. }) = session.handle_input(&input, &mut out)
    else {
        panic!()
    };
    session.accept_login(stream_id, &login, SESSION, &mut out);
    assert_eq!(frame(&out).1, b"");
    assert!(!session.accepts_deferred_answers());
}

#[test]
fn only_clients_that_say_so_get_deferred_answers() {
    for (capver, expected) in [(0x85, true), (0x82, true), (0x81, false), (0x05, false)] {
        let mut session = session(false);
        let mut input = hex(LOGIN);
        input[18] = capver;
        let Ok(Input::Request { request: Request::Login(login), stream_id, .. }) =
            session.handle_input(&input, &mut Vec::new())
        else {
            panic!()
        };
        session.accept_login(stream_id, &login, SESSION, &mut Vec::new());
        assert_eq!(session.accepts_deferred_answers(), expected, "{capver:#x}");
    }
}

#[test]
fn before_login_only_set_up_is_possible() {
    for &code in RequestCode::ALL {
        if matches!(code, RequestCode::PROTOCOL | RequestCode::LOGIN | RequestCode::BIND) {
            continue;
        }
        let input = request(code, Params::default(), b"/x");
        let expected = Fatal::NotLoggedIn { code };
        assert_eq!(fatal(&mut session(false), &input, Some(ErrorCode::INVALID_REQUEST)), expected);
    }
}

#[test]
fn a_second_login_is_invalid_and_the_session_goes_on() {
    let mut session = session(true);
    let mut login = hex(LOGIN);
    login[0] = 1;
    assert_eq!(refusal(&mut session, &login), ErrorCode::INVALID_REQUEST);
    assert!(session.is_logged_in());
    let ping = request(RequestCode::PING, Params::default(), b"ignored");
    let input = session.handle_input(&ping, &mut Vec::new());
    assert_eq!(input, Ok(Input::Request { consumed: 31, stream_id: FIRST, request: Request::Ping }));
}

#[test]
fn the_protocol_request_works_after_login_and_with_a_payload() {
    let mut session = session(true);
    let input = request(RequestCode::PROTOCOL, Params::default().with::<0, 4>([0, 0, 5, 0x20]), b"xyz");
    let mut out = Vec::new();
    assert_eq!(session.handle_input(&input, &mut out), Ok(Input::Skipped { consumed: 27 }));
    assert_eq!(frame(&out).1, hex("00000511 00200281"));
}

#[test]
fn unrequested_authentication_is_invalid() {
    let input = request(RequestCode::AUTH, Params::default().with::<12, 4>(*b"unix"), b"unix\0root");
    assert_eq!(refusal(&mut session(true), &input), ErrorCode::INVALID_REQUEST);
}

#[test]
fn signatures_are_given_out_and_have_no_answer() {
    let (input, mut out) = (request(RequestCode::SIGVER, Params::default(), &[1; 32]), Vec::new());
    let mut session = session(true);
    let given = session.handle_input(&input, &mut out);
    assert!(matches!(given, Ok(Input::Request { consumed: 56, request: Request::Sigver(_), .. })), "{given:?}");
    assert!(out.is_empty());
}

#[test]
fn signing_requirements_are_sent_on_request_in_clear() {
    const PLAIN: &str = "00000511 00200281";
    let reply = |tls, signing_level, flags: &str| {
        let mut session = ServerSession::new(ServerOptions { tls, signing_level, ..ServerOptions::CACHE });
        let mut out = Vec::new();
        session.handle_input(&hex(HANDSHAKE), &mut out).unwrap();
        out.clear();
        let request = format!("0000 0bbe 00000511 {flags} 03 00000000000000000000 00000000");
        session.handle_input(&hex(&request), &mut out).unwrap();
        frame(&out).1
    };
    assert_eq!(reply(TlsPolicy::None, 3, "01"), hex(&format!("{PLAIN} 53 00 00 00 03 00")));
    assert_eq!(reply(TlsPolicy::None, 0, "01"), hex(PLAIN));
    assert_eq!(reply(TlsPolicy::None, 3, "00"), hex(PLAIN));
    assert_eq!(reply(TlsPolicy::Capable, 2, "03").len(), 14);
    for (policy, flags) in [(TlsPolicy::Capable, "05"), (TlsPolicy::Login, "03"), (TlsPolicy::Session, "03")] {
        assert_eq!(reply(policy, 3, flags).len(), 8, "{policy:?}");
    }
}

#[test]
fn a_bound_stream_serves_no_requests() {
    let mut session = session(false);
    let input = request(RequestCode::BIND, Params(SESSION.0), b"");
    let mut out = Vec::new();
    let expected = Request::Bind(Bind { session_id: SESSION });
    assert_eq!(
        session.handle_input(&input, &mut out),
        Ok(Input::Request { consumed: 24, stream_id: FIRST, request: expected })
    );
    session.accept_bind(FIRST, 3, &mut out);
    assert_eq!(frame(&out).1, [3]);
    assert!(session.is_bound() && !session.is_logged_in());
    for code in [RequestCode::PING, RequestCode::LOGIN, RequestCode::WRITE, RequestCode::BIND] {
        assert_eq!(refusal(&mut session, &request(code, Params::default(), b"data")), ErrorCode::INVALID_REQUEST);
    }
}

#[test]
fn malformed_and_unknown_requests_leave_the_connection_usable() {
    let mut session = session(true);
    for (code, payload, expected) in [
        (RequestCode(4711), &b"payload"[..], ErrorCode::INVALID_REQUEST),
        (RequestCode::GPFILE, b"", ErrorCode::INVALID_REQUEST),
        (RequestCode::OPEN, b"", ErrorCode::ARG_MISSING),
        (RequestCode::READV, b"123", ErrorCode::ARG_INVALID),
        (RequestCode::PGREAD, b"", ErrorCode::ARG_INVALID),
    ] {
        assert_eq!(refusal(&mut session, &request(code, Params::default(), payload)), expected);
    }
}

#[test]
fn long_arguments_are_drained_and_very_long_ones_end_the_connection() {
    let mut session = session(true);
    let path = vec![b'/'; ARGUMENT_LEN_MAX as usize];
    let input = request(RequestCode::OPEN, Params::default(), &path);
    assert_eq!(input.len(), REQUEST_LEN_MAX);
    assert!(matches!(session.handle_input(&input, &mut Vec::new()), Ok(Input::Request { .. })));
    let need = session.handle_input(&input[..30], &mut Vec::new());
    assert_eq!(need, Ok(Input::NeedMore { at_least: REQUEST_LEN_MAX }));

    for len in [ARGUMENT_LEN_MAX + 1, DRAIN_LEN_MAX] {
        let input = request(RequestCode::OPEN, Params::default(), &vec![b'/'; len as usize]);
        assert_eq!(refusal(&mut session, &input), ErrorCode::ARG_TOO_LONG);
    }
    let input = request(RequestCode::READV, Params::default(), &vec![0; 3000 * 16]);
    assert_eq!(refusal(&mut session, &input), ErrorCode::ARG_TOO_LONG);
    let input = announced(RequestCode::OPEN, Params::default(), DRAIN_LEN_MAX + 1, b"/");
    let expected = Fatal::PayloadTooLong { code: RequestCode::OPEN, len: DRAIN_LEN_MAX + 1 };
    assert_eq!(fatal(&mut session, &input, Some(ErrorCode::ARG_TOO_LONG)), expected);
}

#[test]
fn a_negative_length_ends_the_connection() {
    let input = announced(RequestCode::PING, Params::default(), 1 << 31, b"");
    assert_eq!(fatal(&mut session(true), &input, Some(ErrorCode::ARG_INVALID)), Fatal::NegativeLength);
}

/// Feeds `input` in pieces and returns the change that comes out when all of it is gone.
fn drained(input: &[u8], piece_len: usize) -> (RequestCode, Target<'static>) {
    let (mut session, mut out) = (session(true), Vec::new());
    let (mut at, mut have) = (0, 0);
    loop {
        match session.handle_input(&input[at..have], &mut out).unwrap() {
            Input::NeedMore { at_least } => {
                assert!(at_least > have - at);
                have = input.len().min(have + piece_len);
            }
            Input::Skipped { consumed } => at += consumed,
            Input::Request { consumed, stream_id, request: Request::Change(change) } => {
                assert_eq!((at + consumed, stream_id, change.payload), (input.len(), FIRST, &b""[..]));
                assert!(out.is_empty());
                let Target::Handle(handle) = change.target else { panic!() };
                return (change.code, Target::Handle(handle));
            }
            Input::Request { .. } => panic!(),
        }
    }
}

#[test]
fn the_data_of_writes_is_drained_before_they_come_out() {
    let handle = FileHandle([0, 0, 0, 5]);
    let params = Params::default().with::<0, 4>(handle.0);
    for code in [RequestCode::WRITE, RequestCode::PGWRITE] {
        for len in [0, 1, 3 << 20] {
            let input = request(code, params, &vec![0x55; len]);
            assert_eq!(drained(&input, 1 << 16), (code, Target::Handle(handle)));
        }
    }
}

#[test]
fn the_data_of_vector_writes_lies_outside_the_announced_length() {
    let mut elements = Vec::new();
    let list = [100, 0, 4096].map(|len| ReadElement { handle: FileHandle([9; 4]), offset: 0, len });
    encode_read_vector(FIRST, 0, &list, &mut elements);
    let mut input = request(RequestCode::WRITEV, Params::default(), &elements[24..]);
    input.extend_from_slice(&[0xaa; 4196]);
    for piece_len in [1, 7, 64, 10_000] {
        assert_eq!(drained(&input, piece_len).0, RequestCode::WRITEV);
    }
}

#[test]
fn writes_of_unknown_extent_end_the_connection() {
    let writev = |payload: &[u8]| request(RequestCode::WRITEV, Params::default(), payload);
    let execute = request(RequestCode::CHKPOINT, Params::default().with::<15, 1>([4]), &[0; 24]);
    for (input, code) in [
        (writev(&[0; 17]), RequestCode::WRITEV),
        (writev(&[0xff; 16]), RequestCode::WRITEV),
        (writev(&[0; 1025 * 16]), RequestCode::WRITEV),
        (execute, RequestCode::CHKPOINT),
    ] {
        assert_eq!(fatal(&mut session(true), &input, Some(ErrorCode::UNSUPPORTED)), Fatal::Unframed { code });
    }
    let begin = request(RequestCode::CHKPOINT, Params::default(), b"");
    assert!(matches!(session(true).handle_input(&begin, &mut Vec::new()), Ok(Input::Request { .. })));
}

#[test]
fn reads_borrow_the_input_and_answer_nothing_by_themselves() {
    let mut session = session(true);
    let mut out = Vec::new();
    let input = hex("0100 0bc5 00000000 0000000000000000 0000012c 00000008 0000000000000000");
    let Ok(Input::Request { consumed: 32, request: Request::Read(read), .. }) = session.handle_input(&input, &mut out)
    else {
        panic!()
    };
    assert_eq!((read.offset, read.len), (0, 300));
    assert_eq!(out.capacity(), 0, "the hot path allocates nothing");
}
