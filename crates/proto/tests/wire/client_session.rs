//! A client's session as servers answer it, well and badly.

use crate::frames::hex;
use forebay_proto::limits::SETUP_BODY_LEN_MAX;
use forebay_proto::request::{Login, Username};
use forebay_proto::response::{HandshakeReply, ProtocolReply, RedirectTarget};
use forebay_proto::{
    Abilities, AuthQuestion, ClientError, ClientOptions, ClientPurpose, ClientSession, ErrorCode, Input, Peer,
    Progress, ReplyTo, Request, ResponseError, ResponseHeader, ServerFlags, ServerOptions, ServerSession, SessionId,
    Status, StreamId, TlsUse,
};

const SESSION: SessionId = SessionId([7; 16]);
const HANDSHAKE_REPLY: &str = "0000 0000 00000008 00000511 00000001";
const PROTOCOL_REPLY: &str = "0000 0000 00000008 00000511 00300001";

fn login() -> ClientOptions {
    let purpose = ClientPurpose::Login { pid: 5, username: "forebay-user".into(), cgi: "xrd.appname=forebay".into() };
    ClientOptions { purpose, ability: Abilities::FULL_URL.with(Abilities::READ_REDIRECT), tls: TlsUse::Never }
}

fn bind() -> ClientOptions {
    ClientOptions {
        purpose: ClientPurpose::Bind { session_id: SESSION },
        ability: Abilities::default(),
        tls: TlsUse::Never,
    }
}

/// Hands over `replies` at once and returns the outcome of the session.
fn set_up(options: ClientOptions, replies: &[u8]) -> Result<(Peer, usize), ClientError> {
    let (mut session, mut at) = (ClientSession::new(options), 0);
    loop {
        match session.handle_input(&replies[at..], &mut Vec::new())? {
            Progress::Continue { consumed } => at += consumed,
            Progress::StartTls { consumed } => panic!("TLS after {consumed} bytes"),
            Progress::Authenticate { consumed } => panic!("{:?} after {consumed} bytes", session.take_question()),
            Progress::Ready { consumed } => return Ok((*session.peer(), at + consumed)),
            Progress::NeedMore { at_least } => panic!("{at_least} bytes are needed"),
        }
    }
}

fn replies(parts: &[&str]) -> Vec<u8> {
    hex(&parts.concat())
}

fn error(build: impl FnOnce(ReplyTo, &mut Vec<u8>)) -> ClientError {
    let mut bytes = replies(&[HANDSHAKE_REPLY, PROTOCOL_REPLY]);
    build(ReplyTo::direct(StreamId::ZERO), &mut bytes);
    set_up(login(), &bytes).unwrap_err()
}

#[test]
fn both_roles_set_up_a_session_together() {
    let mut client = ClientSession::new(login());
    let mut server = ServerSession::new(ServerOptions::CACHE);
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    client.start(&mut to_server);
    assert_eq!(to_server.len(), 44);
    for _ in 0..10 {
        match server.handle_input(&to_server, &mut to_client).unwrap() {
            Input::NeedMore { .. } => {}
            Input::Skipped { consumed } => drop(to_server.drain(..consumed)),
            Input::Request { consumed, stream_id, request: Request::Login(login) } => {
                assert_eq!(login.username, Username::new("forebay-"));
                assert_eq!((login.pid, login.cgi), (5, &b"xrd.appname=forebay"[..]));
                server.accept_login(stream_id, &login, SESSION, &mut to_client);
                to_server.drain(..consumed);
            }
            Input::Request { request, .. } => panic!("{request:?}"),
        }
        match client.handle_input(&to_client, &mut to_server).unwrap() {
            Progress::NeedMore { .. } => {}
            Progress::Continue { consumed } => drop(to_client.drain(..consumed)),
            Progress::StartTls { .. } => panic!("TLS was not negotiated"),
            Progress::Authenticate { .. } => panic!("the server asks for proof"),
            Progress::Ready { consumed } => {
                assert_eq!(consumed, to_client.len());
                assert!(server.accepts_deferred_answers());
                assert!(client.peer().supports_page_reads());
                assert_eq!(client.peer().session_id, Some(SESSION));
                return;
            }
        }
    }
    panic!("the session is not set up");
}

#[test]
fn the_first_bytes_are_handshake_and_protocol_request() {
    let mut out = Vec::new();
    ClientSession::new(login()).start(&mut out);
    let expected = "00000000 00000000 00000000 00000004 000007dc
                    0000 0bbe 00000511 01 03 00000000000000000000 00000000";
    assert_eq!(out, hex(expected));
    out.clear();
    ClientSession::new(bind()).start(&mut out);
    assert_eq!(out[29], 1);
}

