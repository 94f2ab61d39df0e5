//! The status page: what a browser shows of a running server. Read-only; works without script.
//!
//! Pages that name neither files nor clients are as open as `/metrics`. The others require a login with the token of the API, which
//! becomes a cookie. Requests with foreign `Host` headers are refused, because a name that an attacker controls may lead here.

mod assets;
mod chart;
mod clients;
mod configuration;
mod curve;
mod disks;
mod efficiency;
mod events;
mod files;
mod format;
mod jobs;
mod layout;
mod login;
mod origins;
mod overview;
mod place;
mod popularity;
mod problems;
mod reply;
mod sessions;
mod views;

pub use sessions::SESSIONS_MAX;
pub use views::Views;

use crate::{
    access::{AccessRules, Channel},
    answer::{self, Answer},
    resources::Server,
};
use forebay_telemetry::Range;
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{ALLOW, COOKIE, HOST, HeaderName, HeaderValue},
};
use layout::Page;
use maud::Markup;
use place::{Place, Viewer};
use reply::{TEXT_TYPE, page, see_other};
use std::net::IpAddr;

/// Headers of every page and asset: nothing from elsewhere, no script or style in the text, no frames.
const PROTECTION: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Whether a path belongs to the status page.
pub(crate) fn is_page(path: &str) -> bool {
    Place::ALL.iter().any(|place| place.path() == path)
        || matches!(path, "/login" | "/logout" | "/events" | "/history.json" | "/favicon.ico")
        || path.starts_with(assets::PREFIX)
}

impl Views {
    /// Answers a request to a path for which [`is_page`] is true.
    pub(crate) async fn show(
        &self,
        request: Request<Incoming>,
        channel: Channel,
        server: &Server,
        rules: &AccessRules,
    ) -> Answer {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let mut answer = if is_known_host(host, &self.hosts) {
            self.answer_page(request, channel, server, rules).await
        } else {
            let text = "unknown host name: add it to admin.hosts, or use the address of this server\n";
            answer::of(StatusCode::MISDIRECTED_REQUEST, TEXT_TYPE, text)
        };
        for (name, value) in PROTECTION {
            answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        answer
    }

    async fn answer_page(
        &self,
        request: Request<Incoming>,
        channel: Channel,
        server: &Server,
        rules: &AccessRules,
    ) -> Answer {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let path = uri.path();
        let posts = matches!(path, "/login" | "/logout");
        if !(matches!(method, Method::GET | Method::HEAD) || posts && method == Method::POST) {
            let mut refusal = answer::of(StatusCode::METHOD_NOT_ALLOWED, TEXT_TYPE, "the status page is read-only\n");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        if let Some(asset) = assets::find(path) {
            return asset;
        }
        let token = self.token(rules, channel).await;
        let cookie = request.headers().get(COOKIE).and_then(|cookie| cookie.to_str().ok());
        let viewer = match &token {
            None => Viewer::CannotLogIn,
            Some(token) if self.sessions.admits(cookie, token) => Viewer::LoggedIn,
            Some(_) => Viewer::Anonymous,
        };
        match path {
            "/login" if method == Method::POST => return login::submit(request, channel, self, token).await,
            "/login" => return page(StatusCode::OK, &login::form(viewer, None)),
            "/logout" if method == Method::POST => return login::leave(self, cookie),
            "/logout" => return see_other("/"),
            "/events" => return events::stream(self),
            "/history.json" => return events::history(self, range_of(uri.query())),
            _ => {}
        }
        let Some(place) = Place::ALL.into_iter().find(|place| place.path() == path) else {
            return answer::of(StatusCode::NOT_FOUND, TEXT_TYPE, "no such page\n");
        };
        if place.needs_login() && viewer != Viewer::LoggedIn {
            return page(StatusCode::UNAUTHORIZED, &login::form(viewer, Some(place)));
        }
        let query = uri.query().unwrap_or_default();
        let body = self.content(place, viewer, server, query).await;
        page(StatusCode::OK, &body)
    }

    /// The token of the API over TCP; `None` without a usable one, and for callers that need none.
    async fn token(&self, rules: &AccessRules, channel: Channel) -> Option<String> {
        let Channel::Tcp { .. } = channel else { return None };
        let file = rules.token_file.clone()?;
        let read = tokio::task::spawn_blocking(move || file.read()).await.ok()?;
        if let Err(problem) = &read
            && self.refusal_log.has_room()
        {
            tracing::warn!(%problem, "no login is possible");
        }
        read.ok()
    }

    async fn content(&self, place: Place, viewer: Viewer, server: &Server, query: &str) -> Markup {
        let (views, page) = (self, Page { place, viewer });
        match place {
            Place::Overview => overview::render(&page, server, views).await,
            Place::Files => files::list(&page, server, views, query).await,
            Place::File => files::detail(&page, server, views, query).await,
            Place::Origins => origins::render(&page, server, views),
            Place::Clients => clients::render(&page, views),
            Place::Disks => disks::render(&page, server, views).await,
            Place::Popularity => popularity::render(&page, server, views, query).await,
            Place::Efficiency => efficiency::render(&page, views).await,
            Place::Jobs => jobs::render(&page, server),
            Place::Configuration => configuration::render(&page, views),
        }
    }
}

fn range_of(query: Option<&str>) -> Range {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let range = pairs.filter(|(name, _)| name == "range").find_map(|(_, value)| Range::from_name(&value));
    range.unwrap_or(Range::Hour)
}

/// Whether a `Host` header is an address, `localhost`, or a configured name. Ports do not count.
fn is_known_host(host: &str, known: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    is_address || name.eq_ignore_ascii_case("localhost") || known.iter().any(|it| it.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_localhost_and_configured_names() {
        let known = ["cache.example.org".to_owned()];
        for host in
            ["127.0.0.1:9090", "[::1]:9090", "[2001:db8::1]", "localhost", "LocalHost:80", "Cache.example.org:9"]
        {
            assert!(is_known_host(host, &known), "{host}");
        }
        for host in
            ["", "evil.example", "cache.example.org.evil.example", "localhost.evil:80", ":80", "127.0.0.1.nip.io"]
        {
            assert!(!is_known_host(host, &known), "{host}");
        }
    }
}
