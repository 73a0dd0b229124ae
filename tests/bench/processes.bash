# Sourced by the benches that run real processes: simulated replicas, weir, and the load. Bash 4 or later, jq.
#
# The caller sets `programs` (the directory of weir and weir-lab). Sets `dir`, a directory of its own under TMPDIR; it
# stays, for its logs. All that was started ends with the script, by process id. Listens on loopback only.

name=${0##*/}
dir=$(mktemp -d "${TMPDIR:-/tmp}/weir-$name.XXXXXX")
started=()   # Process ids, the last started first.
replicas=()  # The settings of the replicas that run.

fail() {
  printf '%s: %s\n' "$name" "$1" >&2
  [[ -n ${2:-} && -s $2 ]] && tail -n 20 "$2" >&2
  exit 1
}

alive() { kill -0 "$1" 2>/dev/null; }

# stop PID: sends TERM, again after 3 s, and KILL after 6 s.
stop() {
  local tries
  for tries in {1..60}; do
    alive "$1" || break
    if ((tries == 1 || tries == 30)); then kill -TERM "$1" 2>/dev/null || true; fi
    if ((tries == 60)); then kill -KILL "$1" 2>/dev/null || true; fi
    sleep 0.1
  done
  wait "$1" 2>/dev/null || true
}

stop_all() {
  local pid
  for pid in "${started[@]}"; do stop "$pid"; done
  started=()
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start LOG COMMAND...: runs it in the background; its id is then ${started[0]}.
start() {
  local log=$1
  shift
  : >"$log"
  "$@" </dev/null >"$log" 2>&1 &
  started=("$!" "${started[@]}")
}

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
  local replica=$1 url='' tries
  shift
  start "$dir/$replica.out" "$programs/weir-lab" sim --listen 127.0.0.1:0 --model sim-7b --log "$dir/$replica.truth.jsonl" "$@"
  for tries in {1..100}; do
    url=$(sed -n 's/.*listening on //p' "$dir/$replica.out")
    [[ -n $url ]] && break
    alive "${started[0]}" || break
    sleep 0.1
  done
  [[ -n $url ]] || fail "the simulated replica $replica did not start ($tries tries)" "$dir/$replica.out"
  replicas+=("$(printf '\n  [[pool.replica]]\n  name = "%s"\n  url = "%s"\n' "$replica" "$url")")
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Sets $port to one that nobody listens on, below those that the system hands out.
free_port() {
  local tries
  for tries in {1..200}; do
    port=$((20000 + RANDOM % 10000))
    listens "$port" || return 0
  done
  fail "found no free port in $tries tries"
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

# Prints what a figure has to be read with: the machine and how busy it was.
machine() {
  local load
  read -r load _ </proc/loadavg
  printf '%s CPUs (%s), load average %s, %s\n' "$(nproc)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$load" "$(date +%F)"
}
