//! The overview: does it work, what does it save, is the disk large enough, and for whom.

use super::{
    chart::{self, Unit},
    format::{bytes, count, duration, percent, share, time},
    layout::{Page, card, shell, table, tile},
    place::{Place, Viewer},
    problems,
    views::Views,
};
use crate::{
    model::{ClusterMember, IndexState, MemberBytes, Status},
    resources::{self, Server},
};
use forebay_telemetry::{Group, Point, Range, Series, Sum};
use maud::{Markup, html};

/// Lines of the charts of the traffic.
const LINES: [(Series, &str); 3] =
    [(Series::ClientBytes, "to clients"), (Series::HitBytes, "from the cache"), (Series::OriginBytes, "from origins")];

const MEMBER_HEADS: [&str; 7] =
    ["Member", "State", "Share of new files", "Bytes", "Imbalance", "Of other members", "Duplicates"];

/// Rows of each list.
const ROWS: usize = 8;

pub(super) async fn render(page: &Page, server: &Server, views: &Views) -> Markup {
    let status = resources::status::get(server).await;
    let hour = views.recorder.points(Range::Hour);
    let day = views.recorder.points(Range::Day);
    let quarter = views.recorder.points(Range::Quarter);
    shell(
        page,
        "Overview",
        &html! {
            h1.visually-hidden { "Overview" }
            (health(&status))
            (traffic(&status, [&hour, &day, &quarter]))
            div.columns {
                (disk(&status, views, &day))
                (origins(&status, server))
            }
            (disks(&status))
            @if !status.members.is_empty() { (members(&status)) }
            div.columns {
                (who(views, Group::Tier, "Data tiers"))
                (who(views, Group::Organization, "Organizations"))
                (who(views, Group::Export, "Exports"))
                (who(views, Group::Region, "Regions of origins"))
            }
            div.columns {
                (open_now(&status, page))
                (upkeep(&status))
            }
        },
    )
}

fn health(status: &Status) -> Markup {
    let problems = problems::of(status);
    let state = status.state.as_str();
    let class = if problems.is_empty() {
        "good"
    } else if problems.iter().any(|it| it.is_urgent) {
        "bad"
    } else {
        "warn"
    };
    html! {
        section.card.health.(class) {
            h2 {
                "Forebay is " (state)
                small { "version " (status.version) ", up " (duration(status.uptime_seconds)) " since " (time(status.started)) }
            }
            @if problems.is_empty() {
                p { "No problems found." }
            } @else {
                ul.problems { @for problem in &problems { li class=(if problem.is_urgent { "bad" } else { "warn" }) { (problem.text) } } }
            }
        }
    }
}

fn traffic(status: &Status, [hour, day, quarter]: [&[Point]; 3]) -> Markup {
    let ratio = |part, whole, points: &[Point]| percent(share(chart::total(points, part), chart::total(points, whole)));
    let by_bytes = |points| ratio(Series::HitBytes, Series::ClientBytes, points);
    let by_files = |points| ratio(Series::FileHits, Series::Files, points);
    let (out, inward) = (chart::total(day, Series::ClientBytes), chart::total(day, Series::OriginBytes));
    // Thirty of the ninety days.
    let month = quarter.get(quarter.len().saturating_sub(720)..).unwrap_or_default();
    card(
        "Traffic",
        &html! {
                div.tiles {
                    (tile("To clients, 24 h", &bytes(out), "bytes sent"))
                    (tile("From origins, 24 h", &bytes(inward), "bytes received"))
                    (tile("Saved, 24 h", &bytes(out.saturating_sub(inward)), "bytes that origins did not send"))
                    (tile("Open files", &count(status.open_handles), &format!("{} connections", count(status.connections))))
                }
                (table("Hit ratios", &["Hit ratio", "1 hour", "24 hours", "30 days"], &[
                ratios("by bytes", [hour, day, month].map(by_bytes)),
                ratios("by files", [hour, day, month].map(by_files)),
            ]))
            (chart::history("Last hour", &LINES, Unit::BytesPerSecond, Range::Hour, hour))
            details {
                summary { "Day and 90 days" }
                (chart::history("Last day", &LINES, Unit::BytesPerSecond, Range::Day, day))
                (chart::history("Last 90 days", &LINES, Unit::BytesPerSecond, Range::Quarter, quarter))
            }
        },
    )
}

fn ratios(name: &str, ratios: [String; 3]) -> Markup {
    html! { tr { th scope="row" { (name) } @for ratio in ratios { td.number { (ratio) } } } }
}

fn disk(status: &Status, views: &Views, day: &[Point]) -> Markup {
    let level = super::disks::Level::of(status, views, day);
    card(
        "Cache",
        &html! {
            (level.bar())
            div.tiles {
                (tile("Used", &bytes(level.used), &format!("of {}, {} files", bytes(level.total), count(status.usage.files))))
                (tile("Eviction age", &level.eviction_age(status), "unused time of the files removed last"))
                (tile("Purge in", &level.time_left(), "at the growth of the last day"))
            }
            p { a href=(Place::Disks.path()) { "Disks and purge" } }
        },
    )
}

