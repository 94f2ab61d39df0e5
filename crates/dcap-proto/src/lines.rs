//! Cuts the bytes of a control connection into lines.

use crate::received::Received;

/// Longest line: a name of the longest path with each byte percent-encoded, followed by options.
pub const LINE_LEN_MAX: usize = 16 << 10;

/// Cuts the bytes of a control connection into lines. Pass bytes to [`Lines::handle_bytes`], then take lines until there are no more.
#[derive(Debug, Default)]
pub struct Lines {
    received: Received,
}

/// A line is longer than [`LINE_LEN_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a line is longer than {LINE_LEN_MAX} bytes")]
pub struct LineTooLong;

impl Lines {
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.received.push(bytes);
    }

    /// The next complete line without its end. Bytes that are not UTF-8 are replaced: names are percent-encoded.
    ///
    /// # Errors
    /// [`LineTooLong`], also for a line that is not complete yet.
    pub fn poll_line(&mut self) -> Result<Option<String>, LineTooLong> {
        let waiting = self.received.waiting();
        let end = waiting.iter().position(|&byte| byte == b'\n');
        if end.unwrap_or(waiting.len()) > LINE_LEN_MAX {
            return Err(LineTooLong);
        }
        let Some(end) = end else { return Ok(None) };
        let line = waiting.get(..end).unwrap_or_default();
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
        self.received.consume(end + 1);
        Ok(Some(line))
    }

    /// Whether a line has begun and is not complete.
    pub fn is_within_line(&self) -> bool {
        !self.received.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_may_have_the_longest_length_and_not_more() {
        for (len, is_taken) in [(LINE_LEN_MAX, true), (LINE_LEN_MAX + 1, false)] {
            let mut lines = Lines::default();
            lines.handle_bytes(&vec![b'x'; len]);
            assert_eq!(lines.poll_line().is_ok(), is_taken, "{len} bytes without an end");
            lines.handle_bytes(b"\n");
            assert_eq!(lines.poll_line().is_ok_and(|line| line.is_some()), is_taken, "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_bytes_arrive(texts in prop::collection::vec("[ -~]{0,20}", 0..6), step in 1..9_usize) {
            let bytes: Vec<u8> = texts.iter().flat_map(|text| [text.as_bytes(), b"\n"].concat()).collect();
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for piece in bytes.chunks(step) {
                lines.handle_bytes(piece);
                while let Some(line) = lines.poll_line().unwrap() {
                    found.push(line);
                }
            }
            prop_assert!(!lines.is_within_line());
            prop_assert_eq!(found, texts);
        }
    }
}
