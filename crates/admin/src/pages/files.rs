//! Files and datasets: what is cached, how much of it, and who reads it.

use super::{
    chart, clients,
    format::{bytes, count, percent, share, time},
    layout::{Page, card, shell, table, tile},
    overview::sums,
    views::Views,
};
use crate::{
    call::Call,
    model::{CachedFile, FileDetail, FileList},
    operation::{OPERATIONS, OperationId},
    problem::Problem,
    resources::{self, Server},
};
use bytes::Bytes;
use forebay_telemetry::Group;
use maud::{Markup, html};

/// Files of one page.
const ROWS: usize = 50;

const DATASETS: usize = 25;

/// Open handles looked through for the readers of a file.
const OPEN_MAX: usize = 1000;

/// The page of a file.
pub(super) fn link(name: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("name", name).finish();
    format!("/file?{query}")
}

pub(super) async fn list(page: &Page, server: &Server, views: &Views, query: &str) -> Markup {
    let parameter = |wanted: &str| {
        form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let (search, after) = (parameter("search").unwrap_or_default(), parameter("after"));
    let found = search_files(server, search.trim(), after.as_deref()).await;
    shell(
        page,
        "Files",
        &html! {
            h1 { "Files and datasets" }
            (card("Files", &html! {
                form.search role="search" action="/files" {
                    label for="search" { "Part of the name, or a pattern such as " code { "/store/**.root" } }
                    input #search type="search" name="search" value=(search) maxlength="4096";
                    button type="submit" { "Search" }
                }
                @match &found {
                    Ok(found) => (results(found, &search)),
                    Err(problem) => p.bad role="alert" { (problem.detail) },
                }
            }))
            (card("Datasets by bytes read", &sums("Datasets", &views.activity.sums(Group::Dataset), DATASETS)))
            (card("Data tiers", &sums("Data tiers", &views.activity.sums(Group::Tier), DATASETS)))
        },
    )
}

fn results(found: &FileList, search: &str) -> Markup {
    let rows: Vec<_> = found.files.iter().map(row).collect();
    html! {
        (table("Files", &["File", "Cached", "Share", "Size", "Uses", "Last use", "Readers"], &rows))
        @if let Some(next) = &found.next {
            @let query = form_urlencoded::Serializer::new(String::new()).append_pair("search", search).append_pair("after", next).finish();
            p { a rel="next" href={ "/files?" (query) } { "Next files" } }
        }
    }
}

fn row(file: &CachedFile) -> Markup {
    let cached = share(file.present_bytes, file.size);
    let cached = if file.is_complete { Some(1.0) } else { cached };
    html! {
        tr {
            th.path scope="row" { a href=(link(&file.name)) { (file.name) } }
            td.bars { (chart::bar(&format!("{} cached", percent(cached)), file.present_bytes, file.size, &[])) }
            td.number { (percent(cached)) }
            td.number { (bytes(file.size)) }
            td.number { (count(file.uses)) }
            td { (time(file.last_use)) }
            td { (if file.is_open { "open" } else { "" }) }
        }
    }
}

async fn search_files(server: &Server, search: &str, after: Option<&str>) -> Result<FileList, Problem> {
    let call = call(OperationId::ListFiles, "", &search_query(search, after))?;
    resources::files::list(server, &call).await
}

fn search_query(search: &str, after: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &ROWS.to_string());
    if !search.is_empty() {
        let is_pattern = search.starts_with('/') && search.contains(['*', '?']);
        query.append_pair("pattern", &if is_pattern { search.to_owned() } else { format!("/**{search}**") });
    }
    if let Some(after) = after {
        query.append_pair("after", after);
    }
    query.finish()
}

/// A call of the API, whose operations the page shows.
fn call(id: OperationId, variable: &str, query: &str) -> Result<Call, Problem> {
    let operation = OPERATIONS.iter().find(|operation| operation.id == id);
    let operation = operation.ok_or_else(|| Problem::invalid("no such operation"))?;
    Call::new(operation, variable, query, Bytes::new())
}

pub(super) async fn detail(page: &Page, server: &Server, views: &Views, query: &str) -> Markup {
    let name = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "name");
    let name = name.map(|(_, value)| value.into_owned()).unwrap_or_default();
    let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20");
    let found = match call(OperationId::GetFile, &encoded, "") {
        Ok(call) => resources::files::get(server, &call).await,
        Err(problem) => Err(problem),
    };
    let readers = views.activity.open_files(forebay_net::clock::monotonic(), OPEN_MAX);
    let readers: Vec<_> = readers.iter().filter(|open| open.lfn == name).map(clients::row).collect();
    shell(
        page,
        "File",
        &html! {
            h1.path { (name) }
            @match &found {
                Ok(found) => (facts(found)),
                Err(problem) => p.bad role="alert" { (problem.detail) },
            }
            (card("Readers", &table("Readers", &clients::HEADS, &readers)))
        },
    )
}

fn facts(found: &FileDetail) -> Markup {
    let file = &found.file;
    let cached = percent(share(file.present_bytes, file.size));
    let accesses = found.record.iter().flat_map(|record| record.accesses.iter().rev());
    let accesses: Vec<_> = accesses
        .map(|access| {
            html! {
                tr {
                    th scope="row" { (time(access.attached)) }
                    td { (access.detached.map_or_else(|| "–".to_owned(), time)) }
                    td.number { (access.opens) }
                    td.number { (bytes(access.hit_bytes)) }
                    td.number { (bytes(access.missed_bytes)) }
                    td.number { (bytes(access.bypassed_bytes)) }
                }
            }
        })
        .collect();
    html! {
        (card("Cached part", &html! {
            (chart::bar(&format!("{cached} cached"), file.present_bytes, file.size, &[]))
            div.tiles {
                (tile("Cached", &cached, &format!("{} of {}", bytes(file.present_bytes), bytes(file.size))))
                (tile("Uses", &count(file.uses), &format!("last one {}", time(file.last_use))))
                (tile("Origin", file.origin.as_deref().unwrap_or("–"), "server it was fetched from"))
                (tile("Owner", file.owner.as_deref().unwrap_or("–"), "organization it was fetched for"))
                (tile("Disk", &file.volume.to_string(), &format!("blocks of {}", bytes(file.block_size))))
                (tile("Pinned", &file.pinned_until.map_or_else(|| "no".to_owned(), time), "until"))
            }
        }))
        (card("Periods of use, newest first", &table(
            "Periods of use", &["From", "To", "Opens", "Hit", "Missed", "Bypassed"], &accesses,
        )))
    }
}
