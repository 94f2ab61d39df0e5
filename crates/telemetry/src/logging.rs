//! Log set-up: to standard error, as text or JSON, so that peers cannot forge lines.

use std::{
    fmt::{self, Debug, Write as _},
    io::{self, Write},
};
use tracing::{
    Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    field::RecordFields,
    filter::ParseError,
    fmt::{FormatFields, SubscriberBuilder, format::Writer},
    reload,
    util::SubscriberInitExt,
};

/// Format of log events.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LogFormat {
    /// One line of text per event.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Why logging could not be set up. A retry cannot help: the options must change.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("invalid log filter `{filter}` (examples: `info`, `info,forebay_origin=debug`): {source}")]
    Filter { filter: String, source: ParseError },
    #[error("logging is already set up")]
    SetUpBefore,
    #[error("cannot change the log filter: {0}")]
    Reload(#[from] reload::Error),
}

/// Changes the log filter while the process runs.
pub struct LogControl {
    set_filter: SetFilter,
}

type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>;

/// Sends the process's log to standard error. `filter` has the syntax of `RUST_LOG`: `LEVEL` or `TARGET=LEVEL`,
/// separated by commas.
///
/// # Errors
/// See [`LogError`].
pub fn init_logging(format: LogFormat, filter: &str) -> Result<LogControl, LogError> {
    let (logger, set_filter) = logger(format, parse_filter(filter)?, io::stderr);
    logger.try_init().map_err(|_| LogError::SetUpBefore)?;
    Ok(LogControl { set_filter })
}

/// Checks that [`init_logging`] accepts `filter`.
///
/// # Errors
/// [`LogError::Filter`] if it does not.
pub fn check_log_filter(filter: &str) -> Result<(), LogError> {
    parse_filter(filter).map(|_| ())
}

impl LogControl {
    /// Replaces the log filter.
    ///
    /// # Errors
    /// See [`LogError`]; the old filter stays in effect.
    pub fn set_filter(&self, filter: &str) -> Result<(), LogError> {
        Ok((self.set_filter)(parse_filter(filter)?)?)
    }
}

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogControl").finish_non_exhaustive()
    }
}

fn parse_filter(filter: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(filter).map_err(|source| LogError::Filter { filter: filter.to_owned(), source })
}

/// Formats events and passes each to a new writer, with control characters escaped.
fn logger<W: Write + 'static>(
    format: LogFormat,
    filter: EnvFilter,
    open: impl Fn() -> W + Send + Sync + 'static,
) -> (Box<dyn Subscriber + Send + Sync>, SetFilter) {
    let builder = SubscriberBuilder::default().with_ansi(false);
    let builder = builder.with_writer(move || EscapingWriter { to: open(), format });
    match format {
        LogFormat::Text => {
            let builder = builder.fmt_fields(QuotedFields).with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            (Box::new(builder.finish()), Box::new(move |filter| handle.reload(filter)))
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            (Box::new(builder.finish()), Box::new(move |filter| handle.reload(filter)))
        }
    }
}

/// Writes the fields of an event as text: `name=value`. A value with other than visible ASCII characters, or with one of `"`, `\`
/// and `=`, is quoted and escaped, so that no value can end a line or look like another field.
struct QuotedFields;

impl<'w> FormatFields<'w> for QuotedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut written = FieldWriter { writer, is_first: true, result: Ok(()) };
        fields.record(&mut written);
        written.result
    }
}

struct FieldWriter<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl FieldWriter<'_> {
    fn write(&mut self, field: &Field, value: impl fmt::Display) {
        let written = self.write_name(field).and_then(|()| write!(self.writer, "{value}"));
        self.result = self.result.and(written);
    }

    fn write_name(&mut self, field: &Field) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        // The text of the event itself has no name.
        if field.name() != "message" {
            self.writer.write_str(field.name())?;
            self.writer.write_char('=')?;
        }
        Ok(())
    }
}