#[test]
fn login_says_that_deferred_answers_are_understood() {
    let mut session = ClientSession::new(login());
    let mut out = Vec::new();
    session.handle_input(&hex(HANDSHAKE_REPLY), &mut out).unwrap();
    assert!(out.is_empty());
    session.handle_input(&hex(PROTOCOL_REPLY), &mut out).unwrap();
    assert_eq!(out[18] & Login::ASYNC, Login::ASYNC);
    assert_eq!(&out[24..], b"xrd.appname=forebay");
}

#[test]
fn page_reads_need_the_flag_and_the_version() {
    for (handshake, flags, expected) in [
        (0x511, ServerFlags::SUPPORTS_PAGES, true),
        (0x520, ServerFlags::SUPPORTS_PAGES, true),
        (0x510, ServerFlags::SUPPORTS_PAGES, false),
        (0x520, ServerFlags::IS_SERVER, false),
    ] {
        let mut bytes = Vec::new();
        let reply_to = ReplyTo::direct(StreamId::ZERO);
        let HandshakeReply { version, is_server } = HandshakeReply { version: handshake, is_server: true };
        // The handshake's reply has the form of a protocol reply, with the role in place of the flags.
        reply_to.protocol(ProtocolReply { version, flags: ServerFlags(u32::from(is_server)) }, &mut bytes);
        reply_to.protocol(ProtocolReply { version: 0x520, flags }, &mut bytes);
        reply_to.login(SESSION, &mut bytes);
        let (peer, consumed) = set_up(login(), &bytes).unwrap();
        assert_eq!((peer.supports_page_reads(), consumed), (expected, bytes.len()));
    }
}

#[test]
fn a_server_that_is_both_counts_as_manager() {
    let bytes = replies(&[HANDSHAKE_REPLY, "0000 0000 00000008 00000511 00000003", "0000 0000 00000000"]);
    let (peer, _) = set_up(login(), &bytes).unwrap();
    assert!(peer.is_manager());
    assert_eq!(peer.session_id, None, "very old servers give none");
}

#[test]
fn streams_are_bound() {
    let bytes = replies(&[HANDSHAKE_REPLY, PROTOCOL_REPLY, "0000 0000 00000001 02"]);
    assert_eq!(set_up(bind(), &bytes).unwrap().0.path_id, 2);
    let bytes = replies(&[HANDSHAKE_REPLY, PROTOCOL_REPLY, "0000 0000 00000001 00"]);
    assert!(set_up(bind(), &bytes).is_err());
}

#[test]
fn other_protocols_are_recognised() {
    let long = hex("0000 0000 00000009 00000511 00000001 00");
    for bytes in [&b"HTTP/1.1 400 Bad Request"[..], &[0xff; 16], &long, &hex("0000 0fa3 00000008 00000511 00000001")] {
        let error = set_up(login(), bytes).unwrap_err();
        assert_eq!((error.clone(), error.is_retryable()), (ClientError::NotXrootd, false));
    }
}

#[test]
fn tls_is_a_clear_error_to_a_client_without() {
    for flags in ["40000001", "84000001", "88000001"] {
        let protocol_reply = format!("0000 0000 00000008 00000511 {flags}");
        let bytes = replies(&[HANDSHAKE_REPLY, &protocol_reply]);
        assert_eq!(set_up(login(), &bytes), Err(ClientError::TlsRequired));
    }
    let data_in_tls = "0000 0000 00000008 00000511 81000001";
    assert_eq!(set_up(bind(), &replies(&[HANDSHAKE_REPLY, data_in_tls])), Err(ClientError::TlsRequired));
    let able = replies(&[HANDSHAKE_REPLY, "0000 0000 00000008 00000511 81000001", "0000 0000 00000000"]);
    assert!(set_up(login(), &able).is_ok(), "TLS that is only offered");
    let told = error(|reply_to, out| reply_to.error(ErrorCode::TLS_REQUIRED, "use TLS", out));
    assert_eq!(told, ClientError::TlsRequired);
}

