#include "proxy/live/findings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "metrics/text.hpp"

namespace weir::proxy::live {

/// Takes what is said of one name. Returns false if there is nothing left to remember.
bool Findings::moves(State& state, const Rule& rule, const Case& one, const Now& now) {
  if (one.sign != Sign::fine) state.good_since.reset();
  if (one.sign == Sign::bad || one.sign == Sign::between)
    state.unheld_since.reset();
  else
    state.unheld_since = state.unheld_since.value_or(now.at);
  switch (one.sign) {
    case Sign::bad:
    case Sign::between:
      if (!state.stands && one.sign == Sign::between) return false;
      state.finding.text = one.text;
      state.finding.severity = one.severity;
      state.stands = state.stands || now.at - state.finding.since_at >= rule.begins_after;
      return true;
    case Sign::fine:
      state.good_since = state.good_since.value_or(now.at);
      return state.stands && now.at - *state.good_since < ends_after && now.at - *state.unheld_since < forgotten_after;
    case Sign::unknown:
      return state.stands && now.at - *state.unheld_since < forgotten_after;
  }
  return false;
}

std::vector<Findings::Change> Findings::tick(const Now& now) {
  std::vector<Change> changes;
  std::vector<Case> cases;
  for (const auto& rule : rules_) {
    cases.clear();
    rule.look(now, cases);
    // A name without a case is fine.
    std::set<std::string_view> told;
    for (const auto& one : cases) told.insert(one.who);
    std::vector<Case> silent;
    for (const auto& [who, state] : states_)
      if (who.first == rule.what && !told.contains(who.second)) silent.push_back({who.second, Sign::fine});
    cases.insert(cases.end(), silent.begin(), silent.end());
    for (const auto& one : cases) {
      const Who who(rule.what, one.who);
      auto found = states_.find(who);
      if (found == states_.end()) {
        if (one.sign != Sign::bad) continue;
        found = states_.emplace(who, State()).first;
        found->second.finding = {rule.what, one.who, one.severity, now.time, one.text, now.at};
      }
      auto& state = found->second;
      const bool stood = state.stands;
      const bool goes_on = moves(state, rule, one, now);
      if (state.stands && !stood) changes.push_back({true, state.finding});
      if (goes_on) continue;
      if (stood) changes.push_back({false, state.finding});
      states_.erase(found);
    }
  }
  return changes;
}

std::vector<Finding> Findings::standing() const {
  std::vector<Finding> all;
  for (const auto& [who, state] : states_)
    if (state.stands) all.push_back(state.finding);
  std::ranges::stable_sort(all, [](const Finding& a, const Finding& b) {
    const auto place = [](const Finding& one) { return std::tuple(one.severity != Severity::critical, one.since_at); };
    return place(a) < place(b);
  });
  return all;
}

namespace {

using Cases = std::vector<Case>;

constexpr std::string_view weir_itself = "weir";
constexpr double minutes_to_seconds = 60, days_to_seconds = 86'400;

Sign sign_of(bool bad, bool fine) { return bad ? Sign::bad : fine ? Sign::fine : Sign::between; }

std::string whole(double number) { return std::to_string(std::llround(number)); }
std::string counted(double number, std::string_view thing) {
  return metrics::counted(static_cast<std::uint64_t>(std::llround(number)), thing);
}
std::string percent(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.1 ? 1 : 0); }

/// "0.4 s", "12 s", "5 min", "3 h", "9 d".
std::string time_text(double time) {
  if (time < 10) return fmt::format("{:.1f} s", time);
  if (time < 100) return fmt::format("{:.0f} s", time);
  if (time < 100 * minutes_to_seconds) return fmt::format("{:.0f} min", time / minutes_to_seconds);
  return time < 2 * days_to_seconds ? fmt::format("{:.0f} h", time / 3600)
                                    : fmt::format("{:.0f} d", time / days_to_seconds);
}

double of_word(const Words& words, std::string_view word) {
  const auto found = std::ranges::find(words, word, &Words::value_type::first);
  return found == words.end() ? 0 : found->second;
}

bool is_in(const ReplicaNow& one) {
  return one.state == metrics::ReplicaState::up || one.state == metrics::ReplicaState::starting;
}

void slow_replica(const Now& now, Cases& cases) {
  constexpr double bad_gap = 1.5, bad_ttft = 2, good_gap = 1.25, good_ttft = 1.5;
  for (const auto& one : now.replicas) {
    if (one.leaving || !is_in(one)) continue;
    const auto gap = one.gap_by_peers, ttft = one.ttft_by_peers;
    if (!gap && !ttft) {
      cases.push_back({one.row, Sign::unknown});
      continue;
    }
    const auto sign = sign_of(gap.value_or(0) >= bad_gap || ttft.value_or(0) >= bad_ttft,
                              gap.value_or(0) < good_gap && ttft.value_or(0) < good_ttft);
    if (sign == Sign::fine) continue;
    std::string how;  // A figure that is not slow is left out: "0.5 times" would read as praise.
    if (gap.value_or(0) >= good_gap) how = fmt::format("{:.1f} times the time between chunks", *gap);
    if (ttft.value_or(0) >= good_ttft)
      how += (how.empty() ? "" : " and ") + fmt::format("{:.1f} times the TTFT", *ttft);
    auto text = one.name + " is slow: it has " + how + " of its peers";
    if (one.share) text += ", and gets " + percent(*one.share) + " of the requests";
    cases.push_back({one.row, sign, std::move(text)});
  }
}

/// A replica that gives nothing is fast, and each of its answers is a 200.
void empty_answers(const Now& now, Cases& cases) {
  constexpr double least = 5, bad = 0.3, good = 0.1, most_of_peers = 0.05;
  const auto share_of = [](double empty, double requests) { return requests > 0 ? empty / requests : 0; };
  for (const auto& one : now.replicas) {
    if (one.leaving || one.empty_60s == 0) continue;
    double peers_empty = 0, peers_requests = 0;
    for (const auto& peer : now.replicas) {
      if (&peer == &one || peer.pool != one.pool || peer.shadow != one.shadow) continue;
      peers_empty += peer.empty_60s;
      peers_requests += peer.requests_60s;
    }
    const double share = share_of(one.empty_60s, one.requests_60s), of_peers = share_of(peers_empty, peers_requests);
    const auto sign = sign_of(one.empty_60s >= least && share > bad && of_peers < most_of_peers, share < good);
    if (sign == Sign::fine) continue;
    cases.push_back({one.row, sign,
                     one.name + " answers with nothing: " + percent(share) +
                         " of its answers of the last minute have status 2xx and no token, or are no JSON" +
                         (peers_requests > 0 ? "; of its peers' " + percent(of_peers) : "")});
  }
}

void flooding_key(const Now& now, Cases& cases) {
  constexpr double least_waiting = 8, still_waiting = 4, bad_share = 0.5, good_share = 0.35;
  double waiting = 0;
  for (const auto& pool : now.pools) waiting += static_cast<double>(pool.waiting);
  for (const auto& key : now.keys) {
    if (key.waiting == 0) continue;
    const double share = key.waiting / std::max(1.0, waiting);
    double others_requests = 0, others_waited = 0, others_waits = 0;
    for (const auto& other : now.keys) {
      if (&other == &key) continue;
      others_requests += other.open + other.requests_60s;
      others_waits += other.waits;
      if (other.wait) others_waited += *other.wait * other.waits;
    }
    const bool others = others_requests > 0 || waiting > key.waiting;
    const auto sign = sign_of(waiting >= least_waiting && share > bad_share && others,
                              waiting < still_waiting || share < good_share || !others);
    if (sign == Sign::fine) continue;
    auto text = whole(key.waiting) + " of the " + whole(waiting) + " requests that wait are those of key '" + key.name +
                "', which has " + whole(key.open) + " open";
    if (others_waits > 0) text += "; the others wait for " + time_text(others_waited / others_waits);
    cases.push_back({key.name, sign, std::move(text)});
  }
}

void stuck_shadow(const Now& now, Cases& cases) {
  constexpr double bad = 15;
  for (const auto& one : now.shadows) {
    if (!one.silent || one.in_flight == 0) continue;
    cases.push_back({one.name, sign_of(*one.silent >= bad, *one.silent < bad / 3),
                     "shadow '" + one.name + "' has given no token for " + time_text(*one.silent) + ", and has " +
                         counted(one.in_flight, "request") + " (at most " + whole(one.max_in_flight) + ")"});
  }
}

void lagging_shadow(const Now& now, Cases& cases) {
  constexpr double least = 20, bad = 0.10, good = 0.05;
  constexpr std::array<std::string_view, 4> its_own{"max_in_flight", "max_queued_tokens", "busy", "behind"};
  for (const auto& one : now.shadows) {
    if (!one.on) continue;
    double dropped = 0, most = 0;
    std::string_view reason;
    for (const auto word : its_own) {
      const auto count = of_word(one.dropped_60s, word);
      dropped += count;
      if (count > most) {
        most = count;
        reason = word;
      }
    }
    const double all = one.sent_60s + dropped, share = all > 0 ? dropped / all : 0;
    const auto sign = sign_of(all >= least && share > bad, share < good);
    if (sign == Sign::fine) continue;
    cases.push_back({one.name, sign,
                     "shadow '" + one.name + "' does not keep up: " + percent(share) +
                         " of its copies were dropped in the last minute, most by " + std::string(reason)});
  }
}

void wrong_estimates(const Now& now, Cases& cases) {
  constexpr double least = 50, bad_low = 0.6, bad_high = 1.67, good_low = 0.7, good_high = 1.5;
  for (const auto& one : now.replicas) {
    if (one.leaving) continue;
    if (!one.estimate_ratio || one.estimates < least) {
      cases.push_back({one.row, Sign::unknown});
      continue;
    }
    const auto ratio = *one.estimate_ratio;
    const auto sign = sign_of(ratio < bad_low || ratio > bad_high, ratio > good_low && ratio < good_high);
    if (sign == Sign::fine) continue;
    cases.push_back({one.row, sign,
                     one.name + " counts other prompt tokens than weir estimates: the estimate is " +
                         fmt::format("{:.1f}", ratio) + " times the truth, so the balancer misjudges its queue"});
  }
}

void coalescing_upstream(const Now& now, Cases& cases) {
  constexpr double least = 20, bad = 0.5, good = 0.3;
  // Loops that are late read several tokens at once, whoever sent them.
  constexpr double own_delay = 0.010;
  const bool own = now.weir.loop_delay_p99.value_or(0) > own_delay;
  for (const auto& one : now.replicas) {
    if (one.leaving) continue;
    if (own || one.streams_60s < least) {
      cases.push_back({one.row, Sign::unknown});
      continue;
    }
    const double share = std::min(1.0, one.coalesced_60s / one.streams_60s);
    const auto sign = sign_of(share > bad, share < good);
    if (sign == Sign::fine) continue;
    cases.push_back({one.row, sign,
                     "most tokens of " + one.name + " come several in a read, in " + percent(share) +
                         " of its streams: something on the way gathers them, and its ITL is not the engine's"});
  }
}

/// Says what would let more requests in.
std::string way_out_of(const PoolNow& pool, const Now& now) {
  bool engines_wait = false, any_told = false, replicas_at_limit = true;
  double fullest = 0;
  for (const auto& one : now.replicas) {
    if (one.pool != pool.name || one.leaving || !is_in(one)) continue;
    replicas_at_limit = replicas_at_limit && one.max_in_flight && one.in_flight >= *one.max_in_flight;
    any_told = any_told || one.engine_waiting;
    engines_wait = engines_wait || one.engine_waiting.value_or(0) > 0;
    fullest = std::max(fullest, one.kv_usage.value_or(0));
  }
  if (pool.up == 0) return "none of its replicas is up: see why";
  const bool at_limit = pool.max_in_flight && pool.in_flight >= *pool.max_in_flight;
  const bool at_tokens = pool.max_queued_tokens && pool.queued_tokens * 10 >= *pool.max_queued_tokens * 9;
  constexpr double full = 0.8;
  const bool have_room = any_told && !engines_wait && fullest < full;
  if (have_room && (at_limit || at_tokens)) {
    return std::string(at_limit ? "max_in_flight" : "max_queued_tokens") + " = " +
           whole(at_limit ? *pool.max_in_flight : static_cast<double>(*pool.max_queued_tokens)) +
           " is reached while no engine has a queue: raise it";
  }
  if (have_room && replicas_at_limit)
    return "each replica is at its max_in_flight while no engine has a queue: raise that";
  const double done = pool.requests_60s - pool.refused_60s;
  if (done < 1) return "a replica more would help";
  const double wanted = pool.requests_60s + static_cast<double>(pool.waiting);
  const auto more = std::max(1.0, std::ceil(static_cast<double>(pool.up) * (wanted / done - 1)));
  return counted(more, "replica") + " more would do what is asked";
}

void saturated_pool(const Now& now, Cases& cases) {
  constexpr double bad = 2, good = 0.5;
  for (const auto& pool : now.pools) {
    const double oldest = pool.oldest_waiting.value_or(0);
    const auto sign = sign_of(pool.waiting > 0 && oldest >= bad, oldest < good);
    if (sign == Sign::fine) continue;
    auto text = counted(static_cast<double>(pool.waiting), "request") + " of pool '" + pool.name + "' " +
                (pool.waiting == 1 ? "waits" : "wait") + ", the oldest for " + time_text(oldest);
    if (pool.refused_60s > 0) text += ", and " + whole(pool.refused_60s) + " were refused in the last minute";
    text += "; " + way_out_of(pool, now);
    cases.push_back({pool.name, sign, std::move(text), pool.up == 0 ? Severity::critical : Severity::warning});
  }
}

void late_loop(const Now& now, Cases& cases) {
  constexpr double bad = 0.050, good = 0.020;
  if (!now.weir.loop_delay_p99) return;
  const double delay = *now.weir.loop_delay_p99;
  const auto how = std::isinf(delay) ? std::string("more than 1 s") : fmt::format("{:.0f} ms", 1000 * delay);
  cases.push_back({std::string(weir_itself), sign_of(delay > bad, delay <= good),
                   "weir's own loops are late: 1 % of their ticks by " + how + " or so; it uses " +
                       (now.weir.cpu ? fmt::format("{:.1f}", *now.weir.cpu) : "?") + " CPUs, and has " +
                       counted(static_cast<double>(now.weir.threads), "thread")});
}

void log_lines_lost(const Now& now, Cases& cases) {
  if (!now.weir.log_loses && now.weir.log_lost_60s == 0) return;
  cases.push_back({std::string(weir_itself), Sign::bad,
                   "the request log " + std::string(now.weir.log_loses ? "loses" : "has lost") + " lines, " +
                       std::to_string(now.weir.log.dropped) + " so far" +
                       (now.weir.log_loses ? ": " + now.weir.log_why : "")});
}

void bypass_on(const Now& now, Cases& cases) {
  constexpr double bad = 10 * minutes_to_seconds;
  if (now.weir.bypass_seconds.value_or(0) < bad) return;
  cases.push_back({std::string(weir_itself), Sign::bad,
                   "bypass has been on for " + time_text(*now.weir.bypass_seconds) +
                       ": nothing is read or measured; `weir bypass off` ends it"});
}

void drain_forgotten(const Now& now, Cases& cases) {
  constexpr double bad = 30 * minutes_to_seconds;
  for (const auto& one : now.replicas) {
    if (one.leaving || one.state != metrics::ReplicaState::draining || one.in_flight > 0) continue;
    if (one.state_seconds < bad) continue;
    cases.push_back({one.row, Sign::bad,
                     one.name + " has been drained for " + time_text(one.state_seconds) +
                         ", and nothing is left on it; `weir undrain " + one.name + "` lets it take requests"});
  }
}

void certificate_ending(const Now& now, Cases& cases) {
  constexpr double bad = 14 * days_to_seconds, critical = 2 * days_to_seconds;
  if (!now.weir.certificate_ends) return;
  const double left = std::chrono::duration<double>(*now.weir.certificate_ends - now.time).count();
  if (left >= bad) return;
  cases.push_back({std::string(weir_itself), Sign::bad,
                   left > 0 ? "a certificate of [server.tls] ends in " + time_text(left) +
                                  "; put the new one in its place and reload weir"
                            : std::string("a certificate of [server.tls] has ended: clients refuse to connect; put the "
                                          "new one in its place and reload weir"),
                   left < critical ? Severity::critical : Severity::warning});
}

void foreign_load(const Now& now, Cases& cases) {
  constexpr double least = 4, share = 0.25, good_part = 0.5;
  for (const auto& one : now.replicas) {
    if (one.leaving) continue;
    if (!one.divergence) {
      cases.push_back({one.row, Sign::unknown});
      continue;
    }
    const double bad = std::max(least, share * one.in_flight);
    const auto sign = sign_of(*one.divergence > bad, *one.divergence < good_part * bad);
    if (sign == Sign::fine) continue;
    cases.push_back({one.row, sign,
                     one.name + " has " + counted(*one.divergence, "request") + " beside weir's " +
                         whole(one.in_flight) + ": someone else uses it, and weir cannot balance that"});
  }
}

using Held = std::chrono::seconds;
constexpr std::array all_rules{
    Rule{"slow_replica", "replica",
         "Its median gap between chunks is 1.5 times that of its peers, or its median TTFT 2 times. Peers are up, "
         "of the same pool, `gpu`, `weight` and `config`.",
         Held(10), slow_replica},
    Rule{"empty_answers", "replica",
         "More than 30 % of its answers of a minute, and at least 5, had no token or no JSON, and under 5 % of "
         "its peers'.",
         Held(0), empty_answers},
    Rule{"flooding_key", "key",
         "More than half of at least 8 waiting requests are of one key, while others wait or have requests.", Held(5),
         flooding_key},
    Rule{"stuck_shadow", "shadow", "It has requests, and no token has come for 15 s.", Held(0), stuck_shadow},
    Rule{"lagging_shadow", "shadow",
         "More than a tenth of at least 20 copies in 60 s was dropped because the shadow could not keep up.", Held(5),
         lagging_shadow},
    Rule{"wrong_estimates", "replica",
         "The median of estimated by true prompt tokens is below 0.6 or above 1.67, over 50 requests.", Held(5),
         wrong_estimates},
    Rule{"coalescing_upstream", "replica",
         "In more than half of 20 streams or more, most tokens came several in a read: distrust its ITL.", Held(5),
         coalescing_upstream},
    Rule{"saturated_pool", "pool", "Requests wait, the oldest for 2 s or more.", Held(10), saturated_pool},
    Rule{"late_loop", "`weir`", "More than 1 % of the loops' ticks are later than 50 ms.", Held(10), late_loop},
    Rule{"log_lines_lost", "`weir`", "The request log has lost lines within a minute.", Held(0), log_lines_lost},
    Rule{"bypass_on", "`weir`", "Bypass has been on for 10 minutes.", Held(0), bypass_on},
    Rule{"drain_forgotten", "replica", "It has been drained, with nothing left on it, for 30 minutes.", Held(0),
         drain_forgotten},
    Rule{"certificate_ending", "`weir`", "A certificate of weir's own ends within 14 days; critical within 2.", Held(0),
         certificate_ending},
    Rule{"foreign_load", "replica",
         "The engine has 4 requests and a quarter more than weir has there: someone else uses it.", Held(15),
         foreign_load},
};

}  // namespace

