//! `ofs.*` and `oss.*`: the storage plug-in and the cache's own files.

use super::{
    item::Item,
    note::Verdict,
    server,
    site::{Notes, Site},
};

/// The space that XCache uses unless told otherwise.
pub(super) const PUBLIC: &str = "public";

/// What becomes of spaces: what is in them is found, nothing is added to them.
pub(super) const SPACES: &str = "what is in the spaces is served and purged; new files are plain ones below store.path, whose file \
     system needs the room: or write a [[disk]] for it and one on each disk of the spaces";

pub(super) fn take(family: &str, item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Option<Verdict> {
    let names_proxy = item.words.iter().any(|word| word.contains("XrdPss"));
    Some(match (family, item.name) {
        ("ofs", "osslib") if names_proxy => Verdict::honoured("origins are asked by Forebay itself"),
        ("ofs", "osslib") => Verdict::not_honoured("storage plug-ins are not loaded"),
        ("ofs", "ckslib") if names_proxy => Verdict::honoured("checksums are asked of the origin"),
        ("oss" | "ofs", "export") => server::take_export(item, site),
        ("oss", "localroot") => {
            let path = Some(item.first()).filter(|path| path.starts_with('/')).map(str::to_owned);
            item.take(path, &mut site.local_root, notes)
        }
        ("oss", "space") if item.words.len() < 2 => Verdict::malformed(),
        ("oss", "space") if item.first() == PUBLIC => Verdict::not_honoured(SPACES),
        ("oss", "space") => Verdict::honoured("links into the space are followed"),
        _ => return None,
    })
}
