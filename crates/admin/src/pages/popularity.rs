//! Popularity and sizing: data that is read often, and the effect of other sizes of the cache.

use super::{
    chart, curve,
    format::{bytes, count, duration, percent, share, time},
    layout::{Page, card, shell, table, tile},
    views::Views,
};
use crate::{
    model::{ReadGroup, ReuseInterval, Sizing, Status, WorkingSet},
    resources::{self, Server},
};
use maud::{Markup, html};

/// Datasets and tiers that are listed.
const GROUPS: usize = 25;

/// Largest amount of disk to add, in TB.
const ADDED_TB_MAX: u64 = 100_000;

/// Seconds of the time that effects are given for: 30 days.
const MONTH_S: u64 = 30 * 86_400;

/// Shortest time of reads from which an effect in a month is computed: shorter ones say little about other hours of a day.
const DAY_S: u64 = 86_400;

pub(super) async fn render(page: &Page, server: &Server, views: &Views, query: &str) -> Markup {
    let status = resources::status::get(server).await;
    let added = added_tb(query);
    let content = match resources::sizing::get(server).await {
        Ok(sizing) => report(&sizing, present_size(&status, views), added),
        Err(problem) => html! { p.bad role="alert" { (problem.detail) } },
    };
    shell(page, "Popularity and sizing", &html! { h1 { "Popularity and sizing" } (content) })
}

/// The disk to add that the form asks for, in TB.
fn added_tb(query: &str) -> Option<u64> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let (_, value) = pairs.find(|(name, _)| name == "add")?;
    value.trim().parse().ok().filter(|added| (1..=ADDED_TB_MAX).contains(added))
}

/// The size to which the cache may grow: its limit, or its disks.
fn present_size(status: &Status, views: &Views) -> u64 {
    let of_disks = status.volumes.iter().filter_map(|volume| volume.space).map(|space| space.total_bytes).sum();
    views.budget.total.unwrap_or(of_disks)
}

fn report(sizing: &Sizing, present: u64, added: Option<u64>) -> Markup {
    let again = sizing.read_bytes.saturating_sub(sizing.first_bytes);
    let tiers: Vec<_> = sizing.tiers.iter().take(GROUPS).map(|group| group_row(group, sizing)).collect();
    let datasets: Vec<_> = sizing.datasets.iter().take(GROUPS).map(|group| group_row(group, sizing)).collect();
    let sets: Vec<_> = sizing.working_sets.iter().map(working_set_row).collect();
    let intervals: Vec<_> = sizing.intervals.iter().map(|interval| interval_row(interval, sizing.accesses)).collect();
    html! {
        (card("Reads", &html! {
            div.tiles {
                (tile("Accesses", &count(sizing.accesses), &format!("of the last {} days, since {}", sizing.days, time(sizing.since))))
                (tile("Read", &bytes(sizing.read_bytes), &format!("{} of files that had been read before", percent(share(again, sizing.read_bytes)))))
                (tile("Used once", &percent(share(sizing.once_files, sizing.files)), &format!("of {} files; {} of {}", count(sizing.files), bytes(sizing.once_bytes), bytes(sizing.bytes))))
                (tile("Not counted", &count(sizing.lost_accesses), "accesses that came too fast"))
            }
        }))
        (card("Effect of other sizes", &html! {
            (curve::drawing(&sizing.curve, present))
            form.search action="/popularity" {
                label for="add" { "Disk to add in TB" }
                input #add type="number" name="add" min="1" max=(ADDED_TB_MAX) value=[added];
                button type="submit" { "Show" }
            }
            (sizes(sizing, present, added))
            p.note {
                "LRU caches without watermarks, from the reads since the time above. First reads are misses at any size. "
                "Compare how long files stay with the times between uses below."
                @if let Some(size) = sizing.size_max { " The curve holds up to " (bytes(size)) "." }
            }
        }))
        div.columns {
            (card("Working set", &table("Working set", &["Days", "Files", "Bytes"], &sets)))
            (card("Time since the last use", &table("Time since the last use", &["Up to", "Share", "Accesses", "Bytes"], &intervals)))
        }
        (card("Hot datasets", &table("Datasets", &GROUP_HEADS, &datasets)))
        (card("Data tiers", &table("Data tiers", &GROUP_HEADS, &tiers)))
    }
}

