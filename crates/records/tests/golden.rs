//! The text of records is pinned: dashboards, queries and importers depend on names and forms.

use forebay_records::{
    CacheUse, Client, DataNames, Decision, Event, FIELDS, Kind, REASON_LEN_MAX, Reads, Record, Server, Times,
    field_table, index_template,
};
use serde_json::Value;
use std::collections::BTreeSet;

fn server() -> Server {
    let text = str::to_owned;
    Server { site: text("LAB"), host: text("cache1.example"), instance: text("forebay"), version: text("1.2.3") }
}

fn client() -> Client<'static> {
    Client {
        user: "ann \"x\"\n",
        host: "192.0.2.7",
        domain: "192.0.2.0/24",
        address: "192.0.2.7".parse().ok(),
        organization: Some("cms"),
        program: "cmsRun",
        protocol: "xroot",
    }
}

fn names() -> DataNames {
    DataNames::new("/DYto2L/Run3-v2/MINIAODSIM".to_owned(), "MINIAODSIM".to_owned())
}

fn reads() -> Reads {
    Reads {
        single_bytes: 1000,
        vector_bytes: 500,
        operations: 3,
        vector_operations: 1,
        vector_elements: 7,
        hit: 1200,
        missed: 200,
        coalesced: 60,
        bypassed: 40,
    }
}

fn used() -> CacheUse {
    CacheUse {
        fetched: 70_000,
        written: 65_536,
        prefetched: 30_000,
        wasted: 1,
        accesses: 2,
        since_last_use_s: Some(3600),
        block_size: 65_536,
        blocks: 16,
        blocks_done: 4,
        remotes: vec!["o1.example:1094".to_owned(), "o2.example:1094".to_owned()],
    }
}

