//! One login: what a client does until a server takes requests from it.

use super::transport::{SERVER_NAME, TlsClient, Transport};
use anyhow::{Context as _, Result, bail, ensure};
use forebay_auth::gsi::{GsiClient, GsiClientSettings};
use forebay_auth::{
    Keytab, Offer, SecurityProtocol, SssParams, Token, UnixTime, ZtnParams, parse_offers, sss_message, ztn_message,
};
use forebay_net::clock;
use forebay_proto::request::{Auth, Login, Username};
use forebay_proto::response::{LoginReply, ProtocolReply, Response};
use forebay_proto::{
    Abilities, ClientOptions, ClientPurpose, ClientSession, RESPONSE_HEADER_LEN, Request, ResponseHeader, ServerFlags,
    StreamId, TlsUse,
};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

/// How a client connects and logs in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// Encryption from before the login on, where it is wanted.
    pub(crate) tls: Option<TlsClient>,
    /// The credentials, for servers that require them.
    pub(crate) proof: Option<Proof>,
}

/// Credentials of a client.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    Certificate(Arc<GsiClientSettings>),
    /// A token, which each server takes over TLS only.
    Token(Token),
    /// The first of some shared secrets.
    Secret(Arc<Keytab>),
}

/// The user that shared secrets are of.
pub(crate) const SECRET_USER: &str = "bench";

/// Longest reply of a login, bytes.
const REPLY_LEN_MAX: u32 = 64 << 10;

/// Messages of one proof.
const MESSAGES_MAX: u32 = 4;

impl Proof {
    const fn protocol(&self) -> SecurityProtocol {
        match self {
            Self::Certificate(_) => SecurityProtocol::Gsi,
            Self::Token(_) => SecurityProtocol::Ztn,
            Self::Secret(_) => SecurityProtocol::Sss,
        }
    }
}

/// A connection on which a session is being opened.
struct Opening {
    transport: Transport,
    body: Vec<u8>,
}

/// Opens a session over a new connection, which reads and writes blocking.
pub(super) fn log_in(socket: TcpStream, entry: &Entry) -> Result<Transport> {
    let mut opening = Opening { transport: Transport::Plain(socket), body: Vec::new() };
    let (purpose, tls) = (
        ClientPurpose::Login { pid: std::process::id(), username: String::new(), cgi: String::new() },
        if entry.tls.is_some() { TlsUse::Always } else { TlsUse::Never },
    );
    let mut start = Vec::new();
    ClientSession::new(ClientOptions { purpose, ability: Abilities::default(), tls }).start(&mut start);
    opening.transport.write_all(&start)?;
    opening.accepted().context("handshake")?;
    let flags = ProtocolReply::parse(opening.accepted().context("protocol")?)?.flags;
    match &entry.tls {
        Some(tls) => {
            ensure!(flags.intersects(ServerFlags::GOTO_TLS.with(ServerFlags::TLS_LOGIN)), "the server has no TLS");
            opening.transport = opening.transport.encrypt(tls)?;
        }
        None => ensure!(!flags.intersects(ServerFlags::GOTO_TLS), "the server requires TLS"),
    }
    opening.send(&Request::Login(Login {
        pid: std::process::id(),
        username: Username::new(SECRET_USER),
        ability2: 0,
        ability: Abilities::default(),
        capver: Login::ASYNC | CLIENT_VERSION,
        cgi: b"",
    }))?;
    let wanted = LoginReply::parse(opening.accepted().context("login")?)?.security;
    match &entry.proof {
        Some(proof) => opening.prove(proof, &wanted).with_context(|| format!("{}", proof.protocol()))?,
        None => ensure!(wanted.trim_matches('\0').is_empty(), "the server wants to know who we are: {wanted}"),
    }
    Ok(opening.transport)
}

/// The version that a client claims: one that can do TLS.
const CLIENT_VERSION: u8 = 5;

impl Opening {
    fn send(&mut self, request: &Request<'_>) -> Result<()> {
        let mut out = Vec::new();
        request.encode(StreamId::ZERO, &mut out);
        self.transport.write_all(&out).context("the connection broke")
    }

    /// The body of the next reply.
    fn reply(&mut self) -> Result<Response<'_>> {
        let mut header = [0; RESPONSE_HEADER_LEN];
        self.transport.read_exact(&mut header).context("no answer")?;
        let header = ResponseHeader::decode(&header)?;
        ensure!(header.body_len <= REPLY_LEN_MAX, "an answer of {} bytes", header.body_len);
        self.body.resize(usize::try_from(header.body_len)?, 0);
        self.transport.read_exact(&mut self.body).context("half an answer")?;
        Ok(Response::decode(&header, &self.body)?)
    }

    /// The body of a reply that ends its request.
    fn accepted(&mut self) -> Result<&[u8]> {
        match self.reply()? {
            Response::Ok(body) => Ok(body),
            other => bail!("the server does not let us in: {other:?}"),
        }
    }

    /// Proves who we are to a server that accepts the protocols on the list `wanted`.
    fn prove(&mut self, proof: &Proof, wanted: &str) -> Result<()> {
        let offers = parse_offers(wanted.as_bytes())?;
        let offer = offers.iter().find(|offer| offer.protocol == proof.protocol());
        let offer = offer.with_context(|| format!("the server accepts {wanted} only"))?;
        let mut handshake = None;
        let mut message = self.first_message(proof, offer, &mut handshake)?;
        for _ in 0..MESSAGES_MAX {
            let credential_type = offer.protocol.credential_type();
            self.send(&Request::Auth(Auth { credential_type, credentials: &message }))?;
            let challenge = match self.reply()? {
                Response::Ok(_) => {
                    handshake.map(GsiClient::finish).transpose()?;
                    return Ok(());
                }
                Response::AuthMore(challenge) => challenge,
                other => bail!("refused: {other:?}"),
            };
            let handshake = handshake.as_mut().context("the server asks for more")?;
            let answer = handshake.handle(challenge, now())?;
            message = answer;
        }
        bail!("the server goes on asking")
    }

    fn first_message(&self, proof: &Proof, offer: &Offer, handshake: &mut Option<GsiClient>) -> Result<Vec<u8>> {
        Ok(match proof {
            Proof::Certificate(settings) => {
                let (client, message) = GsiClient::start(Arc::clone(settings), &offer.params, SERVER_NAME, now())?;
                *handshake = Some(client);
                message
            }
            Proof::Token(token) => ztn_message(token, ZtnParams::parse(&offer.params)?)?.to_vec(),
            Proof::Secret(keytab) => {
                let key = keytab.current(None, now()).context("no secret is good any more")?;
                let local = self.transport.socket().local_addr()?;
                sss_message(key, SECRET_USER, local, &SssParams::parse(&offer.params)?, now())?
            }
        })
    }
}

fn now() -> UnixTime {
    UnixTime(clock::now_unix())
}
