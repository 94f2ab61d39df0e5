//! A client that speaks to a server frame by frame.

use forebay_proto::{
    Abilities, ErrorCode, FileHandle, OpenOptions, ProtocolRequestFlags, Request, RequestCode, SessionId, Status,
    StreamId,
    page::{FrameKind, StatusFrame, decode_pages},
    request::{Close, Expect, Login, Open, PageRead, Protocol, Query, Read, ReadElement, Username, encode_read_vector},
    response::{Attention, ErrorBody, OpenReply, VectorData},
};
use std::{collections::HashMap, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What a client sends first.
pub(crate) const HANDSHAKE: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0x07, 0xdc];

/// A client's connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    pub(crate) session_id: SessionId,
    next_stream_id: u16,
}

/// One frame as received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) stream_id: StreamId,
    pub(crate) status: Status,
    pub(crate) body: Vec<u8>,
    /// What follows the body of a status frame.
    pub(crate) data: Vec<u8>,
}

/// A final answer: its whole body, or its error.
pub(crate) type Answer = Result<Vec<u8>, (ErrorCode, String)>;

impl Peer {
    /// A connection on which nothing has been said.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, session_id: SessionId::default(), next_stream_id: 1 }
    }

    /// A connection that has shaken hands.
    pub(crate) async fn greet(address: SocketAddr, expect: Expect) -> Self {
        Self::try_greet(address, expect).await.expect("the connection is open")
    }

    /// A connection that has shaken hands; `None` when the server has closed it before.
    pub(crate) async fn try_greet(address: SocketAddr, expect: Expect) -> Option<Self> {
        let mut peer = Self::connect(address).await;
        let mut bytes = HANDSHAKE.to_vec();
        Request::Protocol(protocol(expect)).encode(StreamId::ZERO, &mut bytes);
        peer.stream.write_all(&bytes).await.ok()?;
        assert_eq!(peer.try_frame().await?.body.len(), 8);
        assert_eq!(peer.try_frame().await?.status, Status::OK);
        Some(peer)
    }

    /// A connection that has logged in and understands answers that are put off.
    pub(crate) async fn login(address: SocketAddr, user: &str) -> Self {
        Self::login_as(address, user, Login::ASYNC | 5).await
    }

    /// A connection that has logged in with the given version of abilities.
    pub(crate) async fn login_as(address: SocketAddr, user: &str, capver: u8) -> Self {
        let mut peer = Self::greet(address, Expect::LOGIN).await;
        peer.prove(user, capver).await;
        peer
    }

    /// Logs in on a connection that has shaken hands.
    pub(crate) async fn prove(&mut self, user: &str, capver: u8) {
        let login = Login {
            pid: 1,
            username: Username::new(user),
            ability2: 0,
            ability: Abilities(0xdd),
            capver,
            cgi: b"xrd.appname=test",
        };
        let reply = self.call(Request::Login(login)).await.unwrap();
        self.session_id = SessionId(reply.try_into().unwrap());
    }

    pub(crate) async fn send(&mut self, stream_id: u16, request: Request<'_>) {
        let mut bytes = Vec::new();
        request.encode(StreamId::from(stream_id), &mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
    }

    /// The next frame; `None` when the server has closed the connection.
    pub(crate) async fn try_frame(&mut self) -> Option<Frame> {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header).await.ok()?;
        let [id0, id1, status0, status1, len @ ..] = header;
        let mut body = vec![0; u32::from_be_bytes(len) as usize];
        self.stream.read_exact(&mut body).await.unwrap();
        let (stream_id, status) = (StreamId([id0, id1]), Status(u16::from_be_bytes([status0, status1])));
        let mut data = Vec::new();
        if status == Status::STATUS {
            data = vec![0; StatusFrame::decode(stream_id, &body).unwrap().data_len as usize];
            self.stream.read_exact(&mut data).await.unwrap();
        }
        assert!(status != Status::ERROR || body.len() >= 5, "an error without text makes clients abort");
        Some(Frame { stream_id, status, body, data })
    }

    pub(crate) async fn frame(&mut self) -> Frame {
        self.try_frame().await.expect("the connection is open")
    }

    /// Whether the server has closed the connection, with nothing sent before.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.stream.read_u8().await.is_err()
    }

    /// Sends a request and collects the frames of its answer; a final one may come deferred.
    pub(crate) async fn call(&mut self, request: Request<'_>) -> Answer {
        let stream_id = self.next_stream_id();
        self.send(stream_id, request).await;
        self.answer(stream_id).await
    }

    /// As [`Self::call`]; `None` when the server has closed the connection.
    pub(crate) async fn try_call(&mut self, request: Request<'_>) -> Option<Answer> {
        let stream_id = self.next_stream_id();
        let mut bytes = Vec::new();
        request.encode(StreamId::from(stream_id), &mut bytes);
        self.stream.write_all(&bytes).await.ok()?;
        self.try_answer(stream_id).await
    }

    pub(crate) fn next_stream_id(&mut self) -> u16 {
        self.next_stream_id += 1;
        self.next_stream_id
    }

    pub(crate) async fn answer(&mut self, stream_id: u16) -> Answer {
        self.try_answer(stream_id).await.expect("the connection is open")
    }

    pub(crate) async fn try_answer(&mut self, stream_id: u16) -> Option<Answer> {
        let mut answers = self.try_answers(&[stream_id]).await?;
        Some(answers.pop().unwrap().1)
    }

    /// Collects the answers to several requests, in the order in which they are complete.
    pub(crate) async fn answers(&mut self, stream_ids: &[u16]) -> Vec<(u16, Answer)> {
        self.try_answers(stream_ids).await.expect("the connection is open")
    }

    async fn try_answers(&mut self, stream_ids: &[u16]) -> Option<Vec<(u16, Answer)>> {
        let mut bodies: HashMap<u16, Vec<u8>> = stream_ids.iter().map(|id| (*id, Vec::new())).collect();
        let mut answers = Vec::new();
        while !bodies.is_empty() {
            let frame = self.try_frame().await?;
            let (id, status, body) = match frame.status {
                Status::ATTN => match Attention::parse(&frame.body).unwrap() {
                    Attention::Deferred { header, body } => {
                        assert_eq!((frame.stream_id, header.body_len as usize), (StreamId::ZERO, body.len()));
                        (u16::from(header.stream_id), header.status, body.to_vec())
                    }
                    other => panic!("{other:?}"),
                },
                status => (u16::from(frame.stream_id), status, frame.body.clone()),
            };
            let collected = bodies.get_mut(&id).expect("an answer that was asked for");
            let answer = match status {
                Status::OKSOFAR => {
                    collected.extend(body);
                    continue;
                }
                Status::WAITRESP => continue,
                Status::OK => {
                    collected.extend(body);
                    Ok(bodies.remove(&id).unwrap())
                }
                Status::ERROR => {
                    bodies.remove(&id);
                    let ErrorBody { code, text } = ErrorBody::parse(&body).unwrap();
                    Err((code, text))
                }
                other => panic!("{other} {body:?}"),
            };
            answers.push((id, answer));
        }
        Some(answers)
    }

    pub(crate) async fn error(&mut self, request: Request<'_>) -> ErrorCode {
        self.call(request).await.unwrap_err().0
    }

    pub(crate) async fn open(&mut self, path: &str) -> FileHandle {
        self.try_open(path).await.expect("the connection is open")
    }

    pub(crate) async fn try_open(&mut self, path: &str) -> Option<FileHandle> {
        let reply = self.try_call(open(path, OpenOptions::READ)).await?.unwrap();
        Some(OpenReply::parse(&reply).unwrap().handle)
    }

    pub(crate) async fn close(&mut self, handle: FileHandle) -> Answer {
        self.call(Request::Close(Close { handle })).await
    }

    pub(crate) async fn read(&mut self, handle: FileHandle, offset: u64, len: u32) -> Answer {
        self.call(read(handle, offset, len)).await
    }

    pub(crate) async fn send_readv(&mut self, stream_id: u16, path_id: u8, elements: &[ReadElement]) {
        let mut bytes = Vec::new();
        encode_read_vector(StreamId::from(stream_id), path_id, elements, &mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
    }

    pub(crate) async fn readv(
        &mut self,
        elements: &[ReadElement],
    ) -> Result<Vec<(ReadElement, Vec<u8>)>, (ErrorCode, String)> {
        let stream_id = self.next_stream_id();
        self.send_readv(stream_id, 0, elements).await;
        let body = self.answer(stream_id).await?;
        Ok(VectorData::new(&body).map(|item| item.map(|(element, data)| (element, data.to_vec())).unwrap()).collect())
    }

    /// Reads pages, checks them and the frames they come in, and returns their data.
    pub(crate) async fn pgread(&mut self, handle: FileHandle, offset: u64, len: u32) -> Answer {
        let stream_id = self.next_stream_id();
        self.send(stream_id, pgread(handle, offset, len)).await;
        self.pages(stream_id, offset).await
    }

    pub(crate) async fn pages(&mut self, stream_id: u16, offset: u64) -> Answer {
        let mut data = Vec::new();
        loop {
            let frame = self.frame().await;
            if frame.status == Status::WAITRESP {
                continue;
            }
            assert_eq!(frame.stream_id, StreamId::from(stream_id));
            if frame.status == Status::ERROR {
                let ErrorBody { code, text } = ErrorBody::parse(&frame.body).unwrap();
                return Err((code, text));
            }
            let status = StatusFrame::decode(frame.stream_id, &frame.body).unwrap();
            assert_eq!((status.request, status.offset), (RequestCode::PGREAD, offset + data.len() as u64));
            assert!(data.is_empty() || status.offset.is_multiple_of(4096), "frames after the first are aligned");
            for page in decode_pages(status.offset, &frame.data).unwrap() {
                assert!(page.is_intact);
                data.extend_from_slice(page.data);
            }
            if status.kind == FrameKind::Final {
                return Ok(data);
            }
        }
    }

    pub(crate) async fn query(&mut self, kind: forebay_proto::QueryKind, argument: &str) -> Result<String, ErrorCode> {
        let query = Query { kind, handle: FileHandle::default(), argument: argument.as_bytes() };
        let answer = self.call(Request::Query(query)).await;
        answer.map(|body| String::from_utf8(body).unwrap()).map_err(|(code, _)| code)
    }
}

pub(crate) const fn protocol(expect: Expect) -> Protocol {
    Protocol { client_version: 0x511, flags: ProtocolRequestFlags(0x09), expect }
}

pub(crate) fn open(path: &str, options: OpenOptions) -> Request<'_> {
    Request::Open(Open { mode: 0, options, options_extended: 0, path: path.as_bytes() })
}

pub(crate) fn read(handle: FileHandle, offset: u64, len: u32) -> Request<'static> {
    read_by(0, handle, offset, len)
}

pub(crate) fn read_by(path_id: u8, handle: FileHandle, offset: u64, len: u32) -> Request<'static> {
    Request::Read(Read { handle, offset, len, path_id, prereads: Default::default() })
}

pub(crate) fn pgread(handle: FileHandle, offset: u64, len: u32) -> Request<'static> {
    pgread_by(0, handle, offset, len)
}

pub(crate) fn pgread_by(path_id: u8, handle: FileHandle, offset: u64, len: u32) -> Request<'static> {
    Request::PageRead(PageRead { handle, offset, len, path_id, retry: false })
}

pub(crate) const fn element(handle: FileHandle, offset: u64, len: u32) -> ReadElement {
    ReadElement { handle, offset, len }
}
