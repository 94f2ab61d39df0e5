//! When both roles switch to TLS, for every policy and every client.

use crate::frames::{frame, hex};
use forebay_proto::request::Login;
use forebay_proto::response::ErrorBody;
use forebay_proto::{
    Abilities, ClientError, ClientOptions, ClientPurpose, ClientSession, ErrorCode, Input, Progress, Request,
    ServerFlags, ServerOptions, ServerSession, SessionId, Status, StreamId, TlsPolicy, TlsUse,
};

const SESSION: SessionId = SessionId([7; 16]);
const HANDSHAKE: &str = "00000000 00000000 00000000 00000004 000007dc";

/// Where a connection was encrypted, if at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Switch {
    Never,
    BeforeLogin,
    BehindLogin,
}

/// A client and a server whose bytes need no socket, nor a handshake.
struct Pair {
    client: ClientSession,
    server: ServerSession,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    switch: Switch,
    has_entered: bool,
}

impl Pair {
    fn new(policy: TlsPolicy, tls: TlsUse, purpose: ClientPurpose) -> Self {
        let client = ClientSession::new(ClientOptions { purpose, ability: Abilities::FULL_URL, tls });
        let mut to_server = Vec::new();
        client.start(&mut to_server);
        let server = ServerSession::new(ServerOptions { tls: policy, ..ServerOptions::CACHE });
        Self { client, server, to_server, to_client: Vec::new(), switch: Switch::Never, has_entered: false }
    }

    /// Goes through the whole set-up.
    fn run(mut self) -> Result<Switch, ClientError> {
        loop {
            self.serve();
            match self.client.handle_input(&self.to_client, &mut self.to_server)? {
                Progress::NeedMore { .. } => panic!("the server leaves the client waiting"),
                Progress::Continue { consumed } => drop(self.to_client.drain(..consumed)),
                Progress::Ready { .. } => return Ok(self.end()),
                Progress::Authenticate { .. } => panic!("the server asks for proof"),
                Progress::StartTls { consumed } => {
                    self.to_client.drain(..consumed);
                    assert!(self.to_client.is_empty(), "something was sent after the switch");
                    assert!(self.server.is_tls_due(), "the server does not expect the handshake");
                    self.server.tls_started();
                    self.switch = if self.has_entered { Switch::BehindLogin } else { Switch::BeforeLogin };
                    if let Progress::Ready { .. } = self.client.handle_tls_started(&mut self.to_server) {
                        return Ok(self.end());
                    }
                }
            }
        }
    }

    fn serve(&mut self) {
        while !self.to_server.is_empty() {
            assert!(!self.server.is_tls_due(), "the client continues in clear");
            let consumed = match self.server.handle_input(&self.to_server, &mut self.to_client).unwrap() {
                Input::NeedMore { at_least } => panic!("{at_least} bytes are needed"),
                Input::Skipped { consumed } => consumed,
                Input::Request { consumed, stream_id, request } => {
                    self.has_entered = true;
                    match request {
                        Request::Login(login) => {
                            self.server.accept_login(stream_id, &login, SESSION, &mut self.to_client);
                        }
                        Request::Bind(_) => self.server.accept_bind(stream_id, 1, &mut self.to_client),
                        request => panic!("{request:?}"),
                    }
                    consumed
                }
            };
            self.to_server.drain(..consumed);
        }
    }

    fn end(self) -> Switch {
        assert!(!self.server.is_tls_due());
        assert_eq!(self.server.is_tls(), self.switch != Switch::Never);
        assert_eq!(self.client.peer().is_tls, self.switch != Switch::Never);
        self.switch
    }
}

fn log_in(policy: TlsPolicy, tls: TlsUse) -> Result<Switch, ClientError> {
    Pair::new(policy, tls, ClientPurpose::Login { pid: 1, username: "u".into(), cgi: String::new() }).run()
}

