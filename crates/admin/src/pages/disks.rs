//! Disks and purge: how full, how long a file stays, how long until a purge.

use super::{
    chart::{self, Unit},
    format::{bytes, count, duration, percent, share},
    layout::{Page, card, shell, table, tile},
    place::Viewer,
    views::Views,
};
use crate::{
    model::{Purged, Quota, Status, Volume},
    resources::{self, Server},
};
use forebay_telemetry::{Point, Range, Series};
use maud::{Markup, html};

/// Heads of a table of disks.
pub(super) const HEADS: [&str; 6] = ["Disk", "State", "Used", "Free", "Latency", "Errors"];

/// How full the cache is.
pub(super) struct Level {
    pub(super) used: u64,
    pub(super) total: u64,
    low: u64,
    high: u64,
    /// Bytes per second, in the mean of the last day.
    growth: Option<f64>,
}

impl Level {
    pub(super) fn of(status: &Status, views: &Views, day: &[Point]) -> Self {
        let volumes = status.volumes.iter().filter_map(|volume| volume.space);
        let of_disks: u64 = volumes.map(|space| space.total_bytes).sum();
        let total = views.budget.total.unwrap_or(of_disks);
        let marks = views.budget.marks;
        let used = status.usage.used.bytes.unwrap_or(0);
        Self { used, total, low: marks.low.of(total), high: marks.high.of(total), growth: growth(day) }
    }

    pub(super) fn bar(&self) -> Markup {
        let label = format!(
            "{} used of {}; purges begin at {} and end at {}",
            bytes(self.used),
            bytes(self.total),
            bytes(self.high),
            bytes(self.low)
        );
        html! {
            (chart::bar(&label, self.used, self.total, &[self.low, self.high]))
            p.note { (percent(share(self.used, self.total))) " used; purges begin at " (bytes(self.high)) " and end at " (bytes(self.low)) "." }
        }
    }

    pub(super) fn eviction_age(&self, status: &Status) -> String {
        status.eviction_age_seconds.map_or_else(|| "–".to_owned(), duration)
    }

    /// The time until a purge.
    pub(super) fn time_left(&self) -> String {
        let left = self.high.saturating_sub(self.used);
        match self.growth {
            _ if left == 0 => "now".to_owned(),
            Some(growth) if growth >= 1.0 => {
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let seconds = left as f64 / growth;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "positive, and cut at a century"
                )]
                let seconds = seconds.min(3.2e9) as u64;
                duration(seconds)
            }
            _ => "–".to_owned(),
        }
    }
}

/// Bytes per second by which the cache has grown; `None` of less than two points.
fn growth(points: &[Point]) -> Option<f64> {
    let used = |point: &Point| chart::value(point, Series::UsedBytes);
    let (first, last) = (points.first()?, points.last()?);
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let seconds = last.at.checked_sub(first.at).filter(|seconds| *seconds > 0)? as f64;
    Some(f64::from(used(last) - used(first)) / seconds)
}

pub(super) fn row(volume: &Volume) -> Markup {
    let space = volume.space;
    let used = space.map(|space| space.total_bytes.saturating_sub(space.free_bytes));
    html! {
        tr {
            th scope="row" { (volume.id) }
            td class=(if volume.health == "healthy" { "good" } else { "bad" }) { (volume.health) }
            td.number { (used.map_or_else(|| "–".to_owned(), bytes)) }
            td.number { (space.map_or_else(|| "–".to_owned(), |space| bytes(space.free_bytes))) }
            td.number { (format!("{:.1} ms", 1000.0 * volume.latency_seconds)) }
            td.number { (count(volume.errors)) }
        }
    }
}

pub(super) async fn render(page: &Page, server: &Server, views: &Views) -> Markup {
    let status = resources::status::get(server).await;
    let (day, quarter) = (views.recorder.points(Range::Day), views.recorder.points(Range::Quarter));
    let level = Level::of(&status, views, &day);
    let disks: Vec<_> = status.volumes.iter().map(row).collect();
    let purged: Vec<_> = status.usage.purged.iter().filter(|purged| purged.files > 0).map(purged_row).collect();
    let quotas: Vec<_> =
        status.usage.quotas.iter().enumerate().map(|(number, quota)| quota_row(number, quota, page)).collect();
    shell(
        page,
        "Disks",
        &html! {
            h1 { "Disks and purge" }
            (card("Fill level", &html! {
                (level.bar())
                div.tiles {
                    (tile("Used", &bytes(level.used), &format!("of {}", bytes(level.total))))
                    (tile("Files", &count(status.usage.files), &format!("{} pinned", count(status.usage.pinned))))
                    (tile("Eviction age", &level.eviction_age(&status), "shorter than the time between two uses: the disk is too small"))
                    (tile("Purge in", &level.time_left(), "at the growth of the last day"))
                }
                (chart::history("Used, 90 days", &[(Series::UsedBytes, "used")], Unit::Bytes, Range::Quarter, &quarter))
                (chart::history("Freed by purges, 1 day", &[(Series::PurgedBytes, "freed")], Unit::BytesPerSecond, Range::Day, &day))
            }))
            (card("Disks", &table("Disks", &HEADS, &disks)))
            (card("Removed since the start", &table("Removed files", &["Reason", "Files", "Bytes"], &purged)))
            @if !quotas.is_empty() {
                (card("Quotas", &table("Quotas", &["Path", "Used", "Guaranteed", "Limit"], &quotas)))
            }
        },
    )
}

fn purged_row(purged: &Purged) -> Markup {
    html! { tr { th scope="row" { (purged.reason) } td.number { (count(purged.files)) } td.number { (bytes(purged.bytes)) } } }
}

fn quota_row(number: usize, quota: &Quota, page: &Page) -> Markup {
    // Paths may name users.
    let name = if page.viewer == Viewer::LoggedIn { quota.path.clone() } else { format!("quota {}", number + 1) };
    html! {
        tr {
            th scope="row" { (name) }
            td.number { (quota.used.bytes.map_or_else(|| "–".to_owned(), bytes)) }
            td.number { (bytes(quota.min_bytes)) }
            td.number { (quota.max_bytes.map_or_else(|| "unlimited".to_owned(), bytes)) }
        }
    }
}
