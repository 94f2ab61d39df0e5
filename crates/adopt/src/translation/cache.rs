//! `pfc.*`: the disk cache.

use super::{
    item::Item,
    lists::{path_pattern, read_list},
    note::Verdict,
    site::{Notes, Site, Written},
    storage::{PUBLIC, SPACES},
    usage::{take_quotas, take_usage},
    values::size,
};
use std::ops::RangeInclusive;

/// Block sizes and memory that the settings take, in bytes.
const BLOCK_SIZES: RangeInclusive<u64> = 4 << 10..=512 << 20;
const MEMORIES: RangeInclusive<u64> = 16 << 20..=1 << 40;

/// Most blocks of a file that XCache reads ahead.
const PREFETCH_MAX: u64 = 4096;

pub(super) fn take(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Option<Verdict> {
    Some(match item.name {
        "blocksize" => item.take_size(BLOCK_SIZES, &mut site.block_size, notes),
        "ram" => item.take_size(MEMORIES, &mut site.ram, notes),
        "writethrough" => {
            let is_on = match item.first() {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            };
            item.take(is_on, &mut site.is_write_through, notes)
        }
        "prefetch" | "nramprefetch" => item.take_number(item.first(), 0..=PREFETCH_MAX, &mut site.prefetch, notes),
        "diskusage" => take_usage(item, site, notes),
        "onlyifcached" => take_cached(item, site, notes),
        "decisionlib" => take_decision(item, site),
        "purgelib" => take_quotas(item, site),
        "spaces" if item.words.iter().all(|space| *space == PUBLIC) => Verdict::not_needed("XCache's default"),
        "spaces" => Verdict::not_honoured(SPACES),
        "cschk" => take_checksums(item, site, notes),
        _ => return None,
    })
}

/// `pfc.cschk [off] [[no]cache] [[no]net] [[no]tls] [uvkeep {T|lru}]`.
fn take_checksums(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let mut is_net = true;
    for word in item.words {
        match *word {
            "off" | "nonet" => is_net = false,
            "net" => is_net = true,
            _ => {}
        }
    }
    site.page_reads.write(is_net, item.note, notes);
    if item.has("tls") {
        return Verdict::not_honoured("bytes of origins without page checksums are taken without TLS");
    }
    if item.has("cache") {
        return Verdict::honoured("page checksums beside the files are not read");
    }
    Verdict::honoured("")
}

/// `pfc.onlyifcached [minsize SIZE] [minfrac F]`.
fn take_cached(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let bytes = item.behind("minsize").map(size);
    let fraction =
        item.behind("minfrac").map(|text| text.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part)));
    if bytes == Some(None) || fraction == Some(None) {
        return Verdict::malformed();
    }
    if let Some(bytes) = bytes.flatten() {
        site.cached_size.write(bytes, item.note, notes);
    }
    if let Some(fraction) = fraction.flatten() {
        site.cached_fraction.write(fraction, item.note, notes);
    }
    Verdict::honoured("")
}

/// `pfc.decisionlib LIBRARY [PARAMETERS]`: the list of patterns of files that are not cached.
fn take_decision(item: Item<'_>, site: &mut Site) -> Verdict {
    if item.first().contains("AllowDecision") {
        return Verdict::not_needed("all files are cached, as without it");
    }
    if !item.first().contains("BlacklistDecision") {
        return Verdict::not_honoured("plug-ins of XCache are not loaded: write what it decides as rules");
    }
    let path = item.rest().first().copied().unwrap_or_default();
    let shells = match read_list(path, item.machine) {
        Ok(shells) => shells,
        Err(reason) => return Verdict::not_honoured(reason),
    };
    let patterns: Vec<_> = shells.iter().filter_map(|shell| path_pattern(shell)).collect();
    let odd = shells.iter().find(|shell| path_pattern(shell).is_none());
    site.uncached.push(Written { value: patterns, note: item.note });
    match odd {
        Some(shell) => {
            Verdict::not_honoured(format!("rules say the same, but for patterns like `{shell}`: add rules for them"))
        }
        None => Verdict::honoured(format!("{} patterns of {path}", shells.len())),
    }
}
