//! The report on standard error.

use crate::{accounts::user_name, text};
use forebay_adopt::{Fate, Note};
use forebay_store::{Account, Defect, Finding};
use forebay_types::ByteSize;
use std::io::{self, Write};

/// Width of the column of directives in characters; longer ones shift the rest of the line.
const DIRECTIVE_WIDTH: usize = 44;

/// A change within this many seconds suggests that the XCache is running.
const RECENT_SECONDS: i64 = 60;

/// Prints a line for each directive, then the totals.
pub(super) fn notes(out: &mut impl Write, notes: &[Note]) -> io::Result<()> {
    let places: Vec<_> = notes.iter().map(|note| note.place.to_string()).collect();
    let width = places.iter().map(|place| place.chars().count()).max().unwrap_or(0);
    for (note, place) in notes.iter().zip(&places) {
        let (directive, fate) = (text::printable(&note.directive), note.fate.as_str());
        let line = format!("{place:width$}  {directive:DIRECTIVE_WIDTH$}  {fate:12}  {}", text::printable(&note.text));
        writeln!(out, "{}", line.trim_end())?;
    }
    let count = |fate: Fate| (fate, notes.iter().filter(|note| note.fate == fate).count());
    let counts = Fate::ALL.into_iter().map(count).filter(|(_, count)| *count > 0);
    let counts: Vec<_> = counts.map(|(fate, count)| format!("{count} {}", fate.as_str())).collect();
    writeln!(out, "{} directives: {}", notes.len(), counts.join(", "))
}

/// Prints the result of a survey of `store`. `now` is in seconds of the Unix epoch.
pub(super) fn account(out: &mut impl Write, store: &str, account: &Account, now: i64) -> io::Result<()> {
    let Account { good, complete, linked, records, directories, .. } = account;
    writeln!(
        out,
        "{store}: {good} of {records} records in {directories} directories are good, {complete} of them complete"
    )?;
    let (present, allocated) = (text::bytes(account.present_bytes), text::bytes(account.allocated_bytes));
    writeln!(out, "  {present} of data, {allocated} on disk")?;
    if *linked > 0 {
        writeln!(out, "  {linked} entries are in oss.space directories, and stay there")?;
    }
    let versions: Vec<_> =
        account.versions.iter().map(|(version, count)| format!("{count} of version {version}")).collect();
    writeln!(out, "  records: {}", join(&versions))?;
    let size = |size: &Option<u64>| size.map_or_else(|| "other sizes".to_owned(), |bytes| ByteSize(bytes).to_string());
    let sizes: Vec<_> =
        account.block_sizes.iter().map(|(bytes, count)| format!("{count} of {}", size(bytes))).collect();
    writeln!(out, "  blocks: {} (each file keeps its own)", join(&sizes))?;
    let owner = |uid: &Option<u32>| match uid {
        Some(uid) => user_name(*uid).unwrap_or_else(|| format!("uid {uid}")),
        None => "other users".to_owned(),
    };
    let owners: Vec<_> = account.owners.iter().map(|(uid, count)| format!("{count} of {}", owner(uid))).collect();
    writeln!(out, "  owners: {} (run Forebay as the owner, or change it)", join(&owners))?;
    if account.has_page_checksums {
        writeln!(out, "  page checksums of `pfc.cschk cache` exist: Forebay ignores and keeps them")?;
    }
    let age = now.saturating_sub(account.last_change);
    if account.good > 0 && age < RECENT_SECONDS {
        writeln!(
            out,
            "  warning: changed {} s ago: stop XCache before starting Forebay; two servers corrupt a cache",
            age.max(0)
        )?;
    }
    account.defects.iter().try_for_each(|(defect, finding)| write_defect(out, *defect, finding))
}

fn write_defect(out: &mut impl Write, defect: Defect, finding: &Finding) -> io::Result<()> {
    let Finding { count, examples } = finding;
    writeln!(out, "  {}: {count}: {}", defect.as_str(), defect.meaning())?;
    examples.iter().try_for_each(|path| writeln!(out, "    {}", text::printable(path)))
}

fn join(parts: &[String]) -> String {
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
