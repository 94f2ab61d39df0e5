//! Every operation of the API, declared once: dispatch and document come from here.

use crate::{
    model::{
        Drain, EvictedFile, FileDetail, FileList, Job, JobList, Pin, PinRequest, PrefetchRequest, PurgeRequest, Scrub,
        Status,
    },
    problem::ProblemKind,
};
use schemars::{Schema, SchemaGenerator};

/// What all paths of the API begin with.
pub(crate) const API_PREFIX: &str = "/api/";

#[derive(Debug)]
pub(crate) struct Operation {
    /// Which one it is.
    pub(crate) id: OperationId,
    pub(crate) method: &'static str,
    /// Path; a part in braces varies. It is the last one and may hold slashes.
    pub(crate) path: &'static str,
    /// What it does, in a few words.
    pub(crate) summary: &'static str,
    /// What else there is to know.
    pub(crate) description: &'static str,
    /// What it takes besides a body.
    pub(crate) parameters: &'static [Parameter],
    /// What its body must be; `None` when it takes none.
    pub(crate) body: Option<SchemaOf>,
    /// Status code of a success.
    pub(crate) status: u16,
    /// What a success tells; `None` for nothing.
    pub(crate) result: Option<SchemaOf>,
    /// How it can fail, besides [`PROBLEMS_OF_ALL`].
    pub(crate) problems: &'static [ProblemKind],
}

/// Adds the schema of a type to a document.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A parameter of an operation.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// Where it is written.
    pub(crate) place: ParameterPlace,
    pub(crate) description: &'static str,
    pub(crate) schema: &'static str,
    /// A value that shows its form.
    pub(crate) example: &'static str,
    /// Whether it has to be written.
    pub(crate) is_required: bool,
}

/// Where a parameter is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ParameterPlace {
    Path,
    Query,
}

impl ParameterPlace {
    /// As documents call it.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
        }
    }
}

/// Which operation it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OperationId {
    /// The document of the API.
    Document,
    /// How the server is.
    Status,
    /// Files of the cache.
    ListFiles,
    /// One file of the cache.
    GetFile,
    /// Remove a file from the cache.
    EvictFile,
    /// Begin to remove files from the cache.
    EvictFiles,
    /// Keep a file from being purged.
    Pin,
    Unpin,
    /// Begin to fetch files.
    Prefetch,
    /// Begin to remove what is least worth keeping.
    Purge,
    /// How the scrub is.
    ScrubState,
    Scrub,
    ListJobs,
    GetJob,
    /// Cancel or forget a job.
    CancelJob,
    /// Take no new work.
    Drain,
    Undrain,
}

impl OperationId {
    /// Its name in the document.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Status => "status",
            Self::ListFiles => "listFiles",
            Self::GetFile => "getFile",
            Self::EvictFile => "evictFile",
            Self::EvictFiles => "evictFiles",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Prefetch => "prefetch",
            Self::Purge => "purge",
            Self::ScrubState => "scrubState",
            Self::Scrub => "scrub",
            Self::ListJobs => "listJobs",
            Self::GetJob => "getJob",
            Self::CancelJob => "cancelJob",
            Self::Drain => "drain",
            Self::Undrain => "undrain",
        }
    }
}

/// How every operation can fail.
pub(crate) const PROBLEMS_OF_ALL: [ProblemKind; 5] = [
    ProblemKind::Invalid,
    ProblemKind::Unauthorized,
    ProblemKind::Forbidden,
    ProblemKind::Internal,
    ProblemKind::Unavailable,
];

const JOB_ID: Parameter = Parameter {
    name: "id",
    place: ParameterPlace::Path,
    description: "The job's `id`.",
    schema: r#"{"type": "string", "minLength": 1, "maxLength": 64}"#,
    example: "1763766000-1",
    is_required: true,
};

const FILE_NAME: Parameter = Parameter {
    name: "name",
    place: ParameterPlace::Path,
    description: "The file's name without its first slash; slashes may be written as they are or as `%2F`.",
    schema: r#"{"type": "string", "minLength": 1, "maxLength": 4096}"#,
    example: "store/mc/file.root",
    is_required: true,
};

const PATTERN: Parameter = Parameter {
    name: "pattern",
    place: ParameterPlace::Query,
    description: "Only files whose whole name matches: `*` stands for any characters within a component, `?` for one of them, \
                  `**` for any characters.",
    schema: r#"{"type": "string", "maxLength": 4096}"#,
    example: "/store/**.root",
    is_required: false,
};

