//! A call of the API: routing and parameters.

use crate::{
    operation::{OPERATIONS, Operation},
    problem::{Problem, ProblemKind},
};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Longest body of a request in bytes.
pub const BODY_LEN_MAX: usize = 4 << 20;

/// A call of an operation. Parameters are known but not parsed yet.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) operation: &'static Operation,
    /// The variable part of the path, decoded.
    pub(crate) variable: String,
    query: BTreeMap<String, String>,
    body: Bytes,
}

/// The target of a method and a path.
pub(crate) enum Routed {
    /// The text is the variable part of the path, still encoded.
    Operation(&'static Operation, String),
    OtherMethods(Vec<&'static str>),
    Nowhere,
}

/// Finds the operation of a method and a path.
pub(crate) fn route(method: &str, path: &str) -> Routed {
    let of_path: Vec<_> =
        OPERATIONS.iter().filter_map(|operation| Some((operation, variable_part(operation.path, path)?))).collect();
    // A path without a variable part takes precedence over one with it.
    let Some(longest) = of_path.iter().map(|(operation, _)| fixed_len(operation.path)).max() else {
        return Routed::Nowhere;
    };
    let mut of_path: Vec<_> =
        of_path.into_iter().filter(|(operation, _)| fixed_len(operation.path) == longest).collect();
    match of_path.iter().position(|(operation, _)| operation.method == method) {
        Some(index) => {
            let (operation, variable) = of_path.swap_remove(index);
            Routed::Operation(operation, variable.to_owned())
        }
        None => Routed::OtherMethods(of_path.iter().map(|(operation, _)| operation.method).collect()),
    }
}

/// Length of the part of a template before its variable.
fn fixed_len(template: &str) -> usize {
    template.find('{').unwrap_or(usize::MAX)
}

/// The value of the variable of `template` in `path`; empty if it has none, `None` if they do not match. The variable is the
/// last part and may contain slashes.
fn variable_part<'a>(template: &str, path: &'a str) -> Option<&'a str> {
    match template.split_once('{') {
        None => (template == path).then_some(""),
        Some((fixed, _)) => path.strip_prefix(fixed).filter(|variable| !variable.is_empty()),
    }
}

impl Call {
    pub(crate) fn new(
        operation: &'static Operation,
        variable: &str,
        query: &str,
        body: Bytes,
    ) -> Result<Self, Problem> {
        let variable = percent_decode_str(variable)
            .decode_utf8()
            .map_err(|_| Problem::invalid("the path is not UTF-8"))?
            .into_owned();
        let mut values = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !operation.parameters.iter().any(|known| !known.is_in_path && known.name == name) {
                return Err(Problem::invalid(format_args!("unknown parameter `{}`", name.escape_debug())));
            }
            if values.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(Problem::invalid(format_args!("duplicate parameter `{name}`")));
            }
        }
        Ok(Self { operation, variable, query: values, body })
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        let parse =
            |text: &str| text.parse().map_err(|error| Problem::invalid(format_args!("parameter `{name}`: {error}")));
        self.text(name).map(parse).transpose()
    }

    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Problem::new(ProblemKind::Invalid, format_args!("invalid body: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::OperationId;

    fn routed(method: &str, path: &str) -> Option<(OperationId, String)> {
        match route(method, path) {
            Routed::Operation(operation, variable) => Some((operation.id, variable)),
            _ => None,
        }
    }

    #[test]
    fn paths_lead_to_their_operation_with_its_variable() {
        assert_eq!(routed("GET", "/api/v1/status"), Some((OperationId::Status, String::new())));
        assert_eq!(routed("GET", "/api/v1/jobs"), Some((OperationId::ListJobs, String::new())));
        assert_eq!(routed("DELETE", "/api/v1/jobs/1-2"), Some((OperationId::CancelJob, "1-2".to_owned())));
    }

    #[test]
    fn allowed_methods_are_listed_and_unknown_paths_lead_nowhere() {
        let Routed::OtherMethods(methods) = route("PATCH", "/api/v1/drain") else { panic!("routed") };
        assert_eq!(methods, ["POST", "DELETE"]);
        for path in ["/api/v1", "/api/v1/", "/api/v1/statu", "/api/v1/status/", "/api/v1/jobs/", "/api/v2/status"] {
            assert!(matches!(route("GET", path), Routed::Nowhere), "{path}");
        }
    }

    #[test]
    fn unknown_and_duplicate_parameters_are_refused() {
        let Routed::Operation(operation, _) = route("GET", "/api/v1/status") else { panic!("not routed") };
        let call = |query| Call::new(operation, "", query, Bytes::new());
        assert!(call("").is_ok());
        assert!(call("limit=1").is_err());
        assert!(Call::new(operation, "%ff", "", Bytes::new()).is_err());
    }
}
