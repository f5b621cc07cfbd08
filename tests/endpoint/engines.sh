#!/usr/bin/env bash
# The DynamoDB engines that the endpoint tests compare with.  None is part of this
# repository (DynamoDB Local's licence forbids it): they are fetched by their package
# managers into a cache, run on a free loopback port, and ended by the tests.
#   engines.sh fetch              fetch what is missing (ESP_ENGINES=none: nothing)
#   engines.sh have NAME          exit 0 when NAME can be started
#   engines.sh run NAME PORT      become the engine
# NAME: dynoxide | dynamodb-local
set -euo pipefail

dynoxide_version=1.2.1
dynamodb_local_version=2.6.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/espalier/engines
dynoxide=$cache/dynoxide-$dynoxide_version
local_dir=$cache/dynamodb-local-$dynamodb_local_version

# fetch_into DIR COMMAND...: run it in a scratch folder that becomes DIR only when it is whole.
fetch_into() {
    local dir=$1 scratch log
    shift
    [ -d "$dir" ] && return 0
    mkdir -p "$cache"
    scratch=$(mktemp -d "$cache/fetch.XXXXXX")
    log=$scratch.log
    for try in 1 2 3; do
        if (cd "$scratch" && "$@") >"$log" 2>&1; then
            mv -T "$scratch" "$dir" 2>/dev/null || rm -rf "$scratch"
            rm -f "$log"
            return 0
        fi
        sleep $((try * 2))
    done
    tail -n 5 "$log" >&2
    rm -rf "$scratch" "$log"
    return 1
}

fetch_dynoxide() {
    npm pack --silent "@dynoxide/linux-x64@$dynoxide_version" &&
        tar xzf dynoxide-linux-x64-*.tgz --strip-components=1 && chmod +x dynoxide && ./dynoxide --version
}

fetch_dynamodb_local() {
    cat >pom.xml <<EOF
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>espalier</groupId><artifactId>engines</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>com.amazonaws</groupId><artifactId>DynamoDBLocal</artifactId>
    <version>$dynamodb_local_version</version>
  </dependency></dependencies>
</project>
EOF
    mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib -DincludeScope=runtime
    [ -f "lib/DynamoDBLocal-$dynamodb_local_version.jar" ]
}

case "${1:-}" in
fetch)
    [ "${ESP_ENGINES:-all}" = none ] && exit 0
    for engine in dynoxide dynamodb_local; do
        dir=$dynoxide
        [ $engine = dynamodb_local ] && dir=$local_dir
        if [ ! -d "$dir" ]; then
            echo "Fetching ${engine//_/-} for the endpoint tests"
        fi
        fetch_into "$dir" fetch_$engine ||
            echo "WARNING: ${engine//_/-} could not be fetched: its endpoint tests will be skipped" >&2
    done
    ;;
have)
    [ "${ESP_ENGINES:-all}" = none ] && exit 1
    case "$2" in
    dynoxide) [ -x "$dynoxide/dynoxide" ] ;;
    dynamodb-local) [ -d "$local_dir/lib" ] && command -v java >/dev/null ;;
    *) exit 2 ;;
    esac
    ;;
run)
    case "$2" in
    dynoxide) exec "$dynoxide/dynoxide" --port "$3" ;;
    dynamodb-local)
        exec java -Xmx768m -Djava.library.path="$local_dir/lib" -cp "$local_dir/lib/*" \
            com.amazonaws.services.dynamodbv2.local.main.ServerRunner \
            -inMemory -sharedDb -disableTelemetry -port "$3"
        ;;
    *) exit 2 ;;
    esac
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
