//! The trace of reads.

use crate::{checker::Checker, config::TraceConfig, convert::parse_path, raw::RawTrace};
use forebay_cache::PathPattern;
use forebay_telemetry::{Sample, TraceOptions};
use forebay_types::ByteSize;

/// Sizes of files: not a file for each batch of lines, and none that no editor opens.
const FILE_SIZE: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(64 << 30));

/// Numbers of files: the directory is read whenever one is begun.
const FILES: (u64, u64) = (1, 100_000);

/// Most patterns: each open walks them.
const PATTERNS_MAX: usize = 256;

/// Reads the table; nothing is traced without a path.
pub(crate) fn read_trace(raw: &RawTrace, checker: &mut Checker<'_>) -> Option<TraceConfig> {
    let directory = checker.read("trace.path", raw.path.as_ref(), |text: &String| parse_path(text));
    let (mut sample, mut file_bytes, mut files_max) = (Sample::ALL, 256 << 20, 8);
    checker.set(&mut sample, "trace.sample", raw.sample.as_ref(), |text| {
        Sample::parse(text)
            .ok_or_else(|| format!("`{text}` is no part of all opens: write 1/1, or 1/10 for one of ten"))
    });
    checker.set(&mut file_bytes, "trace.file_size", raw.file_size.as_ref(), |text| {
        let size: ByteSize = text.parse().map_err(|error: forebay_types::ByteSizeError| error.to_string())?;
        let (min, max) = FILE_SIZE;
        let is_useful = (min..=max).contains(&size);
        if is_useful { Ok(size.0) } else { Err(format!("`{text}` is out of range: write {min} to {max}")) }
    });
    checker.set_number(&mut files_max, "trace.files", raw.files.as_ref(), FILES);
    let only = checker.read_list("trace.only", raw.only.as_ref(), |text: &str| PathPattern::parse(text));
    if let Some(list) = raw.only.as_ref().filter(|list| list.get_ref().len() > PATTERNS_MAX) {
        checker.refuse("trace.only", Some(&list.span()), format_args!("more than {PATTERNS_MAX} patterns"));
    }
    let options = TraceOptions { directory: directory?, sample, file_bytes, files_max };
    Some(TraceConfig { options, only: only.unwrap_or_default() })
}
