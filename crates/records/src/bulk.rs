//! The bulk API of OpenSearch and Elasticsearch: bodies of requests, and what answers say about each record.

use forebay_types::date_of_day;
use serde::Deserialize;

/// Begin of each record: the identity follows.
const ID_PREFIX: &str = r#"{"record_id":""#;

/// The time of each record follows it.
const TIME_NAME: &str = r#""@timestamp":"#;

/// Result of a bulk request, by the position of its records.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BulkAnswer {
    /// Records that are stored, now or by an earlier request.
    pub stored: usize,
    /// Records that may be stored later.
    pub retry: Vec<usize>,
    /// Records that will never be stored.
    pub refused: usize,
    /// The reason of the first record that was not stored.
    pub reason: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    errors: bool,
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    create: Created,
}

#[derive(Deserialize)]
struct Created {
    status: u16,
    error: Option<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    reason: String,
}

/// Appends the request to create `record`, a line without its break. Its identity is that of the document, so that a record that is
/// sent again is not stored again. With `daily`, the beginning of the name of an index, the day of the record ends it.
pub fn write_bulk_item(record: &str, daily: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"create":{"_id":""#);
    out.extend_from_slice(id_of(record).as_bytes());
    out.push(b'"');
    if let Some(name) = daily {
        let (year, month, day) = date_of_day(time_of(record).div_euclid(86_400_000));
        out.extend_from_slice(format!(r#","_index":"{name}-{year:04}.{month:02}.{day:02}""#).as_bytes());
    }
    out.extend_from_slice(b"}}\n");
    out.extend_from_slice(record.as_bytes());
    out.push(b'\n');
}

/// Reads the answer to a request with `count` records.
///
/// # Errors
/// When the body is not an answer to it.
pub fn read_bulk_answer(body: &[u8], count: usize) -> Result<BulkAnswer, String> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if !answer.errors {
        return Ok(BulkAnswer { stored: count, ..BulkAnswer::default() });
    }
    if answer.items.len() != count {
        return Err(format!("{} items for {count} records", answer.items.len()));
    }
    let mut read = BulkAnswer::default();
    for (position, Item { create }) in answer.items.into_iter().enumerate() {
        match create.status {
            // It is there already: an earlier request has stored it, and its answer was lost.
            200..300 | 409 => read.stored += 1,
            // Overload, and faults that an administrator can fix: rights, a missing index.
            401 | 403 | 404 | 429 | 500.. => read.retry.push(position),
            _ => read.refused += 1,
        }
        if let (false, None, Some(cause)) = (matches!(create.status, 200..300 | 409), &read.reason, create.error) {
            read.reason = Some(format!("status {}, {}: {}", create.status, cause.kind, cause.reason));
        }
    }
    Ok(read)
}

/// The identity of a record, without quotes: host names and numbers need no escape.
fn id_of(record: &str) -> &str {
    let rest = record.strip_prefix(ID_PREFIX).unwrap_or_default();
    rest.split('"').next().unwrap_or_default()
}

/// Milliseconds of the Unix epoch; 0 of a line that is not a record.
fn time_of(record: &str) -> i64 {
    let rest = record.split_once(TIME_NAME).map_or("", |(_, rest)| rest);
    let digits = rest.split(',').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"record_id":"h-1f-7","@timestamp":1795603500123,"event":"close"}"#;

    fn body(daily: Option<&str>) -> String {
        let mut out = Vec::new();
        write_bulk_item(RECORD, daily, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn items_have_the_identity_and_the_day_of_their_records() {
        assert_eq!(body(None), format!("{{\"create\":{{\"_id\":\"h-1f-7\"}}}}\n{RECORD}\n"));
        let daily = r#"{"create":{"_id":"h-1f-7","_index":"accesses-2026.11.25"}}"#;
        assert_eq!(body(Some("accesses")), format!("{daily}\n{RECORD}\n"));
    }

    #[test]
    fn each_record_has_its_own_result() {
        let item = |status: u16| match status {
            201 => r#"{"create":{"status":201}}"#.to_owned(),
            _ => format!(r#"{{"create":{{"status":{status},"error":{{"type":"t{status}","reason":"r"}}}}}}"#),
        };
        let items = [201, 409, 429, 400, 503, 403].map(item).join(",");
        let answer = read_bulk_answer(format!(r#"{{"errors":true,"items":[{items}]}}"#).as_bytes(), 6).unwrap();
        let reason = Some("status 429, t429: r".to_owned());
        assert_eq!(answer, BulkAnswer { stored: 2, retry: vec![2, 4, 5], refused: 1, reason });
        let good = read_bulk_answer(br#"{"took":1,"errors":false}"#, 6).unwrap();
        assert_eq!(good, BulkAnswer { stored: 6, ..BulkAnswer::default() });
        for (text, count) in [("<html>", 1), ("{}", 1), (r#"{"errors":true,"items":[]}"#, 1)] {
            assert!(read_bulk_answer(text.as_bytes(), count).is_err(), "{text}");
        }
    }
}
