//! Import of access records: lines of JSON and CSV, and the accesses in cinfos.

use crate::{
    access::{Access, Accesses, Full},
    columns::{Column, Field, Scalar, Values},
    csv::Header,
    requests::Open,
    time::{parse_time_ms, time_ms},
};
use forebay_cache::{CacheKey, Cinfo, name_for_rules};
use forebay_types::{ByteRange, Lfn};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::{borrow::Cow, collections::HashMap, fmt, str};

/// Longest line of a file of records in bytes.
pub const LINE_LEN_MAX: usize = 1 << 20;

/// Opens of a trace that were not closed yet, remembered at most; the closes of further ones are bad records.
const TRACE_OPENS_MAX: usize = 1_000_000;

/// Reads records into [`Accesses`]: [`Self::begin`] before each file, then its lines, [`Self::finish`] in the end.
#[derive(Debug, Default)]
pub struct Import {
    accesses: Accesses,
    format: Format,
    trace_opens: HashMap<i64, TraceOpen>,
    keeps_requests: bool,
    /// Lines other than accesses, such as the reads of a trace.
    pub other_lines: u64,
}

/// Why a record cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Problem {
    #[error("not UTF-8: convert the file")]
    Encoding,
    #[error("not a JSON object: {0}; each line has one record, `jq -c` writes lists so")]
    Json(String),
    #[error("not a line of CSV: {0}")]
    Csv(String),
    #[error("no {field}: it is expected in one of {names}")]
    Missing { field: &'static str, names: &'static str },
    #[error("{field} is {value}: {expected}")]
    Value { field: &'static str, value: String, expected: &'static str },
    #[error("`{path}` cannot be the name of a cached file: {reason}")]
    Path { path: String, reason: String },
    #[error("open number {0} of the trace is not known: its file before this one is missing")]
    TraceOpen(i64),
    #[error(transparent)]
    Full(#[from] Full),
}

#[derive(Debug, Default)]
enum Format {
    #[default]
    Unknown,
    Json,
    Csv(Header),
}

#[derive(Debug)]
struct TraceOpen {
    path: String,
    user: String,
    size: Option<u64>,
    /// Its number among the requests, if these are kept.
    request: Option<u32>,
}

/// The ranges of a request in a trace.
#[derive(Debug, serde::Deserialize)]
struct TraceRead {
    #[serde(default)]
    o: u64,
    #[serde(default)]
    n: u64,
    /// Elements of a vector.
    #[serde(default)]
    v: Vec<(u64, u64)>,
}

impl Import {
    /// An import that keeps the requests of traces, too.
    pub fn with_requests() -> Self {
        Self { keeps_requests: true, ..Self::default() }
    }

    /// Begins a file, whose format is that of its first line. Opens of a trace are known across its files.
    pub fn begin(&mut self) {
        self.format = Format::Unknown;
    }

    /// Reads a line.
    ///
    /// # Errors
    /// When the line is not a record. The import may continue with the next one, except after [`Problem::Full`].
    pub fn line(&mut self, line: &[u8]) -> Result<(), Problem> {
        let line = str::from_utf8(line).map_err(|_| Problem::Encoding)?.trim_end_matches(['\n', '\r']);
        if line.trim().is_empty() {
            return Ok(());
        }
        if let Format::Unknown = self.format {
            if !line.trim_start().starts_with('{') {
                self.format = Format::Csv(header_of_accesses(line)?);
                return Ok(());
            }
            self.format = Format::Json;
        }
        let values = match &self.format {
            Format::Csv(header) => header.values(line).map_err(Problem::Csv)?,
            Format::Json | Format::Unknown => json_values(line)?,
        };
        match values.text(Field::TraceEvent) {
            Some("read" | "pgread" | "readv") if self.keeps_requests => self.trace_read(line, &values),
            Some(_) => self.trace(&values),
            None => self.record(&values),
        }
    }

    /// Reads the accesses of the record of a cached file, `name` as its path below the directory of the cache. A period that others
    /// were merged into counts as many times, evenly spaced.
    ///
    /// # Errors
    /// When the name cannot be one of a cached file, or a limit is reached.
    pub fn cinfo(&mut self, name: &str, cinfo: &Cinfo) -> Result<(), Problem> {
        let key = key_of(name)?;
        let size = Some(cinfo.geometry.file_size());
        for period in &cinfo.accesses {
            let count = i64::from(period.merged.max(0)).saturating_add(1).min(MERGED_MAX);
            let end = period.detached.unwrap_or(period.attached).max(period.attached);
            let step_ms = end.saturating_sub(period.attached).saturating_mul(1000) / count;
            let saved = period.hit_bytes;
            let read = saved.saturating_add(period.missed_bytes).saturating_add(period.bypassed_bytes);
            for number in 1..=count {
                let at_ms = period.attached.saturating_mul(1000).saturating_add(step_ms * number);
                let share = |bytes: u64| bytes / count.cast_unsigned();
                let access = Access { at_ms, file: 0, user: 0, read: share(read), saved: share(saved) };
                self.accesses.add(key.clone(), size, "", access)?;
            }
        }
        Ok(())
    }

