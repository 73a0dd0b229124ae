# The tables that tests/bench/experiments prints, made of its reports. Each function takes the list of
# the reports of one experiment, in the order of their names, and gives the lines of its table.

# Writes three digits as the commands do, or "-".
def figure:
  if . == null then "-" elif . == 0 then "0"
  else (fabs | log10 | floor) as $power
    | if $power >= 2 then round else pow(10; 2 - $power) as $unit | . * $unit | round / $unit end
  end | tostring;
def ms: if . == null then "-" else . * 1e3 | figure end;
def decimals($n): if . == null then "-" else pow(10; $n) as $unit | (. * $unit | round) as $whole
  | ($whole / $unit | floor | tostring) + (if $n > 0 then "." + (($whole % $unit) + $unit | tostring | .[1:]) else "" end) end;
def row: "| " + (map(tostring) | join(" | ")) + " |";
def head($names; $left): ($names | row), ($names | to_entries | map(if .key < $left then "---" else "---:" end) | "|" + join("|") + "|");
# Of [name, report] lists, gives the lines that `cells` makes of each.
def lines(cells): .[] | .[0] as $name | .[1] | [$name] + cells | row;
def list: map(tostring) | join(", ");
def spread($factor): if . == null then "-" elif .least == .most then .median * $factor | figure
  else "\(.median * $factor | figure) (\(.least * $factor | figure) to \(.most * $factor | figure))" end;
def own_delays: [.. | objects | select(.own_delay? != null)] | length
  | if . > 0 then "\n\(.) of these loads found the tool itself too slow." else empty end;

def llmperf:
  head(["card", "requests a minute", "TTFT", "LLMPerf's ITL", "weir's ITL", "weir's TPOT", "E2E", "output tokens/s", "cost of 1000 requests"]; 1),
  lines([(.requests_per_minute | decimals(1)), (.ttft_s.p50 | ms), (.llmperf.itl_s.p50 | ms), (.itl_s.p50 | ms), (.tpot_s.p50 | ms),
    (.e2e_s.p50 | ms), (.output_tokens_per_second | figure), (.llmperf.cost_per_1000_requests | decimals(3))]);

def at($numbers; value): [.sweep[] | select(.concurrency as $n | $numbers | index($n)) | value] | list;
def sweep:
  head(["simulated card", "knee of decode", "mean time a token at 1, 32, 64, 128 at once, ms", "output tokens/s at the same", "knee of prefill",
    "batch prefill at 8, 32, 128 at once, s"]; 1),
  lines([.knee.decode // "-", at([1, 32, 64, 128]; .decode.latency_s.mean | ms), at([1, 32, 64, 128]; .decode.tokens_per_second | figure),
    .knee.prefill // "-", at([8, 32, 128]; .prefill.batch_s | figure)]),
  own_delays;

def sweep_of_one:
  head(["at once", "TTFT: mean, p50, p90, ms", "prompt tokens/s", "time a token: mean, p50, p90, ms", "output tokens/s"]; 0),
  (.[0][1] | (.sweep[] | [.concurrency, ([.prefill.latency_s | .mean, .p50, .p90 | ms] | list), (.prefill.tokens_per_second | figure),
    ([.decode.latency_s | .mean, .p50, .p90 | ms] | list), (.decode.tokens_per_second | figure)] | row),
    "\nThe knee of prefill is at \(.knee.prefill // "-"), that of decode at \(.knee.decode // "-")."),
  own_delays;

def users:
  head(["users"] + (map(.[0]) | map("\(.): output tokens/s", "E2E p50, s", "TTFT p95, s", "met")); 0),
  (map(.[1].users) | transpose[] | [.[0].users] + (map([(.output_tokens_per_second | figure), (.e2e_s.p50 | figure), (.ttft_s.p95 | figure),
    ((.slo_attainment * 100 | figure) + " %")]) | add) | row),
  "", (.[] | "\(.[0]) bears \(.[1].peak_users // "no number of") users; \([.[1].users[] | .requests_ok + .failed] | "\(min) to \(max)") requests a stage."),
  own_delays;

def figures: [(.seconds | spread(1)), (.output_tokens_per_second | spread(1)), (.ttft_s | spread(1e3)), (.tpot_s | spread(1e3))];
def experiment($name; cells):
  head($name + ["set, s", "tokens/s", "TTFT, ms", "TPOT, ms"]; if $name[0] == "drafted tokens" then 0 else 1 end),
  (.[0][1].runs[] | cells + figures | row), own_delays;
def cards: experiment(["simulated card", "at once"]; [.run, .concurrency]);
def speculation: experiment(["drafted tokens"]; [.speculation]);
def halves: experiment(["run"]; [.run]);
def batching: experiment(["batching"]; [.run]);

def slope($n): if . == null then "-" else "\(.ms | decimals($n)) (\(.interval[0] | decimals($n)) to \(.interval[1] | decimals($n)))" end;
def prefill:
  head(["card", "ms per 1000 uncached prompt tokens (95 %)", "below 800 tokens (requests)", "ms per output token (95 %)",
    "prompt tokens as long as one output token"]; 1),
  lines(.prefill_cost | [({ms: .ms_per_1000_tokens, interval} | slope(1)),
    (.below_800_tokens | slope(1) + (if . then " (\(.requests))" else "" end)),
    (.per_output_token | slope(2)), (1000 * .per_output_token.ms / .ms_per_1000_tokens | round)]);

def replay:
  head(["run", "requests", "output tokens/s", "TTFT p50, p95 ms", "TPOT p50, p95 ms"]; 1),
  lines([.requests_ok, (.output_tokens_per_second | figure), ([.ttft_s | .p50, .p95 | ms] | list), ([.tpot_s | .p50, .p95 | ms] | list)]);
