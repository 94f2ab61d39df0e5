//! Reads the frames of one socket and hands them to whoever waits for them.

use super::{
    Shared,
    inlet::Inlet,
    pending::{Event, Owed, Sink},
};
use bytes::BytesMut;
use forebay_proto::{
    FileHandle, RESPONSE_HEADER_LEN, ResponseError, ResponseHeader, Status, limits,
    response::{Attention, DEFERRED_PREFIX_LEN},
};
use std::{io, sync::Arc};

/// Why a socket cannot be read any further. Breaks the session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
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
pub(crate) async fn run(mut inlet: Inlet, shared: Arc<Shared>) {
    loop {
        if let Err(error) = read_frame(&mut inlet, &shared).await {
            shared.break_with(&error.to_string());
            return;
        }
    }
}

async fn read_frame(inlet: &mut Inlet, shared: &Shared) -> Result<(), ReadError> {
    let header = read_header(inlet).await?;
    if header.status != Status::ATTN {
        return read_answer(inlet, shared, header).await;
    }
    let Some(inner_len) = header.body_len.checked_sub(DEFERRED_PREFIX_LEN) else {
        return Ok(inlet.discard(u64::from(header.body_len)).await?);
    };
    let prefix = inlet.array::<{ DEFERRED_PREFIX_LEN as usize }>().await?;
    let Attention::Deferred { header: inner, .. } = Attention::parse(&prefix)? else {
        return Ok(inlet.discard(u64::from(inner_len)).await?);
    };
    if inner.body_len != inner_len || inner.status == Status::ATTN {
        return Err(ReadError::Protocol("a deferred answer of another length than its frame"));
    }
    read_answer(inlet, shared, inner).await
}

async fn read_header(inlet: &mut Inlet) -> Result<ResponseHeader, ReadError> {
    let header = inlet.array::<RESPONSE_HEADER_LEN>().await?;
    ResponseHeader::decode(&header).map_err(|_| ReadError::Protocol("a negative length"))
}

async fn read_answer(inlet: &mut Inlet, shared: &Shared, header: ResponseHeader) -> Result<(), ReadError> {
    let Some(mut owed) = shared.pending.begin_frame(header.stream_id) else {
        // Without knowing what was asked, the length of a status frame's data cannot be trusted.
        return match header.status {
            Status::STATUS => Err(ReadError::Protocol("pages that nobody asked for")),
            _ => Ok(inlet.discard(u64::from(header.body_len)).await?),
        };
    };
    let is_last = match (header.status, &owed.sink) {
        (Status::STATUS, Sink::Pages { .. }) => super::bulk::read_pages(inlet, &mut owed, header).await?,
        (Status::OK | Status::OKSOFAR, Sink::Bytes { .. }) => super::bulk::read_bytes(inlet, &mut owed, header).await?,
        (Status::OK | Status::OKSOFAR, Sink::Elements(_)) => {
            super::bulk::read_elements(inlet, &mut owed, header).await?
        }
        (Status::STATUS, _) | (Status::OK | Status::OKSOFAR, Sink::Pages { .. }) => {
            return Err(ReadError::Protocol("an answer that does not fit the request"));
        }
        _ => read_reply(inlet, shared, &owed, header).await?,
    };
    if is_last {
        shared.pending.finish(owed.ticket);
    } else {
        shared.pending.end_frame(owed);
    }
    Ok(())
}

/// Reads a frame that is delivered whole; tells whether it is the last one of its answer.
async fn read_reply(
    inlet: &mut Inlet,
    shared: &Shared,
    owed: &Owed,
    header: ResponseHeader,
) -> Result<bool, ReadError> {
    let status = header.status;
    let is_last = !matches!(status, Status::OKSOFAR | Status::WAITRESP);
    let len_max = match owed.sink {
        Sink::Reply { len_max } if matches!(status, Status::OK | Status::OKSOFAR) => len_max,
        _ => limits::TEXT_BODY_LEN_MAX,
    };
    if header.body_len > len_max {
        return Err(ReadError::Protocol("an answer that is too long"));
    }
    let is_opened = status == Status::OK && owed.sink == Sink::Opened;
    if !owed.is_wanted() && !is_opened {
        inlet.discard(u64::from(header.body_len)).await?;
        return Ok(is_last);
    }
    let len = usize::try_from(header.body_len).map_err(|_| ReadError::Protocol("an answer that is too long"))?;
    // Grows with what comes: a peer that announces much and sends little gets little.
    let mut body = BytesMut::with_capacity(len.min(REPLY_LEN_TRUSTED));
    inlet.append(&mut body, len).await?;
    let body = body.freeze();
    if !owed.tell(Event::Reply { status, body: body.clone() })
        && is_opened
        && let Some(handle) = body.first_chunk()
    {
        shared.close_file(FileHandle(*handle));
    }
    Ok(is_last)
}

/// Memory reserved for a reply before any of it has come.
const REPLY_LEN_TRUSTED: usize = 64 << 10;
