//! The outputs of records.

use super::checker::Checker;
use crate::file::{Raw, RawSearch};
use forebay_record_outputs::{Authorization, FileOptions, RecordOptions, SearchOptions};
use forebay_types::{OriginId, Scheme};
use std::net::IpAddr;

/// Without a directory there are no files, and without a server no requests.
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
    let search = read_search(&raw.opensearch, checker);
    options.search = if search.urls.is_empty() { None } else { Some(search) };
    options
}

fn read_search(raw: &RawSearch, checker: &mut Checker<'_>) -> SearchOptions {
    let mut options = SearchOptions::default();
    raw.apply(&mut options);
    let (key, user, password) = (raw.api_key_file.value(), raw.user.value(), raw.password_file.value());
    options.authorization = match (key, user, password) {
        (None, None, None) => Authorization::None,
        (Some(key), None, None) => Authorization::ApiKey(key),
        (None, Some(user), Some(password)) => Authorization::Basic(user, password),
        (Some(_), ..) => {
            let text = "an API key and a user at once: write only one of them";
            checker.refuse("opensearch.api_key_file", raw.api_key_file.span(), text);
            Authorization::None
        }
        (None, ..) => {
            let place = raw.user.span().or_else(|| raw.password_file.span());
            checker.refuse("opensearch.user", place, "a user needs a password: write user and password_file");
            Authorization::None
        }
    };
    if options.authorization != Authorization::None && options.urls.iter().any(is_exposed) {
        let text = "credentials would be sent without encryption: write https:// URLs";
        checker.refuse("opensearch.urls", raw.urls.span(), text);
    }
    options
}

/// Whether others can see what is sent to a server.
fn is_exposed(server: &OriginId) -> bool {
    let host = server.endpoint.host();
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    server.scheme != Scheme::Https && !is_here
}
