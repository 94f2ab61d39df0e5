//! Origins: state, latency, rate, errors, and what failed last.

use super::{
    format::{bytes, count, percent, rate, share, time},
    layout::{Page, card, shell, table},
    overview::sums,
    views::Views,
};
use crate::resources::Server;
use forebay_telemetry::{Group, OriginState};
use maud::{Markup, html};

/// Heads of a table of origins.
pub(super) const HEADS: [&str; 6] = ["Origin", "Bytes", "Requests", "Errors", "Latency", "Rate"];

/// Rows of lists of sums.
const ROWS: usize = 50;

pub(super) fn row(origin: &OriginState) -> Markup {
    let errors = share(origin.errors, origin.requests);
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
    let bytes_per_s = origin.bytes_per_s as f64;
    html! {
        tr {
            th scope="row" { (origin.name) }
            td.number { (bytes(origin.bytes)) }
            td.number { (count(origin.requests)) }
            td.number { (count(origin.errors)) @if origin.errors > 0 { " (" (percent(errors)) ")" } }
            td.number { (format!("{:.1} ms", 1000.0 * origin.latency.as_secs_f64())) }
            td.number { (rate(bytes_per_s)) }
        }
    }
}

pub(super) fn render(page: &Page, server: &Server, views: &Views) -> Markup {
    let metrics = server.backend.metrics();
    let mut origins = metrics.origins();
    origins.sort_by_key(|origin| std::cmp::Reverse(origin.bytes));
    let rows: Vec<_> = origins.iter().map(row).collect();
    let now = (forebay_net::clock::monotonic(), forebay_net::clock::now_unix());
    let failing: Vec<_> = metrics
        .failing_servers(now)
        .into_iter()
        .map(|failing| {
            let (server, since) = (failing.server.to_string(), time(failing.since));
            html! { tr { th scope="row" { (server) } td { (since) } td { (failing.problem) } } }
        })
        .collect();
    shell(
        page,
        "Origins",
        &html! {
            h1 { "Origins" }
            (card("Servers that fail", &table("Servers that fail", &["Server", "Since", "Last error"], &failing)))
            (card("Origins since the start", &table("Origins", &HEADS, &rows)))
            (card("Files by origin", &sums("Files by origin", &views.activity.sums(Group::Origin), ROWS)))
            (card("Files by region of the origin", &sums("Files by region", &views.activity.sums(Group::Region), ROWS)))
        },
    )
}
