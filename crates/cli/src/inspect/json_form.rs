//! A record as JSON, with the keys of `xrdpfc_print -j -v`.

use super::{Record, duration, percentage, state};
use crate::text;
use forebay_cache::Access;
use forebay_types::BlockIndex;
use serde_json::{Map, Value, json};

/// How `xrdpfc_print` writes the end of a period that has none.
const STILL_OPEN: &str = "------:------";

pub(super) fn json(record: &Record) -> Value {
    let cinfo = &record.cinfo;
    let blocks = 0..cinfo.geometry.block_count();
    let present: Vec<u8> = blocks.map(|index| u8::from(cinfo.blocks.contains(BlockIndex(index)))).collect();
    let accesses: Vec<Value> =
        (1..).zip(&cinfo.accesses).map(|(number, access)| json_of_access(number, access)).collect();
    let mut object = Map::new();
    object.insert("file".to_owned(), json!(record.path.to_string_lossy()));
    object.insert("version".to_owned(), json!(record.version.number()));
    object.insert("created".to_owned(), json!(text::utc_calendar(cinfo.created)));
    object.insert("cksum".to_owned(), json!(cinfo.checksum.as_str()));
    if cinfo.no_checksum_time != 0 {
        object.insert("no-cksum-time".to_owned(), json!(text::utc_calendar(cinfo.no_checksum_time)));
    }
    object.insert("file_size".to_owned(), json!(cinfo.geometry.file_size()));
    object.insert("buffer_size".to_owned(), json!(cinfo.geometry.block_size()));
    object.insert("n_blocks".to_owned(), json!(cinfo.geometry.block_count()));
    object.insert("state_complete".to_owned(), json!(state(cinfo)));
    object.insert("state_percentage".to_owned(), json!(percentage(cinfo)));
    object.insert("block_array".to_owned(), json!(present));
    object.insert("n_acc_total".to_owned(), json!(cinfo.access_count));
    object.insert("accesses".to_owned(), Value::Array(accesses));
    Value::Object(object)
}

fn json_of_access(number: usize, access: &Access) -> Value {
    json!({
        "record": number,
        "attach": text::utc_compact(access.attached),
        "detach": access.detached.map_or_else(|| STILL_OPEN.to_owned(), text::utc_compact),
        "duration": duration(access.duration_seconds),
        "n_ios": access.opens,
        "n_mrg": access.merged,
        "B_hit": access.hit_bytes,
        "B_miss": access.missed_bytes,
        "B_bypass": access.bypassed_bytes,
    })
}
