//! `pfc.*`: the disk cache.

use super::{
    item::Item,
    note::Verdict,
    site::{Notes, Site},
};
use std::ops::RangeInclusive;

/// Block sizes and memory that the settings take, in bytes.
const BLOCK_SIZES: RangeInclusive<u64> = 4 << 10..=512 << 20;
const MEMORIES: RangeInclusive<u64> = 16 << 20..=1 << 40;

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
        "prefetch" | "nramprefetch" if item.first() == "0" => Verdict::not_needed("nothing is read ahead"),
        "prefetch" | "nramprefetch" => Verdict::not_honoured("nothing is read ahead in this release"),
        "diskusage" => Verdict::not_honoured("there is no purge in this release"),
        "onlyifcached" => Verdict::not_honoured("`only-if-cached` is not known in this release"),
        "decisionlib" | "purgelib" => Verdict::not_honoured("plug-ins of XCache are not loaded"),
        "spaces" => Verdict::honoured("links into the spaces are followed; new files are plain ones below store.path"),
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
