#!/usr/bin/env bash
# Builds a binary for glibc 2.28 and newer with OpenSSL in it: build-portable.sh OUTPUT. Needs perl, make, and in the PATH
# cargo-zigbuild with zig, which `pip install -r deploy/package/requirements.txt` brings.
set -euo pipefail
output=$(realpath --canonicalize-missing "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(uname -m)-unknown-linux-gnu
directory=${CARGO_TARGET_DIR:-target/portable}
# Paths of this machine would be in messages of panics, and differ between two builds.
export RUSTFLAGS="--remap-path-prefix=$PWD=/forebay --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
# So would those in OpenSSL.
export OPENSSL_SRC_PERL=$PWD/deploy/package/openssl-perl.sh
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
cargo zigbuild --locked --release --target "$target.2.28" --target-dir "$directory" --features bundled-openssl --package forebay
deploy/package/check-symbols.sh "$directory/$target/release/forebay"
install -D --mode=755 "$directory/$target/release/forebay" "$output"
