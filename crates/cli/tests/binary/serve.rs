//! `forebay serve`: ready line, signals, reload, and a cache from end to end.

use crate::program::{Served, command, run, stderr, stdout};
use rustix::process::Signal;
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

fn get_bytes(url: &str) -> Vec<u8> {
    let output = run(["get", "-q", "-o", "-", url]);
    assert!(output.status.success(), "{}", stderr(&output));
    output.stdout
}

/// The body of an HTTP resource of the admin listener.
fn http(url: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: admin\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_free_port_is_picked_and_announced() {
    let data = tempfile::tempdir().unwrap();
    let served = Served::start([
        "--listen".as_ref(),
        "127.0.0.1:0".as_ref(),
        "--admin-listen".as_ref(),
        "127.0.0.1:0".as_ref(),
        "--export-dir".as_ref(),
        data.path().as_os_str(),
    ]);
    assert!(served.url.starts_with("root://127.0.0.1:") && !served.url.ends_with(":0"), "{}", served.url);
    let admin = served.admin.clone().unwrap();
    assert!(http(&admin, "/readyz").starts_with("HTTP/1.1 200 "));
    assert!(http(&admin, "/metrics").ends_with("# EOF\n"));
    let (status, rest) = served.stop();
    assert_eq!((status.code(), rest.as_str()), (Some(0), ""));
}

#[test]
fn a_file_read_twice_comes_from_the_origin_once() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, store) = (scratch.path().join("data"), scratch.path().join("store"));
    fs::create_dir(&data).unwrap();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(data.join("f"), &content).unwrap();
    let origin = Served::export(&data);
    let cache = Served::start([
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--origin",
        &origin.url,
        "--store",
        store.to_str().unwrap(),
        "--budget",
        "1GiB",
    ]);
    for _ in 0..2 {
        assert!(get_bytes(&format!("{}//f", cache.url)) == content);
    }
    let metrics = http(cache.admin.as_ref().unwrap(), "/metrics");
    for outcome in ["hit", "missed"] {
        let line = format!("forebay_client_bytes_total{{outcome=\"{outcome}\"}} 1200000\n");
        assert!(metrics.contains(&line), "{line} not in {metrics}");
    }
    assert_eq!(cache.stop().0.code(), Some(0));
    let inspected = stdout(&command(["inspect"]).arg(store.join("f")).output().unwrap());
    assert!(inspected.contains("state      complete"), "{inspected}");
}

#[test]
fn one_store_serves_one_process() {
    let store = tempfile::tempdir().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--origin", "root://127.0.0.1:1", "--store", store.path().to_str().unwrap()];
    let _first = Served::start(args);
    let second = command(["serve"]).args(args).output().unwrap();
    assert_eq!(second.status.code(), Some(1), "it may be right when tried again");
    assert!(stderr(&second).contains("--store: another forebay process uses this store"), "{}", stderr(&second));
}

#[test]
fn interrupts_stop_the_server_too() {
    let data = tempfile::tempdir().unwrap();
    let mut served = Served::export(data.path());
    served.signal(Signal::INT);
    served.wait_for_log("stopped");
    assert_eq!(served.stop_status(), Some(0));
}

#[test]
fn a_reload_changes_exports_and_a_broken_file_changes_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| {
        let directory = scratch.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("f"), name).unwrap();
        directory
    });
    let file = scratch.path().join("forebay.toml");
    let write = |directory: &std::path::Path, more: &str| {
        let text = format!("[server]\nlisten = [\"127.0.0.1:0\"]\n{more}\n[[export]]\ndirectory = {directory:?}\n");
        fs::write(&file, text).unwrap();
    };
    write(&one, "");
    let mut served = Served::start(["--config".as_ref(), file.as_os_str()]);
    let url = format!("{}//f", served.url);
    assert_eq!(get_bytes(&url), b"one");

    write(&two, "site_name = \"a b\"");
    served.signal(Signal::HUP);
    let problem = served.wait_for_log("not reloaded");
    assert!(problem.contains("forebay.toml:3:13: "), "{problem}");
    assert_eq!(get_bytes(&url), b"one");

    write(&two, "connections_max = 7");
    served.signal(Signal::HUP);
    served.wait_for_log("configuration reloaded");
    let warning = served.wait_for_log("at the next start only");
    assert!(warning.contains("server.connections_max"), "{warning}");
    assert_eq!(get_bytes(&url), b"two");
    assert_eq!(served.stop().0.code(), Some(0));
}
