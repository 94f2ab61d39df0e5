//! The API description in OpenAPI 3.1.

use crate::{
    answer::{PROBLEM_PREFIX, PROBLEM_TYPE},
    model::ProblemDocument,
    operation::{OPERATIONS, Operation, PROBLEMS_OF_ALL, PROBLEMS_OF_BODIES, Parameter},
    problem::ProblemKind,
};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const DESCRIPTION: &str = "Administration of a Forebay cache. Over TCP every call requires the token in `admin.token_file`. On \
    the unix socket of `admin.socket` the kernel identifies the caller, and no token is needed. Times are seconds of the Unix \
    epoch, sizes are bytes. Errors are problem documents (RFC 9457).";

/// The document: pretty JSON that ends with a newline.
#[must_use]
pub fn document() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut schemas = settings.into_generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in OPERATIONS {
        let description = describe(operation, &mut schemas);
        paths.entry(operation.path).or_default().insert(operation.method.to_ascii_lowercase(), description);
    }
    let mut definitions = schemas.take_definitions(true);
    if let Some(kind) = definitions.get_mut("Problem").and_then(|problem| problem.pointer_mut("/properties/type")) {
        let names: Vec<_> = ProblemKind::ALL.iter().map(|kind| format!("{PROBLEM_PREFIX}{}", kind.as_str())).collect();
        kind["enum"] = json!(names);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Forebay administration",
            "version": "1",
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "The content of `admin.token_file`." },
            },
            "schemas": definitions,
        },
    });
    format!("{document:#}\n")
}

fn describe(operation: &Operation, schemas: &mut SchemaGenerator) -> Value {
    let mut lines = operation.doc.iter().map(|line| line.trim());
    let mut description = json!({
        "operationId": operation.id.name(),
        "summary": lines.next(),
        "responses": responses(operation, schemas),
    });
    let Some(object) = description.as_object_mut() else { return description };
    if operation.doc.len() > 1 {
        object.insert("description".to_owned(), json!(lines.collect::<Vec<_>>().join(" ")));
    }
    if !operation.parameters.is_empty() {
        let parameters: Vec<Value> = operation.parameters.iter().map(describe_parameter).collect();
        object.insert("parameters".to_owned(), json!(parameters));
    }
    if let Some(body) = operation.body {
        let content = json!({ "application/json": { "schema": body(schemas) } });
        object.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
    }
    description
}

fn describe_parameter(parameter: &Parameter) -> Value {
    let schema: Value = serde_json::from_str(parameter.schema).unwrap_or_default();
    json!({
        "name": parameter.name,
        "in": if parameter.is_in_path { "path" } else { "query" },
        "required": parameter.is_required,
        "description": parameter.description,
        "schema": schema,
        "example": serde_json::from_str(parameter.example).unwrap_or_else(|_| json!(parameter.example)),
    })
}

fn responses(operation: &Operation, schemas: &mut SchemaGenerator) -> Value {
    let mut responses: BTreeMap<String, Value> = BTreeMap::new();
    let mut success = json!({ "description": "Done." });
    if let (Some(result), Some(object)) = (operation.result, success.as_object_mut()) {
        object.insert("content".to_owned(), json!({ "application/json": { "schema": result(schemas) } }));
    }
    responses.insert(operation.status.to_string(), success);
    let mut by_status: BTreeMap<u16, Vec<ProblemKind>> = BTreeMap::new();
    let of_body = if operation.body.is_some() { &PROBLEMS_OF_BODIES[..] } else { &[] };
    for kind in PROBLEMS_OF_ALL.iter().chain(of_body).chain(operation.problems).chain(&[ProblemKind::Method]) {
        by_status.entry(kind.status().as_u16()).or_default().push(*kind);
    }
    for (status, kinds) in by_status {
        let texts: Vec<_> = kinds.iter().map(|kind| format!("{} (`{}`)", kind.title(), kind.as_str())).collect();
        let schema = schemas.subschema_for::<ProblemDocument>();
        let response = json!({
            "description": format!("{}.", texts.join(", or ")),
            "content": { PROBLEM_TYPE: { "schema": schema } },
        });
        responses.insert(status.to_string(), response);
    }
    if !operation.parameters.is_empty() {
        responses.insert("414".to_owned(), json!({ "description": "The path and parameters are too long. No body." }));
        responses.insert("431".to_owned(), json!({ "description": "The head of the request is too long. No body." }));
    }
    json!(responses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_stored_document_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        if std::env::var_os("ACCEPT").is_some() {
            std::fs::write(&path, document()).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(stored, document(), "run ACCEPT=1 cargo test -p forebay-admin --lib openapi");
    }

    #[test]
    fn every_reference_has_its_schema() {
        let document: Value = serde_json::from_str(&document()).unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        assert!(text.contains("#/components/schemas/Job"));
    }

    #[test]
    fn parameters_have_a_schema_and_an_example() {
        for parameter in OPERATIONS.iter().flat_map(|operation| operation.parameters) {
            let schema: Value = serde_json::from_str(parameter.schema).unwrap();
            assert!(schema.is_object() && !parameter.example.is_empty(), "{}", parameter.name);
        }
    }
}
