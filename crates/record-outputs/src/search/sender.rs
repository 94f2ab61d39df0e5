//! The thread that sends records.

use super::{
    AGE_MAX, SearchOptions, Shared,
    backlog::SEGMENT_LEN,
    client::{Answer, Client},
};
use bytes::Bytes;
use forebay_records::{index_template, read_bulk_answer, write_bulk_item};
use forebay_telemetry::{Metrics, RecordOutput};
use hyper::{Method, StatusCode};
use std::{str, sync::Arc, time::Duration};
use tokio::runtime::Runtime;

/// Pause after the first failure; it doubles with each further one up to the longest.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(60);

/// Content type of bulk requests, and of others.
const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";

/// The parts of an answer that are read.
const FILTER: &str = "filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason";

/// Longest part of an answer that is logged, in characters.
const LOGGED_LEN_MAX: usize = 300;

/// Sends records, one request at a time.
pub(super) struct Sender {
    options: SearchOptions,
    client: Client,
    metrics: Metrics,
    shared: Arc<Shared>,
    /// Bytes of records in a request: less after one was too long for the server.
    request_len: usize,
    back_off: Duration,
    /// Failures since the last success.
    failures: usize,
    is_template_due: bool,
    /// A refused record was logged: the reason is mostly the same for all.
    has_logged_refusal: bool,
}

/// The result for records that were taken together.
struct Outcome {
    /// Those that are to be sent again.
    again: Vec<u8>,
    /// Why; `None` if all are settled.
    reason: Option<String>,
}

/// The result of a request.
enum Sent {
    /// All records are settled but these positions.
    Except(Vec<usize>),
    /// The server takes only shorter requests, or refuses all records because of one.
    Halve,
    /// Nothing is known to be stored.
    Failed(String),
}

impl Sender {
    pub(super) fn new(options: SearchOptions, client: Client, metrics: Metrics, shared: Arc<Shared>) -> Self {
        let is_template_due = options.installs_template;
        Self {
            options,
            client,
            metrics,
            shared,
            request_len: SEGMENT_LEN,
            back_off: BACK_OFF_MIN,
            failures: 0,
            is_template_due,
            has_logged_refusal: false,
        }
    }

    /// Sends until the collecting thread has ended.
    pub(super) fn run(mut self, runtime: &Runtime) {
        while let Some(text) = self.next() {
            let outcome = match runtime.block_on(self.install_template()) {
                Ok(()) => self.send(&text, runtime),
                Err(reason) => Outcome { again: text.to_vec(), reason: Some(reason) },
            };
            self.settle(outcome);
        }
    }

    /// Waits for records; `None` at the end.
    fn next(&self) -> Option<Arc<Vec<u8>>> {
        let Shared { state, work, .. } = &*self.shared;
        let mut state = state.lock();
        let pause = if state.is_failing { self.back_off } else { AGE_MAX };
        let is_early = |state: &mut super::State| {
            let is_due = state.backlog.is_full() && !state.is_failing;
            !(is_due || state.is_hurried && !state.backlog.is_empty() || state.has_ended)
        };
        loop {
            work.wait_while_for(&mut state, is_early, pause);
            if state.has_ended {
                return None;
            }
            if let Some(batch) = state.backlog.take() {
                return Some(batch.text);
            }
        }
    }