    /// All accesses, in the order of time.
    pub fn finish(mut self) -> Accesses {
        self.accesses.sort();
        self.accesses
    }

    fn record(&mut self, values: &Values<'_>) -> Result<(), Problem> {
        // The log has other messages, too.
        if values.text(Field::Message).is_some_and(|message| message != "closed") {
            self.other_lines += 1;
            return Ok(());
        }
        if is_no_access(values) {
            self.other_lines += 1;
            return Ok(());
        }
        let path =
            values.text(Field::Path).ok_or(Problem::Missing { field: "path", names: "path, lfn, file_lfn, file" })?;
        let user = values.text(Field::User).unwrap_or_default();
        // `who` of the log is the user and the host.
        let user = user.rsplit_once('@').map_or(user, |(user, _)| user);
        let size = bytes(values, Field::Size, "size")?;
        let access = access_of(values, size)?;
        // Most records are of files that are known, by the same spelling.
        match self.accesses.known_file(path) {
            Some(file) => self.accesses.add_to(file, size, user, access)?,
            None => self.accesses.add(key_of(path)?, size, user, access)?,
        }
        Ok(())
    }

    /// Reads a line of a trace.
    fn trace(&mut self, values: &Values<'_>) -> Result<(), Problem> {
        let number = trace_number(values)?;
        match values.text(Field::TraceEvent) {
            Some("open") => self.trace_open(number, values),
            Some("close") => self.trace_close(number, values),
            _ => {
                self.other_lines += 1;
                Ok(())
            }
        }
    }

    fn trace_read(&mut self, line: &str, values: &Values<'_>) -> Result<(), Problem> {
        let number = trace_number(values)?;
        let open = self.trace_opens.get(&number).and_then(|open| open.request);
        let open = open.ok_or(Problem::TraceOpen(number))?;
        let TraceRead { o, n, v } = serde_json::from_str(line).map_err(|error| Problem::Json(error.to_string()))?;
        let at_us = trace_time_us(values)?;
        let requests = self.accesses.requests_mut();
        if v.is_empty() {
            return Ok(requests.read(at_us, open, &[ByteRange::at(o, n)])?);
        }
        let ranges: Vec<_> = v.into_iter().map(|(offset, len)| ByteRange::at(offset, len)).collect();
        Ok(requests.read(at_us, open, &ranges)?)
    }

    fn trace_open(&mut self, number: i64, values: &Values<'_>) -> Result<(), Problem> {
        let path = values.text(Field::Path).ok_or(Problem::Missing { field: "path", names: "path" })?.to_owned();
        let user = values.text(Field::User).unwrap_or_default().to_owned();
        let size = bytes(values, Field::Size, "size")?;
        if self.trace_opens.len() < TRACE_OPENS_MAX {
            let mut request = None;
            if self.keeps_requests {
                let (file, user) = self.accesses.note(key_of(&path)?, size, &user)?;
                request = Some(self.accesses.requests_mut().open(trace_time_us(values)?, Open { file, user })?);
            }
            self.trace_opens.insert(number, TraceOpen { path, user, size, request });
        }
        Ok(())
    }

    fn trace_close(&mut self, number: i64, values: &Values<'_>) -> Result<(), Problem> {
        let open = self.trace_opens.remove(&number).ok_or(Problem::TraceOpen(number))?;
        let access = access_of(values, open.size)?;
        if let Some(request) = open.request {
            self.accesses.requests_mut().close(trace_time_us(values)?, request)?;
        }
        Ok(self.accesses.add(key_of(&open.path)?, open.size, &open.user, access)?)
    }
}

/// The number of the open that a line of a trace is about.
fn trace_number(values: &Values<'_>) -> Result<i64, Problem> {
    match values.get(Field::TraceOpen) {
        Some(Scalar::Integer(number)) => Ok(*number),
        _ => Err(Problem::Missing { field: "number of the open", names: "f" }),
    }
}

/// The time of a line of a trace, in microseconds of the Unix epoch.
fn trace_time_us(values: &Values<'_>) -> Result<i64, Problem> {
    match values.get(Field::Time) {
        Some(Scalar::Integer(time)) => Ok(*time),
        _ => Err(Problem::Missing { field: "time", names: "t" }),
    }
}

/// Whether a record is that of an open that failed or was refused, or that was redirected without a look at the file.
fn is_no_access(values: &Values<'_>) -> bool {
    match values.text(Field::Event) {
        Some("refused" | "failed") => true,
        Some("redirect" | "direct") => values.get(Field::Size).is_none(),
        _ => false,
    }
}

/// Accesses that one merged period of a cinfo counts for at most.
const MERGED_MAX: i64 = 10_000;

/// The header of a file of accesses.
fn header_of_accesses(line: &str) -> Result<Header, Problem> {
    let header = Header::parse(line).map_err(Problem::Csv)?;
    let has = |field| header.names().iter().filter_map(|name| Column::of(name)).any(|column| column.field == field);
    if has(Field::Time) && has(Field::Path) {
        return Ok(header);
    }
    let names = header.names().join(", ");
    Err(Problem::Csv(format!("the first line names the columns, among them `time` and `path`; it has {names:.200}")))
}

