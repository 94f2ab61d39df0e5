//! The configuration with which the server was started.

use super::{
    layout::{Page, card, shell},
    views::Views,
};
use maud::{Markup, html};

pub(super) fn render(page: &Page, views: &Views) -> Markup {
    let text = views.configuration.as_ref();
    shell(
        page,
        "Configuration",
        &html! {
            h1 { "Configuration" }
            (card("As it was started", &html! {
                @if text.is_empty() { p { "The server was started without a configuration file." } }
                @else { pre tabindex="0" { (text) } }
            }))
        },
    )
}