fn bind(policy: TlsPolicy, tls: TlsUse) -> Result<Switch, ClientError> {
    Pair::new(policy, tls, ClientPurpose::Bind { session_id: SESSION }).run()
}

#[test]
fn clients_that_can_switch_where_the_policy_says() {
    for (policy, login, parallel) in [
        (TlsPolicy::None, Switch::Never, Switch::Never),
        (TlsPolicy::Capable, Switch::Never, Switch::Never),
        (TlsPolicy::Login, Switch::BeforeLogin, Switch::Never),
        (TlsPolicy::Session, Switch::BehindLogin, Switch::Never),
        (TlsPolicy::Data, Switch::BehindLogin, Switch::BeforeLogin),
        (TlsPolicy::All, Switch::BeforeLogin, Switch::BeforeLogin),
    ] {
        assert_eq!(log_in(policy, TlsUse::WhenDemanded), Ok(login), "{policy:?}");
        assert_eq!(bind(policy, TlsUse::WhenDemanded), Ok(parallel), "{policy:?}");
    }
}

#[test]
fn clients_that_insist_are_never_in_clear() {
    for policy in TlsPolicy::ALL {
        let expected = if policy == TlsPolicy::None { Err(ClientError::TlsMissing) } else { Ok(Switch::BeforeLogin) };
        assert_eq!(log_in(policy, TlsUse::Always), expected, "{policy:?}");
        assert_eq!(bind(policy, TlsUse::Always), expected, "{policy:?}");
    }
}

#[test]
fn clients_without_tls_are_served_where_nothing_demands_it() {
    for policy in [TlsPolicy::None, TlsPolicy::Capable] {
        assert_eq!(log_in(policy, TlsUse::Never), Ok(Switch::Never));
        assert_eq!(bind(policy, TlsUse::Never), Ok(Switch::Never));
    }
    for policy in [TlsPolicy::Login, TlsPolicy::Session, TlsPolicy::Data, TlsPolicy::All] {
        assert_eq!(log_in(policy, TlsUse::Never), Err(ClientError::TlsRequired), "{policy:?}");
    }
}

#[test]
fn the_server_refuses_logins_and_binds_that_the_policy_forbids() {
    let login = "0000 0bbf 000038bb 726f6f7400000000 00 dd 85 00 00000000";
    let bind = "0000 0bd0 07070707070707070707070707070707 00000000";
    // The client's flags, then its behaviour without TLS.
    let (unable, able) = ("09", "0b");
    for (policy, said, request, is_refused) in [
        (TlsPolicy::Login, unable, login, true),
        (TlsPolicy::Session, unable, login, true),
        (TlsPolicy::Session, able, login, false),
        (TlsPolicy::Data, unable, login, true),
        (TlsPolicy::Data, unable, bind, true),
        (TlsPolicy::All, unable, bind, true),
        (TlsPolicy::Login, unable, bind, false),
        (TlsPolicy::Session, unable, bind, false),
        (TlsPolicy::Capable, unable, login, false),
    ] {
        let protocol = format!("0000 0bbe 00000511 {said} 00 00000000000000000000 00000000");
        let mut session = ServerSession::new(ServerOptions { tls: policy, ..ServerOptions::CACHE });
        let mut out = Vec::new();
        for part in [HANDSHAKE, &protocol] {
            session.handle_input(&hex(part), &mut out).unwrap();
        }
        out.clear();
        let input = hex(request);
        let taken = session.handle_input(&input, &mut out).unwrap();
        assert_eq!(matches!(taken, Input::Skipped { .. }), is_refused, "{policy:?} {said} {request}");
        if is_refused {
            let (header, body) = frame(&out);
            assert_eq!(header.status, Status::ERROR);
            assert_eq!(ErrorBody::parse(&body).unwrap().code, ErrorCode::TLS_REQUIRED);
        }
    }
}