fn text(record: &Record<'_>) -> String {
    let mut out = Vec::new();
    record.write_json(&mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn close<'a>(server: &'a Server, names: &'a DataNames) -> Record<'a> {
    Record {
        id: "ab-17",
        event: Event::Close,
        server,
        times: Times { start: 1_700_000_000_000, end: 1_700_000_002_500 },
        client: client(),
        lfn: "/store/mc/Run3/DYto2L/MINIAODSIM/v2/0/f.root",
        names,
        size: Some(1 << 20),
        origin: Some("o1.example:1094"),
        target: None,
        status: "ok",
        reason: None,
        reads: Some(reads()),
        decision: Some(Decision::Cache),
        cache: Some(used()),
    }
}

#[test]
fn a_close_has_the_names_of_collectors() {
    let expected = concat!(
        r#"{"record_id":"ab-17","@timestamp":1700000002500,"event":"close","start_time":1700000000000,"#,
        r#""end_time":1700000002500,"operation_time":2.500,"server_site":"LAB","server_host":"cache1.example","#,
        r#""instance":"forebay","version":"1.2.3","user":"ann \"x\"\n","vo":"cms","client_host":"192.0.2.7","#,
        r#""client_domain":"192.0.2.0/24","client_ip":"192.0.2.7","ipv6":false,"protocol":"xroot","appinfo":"cmsRun","#,
        r#""file_lfn":"/store/mc/Run3/DYto2L/MINIAODSIM/v2/0/f.root","file_size":1048576,"#,
        r#""dataset":"/DYto2L/Run3-v2/MINIAODSIM","tier":"MINIAODSIM","primary":"DYto2L","campaign":"Run3","#,
        r#""origin":"o1.example:1094","status":"ok","decision":"cache","read_bytes":1500,"read_single_bytes":1000,"#,
        r#""read_vector_bytes":500,"read_operations":4,"read_single_operations":3,"read_vector_operations":1,"#,
        r#""read_vector_count":7,"bytes_hit_cache":1200,"bytes_miss_cache":200,"bytes_coalesced":60,"#,
        r#""bytes_bypass_cache":40,"throughput":600.000,"bytes_read_by_remote":70000,"bytes_to_disk":65536,"#,
        r#""bytes_by_prefetch":30000,"bytes_wasted":1,"access_count":2,"first_access":false,"since_last_use_s":3600,"#,
        r#""block_size":65536,"blocks":16,"blocks_done":4,"remotes":["o1.example:1094","o2.example:1094"]}"#,
    );
    assert_eq!(text(&close(&server(), &names())), expected);
}

#[test]
fn a_refusal_has_no_reads_and_a_short_reason() {
    let (server, names) = (server(), DataNames::new("/d".to_owned(), "unknown".to_owned()));
    let long = "é".repeat(REASON_LEN_MAX);
    let record = Record {
        event: Event::Refused,
        size: None,
        origin: None,
        status: "denied",
        reason: Some(&long),
        reads: None,
        decision: None,
        cache: None,
        client: Client { organization: None, address: None, ..client() },
        ..close(&server, &names)
    };
    let value: Value = serde_json::from_str(&text(&record)).unwrap();
    assert_eq!(value["reason"].as_str().unwrap().len(), REASON_LEN_MAX);
    assert_eq!((&value["status"], &value["event"]), (&"denied".into(), &"refused".into()));
    for absent in ["read_bytes", "file_size", "vo", "client_ip", "ipv6", "origin", "target", "primary", "blocks"] {
        assert!(value.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn each_field_is_declared_with_its_type() {
    let (server, names) = (server(), names());
    let record = Record { target: Some("t"), reason: Some("r"), ..close(&server, &names) };
    let written: Value = serde_json::from_str(&text(&record)).unwrap();
    let written = written.as_object().unwrap();
    let declared: BTreeSet<&str> = FIELDS.iter().map(|field| field.name).collect();
    assert_eq!(written.keys().map(String::as_str).collect::<BTreeSet<_>>(), declared);
    assert_eq!(declared.len(), FIELDS.len(), "no name is declared twice");
    let line = text(&record);
    let places: Vec<_> = FIELDS.iter().map(|field| line.find(&format!("\"{}\":", field.name)).unwrap()).collect();
    assert!(places.is_sorted(), "in the order of the declaration");
    for field in FIELDS {
        let value = &written[field.name];
        let is_right = match field.kind {
            Kind::Time | Kind::Count => value.is_u64(),
            Kind::Name | Kind::Text | Kind::Address => value.is_string(),
            Kind::Names => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            Kind::Float => value.is_f64(),
            Kind::Flag => value.is_boolean(),
        };
        assert!(is_right, "{} is {value}", field.name);
    }
}

#[test]
fn numbers_beyond_those_of_receivers_are_their_largest() {
    let (server, names) = (server(), names());
    let record = Record { size: Some(u64::MAX), ..close(&server, &names) };
    assert!(text(&record).contains("\"file_size\":9223372036854775807,"));
}

/// `ACCEPT=1` writes the table.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test compares a document")]
fn the_document_lists_each_field() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records.md");
    let text = std::fs::read_to_string(path).unwrap();
    let start = text.find("| field | type |").expect("the document has the table");
    let end = text[start..].find("\n\n").map_or(text.len(), |len| start + len + 1);
    let table = field_table();
    if std::env::var_os("ACCEPT").is_some() {
        std::fs::write(path, [&text[..start], &table, &text[end..]].concat()).unwrap();
        return;
    }
    assert_eq!(&text[start..end], table, "docs/records.md is old: ACCEPT=1 cargo test -p forebay-records writes it");
}

/// `ACCEPT=1` writes the templates.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test compares files of the deployment")]
fn the_stored_templates_are_fresh() {
    for (file, is_stream) in [("index-template.json", true), ("index-template-daily.json", false)] {
        let path = format!("{}/../../deploy/opensearch/{file}", env!("CARGO_MANIFEST_DIR"));
        let template = index_template("forebay-accesses", is_stream);
        if std::env::var_os("ACCEPT").is_some() {
            std::fs::write(&path, &template).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap();
        assert_eq!(stored, template, "{file} is old: ACCEPT=1 cargo test -p forebay-records writes it");
    }
}
