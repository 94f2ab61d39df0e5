//! Every operation of the API, declared once: dispatch and API description derive from it.

use crate::{
    model::{
        Activity as ActivityReport, ColumnSetList, Drain, EvictedFile, FileDetail, FileList, FileLocations,
        ForgottenSets, Job, JobList, Pin, PinRequest, PrefetchRequest, PurgeRequest, Scrub, Sizing as SizingReport,
        Status as ServerStatus,
    },
    problem::ProblemKind::{
        self, Draining, MediaType, NoSuchJob, NotCached, NotSetUp, Open, Pinned, TooLong, TooManyJobs,
    },
};
use schemars::{Schema, SchemaGenerator};

/// Prefix of all paths of the API.
pub(crate) const API_PREFIX: &str = "/api/";

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) method: &'static str,
    /// Path. The part in braces is a variable: it is the last one and may contain slashes.
    pub(crate) path: &'static str,
    /// The summary, then the lines of the description.
    pub(crate) doc: &'static [&'static str],
    pub(crate) parameters: &'static [Parameter],
    /// Schema of the request body, if it has one.
    pub(crate) body: Option<SchemaOf>,
    /// Status code of a success.
    pub(crate) status: u16,
    /// Schema of the result, if it has one.
    pub(crate) result: Option<SchemaOf>,
    /// Problems besides [`PROBLEMS_OF_ALL`] and, with a body, [`PROBLEMS_OF_BODIES`].
    pub(crate) problems: &'static [ProblemKind],
}

/// Adds the schema of a type to a document.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A parameter of an operation.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// Whether it is the variable of the path; others are in the query.
    pub(crate) is_in_path: bool,
    pub(crate) description: &'static str,
    pub(crate) schema: &'static str,
    pub(crate) example: &'static str,
    pub(crate) is_required: bool,
}

impl OperationId {
    /// The name in the document: `listFiles` for `ListFiles`.
    pub(crate) fn name(self) -> String {
        let mut name = format!("{self:?}");
        name.get_mut(..1).into_iter().for_each(str::make_ascii_lowercase);
        name
    }
}

/// Problems of every operation.
pub(crate) const PROBLEMS_OF_ALL: [ProblemKind; 5] = [
    ProblemKind::Invalid,
    ProblemKind::Unauthorized,
    ProblemKind::Forbidden,
    ProblemKind::Internal,
    ProblemKind::Unavailable,
];

/// Problems of operations with a request body.
pub(crate) const PROBLEMS_OF_BODIES: [ProblemKind; 2] = [TooLong, MediaType];

const JOB_ID: Parameter = Parameter {
    name: "id",
    is_in_path: true,
    description: "The job's `id`.",
    schema: r#"{"type": "string", "minLength": 1, "maxLength": 64}"#,
    example: "1763766000-1",
    is_required: true,
};

const FILE_NAME: Parameter = Parameter {
    name: "name",
    is_in_path: true,
    description: "The file's name without its first slash; slashes may be encoded as `%2F`.",
    schema: r#"{"type": "string", "minLength": 1, "maxLength": 4096}"#,
    example: "store/mc/file.root",
    is_required: true,
};

const PATTERN: Parameter = Parameter {
    name: "pattern",
    is_in_path: false,
    description: "Only files whose full name matches: `*` matches any characters within a component, `?` one of them, \
                  `**` for any characters.",
    schema: r#"{"type": "string", "maxLength": 4096}"#,
    example: "/store/**.root",
    is_required: false,
};

const PATTERN_REQUIRED: Parameter = Parameter { is_required: true, ..PATTERN };

const AFTER: Parameter = Parameter {
    name: "after",
    description: "Only files after this name: `next` of the previous page.",
    example: "/store/mc/file.root",
    ..PATTERN
};

const LIMIT: Parameter = Parameter {
    name: "limit",
    description: "Most files of the page.",
    schema: r#"{"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}"#,
    example: "100",
    ..PATTERN
};

const FORCE: Parameter = Parameter {
    name: "force",
    description: "Also remove open and pinned files. Clients that have a file open keep reading what was cached of it.",
    schema: r#"{"type": "boolean", "default": false}"#,
    example: "false",
    ..PATTERN
};

const SETS_AFTER: Parameter = Parameter {
    name: "after",
    description: "Only sets after this one: `next` of the previous page.",
    example: "/store/mc/NANOAODSIM",
    ..PATTERN
};

const SETS_LIMIT: Parameter = Parameter { description: "Most sets of the page.", ..LIMIT };

const DATASET: Parameter = Parameter {
    name: "dataset",
    description: "Only sets of datasets in this directory.",
    example: "/store/mc",
    ..PATTERN
};

const USER: Parameter = Parameter {
    name: "user",
    description: "Only sets of this user. The sets of all users keep the columns of this one too.",
    example: "alice",
    ..PATTERN
};

