//! Clients: who reads what now, and who has read how much.

use super::{
    chart::{self, Unit},
    format::{bytes, duration, percent, rate, share},
    layout::{Page, card, shell, table},
    overview::sums,
    views::Views,
};
use forebay_telemetry::{Group, OpenFile, Range, Series};
use maud::{Markup, html};

const OPEN_ROWS: usize = 100;

/// Rows of lists of sums.
const ROWS: usize = 50;

/// Heads of a table of open files.
pub(super) const HEADS: [&str; 8] = ["File", "User", "Client", "Program", "Open for", "Bytes", "Rate", "Hits"];

pub(super) fn render(page: &Page, views: &Views) -> Markup {
    let open = views.activity.open_files(forebay_net::clock::monotonic(), OPEN_ROWS);
    let rows: Vec<_> = open.iter().map(row).collect();
    let hour = views.recorder.points(Range::Hour);
    shell(
        page,
        "Clients",
        &html! {
            h1 { "Clients" }
            (card("Last hour", &html! {
            (chart::history("Open", &[(Series::OpenFiles, "files"), (Series::Connections, "connections")], Unit::Count, Range::Hour, &hour))
            (chart::history("Files read", &[(Series::Files, "all"), (Series::FileHits, "from the cache")], Unit::PerSecond, Range::Hour, &hour))
        }))
        (card("Open now, most bytes first", &table("Open files", &HEADS, &rows)))
            (card("Users", &sums("Users", &views.activity.sums(Group::User), ROWS)))
            (card("Sites", &sums("Sites", &views.activity.sums(Group::Site), ROWS)))
            (card("Organizations", &sums("Organizations", &views.activity.sums(Group::Organization), ROWS)))
        },
    )
}

/// A row of a table of open files.
pub(super) fn row(file: &OpenFile) -> Markup {
    let sent: u64 = file.bytes.iter().sum();
    let [hit, ..] = file.bytes;
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
    let mean = sent as f64 / file.open_for.as_secs_f64().max(1.0);
    html! {
        tr {
            th.path scope="row" { a href=(super::files::link(&file.lfn)) { (file.lfn) } }
            td { (file.user) }
            td { (file.host) }
            td { (file.program) }
            td.number { (duration(file.open_for.as_secs())) }
            td.number { (bytes(sent)) }
            td.number { (rate(mean)) }
            td.number { (percent(share(hit, sent))) }
        }
    }
}
