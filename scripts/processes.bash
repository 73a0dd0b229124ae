# Sourced by scripts/demo, by tests/scripts and by the benches (tests/bench/processes.bash): starts simulated replicas, weir
# and loads, and ends all of them by process id.
#
# Uses $dir, a directory for settings, logs and reports. Everything listens on loopback only.

programs=${programs:-build/release}
started=() # Process ids, the last started first.
taken=" "  # These ports have been given out.

fail() {
  progress
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  if [[ -n ${2:-} && -s $2 ]]; then
    printf '%s: the end of %s:\n' "${0##*/}" "$2" >&2
    tail -n 20 "$2" >&2
  fi
  exit 1
}

# progress [TEXT]: shows a line that the next one overwrites, on a terminal only.
progress() {
  [[ -t 2 ]] || return 0
  printf '\r\033[K%s' "${1:-}" >&2
}

alive() { kill -0 "$1" 2>/dev/null; }

# stop PID...: asks all of them to end, asks again after 3 s (weir drains on the first TERM and stops on the second),
# and kills after 6 s.
stop() {
  local pid tries left
  for tries in {0..120}; do
    left=()
    for pid in "$@"; do
      alive "$pid" || continue
      left+=("$pid")
      if ((tries == 0 || tries == 60)); then kill -TERM "$pid" 2>/dev/null || true; fi
      if ((tries == 120)); then kill -KILL "$pid" 2>/dev/null || true; fi
    done
    ((${#left[@]})) || break
    sleep 0.05
  done
  for pid in "$@"; do wait "$pid" 2>/dev/null || true; done
}

stop_all() {
  stop ${started[@]+"${started[@]}"}
  started=()
}

# start LOG COMMAND...: runs the command in the background, with its output in LOG. Its process id is then
# ${started[0]}.
start() {
  local log=$1
  shift
  : >"$log"
  "$@" </dev/null >"$log" 2>&1 &
  started=("$!" ${started[@]+"${started[@]}"})
}

# start_apart NAME PROGRAM...: starts a program with its output in DIR/NAME.out, in a session of its own, so that Ctrl-C
# reaches this script alone.
start_apart() {
  local name=$1
  shift
  start "$dir/$name.out" setsid "$@"
}

# forget PID: drops a process that has ended and been waited for, because its number may become another's.
forget() {
  local pid kept=()
  for pid in "${started[@]}"; do [[ $pid == "$1" ]] || kept+=("$pid"); done
  started=(${kept[@]+"${kept[@]}"})
}

# pass MILLISECONDS TEXT: waits in short steps, so that a signal does not wait.
pass() {
  local end=$((${EPOCHREALTIME/./} + $1 * 1000)) begin=$SECONDS
  while ((${EPOCHREALTIME/./} < end)); do
    progress "$2: $((SECONDS - begin)) s"
    sleep 0.05
  done
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Sets $port to one that nobody listens on; the range lies below those the system hands out.
free_port() {
  local tries
  for tries in {1..200}; do
    port=$((20000 + RANDOM % 10000))
    if [[ $taken != *" $port "* ]] && ! listens "$port"; then
      taken+="$port "
      return
    fi
  done
  fail "found no free port between 20000 and 29999 in $tries tries"
}

# sim NAME OPTIONS...: starts a simulated replica. Sets $sim_url and $sim_pid.
sim() {
  local name=$1 tries
  shift
  start_apart "$name" "$programs/weir-lab" sim --listen 127.0.0.1:0 --model sim-7b --log "$dir/$name.truth.jsonl" "$@"
  sim_pid=${started[0]}
  sim_url=
  for tries in {1..100}; do
    sim_url=$(sed -n 's/.*listening on //p' "$dir/$name.out")
    [[ -n $sim_url ]] && return
    alive "$sim_pid" || break
    sleep 0.05
  done
  fail "the simulated replica $name did not start ($tries tries)" "$dir/$name.out"
}

# settings RUN POLICY: begins DIR/RUN.toml, in which replicas follow. Sets $url, $metrics and $admin.
settings() {
  local ports=()
  for _ in 1 2 3; do
    free_port
    ports+=("$port")
  done
  url=http://127.0.0.1:${ports[0]} metrics=http://127.0.0.1:${ports[1]} admin=http://127.0.0.1:${ports[2]}
  cat >"$dir/$1.toml" <<SETTINGS
[server]
listen = ["127.0.0.1:${ports[0]}"]
[metrics]
listen = "127.0.0.1:${ports[1]}"
[admin]
listen = "127.0.0.1:${ports[2]}"
[log]
requests = "$dir/$1.requests.jsonl"
[limits]
drain_delay = 0

[[pool]]
name = "demo"
policy = "$2"
SETTINGS
}

# behind RUN NAME URL CONFIG: adds a replica to those settings.
behind() {
  printf '\n  [[pool.replica]]\n  name = "%s"\n  url = "%s"\n  config = "%s"\n' "$2" "$3" "$4" >>"$dir/$1.toml"
}

# twin RUN NAME OF REPLICA URL CONFIG [LINE...]: adds a shadow to those settings, which gets all that replica OF of the pool gets.
twin() {
  printf '\n[[shadow]]\nname = "%s"\nof = "demo"\ntwin = "%s"\n' "$2" "$3" >>"$dir/$1.toml"
  printf '%s\n' "${@:7}" >>"$dir/$1.toml"
  printf '  [[shadow.replica]]\n  name = "%s"\n  url = "%s"\n  config = "%s"\n' "${@:4:3}" >>"$dir/$1.toml"
}

# get URL: prints the body of a good answer, and fails after any other.
get() { curl -sf --max-time 5 "$1"; }

# start_weir RUN: starts weir with DIR/RUN.toml, whose settings were the last. Sets $weir_pid.
start_weir() {
  local tries
  start_apart "$1.weir" "$programs/weir" serve --config "$dir/$1.toml"
  weir_pid=${started[0]}
  for tries in {1..200}; do
    get "$metrics/-/ready" >/dev/null && return
    alive "$weir_pid" || break
    sleep 0.05
  done
  fail "weir did not become ready ($tries tries)" "$dir/$1.weir.out"
}

# load NAME URL OPTIONS...: starts a load in the background; its report is DIR/NAME.json. Adds it to $loads.
loads=()
load() {
  local name=$1 to=$2
  shift 2
  start_apart "$name.load" "$programs/weir-lab" load --url "$to" --json "$dir/$name.json" --log "$dir/$name.jsonl" "$@"
  loads+=("${started[0]} $name")
}

# wait_loads TEXT: waits until all of them have ended; fails where one has measured nothing.
wait_loads() {
  local begin=$SECONDS entry pid name
  for entry in "${loads[@]}"; do
    pid=${entry%% *} name=${entry#* }
    while alive "$pid"; do
      progress "$1: $((SECONDS - begin)) s"
      sleep 0.1
    done
    wait "$pid" || fail 'the load failed' "$dir/$name.load.out"
    forget "$pid"
  done
  progress
  loads=()
}
