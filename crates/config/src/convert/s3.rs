//! The S3 front.

use super::checker::Checker;
use crate::{
    config::Config,
    file::{Raw, RawBucket},
};
use forebay_http::Bucket;
use toml::Spanned;

/// Most buckets: a list of them has no pages.
const BUCKETS_MAX: usize = 1000;

pub(crate) fn read_buckets(raw: &Raw, config: &Config, checker: &mut Checker<'_>) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for table in checker.at_most(BUCKETS_MAX, "bucket", &raw.bucket) {
        buckets.extend(read_bucket(table, &buckets, checker));
    }
    if raw.bucket.is_empty() && !config.s3.listen.is_empty() {
        let text = "there is no bucket to serve: write a [[bucket]] with name and path";
        checker.refuse("s3.listen", raw.s3.listen.span(), text);
    }
    buckets
}

fn read_bucket(table: &Spanned<RawBucket>, others: &[Bucket], checker: &mut Checker<'_>) -> Option<Bucket> {
    let raw = table.get_ref();
    let name = checker.need("bucket.name", &raw.name, table);
    let path = checker.need("bucket.path", &raw.path, table);
    let mut bucket = Bucket { name: name?, path: path? };
    raw.apply(&mut bucket);
    let name = &bucket.name;
    if !is_name(name) {
        let text = "a bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens, and begins and ends with a letter or digit";
        checker.refuse("bucket.name", raw.name.span(), text);
    } else if others.iter().any(|other| other.name == *name) {
        checker.refuse("bucket.name", raw.name.span(), format_args!("there are two buckets `{name}`"));
    }
    Some(bucket)
}

fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (3..=63).contains(&name.len())
        && name.bytes().all(|byte| is_inner(byte) || matches!(byte, b'.' | b'-'))
        && name.bytes().next().is_some_and(is_inner)
        && name.bytes().last().is_some_and(is_inner)
}
