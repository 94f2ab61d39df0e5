//! Requests of administrators about the columns that were learned.

use crate::{Engine, Error};
use forebay_structure::{ColumnSet, SetKey};

/// A page of learned sets of columns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LearnedColumns {
    pub sets: Vec<(SetKey, ColumnSet)>,
    /// Names the last set of the page; `None` behind the last page.
    pub last: Option<String>,
}

impl Engine {
    /// Up to `limit` learned sets of columns after the one named `after`. Damaged ones are passed over.
    ///
    /// # Errors
    /// When the index is not in use.
    pub async fn learned_columns(&self, after: Option<&str>, limit: usize) -> Result<LearnedColumns, Error> {
        let catalog = self.context().catalog.as_ref().ok_or(Error::NoIndex)?;
        let page = catalog.page_of_column_sets(after.map(str::to_owned), limit).await;
        let (sets, last) = page.ok_or(Error::NoIndex)?;
        Ok(LearnedColumns { sets, last })
    }

    /// Forgets the learned sets of the datasets in the directory `dataset`, of all without one; only those of `user` if there is one.
    /// Returns their number.
    ///
    /// # Errors
    /// When the index is not in use.
    pub async fn forget_columns(&self, dataset: Option<String>, user: Option<String>) -> Result<u64, Error> {
        let catalog = self.context().catalog.as_ref().ok_or(Error::NoIndex)?;
        let directory = dataset.map(|dataset| dataset.trim_end_matches('/').to_owned());
        let is_chosen = move |key: &SetKey| {
            let is_in = |directory: &str| {
                key.dataset.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let is_of = |user: &str| key.job.as_ref().is_some_and(|(name, _)| name == user);
            directory.as_deref().is_none_or(is_in) && user.as_deref().is_none_or(is_of)
        };
        catalog.forget_column_sets(is_chosen).await.ok_or(Error::NoIndex)
    }
}
