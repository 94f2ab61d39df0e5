//! The answers on a control connection.

use crate::refusal::Refusal;
use forebay_types::{FileKind, FileStat};

/// Length of the mode in a stat: that of `ls`.
pub const STAT_MODE_LEN: usize = 10;

/// Longest text of a refusal: clients take words of 4096 characters.
const TEXT_LEN_MAX: usize = 512;

/// Bits of the inode number in a stat, as of dCache: clients keep it in types of different sizes.
const INODE_MASK: u64 = 0xfff_ffff;

/// The answer to the request with these numbers. Each method returns a line with its end, of ASCII characters only: clients drop the
/// connection at others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ControlAnswer {
    pub session: u32,
    pub id: u32,
}

impl ControlAnswer {
    /// The answer to a hello.
    pub fn welcome(version: (u32, u32)) -> String {
        format!("0 0 server welcome {} {}\n", version.0, version.1)
    }

    pub fn bye() -> String {
        "0 0 server byebye\n".to_owned()
    }

    pub fn pong(self) -> String {
        format!("{} {} server pong\n", self.session, self.id)
    }

    pub fn ok(self) -> String {
        self.line("ok")
    }

    /// Sends the client of an open to its data connection.
    pub fn connect(self, host: &str, port: u16, challenge: &str) -> String {
        self.line(&format!("connect {host} {port} {challenge}"))
    }

    pub fn stat(self, stat: &FileStat) -> String {
        let FileStat { id, size, mtime, .. } = stat;
        let (mode, inode) = (mode_of(stat), id & INODE_MASK);
        self.line(&format!(
            "stat -st_size={size} -st_uid=0 -st_gid=0 -st_atime={mtime} -st_mtime={mtime} -st_ctime={mtime} -st_mode={mode} -st_ino={inode}"
        ))
    }

    pub fn failed(self, Refusal { code, text, errno }: &Refusal) -> String {
        self.line(&format!("failed {code} \"{}\" {}", plain(text), errno.as_str()))
    }

    fn line(self, rest: &str) -> String {
        format!("{} {} client {rest}\n", self.session, self.id)
    }
}

/// The mode as of `ls`. All clients that may read have the same rights, and none may write.
fn mode_of(stat: &FileStat) -> String {
    let kind = match stat.kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Other => 'x',
    };
    let read = if stat.readable { 'r' } else { '-' };
    let search = if stat.executable || stat.kind == FileKind::Directory { 'x' } else { '-' };
    let of_one: String = [read, '-', search].iter().collect();
    format!("{kind}{}", of_one.repeat(3))
}

/// A text that cannot end its quotes or its line.
fn plain(text: &str) -> String {
    let replace = |c: char| match c {
        '"' => '\'',
        c if c == ' ' || c.is_ascii_graphic() => c,
        _ => '?',
    };
    text.chars().take(TEXT_LEN_MAX).map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Errno;

    const ANSWER: ControlAnswer = ControlAnswer { session: 2, id: 0 };

    fn stat(kind: FileKind) -> FileStat {
        FileStat {
            id: 0x1_0000_0007,
            kind,
            size: 3_000_001,
            mtime: 1_700_000_000,
            readable: true,
            executable: false,
            offline: false,
            cached: false,
            access: None,
            validator: None,
        }
    }

    #[test]
    fn answers_are_lines_with_the_numbers_of_the_request() {
        assert_eq!(ControlAnswer::welcome((2, 47)), "0 0 server welcome 2 47\n");
        assert_eq!(ControlAnswer { session: 1, id: 2 }.pong(), "1 2 server pong\n");
        assert_eq!(ANSWER.connect("127.0.0.1", 22125, "abc="), "2 0 client connect 127.0.0.1 22125 abc=\n");
        assert_eq!(ANSWER.ok(), "2 0 client ok\n");
        let expected = "2 0 client stat -st_size=3000001 -st_uid=0 -st_gid=0 -st_atime=1700000000 -st_mtime=1700000000 \
                        -st_ctime=1700000000 -st_mode=-r--r--r-- -st_ino=7\n";
        assert_eq!(ANSWER.stat(&stat(FileKind::File)), expected);
        for (kind, mode) in [(FileKind::Directory, "dr-xr-xr-x"), (FileKind::Other, "xr--r--r--")] {
            assert_eq!(mode.len(), STAT_MODE_LEN);
            assert!(ANSWER.stat(&stat(kind)).contains(mode));
        }
    }

    #[test]
    fn the_text_of_a_refusal_stays_within_its_quotes() {
        let refusal = Refusal::new(Refusal::NO_FILE, Errno::NoEntry, format!("no \"é\"\n{}", "x".repeat(2000)));
        let line = ANSWER.failed(&refusal);
        assert!(line.starts_with("2 0 client failed 2 \"no '?'?xx"), "{line}");
        assert!(line.ends_with("x\" ENOENT\n"));
        assert!(line.is_ascii());
        assert!(line.len() < 600);
    }
}
