//! The answers to requests on names: stat, check and stage.

use crate::{control_line::ControlLine, failures::Subject, names::Permitted};
use forebay_auth::Right;
use forebay_dcap_proto::{ControlAnswer, Errno, NameError, Refusal};
use forebay_engine::Presence;
use forebay_types::FileStat;

/// A request on a name.
pub(crate) enum NameRequest {
    Stat,
    Check,
    Stage,
}

impl ControlLine {
    /// Answers a request on a name.
    pub(crate) async fn answer_name(&self, answer: ControlAnswer, kind: NameRequest, path: Result<Vec<u8>, NameError>) {
        let answered = match kind {
            NameRequest::Stat => self.stat(path).await.map(|stat| answer.stat(&stat)),
            NameRequest::Check => self.check(path).await.map(|()| answer.ok()),
            NameRequest::Stage => self.stage(path).map(|()| answer.ok()),
        };
        self.answer(answered.unwrap_or_else(|refusal| answer.failed(&refusal))).await;
    }

    async fn stat(&self, path: Result<Vec<u8>, NameError>) -> Result<FileStat, Refusal> {
        let Permitted { request, caller } = self.permitted(path, Right::Stat)?;
        self.engine()?.stat(&request, &caller).await.map_err(|error| Subject::Stat.refusal(&error.into()))
    }

    /// Whether the file is on disk here. A file of an exported directory is; while the index is read, files that may be here count, too.
    async fn check(&self, path: Result<Vec<u8>, NameError>) -> Result<(), Refusal> {
        let Permitted { request, caller } = self.permitted(path, Right::Stat)?;
        let engine = self.engine()?;
        let refuse = |error: forebay_engine::Error| Subject::Stat.refusal(&error.into());
        let presence = engine.has(&request).map_err(refuse)?;
        let stat = engine.stat(&request, &caller).await.map_err(refuse)?;
        match presence {
            Presence::Maybe => Ok(()),
            Presence::Have if stat.cached => Ok(()),
            Presence::Have | Presence::No => Err(Refusal::new(Refusal::NOT_CACHED, Errno::Again, "File is not cached")),
        }
    }

    /// Has the file fetched in the background.
    fn stage(&self, path: Result<Vec<u8>, NameError>) -> Result<(), Refusal> {
        let Permitted { request, caller } = self.permitted(path, Right::Read)?;
        self.engine()?.stage(request, caller).map_err(|error| Subject::Open.refusal(&error.into()))
    }
}
