//! A data manager redirects requests on names to the server that answers them.

use crate::{
    base::status::Failure,
    requests::{context::ConnectionContext, meta::PREPARE_STAGE, names::Permitted},
};
use forebay_auth::Right;
use forebay_proto::{QueryKind, Request, StreamId, request::Query};

impl ConnectionContext {
    /// Redirects an authorized request on a name. False when this is not a manager, or the request is not on a name.
    pub(crate) fn redirect_by_manager(&mut self, stream_id: StreamId, request: &Request<'_>) -> bool {
        if !self.state.front.engine.is_manager() {
            return false;
        }
        let Some(asked) = self.name_of_request(request) else { return false };
        let redirect = asked.and_then(|Permitted { request, .. }| {
            let redirects = self.main().map(|main| main.redirects);
            let redirects = redirects.ok_or_else(|| Failure::internal("a request came before the login"))?;
            self.state.front.engine.send_elsewhere(&request, redirects).map_err(Failure::from)
        });
        self.conclude(stream_id, redirect, |reply, redirect, out| match &redirect.url {
            Some(url) => reply.redirect_to_url(url, out),
            None => reply.redirect_to_host(&redirect.server, "", out),
        });
        true
    }

    /// The name in a request, the first of several, if the client may use all of them. `None` for requests that are not on names.
    fn name_of_request(&self, request: &Request<'_>) -> Option<Result<Permitted, Failure>> {
        Some(match request {
            Request::Stat(stat) => self.permitted(stat.target.path()?, Right::Stat),
            Request::Statx(statx) => self.all_permitted(statx.iter(), Right::Stat)?,
            Request::Dirlist(dirlist) => self.permitted(dirlist.path, Right::List),
            Request::Locate(locate) => {
                // `*` before a path asks for servers that could have it, and alone for all servers.
                let path = locate.path.strip_prefix(b"*").unwrap_or(locate.path);
                let path = path.strip_suffix(b"\0").unwrap_or(path);
                self.permitted(if path.is_empty() { b"/" } else { path }, Right::Stat)
            }
            Request::Query(Query { kind: QueryKind::CHECKSUM, argument, .. }) => self.permitted(argument, Right::Read),
            Request::Query(Query { kind: QueryKind::SPACE | QueryKind::XATTR, argument, .. }) => {
                self.permitted(argument, Right::Stat)
            }
            Request::Prepare(prepare) if prepare.options & PREPARE_STAGE != 0 => {
                self.all_permitted(prepare.iter(), Right::Read)?
            }
            _ => return None,
        })
    }

    fn all_permitted<'a>(
        &self,
        paths: impl Iterator<Item = &'a [u8]>,
        right: Right,
    ) -> Option<Result<Permitted, Failure>> {
        let mut first = None;
        for path in paths {
            match self.permitted(path, right) {
                Ok(permitted) => first = first.or(Some(permitted)),
                // One refused name refuses the request, as it would on a server.
                Err(failure) => return Some(Err(failure)),
            }
        }
        first.map(Ok)
    }
}
