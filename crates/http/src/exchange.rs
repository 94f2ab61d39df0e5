//! One stream of HTTP/2: the answer to one request.

use crate::{
    options::{STREAM_PIECE_LEN, STREAM_RESERVED_LEN, STREAM_UNRESERVED_LEN},
    waiting::Waiting,
    wire::{AnswerHead, Terms, Wire},
};
use bytes::Bytes;
use forebay_front::{AnswerMemory, ConnectionMemory, DeliveryError, deliver_within};
use forebay_http_proto::{Answer, Framing};
use forebay_net::{SendError, SendHint};
use h2::{Reason, SendStream, server::SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::{future::poll_fn, io};
use tokio::net::TcpStream;

/// One stream of HTTP/2: the answer to one request. The client takes the bytes of each stream at its own speed.
pub(crate) struct Exchange {
    respond: SendResponse<Bytes>,
    head: Option<KeptHead>,
    body: Option<SendStream<Bytes>>,
    memory: AnswerMemory,
    is_reserved: bool,
    /// Bytes of the body sent so far.
    sent_len: usize,
}

/// A head that has not been sent yet.
struct KeptHead {
    head: Response<()>,
    has_no_body: bool,
}

/// The field after the body with the status of its delivery.
const TRAILER: HeaderName = HeaderName::from_static("x-transfer-status");

impl Exchange {
    pub(crate) fn new(respond: SendResponse<Bytes>, memory: &ConnectionMemory) -> Self {
        Self { respond, head: None, body: None, memory: memory.answer(), is_reserved: false, sent_len: 0 }
    }

    /// Sends the last bytes and ends the answer, with `status` after the body if there is one.
    pub(crate) async fn finish(
        &mut self,
        waiting: Bytes,
        status: Option<&str>,
        terms: &Terms,
    ) -> Result<(), DeliveryError> {
        let mut rest = waiting;
        let last = rest.split_off(rest.len().saturating_sub(STREAM_PIECE_LEN));
        self.send(rest, terms).await?;
        if let Some(KeptHead { head, has_no_body: true }) = self.head.take_if(|kept| kept.has_no_body) {
            return self.respond.send_response(head, true).map(drop).map_err(broken);
        }
        self.start()?;
        self.send_piece(last, status.is_none(), terms).await?;
        let Some(status) = status else { return Ok(()) };
        let mut trailers = HeaderMap::new();
        trailers.extend(HeaderValue::from_str(status).map(|status| (TRAILER, status)));
        self.body()?.send_trailers(trailers).map_err(broken)
    }

    /// Breaks the answer off: the client must not take it for complete.
    pub(crate) fn reset(&mut self) {
        match &mut self.body {
            Some(body) => body.send_reset(Reason::INTERNAL_ERROR),
            None => self.respond.send_reset(Reason::INTERNAL_ERROR),
        }
    }

    /// Sends the head, if it was not sent before.
    fn start(&mut self) -> Result<(), DeliveryError> {
        if let Some(KeptHead { head, .. }) = self.head.take() {
            self.body = Some(self.respond.send_response(head, false).map_err(broken)?);
        }
        Ok(())
    }

    fn body(&mut self) -> Result<&mut SendStream<Bytes>, DeliveryError> {
        self.body.as_mut().ok_or_else(|| broken_with("bytes of a body before its head"))
    }

    async fn send(&mut self, mut bytes: Bytes, terms: &Terms) -> Result<(), DeliveryError> {
        while !bytes.is_empty() {
            self.start()?;
            let piece = bytes.split_to(bytes.len().min(STREAM_PIECE_LEN));
            self.send_piece(piece, false, terms).await?;
        }
        Ok(())
    }

    /// Waits for the memory of this answer, or until the client gives it up: other answers of the connection may have all of its share, as
    /// long as the client takes their bytes.
    async fn reserve(&mut self) -> Result<(), DeliveryError> {
        if self.is_reserved {
            return Ok(());
        }
        let Self { respond, body, memory, .. } = self;
        tokio::select! {
            biased;
            () = memory.reserve(STREAM_RESERVED_LEN) => {}
            () = given_up(respond, body) => return Err(broken(Reason::CANCEL.into())),
        }
        self.is_reserved = true;
        Ok(())
    }

    /// Sends a piece as the client takes it. Bytes that wait for the client have memory of the connection's share.
    async fn send_piece(&mut self, mut piece: Bytes, is_last: bool, terms: &Terms) -> Result<(), DeliveryError> {
        if self.sent_len + piece.len() > STREAM_UNRESERVED_LEN {
            self.reserve().await?;
        }
        self.sent_len += piece.len();
        if piece.is_empty() && is_last {
            return self.body()?.send_data(piece, true).map_err(broken);
        }
        while !piece.is_empty() {
            let body = self.body()?;
            body.reserve_capacity(piece.len());
            let len = match body.capacity() {
                0 => capacity_of(body, terms).await?,
                len => len,
            };
            let now = piece.split_to(len.min(piece.len()));
            let is_end = is_last && piece.is_empty();
            body.send_data(now, is_end).map_err(broken)?;
        }
        Ok(())
    }
}

impl Wire for Exchange {
    fn begin(&mut self, head: &AnswerHead<'_>, _waiting: &mut Waiting) {
        let has_no_body = head.has_no_body || matches!(head.answer.framing, Framing::None | Framing::Length(0));
        self.head = Some(KeptHead { head: head_of(head.answer, head.date), has_no_body });
    }

    fn take_back(&mut self) -> bool {
        self.head.take().is_some()
    }

    fn plain(&self) -> Option<&TcpStream> {
        None
    }

    async fn send_waiting(
        &mut self,
        waiting: &mut Waiting,
        _hint: SendHint,
        terms: &Terms,
    ) -> Result<(), DeliveryError> {
        // A copy: the buffer is longer than its bytes, and would not be counted while they wait for the client.
        let bytes = Bytes::copy_from_slice(waiting.bytes());
        waiting.clear();
        self.send(bytes, terms).await
    }

    async fn send_bytes(&mut self, bytes: &Bytes, terms: &Terms) -> Result<(), DeliveryError> {
        self.send(bytes.clone(), terms).await
    }

    async fn read_memory(&mut self, _connection: &ConnectionMemory) -> Result<AnswerMemory, DeliveryError> {
        self.reserve().await?;
        Ok(self.memory.of_reads())
    }

    async fn left(&mut self) {
        given_up(&mut self.respond, &mut self.body).await;
    }
}

/// Waits until the client resets the stream, or the connection ends.
async fn given_up(respond: &mut SendResponse<Bytes>, body: &mut Option<SendStream<Bytes>>) {
    // An error means that the connection has ended.
    let _ = poll_fn(|context| match body {
        Some(body) => body.poll_reset(context),
        None => respond.poll_reset(context),
    })
    .await;
}

/// Waits until the client takes bytes; returns their number.
async fn capacity_of(body: &mut SendStream<Bytes>, terms: &Terms) -> Result<usize, DeliveryError> {
    let mut len = 0;
    let taken = async {
        while len == 0 {
            len = match poll_fn(|context| body.poll_capacity(context)).await {
                Some(len) => len.map_err(of_connection)?,
                None => return Err(of_connection(Reason::CANCEL.into())),
            };
        }
        Ok(())
    };
    deliver_within(terms.stall_max, taken).await?;
    Ok(len)
}

/// The head of an answer as HTTP/2 has it: the end of the body needs no field.
fn head_of(answer: &Answer, date: &str) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::from_u16(answer.status.0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = head.headers_mut();
    for (name, value) in answer.fields().chain([("Date", date)]) {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        {
            fields.append(name, value);
        }
    }
    match answer.framing {
        Framing::Length(len) => {
            fields.insert(http::header::CONTENT_LENGTH, len.into());
        }
        Framing::Chunked { has_status: true } => {
            fields.insert(http::header::TRAILER, HeaderValue::from_static("X-Transfer-Status"));
        }
        Framing::None | Framing::Chunked { has_status: false } | Framing::Close => {}
    }
    head
}

fn broken(error: h2::Error) -> DeliveryError {
    DeliveryError::Send(of_connection(error))
}

fn broken_with(reason: &'static str) -> DeliveryError {
    DeliveryError::Send(SendError::Connection(io::Error::other(reason)))
}

fn of_connection(error: h2::Error) -> SendError {
    let error = if error.is_io() {
        error.into_io().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    } else {
        io::Error::other(error)
    };
    SendError::Connection(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_http_proto::Status;

    #[test]
    fn heads_have_the_fields_of_the_answer_and_no_framing_of_http_1() {
        let answer = Answer::new(Status::PARTIAL, Framing::Length(5)).with("ETag", "\"a\"").with("Vary", "Origin");
        let head = head_of(&answer, "now");
        let field = |name: &str| head.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!((head.status().as_u16(), field("etag"), field("vary")), (206, Some("\"a\""), Some("Origin")));
        assert_eq!((field("date"), field("content-length")), (Some("now"), Some("5")));
        let answer = Answer::new(Status::OK, Framing::Chunked { has_status: true });
        let head = head_of(&answer, "now");
        assert!(head.headers().contains_key("trailer"));
        assert!(!head.headers().contains_key("transfer-encoding") && !head.headers().contains_key("content-length"));
    }
}
