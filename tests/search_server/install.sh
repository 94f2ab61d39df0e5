#!/usr/bin/env bash
# Installs OpenSearch and Elasticsearch 7 for tests, from Maven's registry: jars in DIRECTORY/NAME/lib, one class in DIRECTORY/NAME/classes.
# Elasticsearch is under its own licence: it is run by tests, and never shipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=$1

install_server() {
    local name=$1 group=$2 version=$3 log4j=$4
    local target="$directory/$name"
    rm -rf "$target"
    mkdir -p "$target/classes"
    cat >"$target/pom.xml" <<EOF
<project><modelVersion>4.0.0</modelVersion><groupId>forebay</groupId><artifactId>$name</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>
<dependency><groupId>$group</groupId><artifactId>$name</artifactId><version>$version</version></dependency>
<dependency><groupId>$group.plugin</groupId><artifactId>transport-netty4-client</artifactId><version>$version</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>$log4j</version></dependency>
</dependencies></project>
EOF
    (cd "$target" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib)
    sed "s/PACKAGE/$group/" "$here/OneNode.java" >"$target/OneNode.java"
    javac -cp "$target/lib/*" -d "$target/classes" "$target/OneNode.java"
}

install_server opensearch org.opensearch 2.19.1 2.21.0 &
first=$!
install_server elasticsearch org.elasticsearch 7.17.28 2.17.1
wait "$first"
touch "$directory/.installed"
