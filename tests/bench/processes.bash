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

# run_load LOG ARGUMENTS...: runs a load and waits for it, so that a signal to this script ends it too.
run_load() {
  local status=0 log=$1
  shift
  start "$log" "$programs/weir-lab" load "$@"
  wait "${started[0]}" || status=$?
  started=("${started[@]:1}")
  ((status == 0)) || fail 'the load failed' "$log"
}

# replica NAME SIM-ARGUMENTS...: starts it, on a port that the system chooses.
replica() {
  sim "$@"
  replicas+=("$(printf '\n  [[pool.replica]]\n  name = "%s"\n  url = "%s"\n' "$1" "$sim_url")")
}

# start_weir RUN POLICY CLOCK: starts weir in front of the replicas; its request log is DIR/RUN.jsonl. Sets $url.
start_weir() {
  local tries
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
  for tries in {1..100}; do
    listens "$port" && return 0
    alive "$weir_pid" || break
    sleep 0.1
  done
  fail "weir did not listen ($tries tries)" "$dir/$1.out"
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
