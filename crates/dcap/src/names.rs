//! The names in requests, and their authorization.

use crate::{control_line::ControlLine, failures::Subject};
use forebay_auth::Right;
use forebay_dcap_proto::{Errno, NameError, Refusal};
use forebay_engine::{Caller, Engine, OpenRequest};
use forebay_front::{Backend, Connection, Failure};
use forebay_types::RequestPath;
use std::sync::Arc;

/// A name that the client may use.
pub(crate) struct Permitted {
    pub(crate) request: OpenRequest,
    pub(crate) caller: Arc<Caller>,
}

impl ControlLine {
    /// The name in a request, if the client may do `right` with it.
    pub(crate) fn permitted(&self, path: Result<Vec<u8>, NameError>, right: Right) -> Result<Permitted, Refusal> {
        let subject = if right == Right::Read { Subject::Open } else { Subject::Stat };
        let request = request_of(path, subject)?;
        let (front, connection) = (&self.state.front, Connection { peer: self.peer, is_tls: false });
        let admitted = if !self.is_proven {
            Err(Failure::not_authorized(
                "this server asks for a proof of identity, which dCap does not have".to_owned(),
            ))
            .inspect_err(|failure| front.report_refusal(&self.caller.client, &request.lfn, failure))
        } else if right == Right::Read {
            front.admit_open(&request, &self.caller, connection)
        } else {
            front.admit(&request, right, &self.caller, connection)
        };
        match admitted {
            Ok(caller) => Ok(Permitted { request, caller }),
            Err(failure) => Err(subject.refusal(&failure)),
        }
    }

    /// The cache that answers.
    pub(crate) fn engine(&self) -> Result<Engine, Refusal> {
        match &self.state.front.backend {
            Backend::Cache(engine) => Ok(engine.clone()),
            Backend::Manager(_) => Err(Subject::Stat.refusal(&Failure::internal("a manager serves no files"))),
        }
    }
}

fn request_of(path: Result<Vec<u8>, NameError>, subject: Subject) -> Result<OpenRequest, Refusal> {
    let path = path.map_err(|error| Refusal::new(Refusal::PROTOCOL, Errno::Invalid, error.to_string()))?;
    match RequestPath::parse(&path) {
        Ok(path) => Ok(path.into()),
        Err(error) => Err(subject.refusal(&error.into())),
    }
}
