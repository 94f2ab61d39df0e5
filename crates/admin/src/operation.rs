//! Every operation of the API, declared once: dispatch and API description derive from it.

use crate::{
    model::{
        Drain, EvictedFile, FileDetail, FileList, Job, JobList, Pin, PinRequest, PrefetchRequest, PurgeRequest, Scrub,
        Status,
    },
    problem::ProblemKind,
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
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    pub(crate) parameters: &'static [Parameter],
    /// Schema of the request body, if it has one.
    pub(crate) body: Option<SchemaOf>,
    /// Status code of a success.
    pub(crate) status: u16,
    /// Schema of the result, if it has one.
    pub(crate) result: Option<SchemaOf>,
    /// Problems besides [`PROBLEMS_OF_ALL`].
    pub(crate) problems: &'static [ProblemKind],
}

/// Adds the schema of a type to a document.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A parameter of an operation.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: ParameterPlace,
    pub(crate) description: &'static str,
    pub(crate) schema: &'static str,
    pub(crate) example: &'static str,
    pub(crate) is_required: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ParameterPlace {
    Path,
    Query,
}

impl ParameterPlace {
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OperationId {
    Document,
    Status,
    ListFiles,
    GetFile,
    EvictFile,
    EvictFiles,
    Pin,
    Unpin,
    Prefetch,
    Purge,
    ScrubState,
    Scrub,
    ListJobs,
    GetJob,
    CancelJob,
    Drain,
    Undrain,
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
    description: "The file's name without its first slash; slashes may be encoded as `%2F`.",
    schema: r#"{"type": "string", "minLength": 1, "maxLength": 4096}"#,
    example: "store/mc/file.root",
    is_required: true,
};

const PATTERN: Parameter = Parameter {
    name: "pattern",
    place: ParameterPlace::Query,
    description: "Only files whose full name matches: `*` matches any characters within a component, `?` one of them, \
                  `**` for any characters.",
    schema: r#"{"type": "string", "maxLength": 4096}"#,
    example: "/store/**.root",
    is_required: false,
};

const FORCE: Parameter = Parameter {
    name: "force",
    place: ParameterPlace::Query,
    description: "Also remove open and pinned files. Clients that have a file open keep reading what was cached of it.",
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
        summary: "Status of the server",
        description: "State, traffic, memory, disks and content of the cache.",
        result: Some(SchemaGenerator::subschema_for::<Status>),
        ..PLAIN
    },
    Operation {
        id: OperationId::ListFiles,
        path: "/api/v1/files",
        summary: "Files of the cache",
        description: "In the order of their names, page by page. While the index is being rebuilt, files not yet indexed \
                      are missing.",
        parameters: &[
            PATTERN,
            Parameter {
                name: "after",
                place: ParameterPlace::Query,
                description: "Only files after this name: `next` of the previous page.",
                schema: r#"{"type": "string", "maxLength": 4096}"#,
                example: "/store/mc/file.root",
                is_required: false,
            },
            Parameter {
                name: "limit",
                place: ParameterPlace::Query,
                description: "Most files of the page.",
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
        summary: "A file of the cache, with its blocks and accesses",
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
        description: "Starts a job. Open and pinned files are listed as failures.",
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
        summary: "Protect a file from purges for a time",
        description: "Replaces an existing pin of the file.",
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
        summary: "Remove the pin of a file",
        parameters: &[FILE_NAME],
        status: 204,
        problems: &[ProblemKind::NotCached],
        ..PLAIN
    },
    Operation {
        id: OperationId::Purge,
        method: "POST",
        path: "/api/v1/purge",
        summary: "Free disk space by removing the least valuable files",
        description: "Starts a job that works like an automatic purge: open and pinned files stay, and so do files guaranteed by a quota.",
        body: Some(SchemaGenerator::subschema_for::<PurgeRequest>),
        status: 202,
        result: Some(SchemaGenerator::subschema_for::<Job>),
        problems: &[ProblemKind::TooLong, ProblemKind::MediaType, ProblemKind::NotSetUp, ProblemKind::TooManyJobs],
        ..PLAIN
    },
    Operation {
        id: OperationId::ScrubState,
        path: "/api/v1/scrub",
        summary: "State of the scrub",
        result: Some(SchemaGenerator::subschema_for::<Scrub>),
        ..PLAIN
    },
    Operation {
        id: OperationId::Scrub,
        method: "POST",
        path: "/api/v1/scrub",
        summary: "Read and verify all cached data on disk",
        description: "Starts a scrub in the background, unless one is running. Damaged blocks are fetched again when requested.",
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
        description: "Starts a job that fetches the missing parts of each file. Complete files cost nothing, so an interrupted list \
                      can simply be sent again.",
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
        summary: "List of jobs",
        description: "Newest first. Ended jobs are listed until there are too many of them or the server stops.",
        result: Some(SchemaGenerator::subschema_for::<JobList>),
        ..PLAIN
    },
    Operation {
        id: OperationId::GetJob,
        path: "/api/v1/jobs/{id}",
        summary: "Progress of a job",
        parameters: &[JOB_ID],
        result: Some(SchemaGenerator::subschema_for::<Job>),
        problems: &[ProblemKind::NoSuchJob],
        ..PLAIN
    },
    Operation {
        id: OperationId::CancelJob,
        method: "DELETE",
        path: "/api/v1/jobs/{id}",
        summary: "Cancel a job, or remove an ended one from the list",
        description: "Work already done is kept.",
        parameters: &[JOB_ID],
        status: 204,
        problems: &[ProblemKind::NoSuchJob],
        ..PLAIN
    },
    Operation {
        id: OperationId::Drain,
        method: "POST",
        path: "/api/v1/drain",
        summary: "Stop accepting new work",
        description: "`/readyz` fails, new connections are closed, and opens are refused such that clients of a redirector use \
                      another server. Open files are served until they are closed. Lasts until undone or until the server \
                      stops.",
        result: Some(SchemaGenerator::subschema_for::<Drain>),
        ..PLAIN
    },
    Operation {
        id: OperationId::Undrain,
        method: "DELETE",
        path: "/api/v1/drain",
        summary: "Accept new work again",
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
    fn operations_are_unique_and_have_a_summary() {
        let names: BTreeSet<_> = OPERATIONS.iter().map(|operation| operation.id.name()).collect();
        let places: BTreeSet<_> = OPERATIONS.iter().map(|operation| (operation.method, operation.path)).collect();
        assert_eq!((names.len(), places.len()), (OPERATIONS.len(), OPERATIONS.len()));
        for operation in OPERATIONS {
            assert!(operation.path.starts_with(API_PREFIX), "{}", operation.path);
            assert!(!operation.summary.is_empty(), "{}", operation.path);
        }
    }

    #[test]
    fn the_variable_of_a_path_is_declared_and_comes_last() {
        for Operation { path, parameters, .. } in OPERATIONS {
            let declared = parameters.iter().find(|parameter| parameter.place == ParameterPlace::Path);
            let written = path.split_once('{').map(|(_, name)| name);
            assert_eq!(written, declared.map(|parameter| format!("{}}}", parameter.name)).as_deref(), "{path}");
        }
    }
}
