# Sourced by the scripts here, which are called as tests/scripts/NAME BUILD_DIR: goes to the root of the tree, and sets
# $build, $failed, and $dir, a directory that goes at the end with all that was started.

script=${0##*/}
build=$(realpath "${1:?"tests/scripts/$script: which BUILD_DIR has weir and weir-lab?"}")
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d "${TMPDIR:-/tmp}/weir-$script.XXXXXX")
source scripts/processes.bash
programs=$build
trap 'stop_all; rm -rf "$dir"' EXIT
failed=0

# wrong SENTENCE: the script goes on, and fails at its end.
wrong() {
  printf '%s: %s\n' "$script" "$1"
  failed=1
}
