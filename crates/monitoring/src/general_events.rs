//! The g-stream: closes of cached files as lines of JSON, collected for a datagram.

use crate::{
    datagram::{DATAGRAM_LEN_MAX, HEADER_LEN, Sender},
    file_records::{LFN_LEN_MAX, cut},
};
use std::fmt::Write as _;

/// The events are those of a file cache.
const CACHE: u8 = b'C';

/// Length of the header with times and the number of the sender.
const START_LEN: usize = HEADER_LEN + 16;

/// Events that are waiting to be sent.
#[derive(Clone, Debug)]
pub struct GeneralEvents {
    lines: String,
    /// Length of a datagram that is not exceeded, unless by one event.
    len_max: usize,
}

/// The last client of a cached file has closed it.
#[derive(Clone, Debug, Default)]
pub struct FileClose<'a> {
    /// The path; cut to [`LFN_LEN_MAX`].
    pub lfn: &'a str,
    pub size: u64,
    pub block_size: u64,
    pub blocks: u64,
    pub blocks_done: u64,
    pub accesses: u64,
    /// Times of the first open and the last close, in seconds of the Unix epoch.
    pub attached: i64,
    pub detached: i64,
    /// Servers that have sent bytes of the file.
    pub remotes: Vec<String>,
    pub hit: u64,
    pub missed: u64,
    pub bypassed: u64,
    pub written: u64,
    pub prefetched: u64,
    /// Blocks whose checksum was wrong.
    pub damaged: u64,
}

impl GeneralEvents {
    /// Datagrams have at most `len_max` bytes, or those of one event.
    #[must_use]
    pub fn new(len_max: usize) -> Self {
        Self { lines: String::new(), len_max: len_max.min(DATAGRAM_LEN_MAX) }
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds an event. Returns `false` if it does not fit with those that are waiting: they have to be sent first.
    pub fn close(&mut self, event: &FileClose<'_>) -> bool {
        let line = event.line();
        if !self.is_empty() && START_LEN + self.lines.len() + 1 + line.len() + 1 > self.len_max {
            return false;
        }
        if !self.is_empty() {
            self.lines.push('\n');
        }
        self.lines.push_str(&line);
        true
    }

    /// Takes the datagram; the next one begins empty. `begin` and `end` are the times of its interval in seconds.
    pub fn take(&mut self, sender: Sender, sequence: u8, begin: u32, end: u32) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_LEN];
        datagram.extend(begin.to_be_bytes());
        datagram.extend(end.to_be_bytes());
        datagram.extend(sender.marked_id(CACHE).to_be_bytes());
        datagram.extend(std::mem::take(&mut self.lines).into_bytes());
        datagram.push(0);
        sender.seal(&mut datagram, b'g', sequence);
        datagram
    }
}