fn access_of(values: &Values<'_>, size: Option<u64>) -> Result<Access, Problem> {
    let at_ms = time_of(values)?;
    let outcome = |field, name| bytes(values, field, name);
    let hit = outcome(Field::Hit, "hit")?;
    let missed = outcome(Field::Missed, "missed")?;
    let coalesced = outcome(Field::Coalesced, "coalesced")?;
    let bypassed = outcome(Field::Bypassed, "bypassed")?;
    let parts = [hit, missed, coalesced, bypassed].into_iter().flatten();
    let sum = parts.fold(0_u64, u64::saturating_add);
    let has_outcome = hit.is_some() && missed.is_some();
    let read = match bytes(values, Field::Read, "read")? {
        Some(read) => read,
        None if has_outcome => sum,
        None => {
            size.ok_or(Problem::Missing { field: "bytes read", names: "read, read_bytes, or hit and missed, or size" })?
        }
    };
    // Most coalesced bytes are those of a reader's own read-ahead, which came from the origin for it.
    let saved = hit.unwrap_or(0).min(read);
    Ok(Access { at_ms, file: 0, user: 0, read, saved: if has_outcome { saved } else { Access::UNKNOWN } })
}

fn time_of(values: &Values<'_>) -> Result<i64, Problem> {
    let names = "time, end_time, detach_t, timestamp, start_time";
    let value = values.get(Field::Time).ok_or(Problem::Missing { field: "time", names })?;
    #[expect(clippy::cast_possible_truncation, reason = "conversions end at the largest number")]
    let time = match value {
        Scalar::Integer(number) => Some(time_ms(*number)),
        Scalar::Number(number) if number.abs() < 1e11 => Some((number * 1000.0) as i64),
        Scalar::Number(number) => Some(time_ms(*number as i64)),
        Scalar::Text(text) => parse_time_ms(text),
    };
    time.ok_or_else(|| Problem::Value {
        field: "time",
        value: format!("{value:?}"),
        expected: "write seconds of the Unix epoch or 2026-11-21T21:05:00Z",
    })
}

fn bytes(values: &Values<'_>, field: Field, name: &'static str) -> Result<Option<u64>, Problem> {
    let expected = "write a number of bytes, 0 to 2^60";
    values.bytes(field).map_err(|value| Problem::Value { field: name, value, expected })
}

/// The cache key of a path or URL of a record.
fn key_of(path: &str) -> Result<CacheKey, Problem> {
    let problem = |reason: String| Problem::Path { path: path.chars().take(200).collect(), reason };
    let without_host = |rest: &str| rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or("/").to_owned();
    let local = match path.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => Cow::Owned(without_host(rest)),
        _ if path.starts_with('/') => Cow::Borrowed(path),
        _ => Cow::Owned(format!("/{path}")),
    };
    let local = local.split('?').next().unwrap_or_default();
    let lfn = Lfn::parse(local).map_err(|error| problem(error.to_string()))?;
    if let Some(key) = CacheKey::from_text(lfn.as_str()) {
        return Ok(key);
    }
    let name = name_for_rules(&lfn).ok_or_else(|| problem("it is too long".to_owned()))?;
    match CacheKey::from_text(name.as_str()) {
        Some(key) => Ok(key),
        None => Err(problem(CacheKey::fixed(&lfn).err().map_or_else(String::new, |refusal| refusal.to_string()))),
    }
}

/// The fields of a JSON object. Those of OpenSearch's `_source` count as its own.
fn json_values(line: &str) -> Result<Values<'_>, Problem> {
    let mut values = Values::default();
    let mut json = serde_json::Deserializer::from_str(line);
    let read = Fields(&mut values).deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| Problem::Json(error.to_string()))?;
    Ok(values)
}

/// Sets the values of the object that it reads.
struct Fields<'v, 'a>(&'v mut Values<'a>);

impl<'a> DeserializeSeed<'a> for Fields<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key::<Name<'a>>()? {
            if name == "_source" {
                map.next_value_seed(Fields(&mut *self.0))?;
                continue;
            }
            let Some(column) = Column::of(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if let Some(value) = map.next_value_seed(Value(&name))? {
                self.0.set(column, value);
            }
        }
        Ok(())
    }
}

/// The name of a field, borrowed from the line if it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a number or a text; `None` for null.
struct Value<'n>(&'n str);

impl<'a> DeserializeSeed<'a> for Value<'_> {
    type Value = Option<Scalar<'a>>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Value<'_> {
    type Value = Option<Scalar<'a>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number or a text as {}", self.0)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Integer(value)))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        i64::try_from(value).map(|value| Some(Scalar::Integer(value))).map_err(|_| E::custom("a number is too large"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Number(value)))
    }

    fn visit_borrowed_str<E>(self, value: &'a str) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Text(Cow::Borrowed(value))))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Text(Cow::Owned(value.to_owned()))))
    }

    fn visit_map<A: MapAccess<'a>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom(format!("{} is an object", self.0)))
    }
}

#[cfg(test)]
mod tests;
