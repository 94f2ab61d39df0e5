//! A server that is draining: what is open goes on, nothing new begins, and it can be undone.

use crate::site::{Site, open, read, run};
use forebay_proto::{ErrorCode, OpenOptions};

#[test]
fn opens_are_refused_and_open_files_are_served() {
    run(async {
        let site = Site::of_files().await;
        site.put("f", &[7; 5000]);
        let mut peer = site.login().await;
        let handle = peer.open("/f").await;
        site.readiness.set_draining();
        assert_eq!(peer.error(open("/f", OpenOptions::READ)).await, ErrorCode::OVERLOADED);
        assert_eq!(peer.call(read(handle, 0, 5000)).await.unwrap(), [7; 5000]);
        site.readiness.set_ready();
        peer.open("/f").await;
    });
}

#[test]
fn new_connections_are_told_to_try_another_server() {
    run(async {
        let site = Site::of_files().await;
        site.put("f", &[7; 5000]);
        site.readiness.set_draining();
        let mut peer = site.login().await;
        assert_eq!(peer.error(open("/f", OpenOptions::READ)).await, ErrorCode::OVERLOADED);
    });
}
