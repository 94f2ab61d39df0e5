//! Files of the page: style, scripts, icon. Their paths have a hash of their content, so that browsers may keep them for ever.

use crate::answer::{self, Answer};
use bytes::Bytes;
use hyper::{
    StatusCode,
    header::{CACHE_CONTROL, HeaderValue},
};
use std::sync::LazyLock;

pub(super) const PREFIX: &str = "/assets/";

struct Asset {
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

/// The parts of the page. uPlot is vendored: see `assets/uplot/LICENSE`.
const ASSETS: [Asset; 5] = [
    Asset { name: "style.css", content_type: CSS, content: include_bytes!("../../assets/style.css") },
    Asset { name: "app.js", content_type: SCRIPT, content: include_bytes!("../../assets/app.js") },
    Asset { name: "uplot.js", content_type: SCRIPT, content: include_bytes!("../../assets/uplot/uPlot.iife.min.js") },
    Asset { name: "uplot.css", content_type: CSS, content: include_bytes!("../../assets/uplot/uPlot.min.css") },
    Asset { name: "icon.svg", content_type: "image/svg+xml", content: include_bytes!("../../assets/icon.svg") },
];

const CSS: &str = "text/css; charset=utf-8";

const SCRIPT: &str = "text/javascript; charset=utf-8";

static HASH: LazyLock<String> = LazyLock::new(|| {
    let sum = ASSETS.iter().fold(0, |sum, asset| crc32c::crc32c_append(sum, asset.content));
    format!("{sum:08x}")
});

/// The path of an asset.
pub(super) fn path(name: &str) -> String {
    format!("{PREFIX}{}/{name}", HASH.as_str())
}

/// The asset at `path`; a path with another hash is of another version, and gets the current content.
pub(super) fn find(path: &str) -> Option<Answer> {
    let name = if path == "/favicon.ico" { "icon.svg" } else { path.strip_prefix(PREFIX)?.split_once('/')?.1 };
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let mut found = answer::of(StatusCode::OK, asset.content_type, Bytes::from_static(asset.content));
    let is_current = path.contains(HASH.as_str());
    let keep = if is_current { "public, max-age=31536000, immutable" } else { "no-cache" };
    found.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    Some(found)
}
