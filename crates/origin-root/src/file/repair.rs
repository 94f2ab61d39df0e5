//! Requests pages that arrived damaged once more.

use super::open_handle::OpenHandle;
use crate::{
    options::Options,
    route::call::{Call, lost, protocol, refused, timed_out},
    session::pending::{Event, Sink},
};
use bytes::BytesMut;
use forebay_origin::OriginError;
use forebay_proto::{
    Request, Status,
    page::{PAGE_LEN, crc32c},
    request::PageRead,
};
use forebay_types::ByteRange;
use tokio::time::{Instant, timeout_at};

const DOING: &str = "asking again for a damaged page";

/// Pages that have arrived.
pub(super) struct Arrived {
    /// Offset of the first byte in the file.
    pub(super) offset: u64,
    pub(super) bytes: BytesMut,
    /// The checksum of each page.
    pub(super) page_sums: Vec<u32>,
}

/// Requests the pages at the offsets `bad_pages` as damaged ones, and replaces them and their checksums with the answer.
///
/// # Errors
/// `Corrupt` when a page is damaged again, or the error that came instead of it.
pub(super) async fn repair(
    opened: &OpenHandle,
    arrived: &mut Arrived,
    bad_pages: &[u64],
    options: &Options,
) -> Result<(), OriginError> {
    let Arrived { offset, bytes, page_sums } = arrived;
    let offset = *offset;
    let end = offset.saturating_add(to_u64(bytes.len()));
    tracing::warn!(endpoint = %opened.connection.endpoint(), offset, pages = ?bad_pages, "pages arrived damaged");
    // One limit for all pages: the caller handles no other answer meanwhile.
    let deadline = Instant::now() + options.first_byte_timeout;
    // Each page alone: the pages between damaged ones arrived intact.
    for &page_start in bad_pages {
        let page_end = (page_start - page_start % PAGE_LEN).saturating_add(PAGE_LEN).min(end);
        let range = ByteRange::between(page_start, page_end);
        let mut page = BytesMut::new();
        let read = timeout_at(deadline, read_page(opened, range, &mut page)).await;
        read.map_err(|_| timed_out(&opened.connection, DOING, options.first_byte_timeout))??;
        let position = usize::try_from(page_start - offset).ok();
        let target = position.and_then(|position| bytes.get_mut(position..)?.get_mut(..page.len()));
        let target = target.filter(|target| !target.is_empty());
        target.ok_or_else(|| protocol(&opened.connection, "no page in reply to a page read"))?.copy_from_slice(&page);
        // Readers take these checksums as verified: that of the damaged page must not remain.
        let sum =
            usize::try_from(page_start / PAGE_LEN - offset / PAGE_LEN).ok().and_then(|page| page_sums.get_mut(page));
        if let Some(sum) = sum {
            *sum = crc32c(&page);
        }
    }
    Ok(())
}

async fn read_page(opened: &OpenHandle, range: ByteRange, page: &mut BytesMut) -> Result<(), OriginError> {
    let connection = &opened.connection;
    let len = u32::try_from(range.len()).map_err(|_| protocol(connection, "a page of impossible length"))?;
    let request = PageRead { handle: opened.handle, offset: range.start(), len, path_id: 0, retry: true };
    let sink = Sink::Pages { next: range.start(), remaining: range.len() };
    // The time limit of the caller drops this future, which gives the answer up.
    let mut call = Call::send(connection, &Request::PageRead(request), sink, DOING).await?;
    while let Some((_, event)) = call.events.recv().await {
        match event {
            Event::Data { bytes, bad_pages, .. } => {
                if let Some(&offset) = bad_pages.first() {
                    // Damaged twice: another server of the list may deliver it intact.
                    return Err(OriginError::Corrupt { endpoint: connection.endpoint().clone(), offset });
                }
                page.unsplit(bytes);
            }
            Event::Done if to_u64(page.len()) == range.len() => return Ok(()),
            Event::Done => {
                return Err(OriginError::ShortRead {
                    endpoint: connection.endpoint().clone(),
                    offset: range.start(),
                    received_bytes: to_u64(page.len()),
                    expected_bytes: range.len(),
                });
            }
            Event::Reply { status: Status::ERROR, body } => return Err(refused(connection, &body)),
            // The answer follows later, as an unsolicited message.
            Event::Reply { status: Status::WAITRESP, .. } => {}
            Event::Reply { status, .. } => {
                return Err(lost(connection, DOING, format!("it was answered with {status}")));
            }
            Event::Lost(reason) => return Err(lost(connection, DOING, reason)),
        }
    }
    Err(lost(connection, DOING, "the connection was given up".to_owned()))
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
