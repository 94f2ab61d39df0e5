//! Traces of vector reads, which name several files.

use crate::{base::contiguous_elements::range_of, requests::context::ConnectionContext};
use forebay_engine::Handle;
use forebay_front::{Program, answered_now};
use forebay_proto::{
    FileHandle,
    request::{ReadElement, ReadVector},
};
use forebay_types::Outcome;
use std::time::Instant;

/// The program that a login names: `xrd.appname` in its opaque data.
pub(crate) fn program_of_login(pid: u32, cgi: &[u8]) -> Program {
    let mut pairs = cgi.split(|&byte| byte == b'&' || byte == b'?');
    let name = pairs.find_map(|pair| pair.strip_prefix(b"xrd.appname=")).unwrap_or_default();
    Program { pid, name: String::from_utf8_lossy(name).into_owned() }
}

impl ConnectionContext {
    /// The elements of a vector read that is traced: one whose first file is.
    pub(crate) fn traced_elements(&self, read: &ReadVector<'_>) -> Vec<ReadElement> {
        let first = read.elements.iter().next().and_then(|element| self.handles.get(element.handle));
        if first.is_some_and(|handle| handle.trace().is_some()) { read.elements.iter().collect() } else { Vec::new() }
    }
}

/// Traces a vector read that has been answered: one event for each file that it reads from.
pub(crate) fn trace_vector<'h>(
    find: impl Fn(FileHandle) -> Option<&'h Handle>,
    elements: &[ReadElement],
    received: Instant,
    outcome: Outcome,
) {
    let mut traced: Vec<FileHandle> = Vec::new();
    for name in elements.iter().map(|element| element.handle) {
        // Vectors name few files, so a linear search is the fastest.
        if traced.contains(&name) {
            continue;
        }
        traced.push(name);
        if let Some(trace) = find(name).and_then(Handle::trace) {
            let ranges = elements.iter().filter(|element| element.handle == name).map(range_of);
            trace.read_vector(ranges, &answered_now(received, outcome));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_names_the_program() {
        for (cgi, name) in [
            ("?xrd.cc=ch&xrd.appname=xrdcp&xrd.info=", "xrdcp"),
            ("xrd.appname=python3", "python3"),
            ("xrd.appnames=x", ""),
            ("", ""),
        ] {
            assert_eq!(program_of_login(7, cgi.as_bytes()).name, name, "{cgi}");
        }
    }
}
