//! The login form, and what it leads to.

use super::{
    layout::{Page, shell},
    place::{Place, Viewer},
    reply::{TEXT_TYPE, page, see_other},
    views::Views,
};
use crate::{
    access::{self, Channel},
    answer::{self, Answer},
};
use http_body_util::{BodyExt, Limited};
use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{HeaderValue, SET_COOKIE},
};
use maud::{Markup, html};

/// Longest body of a login: the token and its name, in percent encoding.
const FORM_LEN_MAX: usize = 16_384;

/// The form, on the way to `wanted` if the visitor came from another page.
pub(super) fn form(viewer: Viewer, wanted: Option<Place>) -> Markup {
    let place = wanted.unwrap_or(Place::Overview);
    shell(
        &Page { place, viewer },
        "Log in",
        &html! {
            section.card.narrow {
                h1 { "Log in" }
                @match viewer {
                    Viewer::CannotLogIn => p {
                        "Pages that name files and users are off on this port: set " code { "admin.token_file" } "."
                    },
                    Viewer::Anonymous => {
                        @if wanted.is_some() { p { "This page names files and users." } }
                        (fields(None))
                    }
                    Viewer::LoggedIn => {
                        p { "You are logged in." }
                        form method="post" action="/logout" { button type="submit" { "Log out" } }
                    }
                }
            }
        },
    )
}

fn fields(problem: Option<&str>) -> Markup {
    html! {
        form method="post" action="/login" {
            @if let Some(problem) = problem { p.bad role="alert" { (problem) } }
            p {
                label for="token" { "Token, the content of " code { "admin.token_file" } }
                input #token type="password" name="token" required autocomplete="current-password";
            }
            button type="submit" { "Log in" }
        }
    }
}

pub(super) async fn submit(
    request: Request<Incoming>,
    channel: Channel,
    views: &Views,
    token: Option<String>,
) -> Answer {
    let Some(token) = token else { return page(StatusCode::FORBIDDEN, &form(Viewer::CannotLogIn, None)) };
    let body = Limited::new(request.into_body(), FORM_LEN_MAX).collect().await;
    let Ok(body) = body.map(http_body_util::Collected::to_bytes) else {
        return answer::of(StatusCode::PAYLOAD_TOO_LARGE, TEXT_TYPE, "the form is too long\n");
    };
    let given = form_urlencoded::parse(&body).find(|(name, _)| name == "token").map(|(_, value)| value.into_owned());
    let given = given.unwrap_or_default();
    if !access::is_same(given.trim().as_bytes(), token.as_bytes()) {
        if views.refusal_log.has_room() {
            tracing::warn!(caller = %channel, "wrong token in a login to the status page");
        }
        let place = Page { place: Place::Overview, viewer: Viewer::Anonymous };
        let problem = "Wrong token: it differs from the current content of admin.token_file.";
        let markup = shell(
            &place,
            "Log in",
            &html! {
                section.card.narrow { h1 { "Log in" } (fields(Some(problem))) }
            },
        );
        return page(StatusCode::UNAUTHORIZED, &markup);
    }
    match views.sessions.begin(&token) {
        Some(cookie) => with_cookie(see_other("/"), &cookie),
        None => answer::of(StatusCode::INTERNAL_SERVER_ERROR, TEXT_TYPE, "no random numbers\n"),
    }
}

pub(super) fn leave(views: &Views, cookie: Option<&str>) -> Answer {
    with_cookie(see_other("/"), &views.sessions.end(cookie))
}

fn with_cookie(mut answer: Answer, cookie: &str) -> Answer {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}
