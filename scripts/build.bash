# The scripts that build source this file. It shows the progress of a long build, also without a terminal, and what went
# wrong.

# show_progress: reads ninja's output; writes a line for each tenth of a long build, and what compilers complain of.
show_progress() {
  local line made all shown=0 begin=$SECONDS
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]' ' ]]; then
      made=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
      # A few steps are done soon and need no lines.
      if ((all >= 20 && made * 10 / all > shown)); then
        shown=$((made * 10 / all))
        printf '   %d of %d steps, %d s\n' "$made" "$all" $((SECONDS - begin))
      fi
    elif [[ $line =~ FAILED|error|warning|check-rooms ]]; then
      printf '%s\n' "$line"
    fi
  done
}

# configure PRESET [OPTION...]: says nothing but errors.
configure() { cmake --preset "$@" >/dev/null; }

# compile PRESET [TARGET...]: writes every line to standard output; its reader shows what matters.
compile() {
  local preset=$1
  shift
  NINJA_STATUS='[%f/%t] %e s ' cmake --build --preset "$preset" -j "$(nproc)" ${@:+--target "$@"} 2>&1
}
