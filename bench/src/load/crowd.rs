//! Many connections that do little: logged in, perhaps with a file open.

use super::RECEIVE_LEN;
use super::connection::Connection;
use super::job::{Job, LoadFile};
use super::login::Entry;
use super::workload::{Offsets, Order};
use crate::content::Content;
use anyhow::{Context as _, Result, ensure};
use forebay_net::clock;
use forebay_proto::FileHandle;
use std::net::SocketAddr;

/// Bytes of a member's read, or of an element of its vector read.
const READ_LEN: u32 = 4 << 10;

/// Elements of a member's vector read: an answer that is as long as a server may still copy it.
const ELEMENTS: u16 = 15;

/// Connections that are logged in.
pub(crate) struct Crowd {
    members: Vec<(Connection, Option<FileHandle>)>,
    file: LoadFile,
    buffer: Vec<u8>,
}

impl Crowd {
    /// `count` connections to `server`, one after the other, which may come to open and read `file`.
    pub(crate) fn log_in(server: SocketAddr, count: u16, file: &LoadFile) -> Result<Self> {
        let content = Content::of_path(&file.path);
        let log_in = |index| -> Result<_> {
            let connection = Connection::log_in(server, &Entry::default(), 1, content);
            Ok((connection.with_context(|| format!("connection {index}"))?, None))
        };
        let members = (0..count).map(log_in).collect::<Result<_>>()?;
        Ok(Self { members, file: file.clone(), buffer: vec![0; RECEIVE_LEN] })
    }

    /// Opens the file on each connection.
    pub(crate) fn open(&mut self) -> Result<()> {
        for (connection, handle) in &mut self.members {
            *handle = Some(connection.open(&self.file)?);
        }
        Ok(())
    }

    /// Reads 4 KiB on each connection, then a vector of fifteen times that, and compares every byte.
    pub(crate) fn read(&mut self) -> Result<()> {
        let count = self.members.len() as u64;
        for ((connection, handle), index) in self.members.iter_mut().zip(0..) {
            let handle = handle.context("the file is open")?;
            let offsets = Offsets::new(Order::Random, self.file.len, READ_LEN, index, count);
            let read = Job::Read { handle, offsets: offsets.clone() };
            for mut job in [read, Job::ReadVector { handle, offsets, elements: ELEMENTS }] {
                connection.begin(0, &mut job, clock::monotonic())?;
                connection.flush()?;
                while connection.next_completed(&mut job)?.is_none() {
                    let received =
                        connection.receive(&mut self.buffer).with_context(|| format!("connection {index}"))?;
                    ensure!(received > 0, "no answer on connection {index}");
                }
            }
        }
        Ok(())
    }
}