/// Declares operations. The first line of the documentation is the summary; body and result are types with a schema.
macro_rules! operations {
    ($(
        $(#[doc = $doc:literal])+
        $id:ident: $method:ident $path:literal ($($parameter:ident),*) $({ $body:ident })? => $status:literal $($result:ident)?
            $(, or $($problem:ident)+)?;
    )+) => {
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum OperationId {
            $($id,)+
        }

        pub(crate) const OPERATIONS: &[Operation] = &[$(Operation {
            id: OperationId::$id,
            method: stringify!($method),
            path: $path,
            doc: &[$($doc),+],
            parameters: &[$($parameter),*],
            body: operations!(schema $($body)?),
            status: $status,
            result: operations!(schema $($result)?),
            problems: &[$($($problem),+)?],
        }),+];
    };
    (schema) => { None };
    (schema OpenApi) => { Some(|_| schemars::json_schema!({ "type": "object" })) };
    (schema $type:ident) => { Some(SchemaGenerator::subschema_for::<$type>) };
}

operations! {
    /// This document
    Document: GET "/api/v1/openapi.json" () => 200 OpenApi;

    /// Status of the server
    /// State, traffic, memory, disks and content of the cache.
    Status: GET "/api/v1/status" () => 200 ServerStatus;

    /// Activity of clients by groups, and the files that they have open
    /// Open files, and sums of closed ones by data tier, dataset, user, site and other groups.
    Activity: GET "/api/v1/activity" () => 200 ActivityReport, or NotSetUp;

    /// Files of the cache
    /// In the order of their names, page by page. While the index is being rebuilt, files not yet indexed are missing.
    ListFiles: GET "/api/v1/files" (PATTERN, AFTER, LIMIT) => 200 FileList;

    /// A file of the cache, with its blocks and accesses
    GetFile: GET "/api/v1/files/{name}" (FILE_NAME) => 200 FileDetail, or NotCached;

    /// A file on the members of the cluster
    /// Asks all members. The order is that of placement.
    LocateFile: GET "/api/v1/locations/{name}" (FILE_NAME) => 200 FileLocations, or NotSetUp;

    /// Remove a file from the cache
    EvictFile: DELETE "/api/v1/files/{name}" (FILE_NAME, FORCE) => 200 EvictedFile, or NotCached Open Pinned;

    /// Remove the files that match a pattern
    /// Starts a job. Open and pinned files are listed as failures.
    EvictFiles: DELETE "/api/v1/files" (PATTERN_REQUIRED, FORCE) => 202 Job, or TooManyJobs;

    /// Protect a file from purges for a time
    /// Replaces an existing pin of the file.
    Pin: PUT "/api/v1/pins/{name}" (FILE_NAME) { PinRequest } => 200 Pin, or NotCached;

    /// Remove the pin of a file
    Unpin: DELETE "/api/v1/pins/{name}" (FILE_NAME) => 204, or NotCached;

    /// Free disk space by removing the least valuable files
    /// Starts a job that works like an automatic purge: open and pinned files stay, and so do files guaranteed by a quota.
    Purge: POST "/api/v1/purge" () { PurgeRequest } => 202 Job, or NotSetUp TooManyJobs;

    /// State of the scrub
    ScrubState: GET "/api/v1/scrub" () => 200 Scrub;

    /// Read and verify all cached data on disk
    /// Starts a scrub in the background, unless one is running. Damaged blocks are fetched again when requested.
    Scrub: POST "/api/v1/scrub" () => 202 Scrub, or NotSetUp;

    /// Fetch files into the cache
    /// Starts a job that fetches the missing parts of each file. Complete files cost nothing, so an interrupted list can simply be
    /// sent again.
    Prefetch: POST "/api/v1/prefetch" () { PrefetchRequest } => 202 Job, or NotSetUp Draining TooManyJobs;

    /// List the columns of ROOT files that jobs read, as they were learned
    /// The sets of columns, by dataset, tree, user and program. They show the reading habits of persons:
    /// no metric and no log has them.
    ListLearnedColumns: GET "/api/v1/learned-columns" (SETS_AFTER, SETS_LIMIT) => 200 ColumnSetList;

    /// Forget the columns of ROOT files that jobs read, of some datasets or users
    /// The next files of these datasets are read without advice from other files.
    ForgetLearnedColumns: DELETE "/api/v1/learned-columns" (DATASET, USER) => 200 ForgottenSets;

    /// List of jobs
    /// Newest first. Ended jobs are listed until there are too many of them or the server stops.
    ListJobs: GET "/api/v1/jobs" () => 200 JobList;

    /// Progress of a job
    GetJob: GET "/api/v1/jobs/{id}" (JOB_ID) => 200 Job, or NoSuchJob;

    /// Cancel a job, or remove an ended one from the list
    /// Work already done is kept.
    CancelJob: DELETE "/api/v1/jobs/{id}" (JOB_ID) => 204, or NoSuchJob;

    /// Reads of the last days, and what LRU caches of other sizes would have made of them
    /// Hit ratios by size, working sets, times between accesses, data tiers and datasets.
    Sizing: GET "/api/v1/sizing" () => 200 SizingReport, or NotSetUp;

    /// Stop accepting new work
    /// `/readyz` fails, and opens and prefetches are refused such that clients of a redirector use another server. Connections are
    /// accepted, and open files are served until they are closed. Lasts until undone or until the server stops.
    Drain: POST "/api/v1/drain" () => 200 Drain;

    /// Accept new work again
    Undrain: DELETE "/api/v1/drain" () => 200 Drain;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn operations_are_unique_and_their_paths_declare_their_variable() {
        let names: BTreeSet<_> = OPERATIONS.iter().map(|operation| operation.id.name()).collect();
        let places: BTreeSet<_> = OPERATIONS.iter().map(|operation| (operation.method, operation.path)).collect();
        assert_eq!((names.len(), places.len()), (OPERATIONS.len(), OPERATIONS.len()));
        for Operation { path, doc, parameters, .. } in OPERATIONS {
            assert!(path.starts_with(API_PREFIX) && !doc[0].trim().is_empty(), "{path}");
            let declared = parameters.iter().find(|parameter| parameter.is_in_path);
            let written = path.split_once('{').map(|(_, name)| name);
            assert_eq!(written, declared.map(|parameter| format!("{}}}", parameter.name)).as_deref(), "{path}");
        }
    }
}
