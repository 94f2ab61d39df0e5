//! Reads file bytes from the socket, a piece at a time, straight into the memory in which they are delivered.

use super::{
    buffers,
    frames::ReadError,
    pages::{self, Sums},
    pending::{Event, Owed, Sink},
    socket_reader::SocketReader,
};
use bytes::BytesMut;
use forebay_proto::{
    ResponseHeader, Status,
    page::{self, FrameKind, StatusFrame},
    response::parse_element_header,
};
use forebay_types::ByteRange;
use std::{io, time::Duration};

/// Bytes of data in one delivered piece; pieces end at multiples of this offset, so that they do not straddle blocks.
/// Large enough that what each piece costs does not matter, small enough to stay in the processor's cache from the
/// socket through the checksum to the disk.
const PIECE_LEN: u64 = 128 << 10;

/// A piece of this many bytes is not held back for more when the socket has run dry.
const PIECE_LEN_ENOUGH: usize = 64 << 10;

/// How long a smaller piece waits for more bytes when the socket has run dry.
const PIECE_WAIT_MAX: Duration = Duration::from_millis(2);

/// Bytes in front of each element of a vector read's answer.
const ELEMENT_HEADER_LEN: u32 = 16;

/// Reads a frame of a read's answer; returns whether it is the last one.
pub(super) async fn read_bytes(
    reader: &mut SocketReader,
    owed: &mut Owed,
    header: ResponseHeader,
) -> Result<bool, ReadError> {
    let Sink::Bytes { next, remaining } = &mut owed.sink else { return Err(ReadError::Protocol(MISFIT)) };
    // After surplus bytes the rest of the stream cannot be trusted: the error closes the session.
    *remaining = remaining.checked_sub(header.body_len).ok_or(ReadError::Protocol(TOO_MANY))?;
    let range = ByteRange::at(*next, u64::from(header.body_len));
    *next = range.end();
    for piece in range.cut_at_multiples(PIECE_LEN) {
        if !owed.is_wanted() {
            // The reader has left: its bytes still precede the next frame on the socket.
            reader.discard(range.end() - piece.start()).await?;
            break;
        }
        let mut rest_len = to_usize(piece.len());
        let mut offset = piece.start();
        let mut buffer = buffers::with_room(rest_len);
        while rest_len > 0 {
            fill(reader, &mut buffer, rest_len, 1).await?;
            // `split` leaves the rest of the memory for the following bytes; a full buffer is passed on whole.
            let bytes = if buffer.len() == rest_len { std::mem::take(&mut buffer) } else { buffer.split() };
            rest_len = rest_len.saturating_sub(bytes.len());
            offset = send_data(owed, offset, bytes, Sums::default());
        }
    }
    Ok(ended(owed, header.status == Status::OK))
}

/// Reads a frame of a page read's answer; returns whether it is the last one.
pub(super) async fn read_pages(
    reader: &mut SocketReader,
    owed: &mut Owed,
    header: ResponseHeader,
) -> Result<bool, ReadError> {
    if header.body_len != page::STATUS_BODY_LEN {
        return Err(ReadError::Protocol("a page frame of unknown form"));
    }
    let body = reader.array::<{ page::STATUS_BODY_LEN as usize }>().await?;
    let frame = StatusFrame::decode(header.stream_id, &body)?;
    let data_len = page::data_len(frame.offset, u64::from(frame.data_len));
    let data_len = data_len.ok_or(ReadError::Protocol("half a page"))?;
    let Sink::Pages { next, remaining } = &mut owed.sink else { return Err(ReadError::Protocol(MISFIT)) };
    // A final frame without data may carry any offset.
    if data_len > 0 && frame.offset != *next {
        return Err(ReadError::Protocol("pages at another offset than requested"));
    }
    *remaining = remaining.checked_sub(data_len).ok_or(ReadError::Protocol(TOO_MANY))?;
    let range = ByteRange::at(*next, data_len);
    *next = range.end();
    for piece in range.cut_at_multiples(PIECE_LEN) {
        if !owed.is_wanted() {
            // As in `read_bytes`, with the checksums between the pages.
            reader.discard(page::encoded_len(ByteRange::between(piece.start(), range.end()))).await?;
            break;
        }
        read_piece_of_pages(reader, owed, piece).await?;
    }
    Ok(ended(owed, frame.kind == FrameKind::Final))
}

