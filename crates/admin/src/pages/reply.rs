//! Answers of the status page.

use crate::answer::{self, Answer};
use hyper::{
    StatusCode,
    header::{HeaderValue, LOCATION},
};
use maud::Markup;

const HTML_TYPE: &str = "text/html; charset=utf-8";

pub(super) const TEXT_TYPE: &str = "text/plain; charset=utf-8";

pub(super) fn page(status: StatusCode, markup: &Markup) -> Answer {
    answer::of(status, HTML_TYPE, markup.0.clone())
}

/// Sends the browser to another page.
pub(super) fn see_other(path: &'static str) -> Answer {
    let mut answer = answer::of(StatusCode::SEE_OTHER, TEXT_TYPE, "");
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static(path));
    answer
}
