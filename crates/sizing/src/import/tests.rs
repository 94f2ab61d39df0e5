//! Tests of the import of records.

use super::*;
use crate::requests::Action;
use forebay_cache::{Access as Period, ChecksumState, Geometry};
use forebay_records::{Client, DataNames, Event, Reads, Record, Server, Times};
use proptest::prelude::*;

fn read(lines: &[&str]) -> Result<Accesses, Problem> {
    let mut import = Import::default();
    import.begin();
    lines.iter().try_for_each(|line| import.line(line.as_bytes()))?;
    Ok(import.finish())
}

/// Path, size, user, time, bytes read and saved of each access.
fn rows(accesses: &Accesses) -> Vec<(String, u64, String, i64, u64, u64)> {
    let row = |access: &Access| {
        let file = &accesses.files()[access.file as usize];
        let user = accesses.users()[access.user as usize].clone();
        (file.key.to_string(), file.size, user, access.at_ms, access.read, access.saved)
    };
    accesses.list().iter().map(row).collect()
}

fn one(line: &str) -> (String, u64, String, i64, u64, u64) {
    rows(&read(&[line]).unwrap()).remove(0)
}

/// A record as servers write it.
fn record(event: Event, size: Option<u64>, reads: Option<Reads>) -> String {
    let (server, names) = (Server::default(), DataNames::default());
    let times = Times { start: 1_700_000_000_000, end: 1_700_000_009_500 };
    let client = Client { user: "ann", ..Client::default() };
    let (id, lfn, status, target) = ("h-1-1", "/store/a", "ok", Some("o:1094"));
    let (origin, reason, decision, cache) = (None, None, None, None);
    let server = &server;
    let names = &names;
    let record = Record {
        id,
        event,
        server,
        times,
        client,
        lfn,
        names,
        size,
        origin,
        target,
        status,
        reason,
        reads,
        decision,
        cache,
    };
    let mut out = Vec::new();
    record.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn records_of_servers_are_read() {
    let reads =
        Reads { single_bytes: 30, vector_bytes: 5, hit: 10, missed: 20, coalesced: 4, bypassed: 1, ..Reads::default() };
    let row = |read, saved| ("/store/a".to_owned(), 50, "ann".to_owned(), 1_700_000_009_500, read, saved);
    assert_eq!(one(&record(Event::Close, Some(50), Some(reads))), row(35, 10));
    // The bytes that a client reads elsewhere are not known: the whole file, at most.
    assert_eq!(one(&record(Event::Redirect, Some(50), None)), row(50, Access::UNKNOWN));
    assert_eq!(one(&record(Event::Direct, Some(50), None)), row(50, Access::UNKNOWN));
    let mut import = Import::default();
    import.begin();
    for event in [Event::Redirect, Event::Refused, Event::Failed] {
        import.line(record(event, None, None).as_bytes()).unwrap();
    }
    assert_eq!(import.other_lines, 3);
    assert!(import.finish().list().is_empty());
}

#[test]
fn each_dialect_is_read() {
    let of =
        |path: &str, size, user: &str, at_ms, read, saved| (path.to_owned(), size, user.to_owned(), at_ms, read, saved);
    let log = r#"{"timestamp":"2023-11-14T22:13:20.1Z","level":"INFO","message":"closed","who":"ann@wn1","lfn":"/store/a","origin":"",
        "hit_bytes":7,"missed_bytes":2,"coalesced_bytes":1,"bypassed_bytes":4,"duration_ms":3,"opens":1}"#.replace('\n', "");
    assert_eq!(one(&log), of("/store/a", 14, "ann", 1_700_000_000_100, 14, 7));
    let event = r#"{"event":"file_close","lfn":"/a","size":50,"access_cnt":1,"attach_t":1700000000,"detach_t":1700000009,"remotes":["o:1"],
        "b_hit":10,"b_miss":20,"b_bypass":5,"b_todisk":20}"#.replace('\n', "");
    assert_eq!(one(&event), of("/a", 50, "", 1_700_000_009_000, 35, 10));
    let collector =
        r#"{"file_lfn":"/store/a","file_size":50,"read_bytes":30,"start_time":1700000000,"end_time":1700000060,
        "user_dn":"/DC=ch/CN=ann","site_name":"T2_X","read_bytes_at_close":9,"ipv6":true}"#
            .replace('\n', "");
    assert_eq!(one(&collector), of("/store/a", 50, "/DC=ch/CN=ann", 1_700_000_060_000, 30, Access::UNKNOWN));
    let exported = format!(r#"{{"_index":"x","_source":{collector}}}"#);
    assert_eq!(one(&exported), one(&collector));
    let forwarded = r#"{"time":1,"path":"/root://O.example//store/a","size":5}"#;
    assert_eq!(one(forwarded), of("/root:/o.example:1094/store/a", 5, "", 1000, 5, Access::UNKNOWN));
    assert_eq!(one(r#"{"time":1.5,"path":"root://o//store//a?x=y","size":5}"#).0, "/store/a");
    assert_eq!(
        one(r#"{"time":1.5,"path":"user.ann:f","size":null,"read":"5"}"#),
        of("/user.ann:f", 5, "", 1500, 5, u64::MAX)
    );
}

#[test]
fn a_trace_gives_an_access_for_each_close() {
    let lines = [
        r#"{"e":"open","t":1700000000000001,"f":17,"path":"/store/f.root","size":262,"user":"ann","peer":"[::1]:4","pid":7,"app":"x"}"#,
        r#"{"e":"read","t":1700000000000412,"f":17,"o":0,"n":300,"r":"missed","us":8211}"#,
        r#"{"e":"readv","t":1700000000012034,"f":17,"v":[[2600000,4096]],"r":"hit","us":61}"#,
        r#"{"e":"close","t":1700000000019001,"f":17,"hit":46,"missed":30,"coalesced":1,"bypassed":2}"#,
    ];
    let row = ("/store/f.root".to_owned(), 262, "ann".to_owned(), 1_700_000_000_019, 79, 46);
    assert_eq!(rows(&read(&lines).unwrap()), [row]);
    assert_eq!(read(&lines[3..]).unwrap_err(), Problem::TraceOpen(17));
    assert!(read(&lines).unwrap().requests().is_empty());
    let mut import = Import::with_requests();
    import.begin();
    lines.iter().for_each(|line| import.line(line.as_bytes()).unwrap());
    assert_eq!(import.line(lines[1].as_bytes()), Err(Problem::TraceOpen(17)), "it is closed");
    let accesses = import.finish();
    let ranges = |action| if let Action::Read(ranges) = action { ranges.to_vec() } else { Vec::new() };
    let requests: Vec<_> =
        accesses.requests().iter().map(|(request, action)| (request.at_us, ranges(action))).collect();
    assert_eq!(
        requests,
        [
            (1_700_000_000_000_001, vec![]),
            (1_700_000_000_000_412, vec![ByteRange::at(0, 300)]),
            (1_700_000_000_012_034, vec![ByteRange::at(2_600_000, 4096)]),
            (1_700_000_000_019_001, vec![]),
        ]
    );
}

#[test]
fn csv_is_read_by_its_first_line() {
    let lines = [
        "time,path,size,read,hit,missed,user",
        "",
        "3,/b,10,4,1,3,eve",
        "2,/a,9,,,,",
        "2023-11-14,\"/a,b\",9,4,,,x\r\n",
    ];
    let got = rows(&read(&lines).unwrap());
    assert_eq!(got[0], ("/a".to_owned(), 9, String::new(), 2000, 9, Access::UNKNOWN));
    assert_eq!(got[1], ("/b".to_owned(), 10, "eve".to_owned(), 3000, 4, 1));
    assert_eq!((got[2].0.as_str(), got[2].5), ("/a,b", Access::UNKNOWN));
}

#[test]
fn a_bad_record_is_refused_with_its_reason() {
    for (lines, reason) in [
        (&["when,what", "1,2"][..], "among them `time` and `path`; it has when, what"),
        (&["time,path", "1"], "1 columns where the first line has 2"),
        (&["time,path,size", "x,/a,1"], "time is Text(\"x\"): write seconds"),
        (&["time,path,size", "1,/a,-5"], "size is Text(\"-5\"): write a number of bytes"),
        (&["time,path", "1,/a"], "no bytes read: it is expected in one of read"),
        (&["time,path,size", "1,/a/../b,1"], "cannot be the name of a cached file: path with a .. component"),
        (&["time,path,size", "1,/a.cinfo,1"], "a component of the name ends in .cinfo"),
        (&["time,path,size", "1,/,1"], "the root directory"),
        (&["{\"time\":1}"], "no path: it is expected in one of path, lfn"),
        (&["{\"path\":\"/a\",\"size\":1}"], "no time"),
        (&["{\"time\":1"], "not a JSON object: EOF"),
        (&["{\"time\":{}}"], "time is an object"),
        (&["{\"time\":1,\"path\":\"/a\",\"size\":18446744073709551615}"], "a number is too large"),
        (&["{\"time\":1,\"path\":\"/a\",\"size\":1e30}"], "size is Number(1e30)"),
        (&["{\"e\":\"close\",\"t\":1}"], "no number of the open"),
    ] {
        let problem = read(lines).unwrap_err().to_string();
        assert!(problem.contains(reason), "{lines:?}: {problem}");
    }
    assert_eq!(Import::default().line(&[0xff]), Err(Problem::Encoding));
    let mut import = Import::default();
    import.line(b"{\"message\":\"open refused\",\"lfn\":\"/a\"}").unwrap();
    assert_eq!((import.other_lines, import.finish().list().len()), (1, 0));
}

#[test]
fn merged_periods_of_a_cinfo_count_as_many_times() {
    let mut cinfo = Cinfo::new(Geometry::new(4096, 100).unwrap(), 5, ChecksumState::None);
    let merged =
        Period { attached: 10, detached: Some(30), merged: 1, hit_bytes: 40, missed_bytes: 60, ..Period::default() };
    cinfo.accesses = vec![merged, Period { attached: 50, missed_bytes: 9, bypassed_bytes: 1, ..Period::default() }];
    let mut import = Import::default();
    import.cinfo("store/a", &cinfo).unwrap();
    let rows: Vec<_> = rows(&import.finish()).into_iter().map(|row| (row.1, row.3, row.4, row.5)).collect();
    assert_eq!(rows, [(100, 20_000, 50, 20), (100, 30_000, 50, 20), (100, 50_000, 10, 0)]);
}

proptest! {
    #[test]
    fn no_line_panics(
        lines in prop::collection::vec(
            prop_oneof![
                any::<Vec<u8>>(),
                "[-{}\"a-z0-9:,.TZ/ ]{0,60}".prop_map(String::into_bytes),
                ("(time|t|end_time|@timestamp)", any::<i64>(), "(/[a-z.:/]{0,9}|root://o//a)", any::<i64>()).prop_map(
                    |(time, at, path, size)| format!(r#"{{"{time}":{at},"path":"{path}","size":{size}}}"#).into_bytes()
                ),
                ("(open|read|readv|close)", any::<i64>(), 0..3_i64, "(\\[|\\[\\[1,2\\]\\]|\\[\\[1,-2\\]\\]|7)").prop_map(|(event, at, open, ranges)| {
                    format!(r#"{{"e":"{event}","t":{at},"f":{open},"path":"/a","o":{at},"n":{at},"v":{ranges}}}"#).into_bytes()
                }),
            ],
            0..20,
        ),
    ) {
        for mut import in [Import::default(), Import::with_requests()] {
            import.begin();
            for line in &lines {
                let _ = import.line(line);
            }
            let accesses = import.finish();
            prop_assert!(accesses.list().is_sorted_by(|a, b| a.at_ms < b.at_ms));
        }
    }
}
