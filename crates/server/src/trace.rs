//! What is told of reads to the trace.

use crate::{element_run::range_of, exchange::Exchange};
use forebay_cache::{PathPattern, name_for_rules};
use forebay_engine::Handle;
use forebay_proto::{
    FileHandle,
    request::{ReadElement, ReadVector},
};
use forebay_telemetry::{Trace, TracedAnswer, TracedOpen, TracedRead};
use forebay_types::{ByteRange, Lfn, Outcome};
use std::time::Instant;

/// The trace, and which files are worth it.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// Where reads are told.
    pub trace: Trace,
    /// Paths that are traced; of files whose origin the client names, as `/root:/HOST:PORT/path`. All, when there are none.
    pub only: Vec<PathPattern>,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) pid: u32,
    pub(crate) name: String,
}

impl Tracing {
    fn wants(&self, lfn: &Lfn) -> bool {
        self.only.is_empty()
            || name_for_rules(lfn).is_some_and(|name| self.only.iter().any(|pattern| pattern.matches(name.as_str())))
    }
}

impl Program {
    /// What `xrd.appname` says in the opaque data of a login.
    pub(crate) fn of_login(pid: u32, cgi: &[u8]) -> Self {
        let mut pairs = cgi.split(|&byte| byte == b'&' || byte == b'?');
        let name = pairs.find_map(|pair| pair.strip_prefix(b"xrd.appname=")).unwrap_or_default();
        Self { pid, name: String::from_utf8_lossy(name).into_owned() }
    }
}

impl Exchange {
    /// Has the reads of a file traced that was opened just now, if they are to be.
    pub(crate) fn trace_open(&self, handle: &Handle) {
        let (Some(tracing), Some(main)) = (&self.shared.options.trace, self.main()) else { return };
        if !tracing.wants(handle.lfn()) {
            return;
        }
        let peer = self.peer.to_string();
        let open = TracedOpen {
            path: handle.lfn().as_str(),
            size: handle.size(),
            user: &main.client.user,
            peer: &peer,
            pid: main.program.pid,
            program: &main.program.name,
        };
        if let Some(file) = tracing.trace.open(&open, forebay_net::clock::monotonic()) {
            handle.set_trace(file);
        }
    }

    /// The elements of a vector read, when the trace is to be told of it: when the file of the first one is traced.
    pub(crate) fn traced_elements(&self, read: &ReadVector<'_>) -> Vec<ReadElement> {
        let first = read.elements.iter().next().and_then(|element| self.handles.get(element.handle));
        if first.is_some_and(|handle| handle.trace().is_some()) { read.elements.iter().collect() } else { Vec::new() }
    }
}

/// Tells the trace of a read that is answered by now.
pub(crate) fn trace_read(handle: &Handle, kind: TracedRead, range: ByteRange, received: Instant, outcome: Outcome) {
    if let Some(trace) = handle.trace() {
        trace.read(kind, range, &answered(received, outcome));
    }
}

/// Tells the trace of a vector read that is answered by now: a line for each file that it reads from.
pub(crate) fn trace_vector<'h>(
    find: impl Fn(FileHandle) -> Option<&'h Handle>,
    elements: &[ReadElement],
    received: Instant,
    outcome: Outcome,
) {
    let mut told: Vec<FileHandle> = Vec::new();
    for name in elements.iter().map(|element| element.handle) {
        if told.contains(&name) {
            continue;
        }
        told.push(name);
        if let Some(trace) = find(name).and_then(Handle::trace) {
            let ranges = elements.iter().filter(|element| element.handle == name).map(range_of);
            trace.read_vector(ranges, &answered(received, outcome));
        }
    }
}

fn answered(received: Instant, outcome: Outcome) -> TracedAnswer {
    TracedAnswer { received, done: forebay_net::clock::monotonic(), outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_tells_the_program() {
        for (cgi, name) in [
            ("?xrd.cc=ch&xrd.appname=xrdcp&xrd.info=", "xrdcp"),
            ("xrd.appname=python3", "python3"),
            ("xrd.appnames=x", ""),
            ("", ""),
        ] {
            assert_eq!(Program::of_login(7, cgi.as_bytes()).name, name, "{cgi}");
        }
    }
}
