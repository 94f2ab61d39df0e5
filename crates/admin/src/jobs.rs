//! The jobs of the server.

use crate::{
    job::Progress,
    model::{Job, JobKind, JobState},
    problem::{Problem, ProblemKind},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::JoinError;

/// Jobs running at the same time; more are refused.
pub const JOBS_RUNNING_MAX: usize = 16;

/// Jobs in the list, including ended ones; above this limit the oldest ended job is dropped.
pub const JOBS_MAX: usize = 256;

/// The jobs of the server. They end with it.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// When the server was started: part of the job ids, so that ids differ between runs of the server.
    epoch: i64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    jobs: BTreeMap<u64, Arc<Progress>>,
}

impl Jobs {
    pub(crate) fn new(epoch: i64) -> Self {
        Self { epoch, inner: Mutex::default() }
    }

    /// Starts a job of `files_total` files, if known. `work` reports its progress to its argument.
    pub(crate) fn start<F>(
        &self,
        kind: JobKind,
        files_total: Option<u64>,
        work: impl FnOnce(Arc<Progress>) -> F,
    ) -> Result<Arc<Progress>, Problem>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let mut inner = self.inner.lock();
        if inner.running() >= JOBS_RUNNING_MAX {
            let detail = format_args!("{JOBS_RUNNING_MAX} jobs are running; wait for one to end, or cancel one");
            return Err(Problem::new(ProblemKind::TooManyJobs, detail));
        }
        inner.last += 1;
        let number = inner.last;
        let id = format!("{}-{number}", self.epoch);
        let progress = Arc::new(Progress::new(id, kind, files_total, forebay_net::clock::now_unix()));
        let task = tokio::spawn(work(Arc::clone(&progress)));
        progress.set_task(task.abort_handle());
        tracing::info!(job = progress.id, kind = kind.as_str(), "job started");
        tokio::spawn({
            let progress = Arc::clone(&progress);
            async move { conclude(&progress, task.await) }
        });
        inner.jobs.insert(number, Arc::clone(&progress));
        inner.forget_old();
        Ok(progress)
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<Progress>, Problem> {
        self.number_of(id)
            .and_then(|number| self.inner.lock().jobs.get(&number).cloned())
            .ok_or_else(|| no_such_job(id))
    }

    /// Cancels a running job; removes an ended one from the list.
    pub(crate) fn cancel_or_forget(&self, id: &str) -> Result<(), Problem> {
        let job = self.find(id)?;
        if job.is_running() {
            job.cancel();
        } else if let Some(number) = self.number_of(id) {
            self.inner.lock().jobs.remove(&number);
        }
        Ok(())
    }

    /// All jobs, the newest first.
    pub(crate) fn list(&self) -> Vec<Job> {
        let jobs: Vec<_> = self.inner.lock().jobs.values().rev().cloned().collect();
        jobs.iter().map(|job| job.snapshot()).collect()
    }

    pub(crate) fn running(&self) -> usize {
        self.inner.lock().running()
    }

    fn number_of(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.rsplit_once('-')?;
        (epoch.parse() == Ok(self.epoch)).then(|| number.parse().ok()).flatten()
    }
}

impl Inner {
    fn running(&self) -> usize {
        self.jobs.values().filter(|job| job.is_running()).count()
    }

    fn forget_old(&mut self) {
        while self.jobs.len() > JOBS_MAX {
            let Some(oldest) = self.jobs.iter().find(|(_, job)| !job.is_running()).map(|(number, _)| *number) else {
                return;
            };
            self.jobs.remove(&oldest);
        }
    }
}

fn conclude(progress: &Progress, ended: Result<Result<(), String>, JoinError>) {
    let (state, error) = match ended {
        Ok(Ok(())) => (JobState::Done, None),
        Ok(Err(error)) => (JobState::Failed, Some(error)),
        Err(error) if error.is_cancelled() => (JobState::Cancelled, None),
        Err(error) => {
            tracing::error!(job = progress.id, %error, "internal error: a job panicked");
            (JobState::Failed, Some("internal server error; see the server's log".to_owned()))
        }
    };
    tracing::info!(job = progress.id, kind = progress.kind.as_str(), state = state.as_str(), error, "job ended");
    progress.end(state, error, forebay_net::clock::now_unix());
}

fn no_such_job(id: &str) -> Problem {
    let detail =
        format_args!("no job `{}`: jobs are forgotten some time after their end and at a restart", id.escape_debug());
    Problem::new(ProblemKind::NoSuchJob, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    async fn ended(progress: &Progress) -> Job {
        while progress.is_running() {
            tokio::task::yield_now().await;
        }
        progress.snapshot()
    }

    #[tokio::test]
    async fn a_job_has_the_state_of_its_end() {
        let jobs = Jobs::new(7);
        let start =
            |result: Result<(), String>| jobs.start(JobKind::Prefetch, None, |_| async move { result }).unwrap();
        let (done, failed) = (start(Ok(())), start(Err("broken".to_owned())));
        assert_eq!(ended(&done).await.state, JobState::Done);
        let failed = ended(&failed).await;
        assert_eq!((failed.state, failed.error.as_deref()), (JobState::Failed, Some("broken")));
        let panicked = jobs.start(JobKind::Prefetch, None, |_| async { panic!("as the test wants it") }).unwrap();
        assert_eq!(ended(&panicked).await.state, JobState::Failed);
        let names: Vec<_> = jobs.list().into_iter().map(|job| job.id).collect();
        assert_eq!(names, ["7-3", "7-2", "7-1"]);
    }

    #[tokio::test]
    async fn a_job_is_cancelled_once_and_then_forgotten() {
        let jobs = Jobs::new(7);
        let (_never, waits) = oneshot::channel::<()>();
        let job = jobs
            .start(JobKind::Prefetch, None, |_| async {
                let _ = waits.await;
                Ok(())
            })
            .unwrap();
        jobs.cancel_or_forget("7-1").unwrap();
        assert_eq!(ended(&job).await.state, JobState::Cancelled);
        assert!(jobs.find("7-1").is_ok());
        jobs.cancel_or_forget("7-1").unwrap();
        assert_eq!(jobs.find("7-1").unwrap_err().kind, ProblemKind::NoSuchJob);
        for other in ["8-1", "7-2", "7", "", "x-1", "7-x"] {
            assert!(jobs.find(other).is_err(), "{other}");
        }
    }

    #[tokio::test]
    async fn too_many_jobs_are_refused_and_old_ones_forgotten() {
        let jobs = Jobs::new(7);
        let start_endless = || jobs.start(JobKind::Prefetch, None, |_| std::future::pending());
        let endless: Vec<_> = (0..JOBS_RUNNING_MAX).map(|_| start_endless().unwrap()).collect();
        assert_eq!(start_endless().unwrap_err().kind, ProblemKind::TooManyJobs);
        endless[3].cancel();
        ended(&endless[3]).await;
        for _ in 0..JOBS_MAX {
            ended(&jobs.start(JobKind::Prefetch, None, |_| async { Ok(()) }).unwrap()).await;
        }
        assert_eq!(jobs.list().len(), JOBS_MAX);
        assert_eq!(jobs.running(), JOBS_RUNNING_MAX - 1);
        assert!(jobs.find("7-4").is_err());
        assert!(jobs.find("7-5").is_ok());
    }
}