const FORCE: Parameter = Parameter {
    name: "force",
    place: ParameterPlace::Query,
    description: "Also what is open or pinned. Who has a file open goes on reading what was there of it.",
    schema: r#"{"type": "boolean", "default": false}"#,
    example: "false",
    is_required: false,
};

/// An operation without parameters, body and result.
const PLAIN: Operation = Operation {
    id: OperationId::Document,
    method: "GET",
    path: "",
    summary: "",
    description: "",
    parameters: &[],
    body: None,
    status: 200,
    result: None,
    problems: &[],
};

pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        id: OperationId::Document,
        path: "/api/v1/openapi.json",
        summary: "This document",
        result: Some(any_object),
        ..PLAIN
    },
    Operation {
        id: OperationId::Status,
        path: "/api/v1/status",
        summary: "How the server is",
        description: "Whether it takes work, what it serves, what the cache holds.",
        result: Some(SchemaGenerator::subschema_for::<Status>),
        ..PLAIN
    },
    Operation {
        id: OperationId::ListFiles,
        path: "/api/v1/files",
        summary: "Files of the cache",
        description: "In the order of their names, a page at a time. While the index is made again, files that it has not come \
                      to are missing.",
        parameters: &[
            PATTERN,
            Parameter {
                name: "after",
                place: ParameterPlace::Query,
                description: "Only files behind this name: what `next` of the page before says.",
                schema: r#"{"type": "string", "maxLength": 4096}"#,
                example: "/store/mc/file.root",
                is_required: false,
            },
            Parameter {
                name: "limit",
                place: ParameterPlace::Query,
                description: "Files of the page at most.",
                schema: r#"{"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}"#,
                example: "100",
                is_required: false,
            },
        ],
        result: Some(SchemaGenerator::subschema_for::<FileList>),
        ..PLAIN
    },
    Operation {
        id: OperationId::GetFile,
        path: "/api/v1/files/{name}",
        summary: "One file of the cache, with its blocks and accesses",
        parameters: &[FILE_NAME],
        result: Some(SchemaGenerator::subschema_for::<FileDetail>),
        problems: &[ProblemKind::NotCached],
        ..PLAIN
    },
    Operation {
        id: OperationId::EvictFile,
        method: "DELETE",
        path: "/api/v1/files/{name}",
        summary: "Remove a file from the cache",
        parameters: &[FILE_NAME, FORCE],
        result: Some(SchemaGenerator::subschema_for::<EvictedFile>),
        problems: &[ProblemKind::NotCached, ProblemKind::Open, ProblemKind::Pinned],
        ..PLAIN
    },
    Operation {
        id: OperationId::EvictFiles,
        method: "DELETE",
        path: "/api/v1/files",
        summary: "Remove the files that match a pattern",
        description: "Begins a job. Files that are open or pinned are its failures.",
        parameters: &[Parameter { is_required: true, ..PATTERN }, FORCE],
        status: 202,
        result: Some(SchemaGenerator::subschema_for::<Job>),
        problems: &[ProblemKind::TooManyJobs],
        ..PLAIN
    },
    Operation {
        id: OperationId::Pin,
        method: "PUT",
        path: "/api/v1/pins/{name}",
        summary: "Keep a file from being purged, for a time",
        description: "A file that is pinned already is pinned from now on for the new time.",
        parameters: &[FILE_NAME],
        body: Some(SchemaGenerator::subschema_for::<PinRequest>),
        result: Some(SchemaGenerator::subschema_for::<Pin>),
        problems: &[ProblemKind::NotCached, ProblemKind::TooLong, ProblemKind::MediaType],
        ..PLAIN
    },
    Operation {
        id: OperationId::Unpin,
        method: "DELETE",
        path: "/api/v1/pins/{name}",
        summary: "End the pin of a file",
        parameters: &[FILE_NAME],
        status: 204,
        problems: &[ProblemKind::NotCached],
        ..PLAIN
    },
    Operation {
        id: OperationId::Purge,
        method: "POST",
        path: "/api/v1/purge",
        summary: "Remove the files that are least worth keeping",
        description: "Begins a job that makes room as the purge does by itself: never what is open or pinned, nor what a quota \
                      guarantees.",
        body: Some(SchemaGenerator::subschema_for::<PurgeRequest>),
        status: 202,
        result: Some(SchemaGenerator::subschema_for::<Job>),
        problems: &[ProblemKind::TooLong, ProblemKind::MediaType, ProblemKind::NotSetUp, ProblemKind::TooManyJobs],
        ..PLAIN
    },
    Operation {
        id: OperationId::ScrubState,
        path: "/api/v1/scrub",
        summary: "How the scrub is",
        result: Some(SchemaGenerator::subschema_for::<Scrub>),
        ..PLAIN
    },
    Operation {
        id: OperationId::Scrub,
        method: "POST",
        path: "/api/v1/scrub",
        summary: "Read everything on disk and check it",
        description: "Begins a scrub in the background, unless one is under way. Blocks that are damaged are fetched again when \
                      they are wanted.",
        status: 202,
        result: Some(SchemaGenerator::subschema_for::<Scrub>),
        problems: &[ProblemKind::NotSetUp],
        ..PLAIN
    },
    Operation {
        id: OperationId::Prefetch,
        method: "POST",
        path: "/api/v1/prefetch",
        summary: "Fetch files into the cache",
        description: "Begins a job that fetches what the cache lacks of each file. Files that are complete cost nothing, so a \
                      list that was broken off is simply sent again.",
        body: Some(SchemaGenerator::subschema_for::<PrefetchRequest>),
        status: 202,
        result: Some(SchemaGenerator::subschema_for::<Job>),
        problems: &[
            ProblemKind::TooLong,
            ProblemKind::MediaType,
            ProblemKind::NotSetUp,
            ProblemKind::Draining,
            ProblemKind::TooManyJobs,
        ],
        ..PLAIN
    },
    Operation {
        id: OperationId::ListJobs,
        path: "/api/v1/jobs",
        summary: "All jobs that are known",
        description: "The newest first. Jobs that have ended are remembered until there are too many of them, or the server \
                      stops.",
        result: Some(SchemaGenerator::subschema_for::<JobList>),
        ..PLAIN
    },
    Operation {
        id: OperationId::GetJob,
        path: "/api/v1/jobs/{id}",
        summary: "How far a job is",
        parameters: &[JOB_ID],
        result: Some(SchemaGenerator::subschema_for::<Job>),
        problems: &[ProblemKind::NoSuchJob],
        ..PLAIN
    },
    Operation {
        id: OperationId::CancelJob,
        method: "DELETE",
        path: "/api/v1/jobs/{id}",
        summary: "Cancel a job, or forget one that has ended",
        description: "What the job has done stays done.",
        parameters: &[JOB_ID],
        status: 204,
        problems: &[ProblemKind::NoSuchJob],
        ..PLAIN
    },
    Operation {
        id: OperationId::Drain,
        method: "POST",
        path: "/api/v1/drain",
        summary: "Take no new work",
        description: "`/readyz` says so, new connections are closed, opens are refused in a way that sends clients back to \
                      their redirector. Files that are open are served to their end. Lasts until it is undone or the server \
                      stops.",
        result: Some(SchemaGenerator::subschema_for::<Drain>),
        ..PLAIN
    },
    Operation {
        id: OperationId::Undrain,
        method: "DELETE",
        path: "/api/v1/drain",
        summary: "Take work again",
        result: Some(SchemaGenerator::subschema_for::<Drain>),
        ..PLAIN
    },
];

fn any_object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn operations_differ_and_say_what_they_do() {
        let names: BTreeSet<_> = OPERATIONS.iter().map(|operation| operation.id.as_str()).collect();
        let places: BTreeSet<_> = OPERATIONS.iter().map(|operation| (operation.method, operation.path)).collect();
        assert_eq!((names.len(), places.len()), (OPERATIONS.len(), OPERATIONS.len()));
        for operation in OPERATIONS {
            assert!(operation.path.starts_with(API_PREFIX), "{}", operation.path);
            assert!(!operation.summary.is_empty(), "{}", operation.path);
        }
    }

    #[test]
    fn the_part_of_a_path_that_varies_is_declared_and_comes_last() {
        for Operation { path, parameters, .. } in OPERATIONS {
            let declared = parameters.iter().find(|parameter| parameter.place == ParameterPlace::Path);
            let written = path.split_once('{').map(|(_, name)| name);
            assert_eq!(written, declared.map(|parameter| format!("{}}}", parameter.name)).as_deref(), "{path}");
        }
    }
}
