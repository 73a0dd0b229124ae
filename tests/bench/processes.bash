# Sourced by the benches that run real processes: simulated replicas, weir, and the load. Bash 4 or later, jq.
#
# The caller sets `programs` (the directory of weir and weir-lab). Sets `dir`, a directory of its own under TMPDIR; it
# stays, for its logs. All that was started ends with the script, by process id. Listens on loopback only.

dir=$(mktemp -d "${TMPDIR:-/tmp}/weir-${0##*/}.XXXXXX")
source scripts/processes.bash
replicas=() # The settings of the replicas that run.

trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# run_to_end LOG FAILURE PROGRAM...: runs a program and waits for it, so that a signal to this script ends it too.
run_to_end() {
  local status=0 log=$1 failure=$2
  shift 2
  start "$log" "$@"
  wait "${started[0]}" || status=$?
  started=("${started[@]:1}")
  ((status == 0)) || fail "$failure" "$log"
}

# run_load LOG ARGUMENTS...: runs a load to its end.
run_load() { run_to_end "$1" 'the load failed' "$programs/weir-lab" load "${@:2}"; }

# start_listener LOG PROGRAM...: starts a program that says on which port it listens. Sets $listener to it.
start_listener() {
  local tries
  start "$@"
  for tries in {1..50}; do
    listener=$(sed -n 's/.*127.0.0.1:\([0-9]*\)$/\1/p' "$1")
    [[ -n $listener ]] && return
    sleep 0.1
  done
  fail "a program that listens did not start ($tries tries)" "$1"
}

# await NAME LOG PORT...: waits until the process that was started last listens on all of these ports.
await() {
  local tries at all name=$1 log=$2
  shift 2
  for tries in {1..100}; do
    all=1
    for at in "$@"; do listens "$at" || all=0; done
    ((all)) && return
    alive "${started[0]}" || break
    sleep 0.1
  done
  fail "$name did not listen ($tries tries)" "$log"
}

# descriptors COUNT WHAT: allows this script as many descriptors as there may be; fails if COUNT are more.
descriptors() {
  (($1 <= $(ulimit -Hn))) || fail "$2 need more descriptors than the system allows ($(ulimit -Hn))"
  ulimit -n "$(ulimit -Hn)"
}

# stop_down_to COUNT: ends what was started last, one by one, until COUNT processes are left.
stop_down_to() {
  while ((${#started[@]} > $1)); do
    stop "${started[0]}"
    started=("${started[@]:1}")
  done
}

# one_replica RUN LOG CLOCK REPLICA_PORT [LINE...]: writes DIR/RUN.toml for a weir of one thread before one replica; the lines
# follow its listener. Sets $port and $metrics.
one_replica() {
  free_port
  metrics=$port
  free_port
  {
    printf '[server]\nlisten = ["127.0.0.1:%s"]\nthreads = 1\n' "$port"
    (($# < 5)) || printf '%s\n' "${@:5}"
    printf '[metrics]\nlisten = "127.0.0.1:%s"\n[admin]\nlisten = ""\n[log]\nrequests = "%s"\nlevel = "error"\n' "$metrics" "$2"
    printf '[limits]\ndrain_delay = 0\n[measure]\nclock = "%s"\n[[pool]]\nname = "bench"\n' "$3"
    printf '[[pool.replica]]\nname = "replica"\nurl = "http://127.0.0.1:%s"\n' "$4"
  } >"$dir/$1.toml"
}

# replica NAME SIM-ARGUMENTS...: starts it, on a port that the system chooses.
replica() {
  sim "$@"
  replicas+=("$(printf '\n  [[pool.replica]]\n  name = "%s"\n  url = "%s"\n' "$1" "$sim_url")")
}

# start_weir RUN POLICY CLOCK: starts weir in front of the replicas; its request log is DIR/RUN.jsonl. Sets $url.
start_weir() {
  free_port
  url=http://127.0.0.1:$port
  {
    printf '[server]\nlisten = "127.0.0.1:%s"\n[metrics]\nlisten = ""\n[admin]\nlisten = ""\n' "$port"
    printf '[log]\nrequests = "%s"\nlevel = "warning"\n[limits]\ndrain_delay = 0\n' "$dir/$1.jsonl"
    printf '[measure]\nclock = "%s"\n\n[[pool]]\nname = "bench"\npolicy = "%s"\n' "$3" "$2"
    printf '%s\n' "${replicas[@]}"
  } >"$dir/$1.toml"
  start "$dir/$1.out" "$programs/weir" serve --config "$dir/$1.toml"
  weir_pid=${started[0]}
  await weir "$dir/$1.out" "$port"
}

# Ends weir, so that its request log is whole.
stop_weir() {
  stop "$weir_pid"
  started=("${started[@]:1}")
}

# Prints the machine and how busy it was, which a reader of the figures needs.
machine() {
  local load
  read -r load _ </proc/loadavg
  printf '%s CPUs (%s), load average %s, %s\n' "$(nproc)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$load" "$(date +%F)"
}