const GROUP_HEADS: [&str; 5] = ["Name", "Share of bytes", "Bytes", "Accesses", "Read again"];

/// The sizes that may be of interest, each with its effect compared with the present one.
fn sizes(sizing: &Sizing, present: u64, added: Option<u64>) -> Markup {
    let with_added = added.map(|added| present.saturating_add(added.saturating_mul(1_000_000_000_000)));
    let mut sizes = vec![present / 2, present, present / 4 * 5, present / 2 * 3, present.saturating_mul(2)];
    sizes.extend(with_added);
    sizes.sort_unstable();
    sizes.dedup();
    let now = curve::at(&sizing.curve, present).map_or(0.0, |point| point.hits_by_bytes);
    let rows: Vec<_> = sizes
        .into_iter()
        .map(|size| {
            let point = curve::at(&sizing.curve, size);
            let ratios = point.map_or((0.0, 0.0), |point| (point.hits_by_files, point.hits_by_bytes));
            let age = point.map_or(Some(0), |point| point.eviction_age_seconds);
            let note = if size == present {
                " (now)"
            } else if Some(size) == with_added {
                " (added)"
            } else {
                ""
            };
            html! {
                tr {
                    th scope="row" { (bytes(size)) (note) }
                    td.number { (percent(Some(ratios.0))) }
                    td.number { (percent(Some(ratios.1))) }
                    td.number { (effect(sizing, ratios.1 - now)) }
                    td.number { (age.map_or_else(|| "not full".to_owned(), duration)) }
                }
            }
        })
        .collect();
    table("Sizes", &["Size", "Hits by files", "Hits by bytes", "Effect in 30 days", "Files stay"], &rows)
}

/// Bytes that are transferred less, or more, in 30 days; a dash after less than a day.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "three digits are shown"
)]
fn effect(sizing: &Sizing, gained: f64) -> String {
    let now = forebay_net::clock::now_unix();
    let counted_s = u64::try_from(now.saturating_sub(sizing.since)).unwrap_or(0).min(sizing.days.saturating_mul(DAY_S));
    if counted_s < DAY_S {
        return "–".to_owned();
    }
    let month = sizing.read_bytes as f64 * gained * MONTH_S as f64 / counted_s as f64;
    let sign = if month < 0.0 { "−" } else { "+" };
    format!("{sign}{}", bytes(month.abs() as u64))
}

fn working_set_row(set: &WorkingSet) -> Markup {
    html! { tr { th scope="row" { (set.days) } td.number { (count(set.files)) } td.number { (bytes(set.bytes)) } } }
}

fn interval_row(interval: &ReuseInterval, accesses: u64) -> Markup {
    let part = percent(share(interval.accesses, accesses));
    html! {
        tr {
            th scope="row" { (interval.seconds.map_or_else(|| "longer".to_owned(), duration)) }
            td.bars { (chart::bar(&format!("{part} of the accesses"), interval.accesses, accesses, &[])) }
            td.number { (count(interval.accesses)) }
            td.number { (bytes(interval.bytes)) }
        }
    }
}

fn group_row(group: &ReadGroup, sizing: &Sizing) -> Markup {
    let part = percent(share(group.read_bytes, sizing.read_bytes));
    html! {
        tr {
            th.path scope="row" { (group.name) }
            td.bars { (chart::bar(&format!("{part} of the bytes"), group.read_bytes, sizing.read_bytes, &[])) }
            td.number { (bytes(group.read_bytes)) }
            td.number { (count(group.accesses)) }
            td.number { (percent(share(group.reread_bytes, group.read_bytes))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_asks_for_a_number_of_terabytes() {
        for (query, added) in [
            ("add=20", Some(20)),
            ("x=1&add=+7", Some(7)),
            ("add=0", None),
            ("add=100001", None),
            ("add=a", None),
            ("", None),
        ] {
            assert_eq!(added_tb(query), added, "{query}");
        }
    }
}
