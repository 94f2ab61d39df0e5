//! Reads several ranges with one request.

use super::{read::RangeRead, shared::Shared};
use crate::{
    answer::{
        content_range::ContentRange,
        facts::{is_identity, range_in, text},
        multipart::Parts,
    },
    exchange::Answer,
    options::FAILED_JOINS_MAX,
    servers::{Attempts, Order},
};
use bytes::Bytes;
use forebay_origin::{OriginError, count_failure};
use forebay_types::ByteRange;
use hyper::header::CONTENT_TYPE;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// Several ranges of one file on their way, sorted by offset. Whatever goes wrong, each of them continues by itself: only reads of one
/// range repeat requests, change servers and report errors.
pub(super) struct JoinedRead {
    shared: Arc<Shared>,
    reads: Vec<RangeRead>,
    /// Whether it has failed for a reason that says nothing about requests for several ranges.
    is_broken_off: bool,
}

/// How the ranges of an answer are separated.
enum Form {
    Parts(Parts),
    /// A single range, which begins at this offset.
    One(u64),
}

impl JoinedRead {
    /// Of at least one read.
    pub(super) fn new(reads: Vec<RangeRead>) -> Option<Self> {
        let shared = Arc::clone(&reads.first()?.shared);
        Some(Self { shared, reads, is_broken_off: false })
    }

    pub(super) async fn run(mut self) {
        let form = self.attempt().await;
        if self.is_complete() {
            self.shared.client.failed_joins.store(0, Relaxed);
        } else if matches!(form, Some(Form::One(_))) {
            self.refused();
        } else if !self.is_broken_off && !self.reads.iter().all(RangeRead::has_left) {
            self.shared.client.failed_joins.fetch_add(1, Relaxed);
        }
        self.reads.into_iter().filter(|read| !read.rest.is_empty() && !read.has_left()).for_each(RangeRead::start);
    }

    /// Sends the request, and passes on what comes. Returns how the answer was made up if it has come to its end.
    async fn attempt(&mut self) -> Option<Form> {
        let shared = Arc::clone(&self.shared);
        let _turn = tokio::select! {
            turn = shared.turns.acquire() => turn.ok()?,
            () = all_left(&self.reads) => return None,
        };
        let first = self.reads.first_mut()?;
        let (server, kept) = (first.server, first.kept.take());
        let ranges = merged(self.reads.iter().map(|read| read.rest));
        let deadline = Attempts::new(&shared.client.options, Order::of_list(1), 1).deadline();
        let asked = tokio::select! {
            asked = shared.ask(server, kept, ranges, deadline) => asked,
            () = all_left(&self.reads) => return None,
        };
        let answer = asked.map_err(|failure| self.note_failure(&failure.error)).ok()?;
        let mut form = self.form_of(server, &answer)?;
        shared.note_target(server, &answer);
        let mut body = answer.body;
        while !self.is_complete() {
            let received = tokio::select! {
                received = body.next() => received,
                () = all_left(&self.reads) => return None,
            };
            let Some(bytes) = received.map_err(|error| self.note_failure(&error)).ok()? else { return Some(form) };
            self.pass_on(&mut form, bytes)?;
        }
        body.finish().await;
        Some(form)
    }

    /// How an answer is made up; `None` if it is not one of ranges of this file.
    fn form_of(&mut self, server: usize, answer: &Answer) -> Option<Form> {
        match answer.status.as_u16() {
            206 => {}
            200 | 400 | 413 | 431 | 501 => {
                self.refused();
                return None;
            }
            // The server is busy, or the file has changed.
            408 | 412 | 429 | 500.. => {
                self.is_broken_off = true;
                return None;
            }
            _ => return None,
        }
        if !is_identity(&answer.headers) || self.shared.is_other_version(server, answer) {
            return None;
        }
        let file_size = self.shared.identity.size;
        if let Some(ContentRange { range, size }) = range_in(&answer.headers) {
            return size.is_none_or(|size| size == file_size).then(|| Form::One(range.start()));
        }
        let parts = Parts::of(text(&answer.headers, &CONTENT_TYPE)?, file_size).map(Form::Parts);
        if parts.is_none() {
            self.refused();
        }
        parts
    }

    /// Passes on received bytes to all reads that they are of; `None` if the body is malformed.
    fn pass_on(&mut self, form: &mut Form, mut bytes: Bytes) -> Option<()> {
        match form {
            Form::One(offset) => {
                self.reads.iter_mut().for_each(|read| read.pass_on_from(*offset, &bytes));
                *offset += bytes.len() as u64;
            }
            Form::Parts(parts) => loop {
                let taken = parts.next(&mut bytes).map_err(|what| {
                    tracing::debug!(origin = %self.shared.identity.origin, what, "an answer with several ranges is malformed");
                    self.refused();
                });
                let Some((offset, piece)) = taken.ok()? else { break };
                self.reads.iter_mut().for_each(|read| read.pass_on_from(offset, &piece));
            },
        }
        Some(())
    }

    fn is_complete(&self) -> bool {
        self.reads.iter().all(|read| read.rest.is_empty())
    }

    fn refused(&self) {
        self.shared.client.failed_joins.store(FAILED_JOINS_MAX, Relaxed);
    }

    fn note_failure(&mut self, error: &OriginError) {
        self.is_broken_off = true;
        count_failure(&self.shared.client.metrics, error, true);
    }
}

/// Sorted ranges without overlaps: servers may send the whole file to a client that asks for bytes twice.
fn merged(ranges: impl Iterator<Item = ByteRange>) -> Vec<ByteRange> {
    let mut merged: Vec<ByteRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start() <= last.end() => {
                *last = ByteRange::between(last.start(), last.end().max(range.end()));
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Resolves when no reader is left.
async fn all_left(reads: &[RangeRead]) {
    for read in reads {
        read.left().await;
    }
}
