//! Efficiency of jobs by the source of their input, as `forebay efficiency --json` has computed it from records of jobs.

use super::{
    format::{bytes, count, percent},
    layout::{Page, card, shell, table, tile},
    views::Views,
};
use forebay_sizing::{JobReport, JobRow};
use maud::{Markup, html};
use std::{fs::File, io::Read as _, path::Path};

/// Longest report that is read: one of 500 sites has a third of it.
const REPORT_LEN_MAX: u64 = 1 << 20;

/// Sites that are listed.
const ROWS: usize = 200;

pub(super) async fn render(page: &Page, views: &Views) -> Markup {
    let content = match views.job_efficiency.clone() {
        None => html! {
            p { "Set " code { "admin.job_efficiency" } " to a file that " code { "forebay efficiency --json" }
                " writes from records of jobs and of accesses." }
        },
        Some(path) => match tokio::task::spawn_blocking(move || read(&path)).await {
            Ok(Ok(report)) => tables(&report),
            Ok(Err(problem)) => html! { p.bad role="alert" { (problem) } },
            Err(_) => html! { p.bad role="alert" { "the report could not be read" } },
        },
    };
    shell(page, "Job efficiency", &html! { h1 { "Job efficiency" } (content) })
}

fn read(path: &Path) -> Result<JobReport, String> {
    let place = path.display();
    let file = File::open(path).map_err(|error| format!("cannot open {place}: {error}"))?;
    let mut text = Vec::new();
    file.take(REPORT_LEN_MAX + 1).read_to_end(&mut text).map_err(|error| format!("cannot read {place}: {error}"))?;
    if text.len() as u64 > REPORT_LEN_MAX {
        return Err(format!(
            "{place} has more than {REPORT_LEN_MAX} bytes: it is not a report of forebay efficiency --json"
        ));
    }
    serde_json::from_slice(&text)
        .map_err(|error| format!("{place} is not a report of forebay efficiency --json: {error}"))
}

fn tables(report: &JobReport) -> Markup {
    let sources: Vec<_> = report.sources.iter().map(|source| row(source, &source.source, "")).collect();
    let sites = report.sites.iter().take(ROWS);
    let sites: Vec<_> = sites.map(|of| row(of, of.site.as_deref().unwrap_or_default(), &of.source)).collect();
    let saved: f64 = report.sources.iter().filter_map(|source| source.saved_hours).sum();
    html! {
        (card("Jobs by the source of their input", &html! {
            div.tiles {
                (tile("Jobs", &count(report.jobs), &format!("{:.1} hours on all cores", report.wall_hours)))
                (tile("From the cache", &percent(report.efficiency_from_cache), "efficiency of jobs that read from it"))
                (tile("Could be saved", &format!("{saved:.1} h"), "if all jobs had this efficiency"))
            }
            (table("Sources", &heads("Input from"), &sources))
            p.note { "Efficiency is processor time by time on the cores. The comparison shows a relation, not its cause." }
        }))
        @if !sites.is_empty() { (card("By site", &table("Sites", &heads("Site"), &sites))) }
    }
}

fn heads(first: &'static str) -> [&'static str; 8] {
    [first, "Jobs", "Hours", "CPU hours", "Efficiency", "Read", "Hours saved", "Of all"]
}

fn row(row: &JobRow, name: &str, source: &str) -> Markup {
    let error = row.plus_minus.map_or_else(String::new, |error| format!(" ± {:.1}", 100.0 * error));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "three digits are shown")]
    let rate = row.bytes_per_wall_second.max(0.0) as u64;
    html! {
        tr {
            th scope="row" { (name) @if !source.is_empty() { ", " (source) } }
            td.number { (count(row.jobs)) }
            td.number { (format!("{:.1}", row.wall_hours)) }
            td.number { (format!("{:.1}", row.cpu_hours)) }
            td.number { (percent(row.efficiency)) (error) }
            td.number { (bytes(rate)) "/s" }
            td.number { (row.saved_hours.map_or_else(|| "–".to_owned(), |hours| format!("{hours:.1}"))) }
            td.number { (percent(row.saved_share)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_have_a_limit_and_a_form() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        assert!(read(&path).unwrap_err().contains("cannot open"));
        for (text, is_good) in [
            (r#"{"jobs":1,"wall_hours":2,"efficiency_from_cache":null,"sources":[],"sites":[]}"#.to_owned(), true),
            ("[]".to_owned(), false),
            (" ".repeat(1 << 20) + "{}", false),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(read(&path).is_ok(), is_good, "{} bytes", text.len());
        }
    }
}