    /// Installs the index template, if that is wanted and has not been done.
    async fn install_template(&mut self) -> Result<(), String> {
        if !self.is_template_due {
            return Ok(());
        }
        let stream = &self.options.stream;
        let (path, body) = (format!("/_index_template/{stream}"), index_template(stream, !self.options.is_daily));
        let Answer { status, body } = self.client.send(Method::PUT, &path, JSON, Bytes::from(body)).await?;
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(format!("status {status} to the index template"));
        }
        self.is_template_due = false;
        if status.is_success() {
            tracing::info!(template = stream, "installed the index template of records");
        } else {
            let answer = beginning(&body);
            tracing::warn!(template = stream, %status, answer, "the index template of records was refused; install it by hand");
        }
        Ok(())
    }

    /// Sends records, in parts if they are too long for the server, until a part fails.
    fn send(&mut self, text: &[u8], runtime: &Runtime) -> Outcome {
        let records: Vec<&str> = str::from_utf8(text).unwrap_or_default().lines().collect();
        let (mut again, mut reason): (Vec<&str>, Option<String>) = (Vec::new(), None);
        // The next part is the last one.
        let mut parts: Vec<&[&str]> = vec![&records];
        while let Some(part) = parts.pop() {
            if reason.is_some() {
                again.extend(part);
                continue;
            }
            let is_long = part.len() > 1 && len_of(part) > self.request_len;
            match if is_long { Sent::Halve } else { self.send_part(part, runtime) } {
                Sent::Except(positions) if positions.is_empty() => {}
                Sent::Except(positions) => {
                    again.extend(positions.iter().filter_map(|position| part.get(*position)));
                    reason = Some("records were put off".to_owned());
                }
                Sent::Halve => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Sent::Failed(cause) => {
                    again.extend(part);
                    reason = Some(cause);
                }
            }
        }
        Outcome { again: joined(&again), reason }
    }

    fn send_part(&mut self, records: &[&str], runtime: &Runtime) -> Sent {
        let daily = if self.options.is_daily { Some(self.options.stream.as_str()) } else { None };
        let mut body = Vec::with_capacity(len_of(records) + 64 * records.len());
        records.iter().for_each(|record| write_bulk_item(record, daily, &mut body));
        let path = match daily {
            Some(_) => format!("/_bulk?{FILTER}"),
            None => format!("/{}/_bulk?{FILTER}", self.options.stream),
        };
        match runtime.block_on(self.client.send(Method::POST, &path, NDJSON, Bytes::from(body))) {
            Err(reason) => Sent::Failed(reason),
            Ok(answer) => self.judge(records, &answer),
        }
    }

    fn judge(&mut self, records: &[&str], answer: &Answer) -> Sent {
        let status = answer.status;
        match status.as_u16() {
            200..300 => self.judge_items(records, answer),
            413 | 400 if records.len() > 1 => {
                if status == StatusCode::PAYLOAD_TOO_LARGE {
                    self.request_len = self.request_len.min(len_of(records) / 2 + 1);
                }
                Sent::Halve
            }
            413 | 400 => {
                self.refuse(1, &format!("status {status}: {}", beginning(&answer.body)));
                Sent::Except(Vec::new())
            }
            _ => Sent::Failed(format!("status {status}: {}", beginning(&answer.body))),
        }
    }

    fn judge_items(&mut self, records: &[&str], answer: &Answer) -> Sent {
        let read = match read_bulk_answer(&answer.body, records.len()) {
            Ok(read) => read,
            Err(reason) => return Sent::Failed(format!("not an answer to a bulk request: {reason}")),
        };
        self.metrics.add_records_sent(RecordOutput::OpenSearch, read.stored as u64);
        let reason = read.reason.unwrap_or_default();
        if read.refused > 0 {
            self.refuse(read.refused as u64, &reason);
        }
        if !read.retry.is_empty() {
            tracing::debug!(records = read.retry.len(), reason, "some records are sent again");
        }
        Sent::Except(read.retry)
    }

    /// Counts records that no server will take.
    fn refuse(&mut self, count: u64, reason: &str) {
        self.metrics.add_records_dropped(RecordOutput::OpenSearch, count);
        if !std::mem::replace(&mut self.has_logged_refusal, true) {
            tracing::warn!(count, reason, "records were refused, and are lost; further ones are only counted");
        }
    }

    /// Notes the result of a request, and what it means for the next one.
    fn settle(&mut self, Outcome { again, reason }: Outcome) {
        let mut state = self.shared.state.lock();
        if again.is_empty() {
            state.backlog.sent();
        } else {
            state.backlog.give_back(again);
        }
        match reason {
            None => {
                if std::mem::take(&mut state.is_failing) {
                    tracing::info!("records are sent again");
                }
                (self.failures, self.back_off) = (0, BACK_OFF_MIN);
            }
            Some(reason) => {
                self.metrics.add_record_request_failed();
                self.failures += 1;
                self.client.next_server();
                // Another server may be well.
                let is_round_over = self.failures.is_multiple_of(self.client.servers());
                if !state.is_failing && is_round_over {
                    tracing::warn!(reason, "records cannot be sent: they wait until they can");
                    state.is_failing = true;
                } else if is_round_over {
                    self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
                }
                state.backlog.persist();
            }
        }
        self.shared.done.notify_all();
    }
}

/// Bytes of records, with their line breaks.
fn len_of(records: &[&str]) -> usize {
    records.iter().map(|record| record.len() + 1).sum()
}

fn joined(records: &[&str]) -> Vec<u8> {
    let mut text = Vec::with_capacity(len_of(records));
    for record in records {
        text.extend_from_slice(record.as_bytes());
        text.push(b'\n');
    }
    text
}

/// The beginning of an answer, for the log.
fn beginning(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(LOGGED_LEN_MAX).collect()
}
