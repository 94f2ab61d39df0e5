//! A client of HTTP: one connection, and one request at a time.

use super::RECEIVE_LEN;
use super::connection::connect;
use super::job::LoadFile;
use super::transport::{TlsClient, Transport};
use super::workload::{Offsets, Operation, Order};
use crate::content::Content;
use anyhow::{Context as _, Result, bail, ensure};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

/// A connection that requests ranges of one file, and compares every byte.
pub(crate) struct HttpLoad {
    transport: Transport,
    path: String,
    content: Content,
    offsets: Offsets,
    /// Ranges of each request.
    elements: u16,
    received: Vec<u8>,
    room: Vec<u8>,
}

/// The empty line after a head.
const HEAD_END: &[u8] = b"\r\n\r\n";

impl HttpLoad {
    /// Connects to `server`, over TLS if a client of it is given.
    pub(crate) fn prepare(
        server: SocketAddr,
        tls: Option<&TlsClient>,
        file: &LoadFile,
        operation: Operation,
        order: Order,
    ) -> Result<Self> {
        let (elements, len) = match operation {
            Operation::Read { len } => (1, len),
            Operation::ReadVector { elements, len } => (elements, len),
            other => bail!("HTTP has no {other:?}"),
        };
        let transport = Transport::Plain(connect(server)?);
        Ok(Self {
            transport: match tls {
                Some(tls) => transport.encrypt(tls)?,
                None => transport,
            },
            path: file.path.clone(),
            content: Content::of_path(&file.path),
            offsets: Offsets::new(order, file.len, len, 0, 1),
            elements,
            received: Vec::new(),
            room: vec![0; RECEIVE_LEN],
        })
    }

    /// Sends one request and receives its answer; calls `settle` whenever bytes have come.
    pub(crate) fn request(&mut self, mut settle: impl FnMut() -> Result<()>) -> Result<()> {
        let ranges: Vec<(u64, u32)> = match self.elements {
            1 => vec![self.offsets.next_range()],
            elements => self.offsets.next_vector(elements).collect(),
        };
        self.transport.write_all(request_for(&self.path, &ranges).as_bytes())?;
        self.received.clear();
        let body_start = loop {
            if let Some(at) = find(&self.received, HEAD_END) {
                break at + HEAD_END.len();
            }
            self.receive(&mut settle)?;
        };
        let head = self.received.get(..body_start).unwrap_or_default();
        let head = std::str::from_utf8(head).context("the head of an answer is not text")?.to_owned();
        ensure!(head.starts_with("HTTP/1.1 206 "), "not the ranges: {head}");
        let len = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let end = body_start + len.context("an answer without a length")?.parse::<usize>()?;
        while self.received.len() < end {
            self.receive(&mut settle)?;
        }
        ensure!(self.received.len() == end, "bytes after an answer");
        self.verify(body_start, &ranges)
    }

    fn receive(&mut self, settle: &mut impl FnMut() -> Result<()>) -> Result<()> {
        let len = self.transport.read(&mut self.room).context("the connection broke")?;
        ensure!(len > 0, "the server closed the connection");
        self.received.extend_from_slice(self.room.get(..len).unwrap_or_default());
        settle()
    }

    /// Compares the body from `start` on. Before each of several ranges it has a head.
    fn verify(&self, start: usize, ranges: &[(u64, u32)]) -> Result<()> {
        let mut body = self.received.get(start..).unwrap_or_default();
        for &(offset, len) in ranges {
            if ranges.len() > 1 {
                let end = find(body, HEAD_END).context("a part without a head")? + HEAD_END.len();
                let (head, behind) = body.split_at(end);
                let announced = format!("bytes {offset}-{}/", offset + u64::from(len) - 1);
                ensure!(find(head, announced.as_bytes()).is_some(), "not the part {announced}");
                body = behind;
            }
            let (found, behind) = body.split_at_checked(usize::try_from(len)?).context("a part is cut short")?;
            self.content.verify(offset, found)?;
            body = behind;
        }
        Ok(())
    }
}

fn request_for(path: &str, ranges: &[(u64, u32)]) -> String {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nRange: bytes=");
    for (number, &(offset, len)) in ranges.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(request, "{comma}{offset}-{}", offset + u64::from(len) - 1);
    }
    request + "\r\n\r\n"
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_their_ranges() {
        let request = request_for("/f", &[(0, 4096), (8192, 1)]);
        assert!(
            request.starts_with("GET /f HTTP/1.1\r\n") && request.ends_with("Range: bytes=0-4095,8192-8192\r\n\r\n")
        );
        assert_eq!(find(request.as_bytes(), HEAD_END), Some(request.len() - HEAD_END.len()));
    }
}
