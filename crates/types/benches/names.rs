//! What an open costs before anything is looked up: the path and its opaque data.

use divan::black_box;
use forebay_types::{Lfn, RequestPath};

fn main() {
    divan::main();
}

const PATH: &str =
    "/store/mc/RunIISummer20UL18/TTJets/NANOAODSIM/106X_v16-v1/120000/0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9.root";
const CGI: &str = "?xrd.wantprot=unix&authz=token&oss.asize=2147483648&pelican.cache=only-if-cached";

#[divan::bench]
fn parse_name() -> Option<Lfn> {
    Lfn::parse(black_box(PATH)).ok()
}

#[divan::bench]
fn parse_path_with_cgi(bencher: divan::Bencher<'_, '_>) {
    let payload = format!("{PATH}{CGI}");
    bencher.bench(|| RequestPath::parse(black_box(payload.as_bytes())));
}

#[divan::bench]
fn find_cgi_value(bencher: divan::Bencher<'_, '_>) {
    let path = RequestPath::parse(format!("{PATH}{CGI}").as_bytes()).expect("the path is good");
    bencher.bench(|| path.cgi_value(black_box("pelican.cache")).is_some());
}
