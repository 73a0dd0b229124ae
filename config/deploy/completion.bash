# Completion of weir's and weir-lab's command lines in bash. For every shell from the next one on:
#   install -D -m 644 config/deploy/completion.bash /usr/share/bash-completion/completions/weir
#   ln -sf weir /usr/share/bash-completion/completions/weir-lab
# Without root the folder is ~/.local/share/bash-completion/completions. For one shell: source config/deploy/completion.bash
#
# The words are asked of the program itself, by --help, so that they are always its own.

_weir() {
  local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} asked help type words i
  # bash splits --config=FILE into three words.
  [[ $option == '=' ]] && option=${COMP_WORDS[COMP_CWORD - 2]}
  [[ $word == '=' ]] && word=
  COMPREPLY=()

  # A command may have commands of its own.
  asked=("${COMP_WORDS[0]/#\~\//$HOME/}")
  help=$("${asked[@]}" --help 2>/dev/null) || return
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ $help == *$'\nSubcommands:\n'* ]] || break
    [[ ${COMP_WORDS[i]} != -* ]] || continue
    asked+=("${COMP_WORDS[i]}")
    help=$("${asked[@]}" --help 2>/dev/null) || return
    [[ $help == *"Usage: "*" ${asked[-1]} "* ]] || return # No command of this name.
  done

  # An option's line is "  -c,--config TEXT ...". The word behind its names is the kind of its value, if it takes one.
  type=$(awk -v option="$option" '{ n = split($1, names, ",") } { for (i = 1; i <= n; ++i) if (names[i] == option) print $2 }' <<<"$help")
  case $type in
    TEXT:{*}*)
      words=${type#*\{}
      words=${words%%\}*}
      mapfile -t COMPREPLY < <(compgen -W "${words//,/ }" -- "$word")
      return
      ;;
    TEXT* | FILE*)
      compopt -o filenames 2>/dev/null
      if [[ $option == -c || $option == --config ]]; then
        mapfile -t COMPREPLY < <(compgen -f -X '!*.toml' -- "$word"; compgen -d -- "$word")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
      fi
      return
      ;;
    UINT* | INT* | FLOAT* | ENUM* | ADDRESS* | NAME* | TIME* | SHARE* | WORDS* | LOW-HIGH*) return ;;
  esac

  # The replicas of the weir on this machine, if its admin listener answers.
  if [[ $word != -* && ${asked[1]-} == @(drain|undrain) ]]; then
    words=$("${asked[0]}" status --json 2>/dev/null | grep -o '"role":"primary","name":"[^"]*"' | cut -d '"' -f 8)
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    return
  fi
  if [[ $word != -* && $help == *$'\nPositionals:\n'*" FILE"* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  if [[ $word == -* || $help != *$'\nSubcommands:\n'* ]]; then
    words=$(sed -n 's/^  \(-[a-zA-Z],\)\{0,1\}\(--[a-z-]*\).*/\2/p' <<<"$help")
  else
    words=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' <<<"$help")
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _weir weir weir-lab