impl FileClose<'_> {
    /// The event with the names and in the order of XCache.
    fn line(&self) -> String {
        let Self { size, block_size, blocks, blocks_done, accesses, attached, detached, .. } = self;
        let Self { hit, missed, bypassed, written, prefetched, damaged, .. } = self;
        let lfn = quoted(cut(self.lfn, LFN_LEN_MAX));
        let remotes: Vec<String> = self.remotes.iter().map(|remote| quoted(remote)).collect();
        format!(
            "{{\"event\":\"file_close\",\"lfn\":{lfn},\"size\":{size},\"blk_size\":{block_size},\"n_blks\":{blocks},\
             \"n_blks_done\":{blocks_done},\"access_cnt\":{accesses},\"attach_t\":{attached},\"detach_t\":{detached},\
             \"remotes\":[{}],\"b_hit\":{hit},\"b_miss\":{missed},\"b_bypass\":{bypassed},\"b_todisk\":{written},\
             \"b_prefetch\":{prefetched},\"n_cks_errs\":{damaged}}}",
            remotes.join(",")
        )
    }
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\0'..='\x1f' => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> FileClose<'static> {
        FileClose {
            lfn: "/data/big.bin",
            size: 3_000_000,
            block_size: 1_048_576,
            blocks: 3,
            blocks_done: 3,
            accesses: 1,
            attached: 1_795_288_123,
            detached: 1_795_288_124,
            remotes: vec!["origin:1094".to_owned()],
            hit: 3_000_000,
            ..FileClose::default()
        }
    }

    #[test]
    fn an_event_has_the_names_of_xcache_in_their_order() {
        let mut events = GeneralEvents::new(1472);
        assert!(events.close(&event()));
        let datagram = events.take(Sender { start: 0x6b01_ec3c, id: 0x7f46_cd2b_650e }, 3, 0x6b01_ec3c, 0x6b01_ec3d);
        let (header, text) = datagram.split_at(START_LEN);
        assert_eq!(header.get(..2), Some(&b"g\x03"[..]));
        assert_eq!(header.get(2..4), Some(&u16::try_from(datagram.len()).unwrap().to_be_bytes()[..]));
        let rest = b"\x6b\x01\xec\x3c\x6b\x01\xec\x3c\x6b\x01\xec\x3d\x43\x00\x7f\x46\xcd\x2b\x65\x0e";
        assert_eq!(header.get(4..), Some(&rest[..]));
        let expected = "{\"event\":\"file_close\",\"lfn\":\"/data/big.bin\",\"size\":3000000,\"blk_size\":1048576,\
            \"n_blks\":3,\"n_blks_done\":3,\"access_cnt\":1,\"attach_t\":1795288123,\"detach_t\":1795288124,\
            \"remotes\":[\"origin:1094\"],\"b_hit\":3000000,\"b_miss\":0,\"b_bypass\":0,\"b_todisk\":0,\"b_prefetch\":0,\
            \"n_cks_errs\":0}\0";
        assert_eq!(std::str::from_utf8(text).unwrap(), expected);
        assert!(events.is_empty());
    }

    /// A datagram of a cache of XRootD 5.5.3 after its first client has read a file.
    const STOCK: &str = "670101126b06cf8c6b06cf8c6b06cf8c43007d0fff9498207b226576656e74223a2266696c655f636c6f7365222c226c666e223a222f646174612f6269672e62696e222c2273697a65223a333030303030302c22626c6b5f73697a65223a313034383537362c226e5f626c6b73223a332c226e5f626c6b735f646f6e65223a332c226163636573735f636e74223a312c226174746163685f74223a313739353630383436302c226465746163685f74223a313739353630383436302c2272656d6f746573223a5b223132372e302e302e313a3135303033225d2c22625f686974223a333030303030302c22625f6d697373223a302c22625f627970617373223a302c226e5f636b735f65727273223a307d00";

    #[test]
    fn a_datagram_equals_that_of_xcache_except_for_newer_fields() {
        let mut events = GeneralEvents::new(1472);
        let (attached, detached, remotes) = (1_795_608_460, 1_795_608_460, vec!["127.0.0.1:15003".to_owned()]);
        assert!(events.close(&FileClose { attached, detached, remotes, ..event() }));
        let sender = Sender { start: 0x6b06_cf8c, id: 0x7d0f_ff94_9820 };
        let datagram = events.take(sender, 1, 0x6b06_cf8c, 0x6b06_cf8c);
        // Collectors require the fields; XRootD sends them from 5.7.2 on.
        let newer = b"\"b_todisk\":0,\"b_prefetch\":0,";
        let at = datagram.windows(newer.len()).position(|window| window == newer).unwrap();
        let mut older = [&datagram[..at], &datagram[at + newer.len()..]].concat();
        sender.seal(&mut older, b'g', 1);
        let hex: String = older.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, STOCK);
    }

    #[test]
    fn lines_are_separated_escaped_and_limited() {
        let mut events = GeneralEvents::new(1472);
        let strange = FileClose { lfn: "/a\"b\\c\n", ..event() };
        assert!(events.close(&strange));
        assert!(events.close(&event()));
        let accepted = (0..10).take_while(|_| events.close(&event())).count();
        assert!(accepted < 10);
        let datagram = events.take(Sender { start: 1, id: 2 }, 0, 3, 4);
        assert!(datagram.len() <= 1472);
        let text = String::from_utf8_lossy(&datagram).into_owned();
        assert!(text.contains(r#""lfn":"/a\"b\\c\u000a""#));
        assert_eq!(text.lines().count(), accepted + 2);
    }
}
