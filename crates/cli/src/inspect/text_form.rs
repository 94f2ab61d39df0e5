//! A record as text.

use super::{DataFile, Record, duration, percentage, state};
use crate::text;
use forebay_cache::{Access, Cinfo};
use forebay_types::BlockIndex;
use std::{
    io::{self, Write},
    ops::Range,
};

/// Characters of the bar of blocks.
const BAR_WIDTH: u64 = 64;

pub(super) fn print(out: &mut impl Write, record: &Record) -> io::Result<()> {
    let Record { path, version, cinfo, data } = record;
    let geometry = cinfo.geometry;
    writeln!(out, "record     {}", text::printable(&path.to_string_lossy()))?;
    writeln!(out, "version    {}, created {} UTC", version.number(), text::utc(cinfo.created))?;
    writeln!(out, "file size  {} ({})", geometry.file_size(), text::bytes(geometry.file_size()))?;
    writeln!(out, "data file  {}", data_text(*data))?;
    writeln!(out, "checksums  {}", checksum_text(cinfo))?;
    let (count, total) = (cinfo.blocks.count(), geometry.block_count());
    writeln!(out, "blocks     {count} of {total} of {}", text::bytes(geometry.block_size()))?;
    writeln!(
        out,
        "state      {} ({:.1}%, {} present)",
        state(cinfo),
        percentage(cinfo),
        text::bytes(cinfo.present_bytes())
    )?;
    writeln!(out, "           [{}]  # all, + some, . none", bar(cinfo))?;
    writeln!(out, "accesses   {} in all, {} on record", cinfo.access_count, cinfo.accesses.len())?;
    if !cinfo.accesses.is_empty() {
        print_accesses(out, &cinfo.accesses)?;
    }
    Ok(())
}

fn data_text(data: DataFile) -> String {
    match data {
        DataFile::Missing => "missing".to_owned(),
        DataFile::Present { len, allocated_bytes } => {
            format!("{len} bytes long, {} on disk", text::bytes(allocated_bytes))
        }
    }
}

fn checksum_text(cinfo: &Cinfo) -> String {
    let state = cinfo.checksum.as_str();
    if cinfo.no_checksum_time == 0 {
        state.to_owned()
    } else {
        format!("{state}, unverified block since {} UTC", text::utc(cinfo.no_checksum_time))
    }
}

/// The blocks as characters, each for an equal share of them.
fn bar(cinfo: &Cinfo) -> String {
    let total = cinfo.geometry.block_count();
    let width = total.min(BAR_WIDTH);
    let share = |position: u64| {
        let edge = |position: u64| {
            u64::try_from(u128::from(total) * u128::from(position) / u128::from(width)).unwrap_or(total)
        };
        edge(position)..edge(position + 1)
    };
    (0..width).map(|position| character(cinfo, share(position))).collect()
}

fn character(cinfo: &Cinfo, mut blocks: Range<u64>) -> char {
    let is_present = |index: u64| cinfo.blocks.contains(BlockIndex(index));
    match (blocks.clone().all(is_present), blocks.any(is_present)) {
        (true, _) => '#',
        (false, true) => '+',
        (false, false) => '.',
    }
}

fn print_accesses(out: &mut impl Write, accesses: &[Access]) -> io::Result<()> {
    writeln!(
        out,
        "{:>5}  {:19}  {:19}  {:>9}  {:>5}  {:>6}  {:>12}  {:>12}  {:>12}",
        "", "attached", "detached", "duration", "opens", "merged", "hit", "missed", "bypassed"
    )?;
    for (number, access) in (1..).zip(accesses) {
        writeln!(
            out,
            "{number:>5}  {:19}  {:19}  {:>9}  {:>5}  {:>6}  {:>12}  {:>12}  {:>12}",
            text::utc(access.attached),
            access.detached.map_or_else(|| "-".to_owned(), text::utc),
            duration(access.duration_seconds),
            access.opens,
            access.merged,
            text::bytes(access.hit_bytes),
            text::bytes(access.missed_bytes),
            text::bytes(access.bypassed_bytes),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::{ChecksumState, Geometry};

    fn cinfo(blocks: u64, present: &[Range<u64>]) -> Cinfo {
        let mut cinfo = Cinfo::new(Geometry::new(4096, blocks * 4096).unwrap(), 0, ChecksumState::None);
        for index in present.iter().cloned().flatten() {
            cinfo.blocks.insert(BlockIndex(index));
        }
        cinfo
    }

    #[test]
    fn each_block_of_a_small_file_has_its_character() {
        assert_eq!(bar(&cinfo(5, &[0..1, 2..3, 4..5])), "#.#.#");
        assert_eq!(bar(&cinfo(1, &[])), ".");
    }

    #[test]
    fn blocks_of_a_large_file_share_characters() {
        let bar = bar(&cinfo(640, &[0..10, 15..16]));
        assert_eq!(bar.len(), 64);
        assert!(bar.starts_with("#+."), "{bar}");
        assert!(!bar.get(2..).unwrap().contains(['#', '+']));
    }

    #[test]
    fn no_block_is_left_out_of_the_bar() {
        for blocks in [63, 64, 65, 127, 1000] {
            let whole = bar(&cinfo(blocks, std::slice::from_ref(&(0..blocks))));
            assert!(whole.chars().all(|c| c == '#'), "{blocks}: {whole}");
            let last = bar(&cinfo(blocks, std::slice::from_ref(&(blocks - 1..blocks))));
            assert!(!last.ends_with('.'), "{blocks}: {last}");
        }
    }
}
