//! A call of the API: which operation, with what.

use crate::{
    operation::{OPERATIONS, Operation, ParameterPlace},
    problem::{Problem, ProblemKind},
};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt, str::FromStr};

/// A call of an operation. What it is called with is as written: not yet understood, but no parameter is unknown.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) operation: &'static Operation,
    /// The path's variable part, decoded.
    variable: String,
    query: BTreeMap<String, String>,
    body: Bytes,
}

/// What a method and a path lead to.
pub(crate) enum Routed {
    /// To an operation; the text is the path's variable part, as written.
    Operation(&'static Operation, String),
    /// The path has these methods.
    OtherMethods(Vec<&'static str>),
    Nowhere,
}

/// Finds the operation of a method and a path.
pub(crate) fn route(method: &str, path: &str) -> Routed {
    let of_path: Vec<_> =
        OPERATIONS.iter().filter_map(|operation| Some((operation, variable_part(operation.path, path)?))).collect();
    // A path without a variable part goes before one that has one.
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

/// Length of a template's part before its variable one.
fn fixed_len(template: &str) -> usize {
    template.find('{').unwrap_or(usize::MAX)
}

/// What stands in place of the variable part of `template` in `path`; the empty text when it has none, `None` when they do
/// not match. A variable part is the last one, and may hold slashes.
fn variable_part<'a>(template: &str, path: &'a str) -> Option<&'a str> {
    match template.split_once('{') {
        None => (template == path).then_some(""),
        Some((fixed, _)) => path.strip_prefix(fixed).filter(|variable| !variable.is_empty()),
    }
}

impl Call {
    /// A call as it was received. `query` is the part of the URL behind the `?`.
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
            let is_known = operation
                .parameters
                .iter()
                .any(|parameter| parameter.place == ParameterPlace::Query && parameter.name == name);
            if !is_known {
                return Err(Problem::invalid(format_args!("there is no parameter `{}`", name.escape_debug())));
            }
            if values.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(Problem::invalid(format_args!("the parameter `{name}` is written twice")));
            }
        }
        Ok(Self { operation, variable, query: values, body })
    }

    /// The path's variable part.
    pub(crate) fn variable(&self) -> &str {
        &self.variable
    }

    /// A parameter, when it is written.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A parameter as a number or the like, when it is written.
    pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &str| {
            text.parse().map_err(|error| Problem::invalid(format_args!("the parameter `{name}`: {error}")))
        };
        self.text(name).map(parse).transpose()
    }

    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Problem::new(ProblemKind::Invalid, format_args!("the body: {error}")))
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
    fn paths_lead_to_their_operation_with_the_part_that_varies() {
        assert_eq!(routed("GET", "/api/v1/status"), Some((OperationId::Status, String::new())));
        assert_eq!(routed("GET", "/api/v1/jobs"), Some((OperationId::ListJobs, String::new())));
        assert_eq!(routed("DELETE", "/api/v1/jobs/1-2"), Some((OperationId::CancelJob, "1-2".to_owned())));
    }

    #[test]
    fn other_methods_are_told_and_other_paths_lead_nowhere() {
        let Routed::OtherMethods(methods) = route("PATCH", "/api/v1/drain") else { panic!("routed") };
        assert_eq!(methods, ["POST", "DELETE"]);
        for path in ["/api/v1", "/api/v1/", "/api/v1/statu", "/api/v1/status/", "/api/v1/jobs/", "/api/v2/status"] {
            assert!(matches!(route("GET", path), Routed::Nowhere), "{path}");
        }
    }

    #[test]
    fn parameters_that_are_unknown_or_written_twice_are_refused() {
        let Routed::Operation(operation, _) = route("GET", "/api/v1/status") else { panic!("not routed") };
        let call = |query| Call::new(operation, "", query, Bytes::new());
        assert!(call("").is_ok());
        assert!(call("limit=1").is_err());
        assert!(Call::new(operation, "%ff", "", Bytes::new()).is_err());
    }
}
