//! Columns of ROOT files that jobs read.

use super::Server;
use crate::{
    call::Call,
    model::{COLUMN_SETS_PER_PAGE_MAX, ColumnSetList, ForgottenSets, LearnedSet},
    problem::Problem,
};
use forebay_engine::{ColumnSet, SetKey};

/// Longest name in a parameter, in characters.
const NAME_LEN_MAX: usize = 4096;

/// Default number of sets per page.
const COLUMN_SETS_PER_PAGE: usize = 100;

pub(crate) async fn list(server: &Server, call: &Call) -> Result<ColumnSetList, Problem> {
    let limit = call.parsed("limit")?.unwrap_or(COLUMN_SETS_PER_PAGE);
    if !(1..=COLUMN_SETS_PER_PAGE_MAX).contains(&limit) {
        return Err(Problem::invalid(format_args!("parameter `limit`: must be from 1 to {COLUMN_SETS_PER_PAGE_MAX}")));
    }
    let page = server.engine()?.learned_columns(name_of(call, "after")?, limit).await?;
    Ok(ColumnSetList { sets: page.sets.into_iter().map(learned_set).collect(), next: page.last })
}

pub(crate) async fn forget(server: &Server, call: &Call) -> Result<ForgottenSets, Problem> {
    let owned = |name| Ok::<_, Problem>(name_of(call, name)?.map(str::to_owned));
    let sets = server.engine()?.forget_columns(owned("dataset")?, owned("user")?).await?;
    Ok(ForgottenSets { sets })
}

fn name_of<'a>(call: &'a Call, parameter: &str) -> Result<Option<&'a str>, Problem> {
    let name = call.text(parameter);
    if name.is_some_and(|name| name.chars().count() > NAME_LEN_MAX) {
        return Err(Problem::invalid(format_args!("parameter `{parameter}`: longer than {NAME_LEN_MAX} characters")));
    }
    Ok(name)
}

fn learned_set((key, set): (SetKey, ColumnSet)) -> LearnedSet {
    let (user, program) = key.job.unzip();
    LearnedSet {
        dataset: key.dataset,
        tree: key.tree,
        user,
        program,
        columns: set.column_count().map(|count| count as u64),
        uses: set.uses,
        hits: set.hits,
        last_use: set.last_use,
    }
}
