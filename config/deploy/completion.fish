# Completion of weir's and weir-lab's command lines in fish. It is read as ~/.config/fish/completions/weir.fish, and once
# more as weir-lab.fish. The words are asked of the program itself, by --help, so that they are always its own.

function __weir_help
    set -l words (commandline -opc)
    set -l asked $words[1]
    set -l help ($asked --help 2>/dev/null)
    or return
    for word in $words[2..-1]
        string match -q 'Subcommands:' -- $help; or break
        string match -q -- '-*' $word; and continue
        set asked $asked $word
        set help ($asked --help 2>/dev/null)
        or return
    end
    printf '%s\n' $help
end

function __weir_words
    set -l help (__weir_help)
    # A command is a line of the section of commands, an option a line that begins with a hyphen.
    printf '%s\n' $help | awk '/^[^ ].*:$/ { commands = $0 == "Subcommands:" } commands && /^  [a-z]/ { name = $1; $1 = ""; print name "\t" substr($0, 2) }'
    # Only what was begun with a hyphen is an option.
    string match -q -- '-*' (commandline -ct); or return
    printf '%s\n' $help | awk 'match($0, /^  (-[a-zA-Z],)?--[a-z-]+/) { n = split(substr($0, 3, RLENGTH - 2), names, ","); print names[n] }'
end

function __weir_values
    set -l option (commandline -opc)[-1]
    string match -q -- '-*' $option; or return
    __weir_help | awk -v option=$option '{ n = split($1, names, ",") } { for (i = 1; i <= n; ++i) if (names[i] == option && $2 ~ /^TEXT:\{.*\}/) { words = $2; sub(/^TEXT:\{/, "", words); sub(/\}.*/, "", words); gsub(/,/, "\n", words); print words } }'
end

for program in weir weir-lab
    complete -c $program -a '(__weir_values)'
    complete -c $program -a '(__weir_words)'
    # fish offers files by itself: not where a command stands, nor where an option takes one of some words.
    complete -c $program -f -n '__weir_help | string match -q Subcommands: || test -n "$(__weir_values)"'
end
