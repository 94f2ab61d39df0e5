//! `pfc.*`: the disk cache.

use super::{
    document::size_value,
    item::Item,
    lists::{path_pattern, read_list},
    note::{
        Fate::{Honoured, NotHonoured, NotNeeded},
        Verdict,
    },
    site::Site,
    values::size,
};
use std::ops::RangeInclusive;

/// Ranges of the settings, in bytes.
pub(super) const BLOCK_SIZES: RangeInclusive<u64> = 4 << 10..=512 << 20;
pub(super) const MEMORIES: RangeInclusive<u64> = 16 << 20..=1 << 40;

/// Most blocks of a file that XCache reads ahead.
pub(super) const PREFETCHES: RangeInclusive<u64> = 0..=4096;

/// The space that XCache uses by default.
pub(super) const PUBLIC: &str = "public";

/// Files in spaces are found; new files are not added to them.
pub(super) const SPACES: &str = "files in the spaces are served and purged; new files are stored below store.path, whose file system needs \
     the space: or write a [[disk]] for it and one on each disk of the spaces";

pub(super) fn switch(word: &str) -> Option<bool> {
    match word {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Reads the directive `oss.space NAME PATH`.
pub(super) fn take_space(item: &mut Item<'_>, _: &mut Site) -> Verdict {
    match item.words {
        [] | [_] => Verdict::malformed(),
        [PUBLIC, ..] => NotHonoured.because(SPACES),
        _ => Honoured.because("links into the space are followed"),
    }
}

/// Reads the directive `oss.localroot PATH`.
pub(super) fn take_local_root(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let path = item.first().starts_with('/').then(|| item.first().to_owned());
    item.take(path, &mut site.local_root)
}

/// Reads the directive `pfc.cschk [off] [[no]cache] [[no]net] [[no]tls] [uvkeep {T|lru}]`.
pub(super) fn take_checksums(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let mut is_net = true;
    for word in item.words {
        match *word {
            "off" | "nonet" => is_net = false,
            "net" => is_net = true,
            _ => {}
        }
    }
    site.write("origin.page_reads", is_net.to_string(), item);
    if item.words.contains(&"tls") {
        return NotHonoured.because("data of origins without page checksums is transferred without TLS");
    }
    if item.words.contains(&"cache") {
        return Honoured.because("page checksum files are not read");
    }
    Honoured.because("")
}

/// Reads the directive `pfc.onlyifcached [minsize SIZE] [minfrac F]`.
pub(super) fn take_cached(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let bytes = item.after("minsize").map(size);
    let fraction = item.after("minfrac").map(|text| text.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part)));
    if bytes == Some(None) || fraction == Some(None) {
        return Verdict::malformed();
    }
    if let Some(bytes) = bytes.flatten() {
        site.write("decision.cached_size_min", size_value(bytes), item);
    }
    if let Some(fraction) = fraction.flatten() {
        site.write("decision.cached_fraction_min", format!("{fraction:?}"), item);
    }
    Honoured.because("")
}

/// `pfc.decisionlib LIBRARY [PARAMETERS]`: the list of patterns of files that are not cached.
pub(super) fn take_decision(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    if item.first().contains("AllowDecision") {
        return NotNeeded.because("all files are cached, as without it");
    }
    if !item.first().contains("BlacklistDecision") {
        return NotHonoured.because("XCache plug-ins are not loaded: write equivalent rules");
    }
    let path = item.rest().first().copied().unwrap_or_default();
    let shells = match read_list(path, item.machine) {
        Ok(shells) => shells,
        Err(reason) => return NotHonoured.because(reason),
    };
    let patterns: Vec<_> = shells.iter().filter_map(|shell| path_pattern(shell)).collect();
    let odd = shells.iter().find(|shell| path_pattern(shell).is_none());
    site.uncached.push(item.written(patterns));
    match odd {
        Some(shell) => NotHonoured
            .because(format!("rules cover the list except for patterns such as `{shell}`: add rules for them")),
        None => Honoured.because(format!("{} patterns of {path}", shells.len())),
    }
}
