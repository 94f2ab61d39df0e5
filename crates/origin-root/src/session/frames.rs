//! Reads the frames of one socket and delivers them to the waiting callers.

use super::{
    bulk,
    connection::Link,
    pending::{Event, Owed, Sink},
    socket_reader::SocketReader,
};
use bytes::BytesMut;
use forebay_proto::{
    FileHandle, RESPONSE_HEADER_LEN, ResponseError, ResponseHeader, Status, limits,
    response::{Attention, DEFERRED_PREFIX_LEN},
};
use std::{io, sync::Arc};

/// Why a socket cannot be read any further. Breaks the session.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The connection ended or broke.
    #[error("{0}")]
    Socket(#[from] io::Error),
    /// The server broke the protocol: what follows cannot be understood.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// The server sent something malformed.
    #[error("the server broke the protocol: {0}")]
    Malformed(#[from] ResponseError),
}

/// Reads frames until the connection ends, then breaks the session.
pub(super) async fn run(mut reader: SocketReader, link: Arc<Link>) {
    loop {
        if let Err(error) = read_frame(&mut reader, &link).await {
            link.break_with(&error.to_string());
            return;
        }
    }
}

async fn read_frame(reader: &mut SocketReader, link: &Link) -> Result<(), ReadError> {
    let header = ResponseHeader::decode(&reader.array::<RESPONSE_HEADER_LEN>().await?)
        .map_err(|_| ReadError::Protocol("a negative length"))?;
    if header.status != Status::ATTN {
        return read_answer(reader, link, header).await;
    }
    // Too short for a deferred answer: another unsolicited message, none of which are needed here.
    let Some(inner_len) = header.body_len.checked_sub(DEFERRED_PREFIX_LEN) else {
        return Ok(reader.discard(u64::from(header.body_len)).await?);
    };
    let prefix = reader.array::<{ DEFERRED_PREFIX_LEN as usize }>().await?;
    let Attention::Deferred { header: inner, .. } = Attention::parse(&prefix)? else {
        return Ok(reader.discard(u64::from(inner_len)).await?);
    };
    if inner.body_len != inner_len || inner.status == Status::ATTN {
        return Err(ReadError::Protocol("a deferred answer of another length than its frame"));
    }
    read_answer(reader, link, inner).await
}

async fn read_answer(reader: &mut SocketReader, link: &Link, header: ResponseHeader) -> Result<(), ReadError> {
    let Some(mut owed) = link.pending.begin_frame(header.stream_id) else {
        // Without knowing what was asked, the length of a status frame's data cannot be trusted.
        return match header.status {
            Status::STATUS => Err(ReadError::Protocol("pages that were not requested")),
            _ => Ok(reader.discard(u64::from(header.body_len)).await?),
        };
    };
    let is_last = match (header.status, &owed.sink) {
        (Status::STATUS, Sink::Pages { .. }) => bulk::read_pages(reader, &mut owed, header).await?,
        (Status::OK | Status::OKSOFAR, Sink::Bytes { .. }) => bulk::read_bytes(reader, &mut owed, header).await?,
        (Status::OK | Status::OKSOFAR, Sink::Elements(_)) => bulk::read_elements(reader, &mut owed, header).await?,
        (Status::STATUS, _) | (Status::OK | Status::OKSOFAR, Sink::Pages { .. }) => {
            return Err(ReadError::Protocol("an answer that does not fit the request"));
        }
        _ => read_reply(reader, link, &owed, header).await?,
    };
    if is_last {
        link.pending.finish(owed.ticket);
    } else {
        link.pending.end_frame(owed);
    }
    Ok(())
}

/// Reads a frame that is delivered whole; returns whether it is the last one of its answer.
async fn read_reply(
    reader: &mut SocketReader,
    link: &Link,
    owed: &Owed,
    header: ResponseHeader,
) -> Result<bool, ReadError> {
    let status = header.status;
    let is_last = !matches!(status, Status::OKSOFAR | Status::WAITRESP);
    // Only complete answers may be long: errors, redirects and waits are short texts.
    let len_max = match owed.sink {
        Sink::Reply { len_max } if matches!(status, Status::OK | Status::OKSOFAR) => len_max,
        _ => limits::TEXT_BODY_LEN_MAX,
    };
    if header.body_len > len_max {
        return Err(ReadError::Protocol("an answer that is too long"));
    }
    let is_opened = status == Status::OK && owed.sink == Sink::Opened;
    // A successful open is read even without a caller: its handle is needed to close the file.
    if !owed.is_wanted() && !is_opened {
        reader.discard(u64::from(header.body_len)).await?;
        return Ok(is_last);
    }
    let len = usize::try_from(header.body_len).map_err(|_| ReadError::Protocol("an answer that is too long"))?;
    // Grows as bytes arrive: a peer that announces much and sends little costs little.
    let mut body = BytesMut::with_capacity(len.min(REPLY_LEN_TRUSTED));
    reader.append(&mut body, len).await?;
    let body = body.freeze();
    // The caller may have left while the body arrived.
    if !owed.send(Event::Reply { status, body: body.clone() })
        && is_opened
        && let Some(handle) = body.first_chunk()
    {
        link.close_file(FileHandle(*handle));
    }
    Ok(is_last)
}

/// Memory reserved for a reply before any of it has arrived.
const REPLY_LEN_TRUSTED: usize = 64 << 10;
