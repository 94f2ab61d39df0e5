//! The trace of reads: which files are traced, and the events of their reads.

use crate::front::Front;
use forebay_cache::{PathPattern, name_for_rules};
use forebay_engine::{Caller, Handle};
use forebay_telemetry::{Trace, TracedAnswer, TracedOpen, TracedRead};
use forebay_types::{ByteRange, Lfn, Outcome};
use std::{net::SocketAddr, time::Instant};

/// The trace, and the files that are traced.
#[derive(Clone, Debug)]
pub struct Tracing {
    pub trace: Trace,
    /// Paths that are traced; `/root:/HOST:PORT/path` for files whose origin the client names. All, when it is empty.
    pub only: Vec<PathPattern>,
}

/// The program of a client, as the client names it.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub pid: u32,
    pub name: String,
}

impl Tracing {
    fn includes(&self, lfn: &Lfn) -> bool {
        self.only.is_empty()
            || name_for_rules(lfn).is_some_and(|name| self.only.iter().any(|pattern| pattern.matches(name.as_str())))
    }
}

impl Front {
    /// Traces the reads of a file that has just been opened, if the configuration says so.
    pub fn trace_open(&self, handle: &Handle, caller: &Caller, program: &Program, peer: SocketAddr) {
        let Some(tracing) = &self.tracing else { return };
        // The decision is made once per open, so that reads only look at a pointer.
        if !tracing.includes(handle.lfn()) {
            return;
        }
        let peer = peer.to_string();
        let open = TracedOpen {
            path: handle.lfn().as_str(),
            size: handle.size(),
            user: &caller.client.user,
            peer: &peer,
            pid: program.pid,
            program: &program.name,
        };
        if let Some(file) = tracing.trace.open(&open, forebay_net::clock::monotonic()) {
            handle.set_trace(file);
        }
    }
}

/// Traces a read that has been answered, if its file is traced.
pub fn trace_read(handle: &Handle, kind: TracedRead, range: ByteRange, received: Instant, outcome: Outcome) {
    if let Some(trace) = handle.trace() {
        trace.read(kind, range, &answered_now(received, outcome));
    }
}

/// An answer that has just been completed.
#[must_use]
pub fn answered_now(received: Instant, outcome: Outcome) -> TracedAnswer {
    TracedAnswer { received, done: forebay_net::clock::monotonic(), outcome }
}
