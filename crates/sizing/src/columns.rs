//! The names of fields in the records of collectors, caches and their logs.

use std::borrow::Cow;

/// The fields of a record that matter here, and of those of several names the preferred one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Column {
    pub(crate) field: Field,
    /// The name with the lowest rank counts if a record has several.
    rank: u8,
}

/// A field of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Field {
    Time,
    Path,
    Size,
    Read,
    Hit,
    Missed,
    Coalesced,
    Bypassed,
    User,
    /// The event of a line of a trace, and the number of its open.
    TraceEvent,
    TraceOpen,
    /// The message of a line of the log.
    Message,
    /// The event of a record.
    Event,
}

/// A value: a number or a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Number(f64),
    Integer(i64),
    Text(Cow<'a, str>),
}

/// The values of one record.
#[derive(Debug, Default)]
pub(crate) struct Values<'a> {
    values: [Option<(u8, Scalar<'a>)>; FIELDS],
}

const FIELDS: usize = 13;

/// Names by field, the preferred one first. The field's own name, then those of collectors, the events of caches, and reporters.
const NAMES: [(Field, &[&str]); FIELDS] = [
    (
        Field::Time,
        &[
            "time",
            "t",
            "end_time",
            "detach_t",
            "detached_at",
            "timestamp",
            "@timestamp",
            "start_time",
            "attach_t",
            "attached_at",
        ],
    ),
    (Field::Path, &["path", "lfn", "file_lfn", "file", "filename"]),
    (Field::Size, &["size", "file_size", "filesize"]),
    (Field::Read, &["read", "read_bytes", "bytes_read", "bytes"]),
    (Field::Hit, &["hit", "hit_bytes", "b_hit", "bytes_hit", "B_hit", "bytes_hit_cache"]),
    (Field::Missed, &["missed", "missed_bytes", "b_miss", "bytes_missed", "bytes_miss", "B_miss", "bytes_miss_cache"]),
    (Field::Coalesced, &["coalesced", "coalesced_bytes", "bytes_coalesced"]),
    (Field::Bypassed, &["bypassed", "bypassed_bytes", "b_bypass", "bytes_bypassed", "B_bypass", "bytes_bypass_cache"]),
    (Field::User, &["user", "who", "user_dn"]),
    (Field::TraceEvent, &["e"]),
    (Field::TraceOpen, &["f"]),
    (Field::Message, &["message"]),
    (Field::Event, &["event"]),
];

impl Column {
    /// The column called `name`, if it is a field.
    pub(crate) fn of(name: &str) -> Option<Self> {
        NAMES.iter().find_map(|(field, names)| {
            let rank = names.iter().position(|known| *known == name)?;
            Some(Self { field: *field, rank: u8::try_from(rank).ok()? })
        })
    }
}

impl<'a> Values<'a> {
    pub(crate) fn set(&mut self, column: Column, value: Scalar<'a>) {
        let Some(place) = self.values.get_mut(column.field as usize) else { return };
        if place.as_ref().is_none_or(|(rank, _)| column.rank < *rank) {
            *place = Some((column.rank, value));
        }
    }

    pub(crate) fn get(&self, field: Field) -> Option<&Scalar<'a>> {
        self.values.get(field as usize)?.as_ref().map(|(_, value)| value)
    }

    pub(crate) fn text(&self, field: Field) -> Option<&str> {
        match self.get(field)? {
            Scalar::Text(text) => Some(text),
            Scalar::Number(_) | Scalar::Integer(_) => None,
        }
    }

    /// A number of bytes; `None` if the record has none.
    ///
    /// # Errors
    /// The field's text when it is not such a number.
    pub(crate) fn bytes(&self, field: Field) -> Result<Option<u64>, String> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let bytes = match value {
            Scalar::Integer(number) => u64::try_from(*number).ok(),
            Scalar::Number(number) => whole(*number),
            Scalar::Text(text) if text.trim().is_empty() => return Ok(None),
            Scalar::Text(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| whole(text.parse().ok()?))
            }
        };
        // Above this, sums would not fit.
        match bytes.filter(|bytes| *bytes <= BYTES_MAX) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(format!("{value:?}")),
        }
    }
}

/// Bytes of one file or access at most: an exbibyte.
const BYTES_MAX: u64 = 1 << 60;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn whole(number: f64) -> Option<u64> {
    (0.0..=BYTES_MAX as f64).contains(&number).then_some(number as u64)
}