#[test]
fn a_server_that_wants_proof_is_answered_until_it_is_content() {
    let mut session = ClientSession::new(login());
    let reply = |build: &dyn Fn(ReplyTo, &mut Vec<u8>)| {
        let mut bytes = Vec::new();
        build(ReplyTo::direct(StreamId::ZERO), &mut bytes);
        bytes
    };
    let begin = replies(&[HANDSHAKE_REPLY, "0000 0000 0000000e 00000511 00300001 5300 00 00 02 00"]);
    let mut rest = begin.as_slice();
    while let Progress::Continue { consumed } = session.handle_input(rest, &mut Vec::new()).unwrap() {
        rest = &rest[consumed..];
    }
    assert_eq!(session.signing().map(|signing| signing.level), Some(2));
    let list = b"&P=gsi,v:10600&P=unix";
    for (bytes, question) in [
        (reply(&|to, out| to.ok_with(&[&SESSION.0[..], list].concat(), out)), AuthQuestion::Protocols(list.to_vec())),
        (reply(&|to, out| to.auth_more(b"who?", out)), AuthQuestion::Challenge(b"who?".to_vec())),
        (
            reply(&|to, out| to.error(ErrorCode::AUTH_FAILED, "not you", out)),
            AuthQuestion::Refusal { code: ErrorCode::AUTH_FAILED, text: "not you".to_owned() },
        ),
    ] {
        let consumed = bytes.len();
        assert_eq!(session.handle_input(&bytes, &mut Vec::new()), Ok(Progress::Authenticate { consumed }));
        assert_eq!(session.take_question(), Some(question));
        let mut out = Vec::new();
        session.authenticate(*b"unix", b"unix\0me", &mut out);
        assert_eq!(&out[2..4], &[0x0b, 0xb8]);
        assert!(out.ends_with(b"unix\0me"));
    }
    let accepted = reply(&|to, out| to.ok(out));
    assert_eq!(session.handle_input(&accepted, &mut Vec::new()), Ok(Progress::Ready { consumed: accepted.len() }));
    assert_eq!(session.peer().session_id, Some(SESSION));
}

#[test]
fn tls_begins_after_authentication_where_the_server_protects_sessions() {
    let mut session = ClientSession::new(ClientOptions { tls: TlsUse::WhenDemanded, ..login() });
    let list: Vec<u8> = [&SESSION.0[..], b"&P=unix"].concat();
    let mut bytes = replies(&[HANDSHAKE_REPLY, "0000 0000 00000008 00000511 88000001"]);
    ReplyTo::direct(StreamId::ZERO).ok_with(&list, &mut bytes);
    ReplyTo::direct(StreamId::ZERO).ok(&mut bytes);
    let mut rest = bytes.as_slice();
    loop {
        match session.handle_input(rest, &mut Vec::new()).unwrap() {
            Progress::Continue { consumed } | Progress::Authenticate { consumed } => rest = &rest[consumed..],
            Progress::StartTls { consumed } => return assert_eq!(consumed, rest.len()),
            progress => panic!("{progress:?}"),
        }
    }
}

#[test]
fn refusals_keep_their_meaning() {
    let told = error(|reply_to, out| reply_to.error(ErrorCode::NOT_AUTHORIZED, "go away", out));
    assert!(!told.is_retryable());
    assert_eq!(told, ClientError::Refused { code: ErrorCode::NOT_AUTHORIZED, text: "go away".into() });
    assert!(error(|reply_to, out| reply_to.error(ErrorCode::OVERLOADED, "", out)).is_retryable());
    let told = error(|reply_to, out| reply_to.wait(33, "server is overloaded", out));
    assert_eq!(told, ClientError::Busy { seconds: 33, text: "server is overloaded".into() });
    let told = error(|reply_to, out| reply_to.redirect_to_host(&"other:5".parse().unwrap(), "", out));
    let ClientError::Redirected(redirect) = told else { panic!() };
    assert!(matches!(redirect.target, RedirectTarget::Host { endpoint, .. } if endpoint.port() == 5));
}

#[test]
fn replies_out_of_form_are_errors() {
    let malformed = ClientError::Response(ResponseError::Malformed { what: "set-up reply" });
    let other_stream = |_: ReplyTo, out: &mut Vec<u8>| ReplyTo::direct(StreamId([1, 0])).ok(out);
    assert_eq!(error(other_stream), malformed);
    assert_eq!(error(|reply_to, out| reply_to.header(Status::OKSOFAR, 0, out)), malformed);
    assert!(matches!(error(|reply_to, out| reply_to.ok_with(&[1; 15], out)), ClientError::Response(_)));
}

#[test]
fn replies_are_bounded() {
    for (body_len, is_ok) in [(SETUP_BODY_LEN_MAX, true), (SETUP_BODY_LEN_MAX + 1, false)] {
        let mut bytes = replies(&[HANDSHAKE_REPLY, PROTOCOL_REPLY]);
        ResponseHeader { stream_id: StreamId::ZERO, status: Status::OK, body_len }.encode(&mut bytes);
        let mut session = ClientSession::new(login());
        for _ in 0..2 {
            session.handle_input(&bytes, &mut Vec::new()).unwrap();
            bytes.drain(..16);
        }
        assert_eq!(session.handle_input(&bytes, &mut Vec::new()).is_ok(), is_ok);
    }
}

#[test]
fn messages_during_set_up_are_skipped() {
    let message = "0000 0fa1 00000006 0000138a 6869";
    let bytes = replies(&[HANDSHAKE_REPLY, PROTOCOL_REPLY, message, "0000 0000 00000000"]);
    assert_eq!(set_up(login(), &bytes).unwrap().1, bytes.len());
}