fn origins(status: &Status, server: &Server) -> Markup {
    let mut origins = server.backend.metrics().origins();
    origins.sort_by_key(|origin| std::cmp::Reverse(origin.bytes));
    let rows: Vec<_> = origins.iter().take(ROWS).map(super::origins::row).collect();
    card(
        "Origins",
        &html! {
            @if !status.failing_origins.is_empty() { p.warn { (status.failing_origins.len()) " servers fail." } }
            (table("Origins", &super::origins::HEADS, &rows))
        },
    )
}

fn disks(status: &Status) -> Markup {
    let rows: Vec<_> = status.volumes.iter().map(super::disks::row).collect();
    card("Disks", &table("Disks", &super::disks::HEADS, &rows))
}

/// The cluster, as this server knows it.
fn members(status: &Status) -> Markup {
    let row = |member: &ClusterMember| {
        html! {
            tr {
                th scope="row" { (member.member) @if member.is_this_server { " (this server)" } }
                td { (member.state) }
                td.number { (percent(Some(member.share))) }
                td.number { (member.bytes.map_or_else(dash, |held| bytes(held.held))) }
                td.number { (member.imbalance.map_or_else(dash, |imbalance| format!("{imbalance:.2}"))) }
                td.number { (percent(member.bytes.and_then(|held| share(held.foreign, held.held)))) }
                td.number { (percent(member.bytes.and_then(|held| share(held.duplicate, held.held)))) }
            }
        }
    };
    let rows: Vec<_> = status.members.iter().map(row).collect();
    let sum = |part: fn(MemberBytes) -> u64| status.members.iter().filter_map(|member| member.bytes).map(part).sum();
    let (held, duplicate) = (sum(|counted| counted.held), sum(|counted| counted.duplicate));
    let worst = status.members.iter().filter_map(|member| member.imbalance).reduce(f64::max);
    card(
        "Cluster",
        &html! {
            div.tiles {
                (tile("Duplicates", &percent(share(duplicate, held)), &format!("{} of {} on all members", bytes(duplicate), bytes(held))))
                (tile("Imbalance", &worst.map_or_else(dash, |worst| format!("{worst:.2}")), "fullest member by its share"))
            }
            (table("Members of the cluster", &MEMBER_HEADS, &rows))
        },
    )
}

fn dash() -> String {
    "–".to_owned()
}

fn who(views: &Views, group: Group, title: &str) -> Markup {
    card(title, &sums(title, &views.activity.sums(group), ROWS))
}

/// A table of sums by name.
pub(super) fn sums(title: &str, list: &[(String, Sum)], rows: usize) -> Markup {
    let rows: Vec<_> = list
        .iter()
        .take(rows)
        .map(|(name, sum)| {
            html! {
                tr {
                    th scope="row" { (name) }
                    td.number { (bytes(sum.all_bytes())) }
                    td.number { (percent(share(sum.hit_bytes(), sum.all_bytes()))) }
                    td.number { (count(sum.accesses)) }
                    td.number { (percent(share(sum.hits, sum.accesses))) }
                    td.number { (percent(share(sum.reused, sum.accesses))) }
                }
            }
        })
        .collect();
    table(title, &["Name", "Bytes", "Hit bytes", "Files", "Hit files", "Reused"], &rows)
}

fn open_now(status: &Status, page: &Page) -> Markup {
    card(
        "Open now",
        &html! {
            div.tiles {
                (tile("Files", &count(status.open_handles), "held open by clients"))
                (tile("Connections", &count(status.connections), "of clients"))
            }
            @if page.viewer != Viewer::CannotLogIn { p { a href=(Place::Clients.path()) { "Clients and their files" } } }
        },
    )
}

fn upkeep(status: &Status) -> Markup {
    let index = match status.index.state {
        IndexState::Ready => "complete".to_owned(),
        state => state.as_str().to_owned(),
    };
    let certificate = status.certificates.iter().filter(|end| !end.is_proxy).map(|end| end.seconds).min();
    let certificate = certificate.map_or_else(|| "–".to_owned(), |seconds| format!("{} d", seconds.div_euclid(86_400)));
    let scrub = if status.scrub.is_running { "running" } else { "idle" };
    card(
        "Upkeep",
        &html! {
            div.tiles {
                (tile("Jobs", &count(status.jobs_running), "running"))
                (tile("Pinned", &count(status.usage.pinned), "files"))
                (tile("Scrub", scrub, &format!("{} damaged blocks", count(status.scrub.bad_blocks))))
                (tile("Index", &index, "of the cached files"))
                (tile("Memory", &percent(share(status.memory.used_bytes, status.memory.budget_bytes)), "of the budget of data in transit"))
                (tile("Certificates", &certificate, "until the first one expires"))
            }
        },
    )
}
