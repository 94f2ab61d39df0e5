//! The requests on a control connection.

use crate::{name::NameError, path_of, words::words};

/// The session numbers of clients are below this number. They count from 1, so the first byte of a data connection, which begins with
/// four bytes of the number, is never a digit, as the first byte of a control connection is.
pub const SESSION_MAX: u32 = 1 << 24;

/// One line of a client: `SESSION ID client VERB [ARGUMENT]... [-OPTION[=VALUE]]...`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ControlRequest {
    /// Counted by the client for each open, stat and so on; 0 for those of the connection.
    pub session: u32,
    /// Distinguishes messages of a session, for the client alone.
    pub id: u32,
    pub command: Command,
}

/// The verb of a line with its arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    Hello(Hello),
    Ping,
    /// Ends the control connection.
    Bye,
    /// Attributes of a path; links are followed in any case, because there are none.
    Stat(Result<Vec<u8>, NameError>),
    Open(Open),
    /// Whether a file is on disk.
    Check(Result<Vec<u8>, NameError>),
    /// Have a file on disk soon.
    Stage(Result<Vec<u8>, NameError>),
    /// A client gives up a session.
    Fail,
    /// A change of the name space, by its verb.
    Change(String),
    Unsupported(String),
}

/// The first line of a client. All of it is the client's claim.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hello {
    /// Version of the protocol, as `2` and `47`.
    pub version: (u32, u32),
    pub pid: u32,
    pub uid: Option<u32>,
}

/// An open of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Open {
    pub path: Result<Vec<u8>, NameError>,
    /// The name as it was written, by which a further open of the same file is recognised.
    pub name: String,
    pub is_for_writing: bool,
    /// Seconds that the client waits for the file; `None` without a limit.
    pub timeout_s: Option<u32>,
}

/// Why a line is not a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LineError {
    /// The lines of an authenticated or encrypted client.
    #[error("the client uses a tunnel (gsidcap:// or Kerberos), which is not supported")]
    Tunnel,
    #[error("a line has too few words")]
    TooFewWords,
    #[error("a line does not begin with two numbers")]
    NoNumbers,
    #[error("an argument is missing")]
    ArgumentMissing { session: u32, id: u32 },
}

/// Verbs that change the name space.
const CHANGES: [&str; 8] = ["unlink", "rmdir", "mkdir", "chmod", "chown", "chgrp", "rename", "create"];

impl ControlRequest {
    /// # Errors
    /// See [`LineError`].
    pub fn parse(line: &str) -> Result<Self, LineError> {
        let words = words(line);
        if words.first().is_some_and(|word| word == "enc") {
            return Err(LineError::Tunnel);
        }
        let [session, id, _who, verb, rest @ ..] = words.as_slice() else { return Err(LineError::TooFewWords) };
        let session = session.parse().ok().filter(|session| *session < SESSION_MAX).ok_or(LineError::NoNumbers)?;
        let id = id.parse().map_err(|_| LineError::NoNumbers)?;
        let command = Command::parse(verb, rest).ok_or(LineError::ArgumentMissing { session, id })?;
        Ok(Self { session, id, command })
    }
}

impl Command {
    /// `None` if an argument is missing.
    fn parse(verb: &str, rest: &[String]) -> Option<Self> {
        let arguments: Vec<&str> = rest.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
        let name = || arguments.first().map(|name| path_of(name));
        Some(match verb {
            "hello" => Self::Hello(Hello {
                version: (number(arguments.get(2)), number(arguments.get(3))),
                pid: option(rest, "pid").unwrap_or(0),
                uid: option(rest, "uid"),
            }),
            "ping" => Self::Ping,
            "byebye" => Self::Bye,
            "stat" | "lstat" => Self::Stat(name()?),
            "open" => Self::Open(Open {
                path: name()?,
                name: (*arguments.first()?).to_owned(),
                is_for_writing: arguments.get(1)?.contains('w'),
                timeout_s: option(rest, "timeout"),
            }),
            "check" => Self::Check(name()?),
            "stage" => Self::Stage(name()?),
            "fail" => Self::Fail,
            verb if CHANGES.contains(&verb) => Self::Change(verb.to_owned()),
            verb => Self::Unsupported(verb.to_owned()),
        })
    }
}

fn number(word: Option<&&str>) -> u32 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The value of an option as a number; `None` also for negative ones, which stand for no value.
fn option(words: &[String], name: &str) -> Option<u32> {
    let value = |word: &String| word.strip_prefix('-')?.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    words.iter().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(line: &str) -> Command {
        ControlRequest::parse(line).unwrap().command
    }

    #[test]
    fn lines_of_libdcap_2_47_14_are_read() {
        let hello = Hello { version: (2, 47), pid: 9974, uid: Some(0) };
        assert_eq!(command(r#"0 0 client hello 0 0 2 47 14 "" -uid=0 -pid=9974 -gid=0"#), Command::Hello(hello));
        let line =
            r#"2 0 client open "dcap://127.0.0.1/f.bin" r vm 51043 -timeout=-1 -onerror=default -passive -uid=0"#;
        let name = "dcap://127.0.0.1/f.bin".to_owned();
        let open = Open { path: Ok(b"/f.bin".to_vec()), name, is_for_writing: false, timeout_s: None };
        assert_eq!(
            ControlRequest::parse(line),
            Ok(ControlRequest { session: 2, id: 0, command: Command::Open(open.clone()) })
        );
        assert_eq!(command(&line.replace("=-1", "=30")), Command::Open(Open { timeout_s: Some(30), ..open }));
        assert!(matches!(
            command(r#"3 0 client open "dcap://h/f" rw vm 1"#),
            Command::Open(Open { is_for_writing: true, .. })
        ));
        assert_eq!(command(r#"1 0 client lstat "dcap://h/a%20b" -uid=0"#), Command::Stat(Ok(b"/a b".to_vec())));
        assert_eq!(
            command(r#"4 0 client check "dcap://h/f" -stagetime=-1 -location=vm"#),
            Command::Check(Ok(b"/f".to_vec()))
        );
        assert_eq!(command("1 2 client ping"), Command::Ping);
        assert_eq!(command(r#"7 0 client unlink "dcap://h/f" -uid=0"#), Command::Change("unlink".into()));
        assert_eq!(command(r#"7 0 client opendir "dcap://h/" vm 3"#), Command::Unsupported("opendir".into()));
        assert_eq!(command(r"1 0 client stat 0001000000001060"), Command::Stat(Err(NameError::NotUrl)));
    }

    #[test]
    fn other_lines_are_refused() {
        for (line, error) in [
            ("enc MTIz", LineError::Tunnel),
            ("", LineError::TooFewWords),
            ("1 0 client", LineError::TooFewWords),
            ("x 0 client ping", LineError::NoNumbers),
            ("-1 0 client ping", LineError::NoNumbers),
            ("16777216 0 client ping", LineError::NoNumbers),
            ("1 0 client stat", LineError::ArgumentMissing { session: 1, id: 0 }),
            (r#"1 3 client open "dcap://h/f""#, LineError::ArgumentMissing { session: 1, id: 3 }),
        ] {
            assert_eq!(ControlRequest::parse(line), Err(error), "{line}");
        }
        assert!(ControlRequest::parse("16777215 0 client ping").is_ok());
    }

    proptest! {
        #[test]
        fn no_line_breaks_the_parser(line in "[0-9a-z \"%:/=-]{0,80}") {
            let _ = ControlRequest::parse(&line);
        }
    }
}
