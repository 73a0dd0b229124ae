# Figures of runs, for the tables of the benches.

# A quantile; between two values it is interpolated.
def q(p): sort | (p * (length - 1)) as $at | ($at | floor) as $low
  | .[$low] + ($at - $low) * (.[[$low + 1, length - 1] | min] - .[$low]);
def median: map(select(. != null)) | if length == 0 then null else q(0.5) end;
def rounded(digits): . * pow(10; digits) | round / pow(10; digits) + 0;
def shown(digits): if . == null then "-" else rounded(digits) | tostring end;
def row: "| " + (map(tostring) | join(" | ")) + " |";
# The values of f, in the order of their first run.
def distinct(f): reduce .[] as $run ([]; if index($run | f) then . else . + [$run | f] end);
# For each run, what `f` makes of it and of the run of another proxy in the same round; null where there is none.
def beside(other; f): . as $runs | map(. as $run | [$runs[] | select(.proxy == other and .round == $run.round)][0] as $other
  | if $other then [$run, $other] | f else null end);
