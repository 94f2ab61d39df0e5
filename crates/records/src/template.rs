//! The index template of OpenSearch and Elasticsearch.

use crate::{FIELDS, Kind};
use serde_json::{Map, Value, json};

/// Longest name that is indexed, in characters.
const NAME_LEN_MAX: u32 = 1024;

/// The template of the data stream `name`, or of daily indices whose names begin with it, as the body of `PUT _index_template/NAME`.
#[must_use]
pub fn index_template(name: &str, is_stream: bool) -> String {
    let properties: Map<String, Value> =
        FIELDS.iter().map(|field| (field.name.to_owned(), mapping(field.kind))).collect();
    let mut template = json!({
        "index_patterns": [if is_stream { name.to_owned() } else { format!("{name}-*") }],
        "priority": 200,
        "template": {
            "settings": {
                "number_of_shards": 1,
                "number_of_replicas": 0,
                "codec": "best_compression",
                "refresh_interval": "30s",
            },
            "mappings": { "dynamic": false, "properties": properties },
        },
        "_meta": { "description": "Records of accesses of Forebay" },
    });
    if is_stream && let Some(template) = template.as_object_mut() {
        template.insert("data_stream".to_owned(), json!({}));
    }
    let text = serde_json::to_string_pretty(&template).unwrap_or_default();
    text + "\n"
}

fn mapping(kind: Kind) -> Value {
    match kind {
        Kind::Time => json!({ "type": "date", "format": "epoch_millis" }),
        Kind::Name | Kind::Names => json!({ "type": "keyword", "ignore_above": NAME_LEN_MAX }),
        Kind::Text => json!({ "type": "text" }),
        Kind::Count => json!({ "type": "long" }),
        Kind::Float => json!({ "type": "float" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Address => json!({ "type": "ip", "ignore_malformed": true }),
    }
}
