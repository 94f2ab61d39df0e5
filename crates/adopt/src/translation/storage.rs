//! `ofs.*` and `oss.*`: the storage plug-in and the cache's own files.

use super::{
    item::Item,
    note::Verdict,
    server,
    site::{Notes, Site, Space, Written},
};

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
        ("oss", "space") => {
            let [name, path, ..] = item.words else { return Some(Verdict::malformed()) };
            site.spaces
                .push(Written { value: Space { name: (*name).to_owned(), path: (*path).to_owned() }, note: item.note });
            Verdict::honoured("links into the space are followed")
        }
        _ => return None,
    })
}
