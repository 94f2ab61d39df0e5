//! One connection of a scripted server.

use super::{Reply, Seen, Server, answer::Context};
use bytes::{Buf, BytesMut};
use forebay_proto::{
    Input, Request, RequestCode, ServerOptions, ServerSession, SessionId, StreamId, response::ReplyTo,
};
use forebay_types::ByteRange;
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
};

type Outgoing = UnboundedSender<Out>;

/// A step of sending.
enum Out {
    Bytes(Vec<u8>),
    Mute,
    Close,
}

struct Connection {
    server: Arc<Server>,
    out: Outgoing,
    held: Vec<Vec<u8>>,
}

/// Serves a connection until it ends, in both directions at once.
pub(super) async fn serve(stream: TcpStream, server: Arc<Server>) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    let (out, outgoing) = mpsc::unbounded_channel();
    let connection = Connection { server, out, held: Vec::new() };
    tokio::select! {
        received = receive(reader, connection) => received,
        sent = send(writer, outgoing) => sent,
    }
}

async fn send(mut writer: OwnedWriteHalf, mut outgoing: UnboundedReceiver<Out>) -> io::Result<()> {
    let mut is_muted = false;
    while let Some(out) = outgoing.recv().await {
        match out {
            Out::Bytes(bytes) if !is_muted => writer.write_all(&bytes).await?,
            Out::Bytes(_) => {}
            Out::Mute => is_muted = true,
            Out::Close => return Ok(()),
        }
    }
    Ok(())
}

async fn receive(mut reader: OwnedReadHalf, mut connection: Connection) -> io::Result<()> {
    let flags = connection.server.facts.flags;
    let mut session = ServerSession::new(ServerOptions { flags, ..ServerOptions::FILES });
    let mut input = BytesMut::new();
    loop {
        let mut output = Vec::new();
        let handled = session.handle_input(&input, &mut output).map_err(io::Error::other)?;
        let mut accepted = None;
        let consumed = match handled {
            Input::NeedMore { .. } => {
                if reader.read_buf(&mut input).await? == 0 {
                    return Ok(());
                }
                continue;
            }
            Input::Skipped { consumed } => consumed,
            Input::Request { consumed, stream_id, request } => {
                accepted = connection.handle(stream_id, request, &mut output);
                consumed
            }
        };
        if let Some(session_id) = accepted
            && let Input::Request { stream_id, request: Request::Login(login), .. } = handled
        {
            session.accept_login(stream_id, &login, session_id, &mut output);
        }
        let _ = connection.out.send(Out::Bytes(output));
        input.advance(consumed);
    }
}

impl Connection {
    /// Answers a request; a login that is accepted, whose session id is returned, is answered by the session.
    fn handle(&mut self, stream_id: StreamId, request: Request<'_>, output: &mut Vec<u8>) -> Option<SessionId> {
        let reply = self.server.judge(seen(&request));
        match request {
            Request::Login(_) if reply == Reply::Good => {
                let mut sessions = self.server.sessions.lock();
                *sessions += 1;
                Some(SessionId([*sessions; 16]))
            }
            Request::Bind(_) => {
                let code = forebay_proto::ErrorCode::UNSUPPORTED;
                ReplyTo::direct(stream_id).error(code, "no parallel streams here", output);
                None
            }
            request => {
                self.answer(stream_id, &request, reply);
                None
            }
        }
    }

    fn answer(&mut self, stream_id: StreamId, request: &Request<'_>, reply: Reply) {
        let context = Context { facts: &self.server.facts, to: ReplyTo::direct(stream_id), stream_id };
        let good = |context: Context<'_>| context.good(request);
        let direct = ReplyTo::direct(stream_id);
        let mut frames = Vec::new();
        let mut end = None;
        match reply {
            Reply::Good => frames = good(context),
            Reply::Error(code, text) => direct.error(code, text, &mut frames),
            Reply::Wait(seconds) => direct.wait(seconds, "staging", &mut frames),
            Reply::Deferred => {
                direct.wait_response(60, &mut frames);
                frames.extend(good(Context { to: ReplyTo::deferred(stream_id), ..context }));
            }
            Reply::Redirect(endpoint, cgi) => direct.redirect_to_host(&endpoint, &cgi, &mut frames),
            Reply::RedirectUrl(url) => direct.redirect_to_url(&url, &mut frames),
            Reply::Silence => {}
            Reply::CutAfter(len) => {
                frames = good(context);
                frames.truncate(len);
                end = Some(Out::Close);
            }
            Reply::StallAfter(len) => {
                frames = good(context);
                frames.truncate(len);
                end = Some(Out::Mute);
            }
            Reply::Short(len) => frames = context.short(request, len),
            Reply::CorruptPage(offset) => frames = context.corrupt(request, offset),
            Reply::Body(body) => direct.ok_with(&body, &mut frames),
            Reply::Hold(count) => {
                self.held.push(good(context));
                if self.held.len() >= count {
                    for frames in self.held.drain(..).rev() {
                        let _ = self.out.send(Out::Bytes(frames));
                    }
                }
                return;
            }
        }
        let _ = self.out.send(Out::Bytes(frames));
        end.map(|end| self.out.send(end));
    }
}

fn seen(request: &Request<'_>) -> Seen {
    let path = match request {
        Request::Open(open) => open.path,
        Request::Stat(stat) => stat.target.path().unwrap_or_default(),
        Request::Dirlist(dirlist) => dirlist.path,
        Request::Locate(locate) => locate.path,
        Request::Query(query) => query.argument,
        _ => &[],
    };
    let (ranges, retry) = match request {
        Request::Read(read) => (vec![ByteRange::at(read.offset, read.len.into())], false),
        Request::PageRead(read) => (vec![ByteRange::at(read.offset, read.len.into())], read.retry),
        Request::ReadVector(read) => {
            (read.elements.iter().map(|element| ByteRange::at(element.offset, element.len.into())).collect(), false)
        }
        _ => (Vec::new(), false),
    };
    let code: RequestCode = request.code();
    let path = String::from_utf8_lossy(path).into_owned();
    Seen { code, nth: 0, path, ranges, retry }
}