#[test]
fn a_login_before_any_protocol_request_is_one_without_tls() {
    for (policy, is_refused) in [(TlsPolicy::Session, true), (TlsPolicy::Capable, false)] {
        let mut session = ServerSession::new(ServerOptions { tls: policy, ..ServerOptions::CACHE });
        let mut out = Vec::new();
        session.handle_input(&hex(HANDSHAKE), &mut out).unwrap();
        let input = hex("0000 0bbf 000038bb 726f6f7400000000 00 dd 85 00 00000000");
        let taken = session.handle_input(&input, &mut out).unwrap();
        assert_eq!(matches!(taken, Input::Skipped { .. }), is_refused, "{policy:?}");
    }
}

#[test]
fn clients_of_old_hear_nothing_of_tls() {
    let mut session = ServerSession::new(ServerOptions { tls: TlsPolicy::All, ..ServerOptions::CACHE });
    let mut out = Vec::new();
    session.handle_input(&hex(HANDSHAKE), &mut out).unwrap();
    out.clear();
    session.handle_input(&hex("0000 0bbe 00000000 06 03 00000000000000000000 00000000"), &mut out).unwrap();
    assert_eq!(frame(&out).1, hex("00000511 00000001"));
    assert!(!session.is_tls_due());
}

#[test]
fn a_connection_switches_once() {
    let mut session = ServerSession::new(ServerOptions { tls: TlsPolicy::All, ..ServerOptions::CACHE });
    let (mut out, wants) = (Vec::new(), hex("0000 0bbe 00000511 06 03 00000000000000000000 00000000"));
    session.handle_input(&hex(HANDSHAKE), &mut out).unwrap();
    out.clear();
    session.handle_input(&wants, &mut out).unwrap();
    assert!(session.is_tls_due());
    let flags = |out: &[u8]| ServerFlags(u32::from_be_bytes(frame(out).1[4..8].try_into().unwrap()));
    assert!(flags(&out).contains(ServerFlags::GOTO_TLS));
    session.tls_started();
    out.clear();
    session.handle_input(&wants, &mut out).unwrap();
    assert!(!flags(&out).contains(ServerFlags::GOTO_TLS));
    assert!(flags(&out).contains(ServerFlags::HAVE_TLS));
    assert!(session.is_tls() && !session.is_tls_due());
    let login = hex("0000 0bbf 000038bb 726f6f7400000000 00 dd 85 00 00000000");
    let Ok(Input::Request { request: Request::Login(login), .. }) = session.handle_input(&login, &mut out) else {
        panic!()
    };
    session.accept_login(StreamId::ZERO, &login, SESSION, &mut out);
    assert!(!session.is_tls_due());
}

#[test]
fn a_client_that_can_do_tls_says_so_at_login() {
    let purpose = ClientPurpose::Login { pid: 1, username: "u".into(), cgi: String::new() };
    let options = ClientOptions { purpose, ability: Abilities::FULL_URL, tls: TlsUse::WhenDemanded };
    let mut session = ClientSession::new(options);
    let mut out = Vec::new();
    session.start(&mut out);
    assert_eq!(out[28], 0x03);
    out.clear();
    for reply in ["0000 0000 00000008 00000511 00000001", "0000 0000 00000008 00000511 80000001"] {
        session.handle_input(&hex(reply), &mut out).unwrap();
    }
    assert_eq!(out[18], Login::ASYNC | 5);
}

#[test]
fn a_server_older_than_tls_has_none() {
    let purpose = ClientPurpose::Login { pid: 1, username: "u".into(), cgi: String::new() };
    let mut session = ClientSession::new(ClientOptions { purpose, ability: Abilities::FULL_URL, tls: TlsUse::Always });
    let mut out = Vec::new();
    session.handle_input(&hex("0000 0000 00000008 00000310 00000001"), &mut out).unwrap();
    let told = session.handle_input(&hex("0000 0000 00000008 00000310 c0000001"), &mut out);
    assert_eq!(told, Err(ClientError::TlsMissing));
    assert!(out.is_empty(), "nothing is sent");
}
