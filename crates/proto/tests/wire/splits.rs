//! Input cut at every byte boundary means the same as input in one piece.

use forebay_proto::request::{Close, Dirlist, Open, Query, Read, ReadElement, Stat, Target, encode_read_vector};
use forebay_proto::{
    Abilities, ClientOptions, ClientPurpose, ClientSession, DirlistOptions, FileHandle, Input, OpenOptions, Params,
    Peer, Progress, QueryKind, ReplyTo, Request, RequestCode, RequestHeader, ServerFlags, ServerOptions, ServerSession,
    SessionId, StreamId, TlsUse,
};

/// All a client can do in one conversation: good requests, bad ones, writes.
fn conversation() -> Vec<u8> {
    let mut bytes = Vec::new();
    let purpose = ClientPurpose::Login { pid: 1, username: "u".into(), cgi: "a=b".into() };
    let mut client = ClientSession::new(ClientOptions { purpose, ability: Abilities(0x45), tls: TlsUse::Never });
    client.start(&mut bytes);
    let mut replies = Vec::new();
    let reply_to = ReplyTo::direct(StreamId::ZERO);
    for _ in 0..2 {
        let reply = forebay_proto::response::ProtocolReply { version: 0x511, flags: ServerFlags::IS_SERVER };
        reply_to.protocol(reply, &mut replies);
        let Ok(Progress::Continue { consumed }) = client.handle_input(&replies, &mut bytes) else { panic!() };
        replies.drain(..consumed);
    }

    let handle = FileHandle([0, 0, 0, 1]);
    let elements = [1, 2, 3].map(|len| ReadElement { handle, offset: 9, len });
    for (id, request) in [
        Request::Open(Open { mode: 0, options: OpenOptions(0x450), options_extended: 0, path: b"/f?a=b" }),
        Request::Stat(Stat { target: Target::Handle(handle), vfs: false }),
        Request::Read(Read { handle, offset: 7, len: 8, path_id: 0, prereads: Default::default() }),
        Request::Query(Query { kind: QueryKind::CONFIG, handle, argument: b"chksum tpc" }),
        Request::Dirlist(Dirlist { options: DirlistOptions::STAT, path: b"/" }),
        Request::Close(Close { handle }),
    ]
    .iter()
    .enumerate()
    {
        request.encode(StreamId::from(u16::try_from(id).unwrap()), &mut bytes);
    }
    encode_read_vector(StreamId([9, 9]), 0, &elements, &mut bytes);
    let mut put = |code, payload_len, payload: &[u8]| {
        RequestHeader { stream_id: StreamId([8, 8]), code, params: Params::default(), payload_len }.encode(&mut bytes);
        bytes.extend_from_slice(payload);
    };
    put(RequestCode(4000), 3, b"abc");
    put(RequestCode::WRITE, 5, b"12345");
    put(RequestCode::WRITEV, 16, b"hand\0\0\0\x04\0\0\0\0\0\0\0\0data");
    put(RequestCode::READ, 17 * 1024, &[0; 17 * 1024]);
    put(RequestCode::PING, 0, b"");
    bytes
}

/// The output of a server's session for `pieces`: its own answers, and the requests as text.
fn serve<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<String>) {
    let mut session = ServerSession::new(ServerOptions::FILES);
    let (mut input, mut out, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let consumed = match session.handle_input(&input, &mut out).unwrap() {
                Input::NeedMore { at_least } => {
                    assert!(at_least > input.len());
                    break;
                }
                Input::Skipped { consumed } => {
                    assert!(consumed > 0);
                    consumed
                }
                Input::Request { consumed, stream_id, request } => {
                    requests.push(format!("{stream_id:?} {request:?}"));
                    if let Request::Login(login) = request {
                        session.accept_login(stream_id, &login, SessionId([3; 16]), &mut out);
                    }
                    consumed
                }
            };
            input.drain(..consumed);
        }
    }
    assert!(input.is_empty());
    (out, requests)
}

#[test]
fn a_servers_session_does_not_see_how_its_input_is_cut() {
    let bytes = conversation();
    let whole = serve(std::iter::once(&bytes[..]));
    assert_eq!(whole.1.len(), 1 + 6 + 1 + 2 + 1, "{:#?}", whole.1);
    for at in (0..2000).chain(bytes.len() - 100..bytes.len()) {
        let (first, second) = bytes.split_at(at);
        assert_eq!(serve([first, second].into_iter()), whole, "cut at {at}");
    }
    for len in [1, 2, 3, 5, 23, 24, 25, 1024] {
        assert_eq!(serve(bytes.chunks(len)), whole, "pieces of {len}");
    }
}

/// The output of a client's session for `pieces`: bytes sent, facts learnt, bytes left over.
fn set_up<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Peer, Vec<u8>) {
    let purpose = ClientPurpose::Login { pid: 1, username: "u".into(), cgi: String::new() };
    let mut session = ClientSession::new(ClientOptions { purpose, ability: Abilities::FULL_URL, tls: TlsUse::Never });
    let (mut input, mut out, mut ready) = (Vec::new(), Vec::new(), false);
    for piece in pieces {
        input.extend_from_slice(piece);
        while !ready {
            match session.handle_input(&input, &mut out).unwrap() {
                Progress::NeedMore { at_least } => {
                    assert!(at_least > input.len());
                    break;
                }
                Progress::Continue { consumed } => drop(input.drain(..consumed)),
                Progress::StartTls { .. } => panic!("TLS was not negotiated"),
                Progress::Authenticate { .. } => panic!("the server asks for proof"),
                Progress::Ready { consumed } => {
                    input.drain(..consumed);
                    ready = true;
                }
            }
        }
    }
    assert!(ready);
    (out, *session.peer(), input)
}

#[test]
fn a_clients_session_does_not_see_how_its_input_is_cut() {
    let mut bytes = Vec::new();
    let reply_to = ReplyTo::direct(StreamId::ZERO);
    for _ in 0..2 {
        let reply = forebay_proto::response::ProtocolReply { version: 0x511, flags: ServerFlags::IS_SERVER };
        reply_to.protocol(reply, &mut bytes);
    }
    reply_to.login(SessionId([5; 16]), &mut bytes);
    bytes.extend_from_slice(b"first response");
    let whole = set_up(std::iter::once(&bytes[..]));
    assert_eq!(whole.2, b"first response");
    for at in 0..bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(set_up([first, second].into_iter()), whole, "cut at {at}");
    }
    assert_eq!(set_up(bytes.chunks(1)), whole);
}
