//! The frame of every page, and parts that several pages have.

use super::{
    assets,
    place::{Place, Viewer},
};
use maud::{DOCTYPE, Markup, html};

/// The page that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) place: Place,
    pub(super) viewer: Viewer,
}

/// A page with this content.
pub(super) fn shell(page: &Page, title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – Forebay" }
                link rel="icon" href=(assets::path("icon.svg"));
                link rel="stylesheet" href=(assets::path("uplot.css"));
                link rel="stylesheet" href=(assets::path("style.css"));
                script src=(assets::path("uplot.js")) defer {}
                script src=(assets::path("app.js")) defer {}
            }
            body {
                a.skip href="#content" { "Skip to content" }
                header { (navigation(page)) }
                main #content tabindex="-1" { (content) }
                footer {
                    "Forebay " (env!("CARGO_PKG_VERSION")) " · " a href="/metrics" { "metrics" } " · "
                    span #live { "times are UTC" }
                }
            }
        }
    }
}

fn navigation(page: &Page) -> Markup {
    let places = Place::ALL.into_iter().filter(|place| *place != Place::File);
    html! {
        nav aria-label="Pages" {
            strong.brand { "Forebay" }
            ul {
                @for place in places {
                    li {
                        @let current = (place == page.place).then_some("page");
                        a href=(place.path()) aria-current=[current] { (place.title()) }
                    }
                }
            }
            @match page.viewer {
                Viewer::LoggedIn => form method="post" action="/logout" { button.plain type="submit" { "Log out" } },
                Viewer::Anonymous => a.login href="/login" { "Log in" },
                Viewer::CannotLogIn => {}
            }
        }
    }
}

/// A section with a heading.
pub(super) fn card(title: &str, content: &Markup) -> Markup {
    html! { section.card { h2 { (title) } (content) } }
}

/// A number with its name, and what it says.
pub(super) fn tile(name: &str, value: &str, note: &str) -> Markup {
    html! { div.tile { span.name { (name) } span.value { (value) } span.note { (note) } } }
}

/// A table that scrolls by itself on narrow screens.
pub(super) fn table(label: &str, heads: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for row in rows { (row) }
                    @if rows.is_empty() { tr { td.none colspan=(heads.len()) { "none" } } }
                }
            }
        }
    }
}