std::span<const Rule> rules() { return all_rules; }

namespace {

/// Returns the median of the others' values; nothing if there are none.
std::optional<double> median_but(const std::vector<std::pair<const ReplicaNow*, double>>& all, const ReplicaNow& one) {
  std::vector<double> others;
  for (const auto& [replica, value] : all)
    if (replica != &one) others.push_back(value);
  if (others.empty()) return std::nullopt;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::ranges::nth_element(others, middle);
  if (others.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(others.begin(), middle)) / 2;
}

/// Replicas whose values are equal are peers of each other.
auto kind_of(const ReplicaNow& one) {
  const std::string_view config = one.config == one.name ? std::string_view() : std::string_view(one.config);
  return std::tuple(std::string_view(one.pool), std::string_view(one.shadow), config, std::string_view(one.gpu),
                    one.weight);
}

}  // namespace

void compare_with_peers(std::vector<ReplicaNow>& replicas) {
  using Values = std::vector<std::pair<const ReplicaNow*, double>>;
  struct OfKind {
    Values ttft, gap, usual;
  };
  std::map<decltype(kind_of(replicas.front())), OfKind> kinds;
  const auto is_in = [](const ReplicaNow& one) {
    return !one.leaving && (one.state == metrics::ReplicaState::up || one.state == metrics::ReplicaState::starting);
  };
  const auto knows_ttft = [](const ReplicaNow& one) { return one.recent_ttft && one.recent_ttfts >= least_ttfts; };
  // Gaps of tokens that something on the way gathers tell nothing of the engine: most are 0, beside which peers look
  // slow.
  const auto knows_gap = [](const ReplicaNow& one) {
    return one.recent_gap && one.recent_gaps >= least_gaps && one.coalesced_60s <= most_coalesced * one.streams_60s;
  };
  for (const auto& one : replicas) {
    if (!is_in(one)) continue;
    auto& kind = kinds[kind_of(one)];
    kind.usual.emplace_back(&one, one.usual_ttft);
    if (knows_ttft(one)) kind.ttft.emplace_back(&one, *one.recent_ttft);
    if (knows_gap(one)) kind.gap.emplace_back(&one, *one.recent_gap);
  }
  for (auto& one : replicas) {
    if (!is_in(one)) continue;
    const auto& kind = kinds[kind_of(one)];
    const auto by = [&](const Values& values, std::optional<double> own) -> std::optional<double> {
      const auto others = median_but(values, one);
      return others && *others > 0 ? std::optional(*own / *others) : std::nullopt;
    };
    if (knows_ttft(one)) one.ttft_by_peers = by(kind.ttft, one.recent_ttft);
    // A slow replica gets few requests, so the balancer knows it before there are enough of them to compare.
    constexpr double slower = 1.5;
    if (const auto usual = by(kind.usual, one.usual_ttft); !knows_ttft(one) && usual && *usual >= slower)
      one.ttft_by_peers = usual;
    if (knows_gap(one)) one.gap_by_peers = by(kind.gap, one.recent_gap);
  }
}

}  // namespace weir::proxy::live
