#!/usr/bin/env bash
# Formatting, house rules, clippy and tests of the crates whose files differ from a commit: quick.sh [BASE]. Crates that
# depend on them are left to `make test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:-HEAD}

changed() {
    git diff --name-only "$base"
    git ls-files --others --exclude-standard
}
packages=()
while IFS= read -r folder; do
    [[ -f $folder/Cargo.toml ]] || continue
    packages+=(-p "$(sed -n 's/^name = "\(.*\)"$/\1/p' "$folder/Cargo.toml" | head -n 1)")
done < <(changed | sed -nE 's#^(crates/[^/]+|bench|xtask)/.*\.(rs|toml)$#\1#p' | sort -u)

cargo fmt --all --check
cargo xtask tidy
if ((${#packages[@]} == 0)); then
    echo "no crate differs from $base"
    exit 0
fi
tests/install-tools.sh --build-only
echo "crates that differ from $base: ${packages[*]//-p/}"
cargo clippy --locked --all-targets "${packages[@]}" -- -D warnings
cargo test --locked "${packages[@]}"
