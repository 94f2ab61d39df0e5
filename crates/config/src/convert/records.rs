//! The outputs of records.

use super::checker::Checker;
use crate::file::Raw;
use forebay_record_outputs::{FileOptions, RecordOptions};

/// Without a directory there are no files.
pub(crate) fn read_records(raw: &Raw, checker: &mut Checker<'_>) -> RecordOptions {
    let mut options = RecordOptions::default();
    options.server.site = raw.records.site.value().unwrap_or_default();
    let mut files = FileOptions::default();
    raw.records.apply(&mut files);
    if files.total_bytes / 2 < files.file_bytes {
        let (total, one) = (raw.records.total_size.span(), raw.records.file_size.span());
        let setting = if total.is_some() { "records.total_size" } else { "records.file_size" };
        let text = "all files together must have room for two: write a larger total_size, or a smaller file_size";
        checker.refuse(setting, total.or(one), text);
    }
    options.files = raw.records.path.get().map(|_| files);
    options
}