async fn read_piece_of_pages(reader: &mut SocketReader, owed: &Owed, piece: ByteRange) -> Result<(), ReadError> {
    let mut rest = piece;
    let mut buffer = buffers::with_room(to_usize(page::encoded_len(piece)));
    while !rest.is_empty() {
        let rest_len = to_usize(page::encoded_len(rest));
        let first_len = page::pages(rest).next().map_or(0, |first| to_usize(page::encoded_len(first)));
        // At least a whole page: a part of one cannot be verified.
        fill(reader, &mut buffer, rest_len, first_len).await?;
        let whole_len = if buffer.len() < rest_len { pages::whole_len(rest.start(), buffer.len()) } else { rest_len };
        let is_last = whole_len == rest_len;
        let mut bytes = if is_last { std::mem::take(&mut buffer) } else { buffer.split_to(whole_len) };
        let sums = pages::unpack(&mut bytes, rest.start());
        rest = ByteRange::between(send_data(owed, rest.start(), bytes, sums), rest.end());
    }
    Ok(())
}

/// Reads a frame of a vector read's answer; returns whether it is the last one.
pub(super) async fn read_elements(
    reader: &mut SocketReader,
    owed: &mut Owed,
    header: ResponseHeader,
) -> Result<bool, ReadError> {
    let mut frame_len = header.body_len;
    while frame_len > 0 {
        frame_len = frame_len.checked_sub(ELEMENT_HEADER_LEN).ok_or(ReadError::Protocol("half an element"))?;
        let element = parse_element_header(&reader.array().await?)?;
        frame_len = frame_len.checked_sub(element.len).ok_or(ReadError::Protocol("half an element"))?;
        let Sink::Elements(due) = &mut owed.sink else { return Err(ReadError::Protocol(MISFIT)) };
        // Servers may send the elements in any order.
        let position = due.iter().position(|&wanted| wanted == (element.offset, element.len));
        due.remove(position.ok_or(ReadError::Protocol("an element that was not requested"))?);
        let len = to_usize(u64::from(element.len));
        if owed.is_wanted() {
            // The length was compared with the request above, so a peer cannot cause a large allocation.
            let mut bytes = BytesMut::with_capacity(len);
            reader.append(&mut bytes, len).await?;
            send_data(owed, element.offset, bytes, Sums::default());
        } else {
            reader.discard(u64::from(element.len)).await?;
        }
    }
    Ok(ended(owed, header.status == Status::OK))
}

/// Reports the end of the bytes with the last frame.
fn ended(owed: &Owed, is_last: bool) -> bool {
    if is_last {
        owed.send(Event::Done);
    }
    is_last
}

/// Delivers file bytes; returns the offset after them.
fn send_data(owed: &Owed, offset: u64, bytes: BytesMut, sums: Sums) -> u64 {
    let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    let Sums { page_sums, bad_pages } = sums;
    owed.send(Event::Data { offset, bytes, page_sums, bad_pages });
    end
}

/// Fills `buffer` up to `len` bytes; returns with at least `len_min` bytes when the socket runs dry.
async fn fill(reader: &mut SocketReader, buffer: &mut BytesMut, len: usize, len_min: usize) -> io::Result<()> {
    while buffer.len() < len {
        if reader.append_now(buffer, len.saturating_sub(buffer.len()))?.is_some() {
            continue;
        }
        if buffer.len() < len_min {
            reader.readable().await?;
        } else if buffer.len() >= PIECE_LEN_ENOUGH {
            // The bytes that have arrived are worth a delivery of their own; waiting would only delay the reader.
            return Ok(());
        } else {
            match tokio::time::timeout(PIECE_WAIT_MAX, reader.readable()).await {
                Ok(ready) => ready?,
                Err(_) => return Ok(()),
            }
        }
    }
    Ok(())
}

/// A length that was checked against the request, whose length fits.
fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

const MISFIT: &str = "an answer that does not fit the request";
const TOO_MANY: &str = "more bytes than requested";
