#compdef weir weir-lab
# Completion of weir's and weir-lab's command lines in zsh: as _weir in a folder of $fpath. The words are asked of the
# program itself, by --help, so that they are always its own.

_weir() {
  local help type option=${words[CURRENT - 1]}
  local -a asked commands options values
  integer i
  asked=("${(Q)words[1]}")
  help=$("${asked[@]}" --help 2>/dev/null) || return 1
  for ((i = 2; i < CURRENT; ++i)); do
    [[ $help == *$'\nSubcommands:\n'* ]] || break
    [[ ${words[i]} != -* ]] || continue
    asked+=("${words[i]}")
    help=$("${asked[@]}" --help 2>/dev/null) || return 1
  done

  if [[ $option == -* ]]; then
    # An option's line is "  -c,--config TEXT ...". The word behind its names is the kind of its value, if it takes one.
    type=$(awk -v option="$option" '{ n = split($1, names, ",") } { for (i = 1; i <= n; ++i) if (names[i] == option) print $2 }' <<<"$help")
    case $type in
      TEXT:{*}*)
        type=${type#*\{}
        values=(${(s:,:)${type%%\}*}})
        compadd -a values
        return
        ;;
      TEXT* | FILE*) _files; return ;;
      UINT* | INT* | FLOAT* | ENUM* | ADDRESS* | NAME* | TIME* | SHARE* | WORDS* | LOW-HIGH*) return 1 ;;
    esac
  fi

  if [[ ${words[CURRENT]} != -* && $help == *$'\nSubcommands:\n'* ]]; then
    commands=(${(f)"$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\)  *\(.*\)/\1:\2/p' <<<"$help")"})
    _describe command commands
    return
  fi
  options=(${(f)"$(sed -n 's/^  \(-[a-zA-Z],\)\{0,1\}\(--[a-z-]*\).*/\2/p' <<<"$help")"})
  [[ ${words[CURRENT]} == -* ]] || _files
  compadd -a options
}

_weir "$@"
