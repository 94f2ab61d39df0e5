//! Jobs: prefetches, removals and purges that were started by the API.

use super::{
    chart,
    format::{bytes, count, percent, share, time},
    layout::{Page, card, shell, table},
};
use crate::{model::Job, resources::Server};
use maud::{Markup, html};

pub(super) fn render(page: &Page, server: &Server) -> Markup {
    let jobs = server.jobs.list();
    let rows: Vec<_> = jobs.iter().map(row).collect();
    let failures = jobs.iter().flat_map(|job| job.failures.iter().map(move |failure| (&job.id, failure)));
    let failures: Vec<_> = failures
        .map(|(id, failure)| {
            html! { tr { th.path scope="row" { (failure.name) } td { (id) } td { (failure.reason) } } }
        })
        .collect();
    shell(
        page,
        "Jobs",
        &html! {
            h1 { "Jobs" }
            (card("Jobs, newest first", &table(
                "Jobs", &["Job", "Kind", "State", "Started", "Progress", "Done", "Failed", "Bytes"], &rows,
            )))
            @if !failures.is_empty() {
                (card("Files that failed", &table("Failures", &["File", "Job", "Reason"], &failures)))
            }
        },
    )
}

fn row(job: &Job) -> Markup {
    let (done, total) = (job.files.done + job.files.failed, job.files.total.unwrap_or(0));
    let progress = share(done, total);
    html! {
        tr {
            th scope="row" { (job.id) }
            td { (job.kind.as_str()) }
            td { (job.state.as_str()) @if let Some(error) = &job.error { ": " (error) } }
            td { (time(job.started)) }
            td.bars { (chart::bar(&format!("{} done", percent(progress)), done, total, &[])) }
            td.number { (count(done)) @if total > 0 { " of " (count(total)) } }
            td.number { (count(job.files.failed)) }
            td.number { (bytes(job.bytes)) }
        }
    }
}
