# Facts that all packages share; to be read by `.` in the root of the repository.
# shellcheck shell=bash disable=SC2034
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
summary="disk-caching proxy for high-energy physics data"
description="Clients read files of distant origins through it. Blocks that were read once
are served from its disk. Directories of an XCache can be taken over."
# The same input gives the same package: every time in it is that of the commit; modes, order and texts do not depend on the user.
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# Packs a directory without facts of this machine: pack PARENT NAME OUTPUT.
pack() {
    tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -C "$1" -c "$2" |
        xz --threads=1 -3 >"$3"
}