impl Visit for FieldWriter<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_unescaped = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        if value.bytes().all(is_unescaped) {
            // Nearly all: the formatter would look at each letter.
            let quoted = |writer: &mut Writer<'_>| {
                writer.write_char('"')?;
                writer.write_str(value)?;
                writer.write_char('"')
            };
            let written = self.write_name(field).and_then(|()| quoted(&mut self.writer));
            self.result = self.result.and(written);
        } else {
            self.write(field, format_args!("{value:?}"));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'=');
        if field.name() == "message" || (!text.is_empty() && text.bytes().all(is_plain)) {
            self.write(field, text);
        } else {
            self.write(field, format_args!("{text:?}"));
        }
    }
}

/// Escapes what is left of control characters and line separators, except for the final line feed. The formatter writes each event
/// in one call, so a line feed inside comes from a value and must not begin a line.
struct EscapingWriter<W> {
    to: W,
    format: LogFormat,
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let body = event.strip_suffix(b"\n").unwrap_or(event);
        if body.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_control()) {
            self.to.write_all(event)?;
            return Ok(event.len());
        }
        let mut escaped = String::with_capacity(event.len() + 16);
        for letter in String::from_utf8_lossy(body).chars() {
            let written = match (letter, self.format) {
                // Terminals and readers of lines obey some of these, which are letters to JSON.
                (letter, LogFormat::Json) if is_obeyed(letter) => write!(escaped, "\\u{:04x}", u32::from(letter)),
                (letter, LogFormat::Text) if is_obeyed(letter) => write!(escaped, "{}", letter.escape_default()),
                (letter, _) => escaped.write_char(letter),
            };
            written.map_err(io::Error::other)?;
        }
        if body.len() < event.len() {
            escaped.push('\n');
        }
        self.to.write_all(escaped.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Whether `letter` controls a terminal, ends a line, or changes the direction of text.
fn is_obeyed(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessLog, Client, CloseEvent, FailedEvent, FileEvents as _, Metrics, OpenPurpose, RefusedEvent};
    use forebay_types::{Endpoint, Lfn, Outcome, Side};
    use std::{
        sync::{Arc, Mutex},
        time::{Duration, Instant},
    };

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log of `emit` in `format`, at every level.
    fn logged(format: LogFormat, emit: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let (logger, _) = logger(format, EnvFilter::new("trace"), move || writer.clone());
        tracing::subscriber::with_default(logger, emit);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        Instant::now()
    }

    fn client() -> Client {
        Client { user: "u27\n".to_owned(), host: "node.example".to_owned(), ..Client::default() }
    }

    fn lfn() -> Lfn {
        Lfn::parse("/a \"b\"\nforged line").unwrap()
    }

    fn log_a_close() {
        let handle = Metrics::new().open_handle();
        handle.account(Outcome::Hit, 4096);
        handle.account(Outcome::Missed, 100);
        AccessLog::default().closed(&CloseEvent {
            open: 1,
            at: now(),
            client: &client(),
            lfn: &lfn(),
            origin: Some(&Endpoint::new("origin.example", 1094).into()),
            size: 8192,
            purpose: OpenPurpose::Read,
            account: handle.shared(),
            duration: Duration::from_millis(1500),
            opens: 2,
            file: None,
        });
    }

    fn log_a_failure() {
        let (at, client, lfn, open, reason) = (now(), &client(), &lfn(), None, "gone\nand more");
        let duration = Some(Duration::from_millis(1500));
        let (side, kind) = (Side::Origin, "not_found");
        AccessLog::default().failed(&FailedEvent { at, client, lfn, open, side, kind, reason, duration });
    }

    fn log_a_refusal() {
        let (at, client, lfn) = (now(), &client(), &lfn());
        let (kind, reason) = ("not_authorized", "read: not\nauthorized");
        AccessLog::default().refused(&RefusedEvent { at, client, lfn, kind, reason });
    }

    #[test]
    fn an_access_is_one_line_with_every_fact_for_any_file_name() {
        let closed: &[_] = &[
            r#"who="u27\n@node.example""#,
            r#"lfn="/a \"b\"\nforged line""#,
            r#"origin="origin.example:1094""#,
            "hit_bytes=4096",
            "missed_bytes=100",
            "coalesced_bytes=0",
            "bypassed_bytes=0",
            "duration_ms=1500",
            "opens=2",
        ];
        let failed: &[_] =
            &["open failed", "side=\"origin\"", "kind=\"not_found\"", r#"reason="gone\nand more""#, "duration_ms=1500"];
        let refused: &[_] = &["open refused", "kind=\"not_authorized\"", r#"reason="read: not\nauthorized""#];
        let closed_json: &[_] = &[r#""lfn":"/a \"b\"\nforged line""#, r#""hit_bytes":4096"#];
        for (format, emit, facts) in [
            (LogFormat::Text, log_a_close as fn(), closed),
            (LogFormat::Text, log_a_failure, failed),
            (LogFormat::Text, log_a_refusal, refused),
            (LogFormat::Json, log_a_close, closed_json),
            (LogFormat::Json, log_a_failure, &[]),
            (LogFormat::Json, log_a_refusal, &[]),
        ] {
            let log = logged(format, emit);
            assert_eq!(log.lines().count(), 1, "{log}");
            assert!(log.ends_with('\n'));
            for fact in facts.iter().chain(&["forebay::access"]) {
                assert!(log.contains(fact), "{fact} not in {log}");
            }
        }
    }

    #[test]
    fn control_characters_in_displayed_values_are_escaped() {
        let peer_text = "bad\r\n2026-01-01 ERROR forged\x1b[31m";
        let log = logged(LogFormat::Text, || tracing::warn!(error = %peer_text, "origin failed"));
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(!log.contains('\x1b'), "{log}");
        assert!(log.contains("forged"), "{log}");
    }

    #[test]
    fn no_value_can_break_a_line_or_look_like_another_field() {
        let values = [
            "",
            "a b",
            "alice side=\"cache\"",
            "x\" level=\"ERROR\" y=\"",
            "a\\\" b=1",
            "k=v",
            "one\ntwo\r\n",
            "\u{85}\u{2028}\u{2029}\u{7f}\u{9b}31m\u{202e}\u{0}\u{1b}",
        ];
        for value in values {
            let emit = || tracing::warn!(user = %value, path = ?value, name = value, reason = value, "refused");
            let text = logged(LogFormat::Text, emit);
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.trim_end_matches('\n').chars().any(is_obeyed), "{text}");
            let quoted =
                format!(": refused user={value:?} path={:?} name={value:?} reason={value:?}\n", format!("{value:?}"));
            assert!(text.ends_with(&quoted), "{text}\n{quoted}");
            let json = logged(LogFormat::Json, emit);
            assert_eq!(json.trim_end_matches('\n').chars().filter(|letter| is_obeyed(*letter)).count(), 0, "{json}");
            let event: serde_json::Value = serde_json::from_str(&json).unwrap();
            for field in ["user", "name", "reason"] {
                assert_eq!(event[field], value, "{json}");
            }
            assert_eq!(event["level"], "WARN");
        }
        let plain = logged(LogFormat::Text, || tracing::warn!(peer = %"[::1]:1094", count = 3, is_it = true, "done"));
        assert!(plain.ends_with(": done peer=[::1]:1094 count=3 is_it=true\n"), "{plain}");
    }

    #[test]
    fn the_filter_can_be_changed_while_logging_and_an_invalid_one_is_refused() {
        let sink = Sink::default();
        let writer = sink.clone();
        let (logger, set_filter) = logger(LogFormat::Text, EnvFilter::new("warn"), move || writer.clone());
        tracing::subscriber::with_default(logger, || {
            tracing::info!("before");
            set_filter(EnvFilter::new("info")).unwrap();
            tracing::info!("after");
        });
        let log = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(log.contains("after") && !log.contains("before"), "{log}");
        let error = init_logging(LogFormat::Text, "forebay=loud").unwrap_err();
        assert!(error.to_string().contains("forebay=loud"), "{error}");
        assert!(check_log_filter("forebay=loud").is_err());
        assert!(check_log_filter("warn,forebay=debug").is_ok());
    }
}
