#include "metrics/compare/pairs/load.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace weir::metrics::compare::pairs {
namespace {

double tokens_of(const samples::Sample& sample) {
  return sample.prompt_tokens == samples::unknown_count ? 0 : static_cast<double>(sample.prompt_tokens);
}

double tokens_of(const samples::Sample* sample) { return sample ? tokens_of(*sample) : 0; }

/// Returns the request's prompt tokens by any of its answers, since one that was not finished may not tell.
double tokens_of(const Pair& pair) {
  return std::max({tokens_of(*pair.a), tokens_of(*pair.b), tokens_of(pair.primary)});
}
double tokens_of(const Single& one) { return std::max(tokens_of(*one.sample), tokens_of(one.primary)); }

/// Counts what each side was spared of one request. A reason is "" where the side finished it.
void count(Load& load, const std::string& reason_a, const std::string& reason_b, double tokens) {
  ++load.sampled;
  load.prompt_tokens += tokens;
  if (reason_a.empty() == reason_b.empty()) return;
  Spared& side = reason_a.empty() ? load.b : load.a;
  ++side.requests;
  ++side.by_reason[reason_a + reason_b];
  side.prompt_tokens += tokens;
}

/// Returns why a side has no finished answer; "" if it has one.
std::string reason_of(const samples::Sample& side, const samples::Sample& other, const samples::Names& names) {
  if (finished(side, other)) return {};
  return std::string(side.drop_reason != 0 ? names.text(side.drop_reason) : name_of(side.outcome));
}

/// True for a request that a twin would have been sent, so far as the primary's record tells.
bool to_be_mirrored(const samples::Sample& sample) {
  if (!generates(sample.api) || sample.replica == 0) return false;
  return sample.outcome != Outcome::bad_request && sample.outcome != Outcome::client_error &&
         sample.outcome != Outcome::rejected;
}

class Mean {
 public:
  void add(float value) {
    if (!std::isfinite(value)) return;
    sum_ += static_cast<double>(value);
    ++count_;
  }
  double value() const {
    return count_ ? sum_ / static_cast<double>(count_) : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  double sum_ = 0;
  std::uint64_t count_ = 0;
};

void measure_in_flight(const Pairing& pairing, Load& load) {
  Mean a, b;
  for (const Pair& pair : pairing.pairs) {
    a.add(pair.a->in_flight_mean);
    b.add(pair.b->in_flight_mean);
  }
  if (pairing.mode == Mode::split) {
    for (const Single& one : pairing.only_a) a.add(one.sample->in_flight_mean);
    for (const Single& one : pairing.only_b) b.add(one.sample->in_flight_mean);
  }
  load.in_flight_a = a.value();
  load.in_flight_b = b.value();
}

bool share_pools(const Pairing& pairing) {
  std::set<samples::Names::Name> pools_a, pools_b;
  for (const Single& one : pairing.only_a) pools_a.insert(one.sample->pool);
  for (const Single& one : pairing.only_b) pools_b.insert(one.sample->pool);
  return pools_a == pools_b;
}

/// Returns the requests of one side that the other, a shadow, was not sent.
std::vector<Single> not_mirrored(const MirroredSides& sides, const std::vector<Single>& singles,
                                 std::int64_t complete_us) {
  std::vector<Single> result;
  for (const Single& one : singles) {
    const bool known = one.sample->role == Role::shadow ||
                       (to_be_mirrored(*one.sample) && sides.replicas.count(one.sample->replica) > 0);
    if (known && one.at_us < complete_us) result.push_back(one);
  }
  return result;
}

}  // namespace

void MirroredSides::add(const Pair& pair) {
  shadow_a = pair.a->role == Role::shadow;
  shadow_b = pair.b->role == Role::shadow;
  replicas.insert(pair.a->replica);
  replicas.insert(pair.b->replica);
}

void Load::add_earlier(const Load& earlier) {
  const double tokens = prompt_tokens + earlier.prompt_tokens;
  for (const auto& [side, before] : {std::pair(&a, &earlier.a), std::pair(&b, &earlier.b)}) {
    if (tokens > 0)
      side->prompt_tokens =
          (side->prompt_tokens * prompt_tokens + before->prompt_tokens * earlier.prompt_tokens) / tokens;
    side->requests += before->requests;
    for (const auto& [reason, count] : before->by_reason) side->by_reason[reason] += count;
  }
  prompt_tokens = tokens;
  sampled += earlier.sampled;
  for (const auto& [reason, count] : earlier.unfinished) unfinished[reason] += count;
}

Load load_of(const Pairing& pairing, const samples::Names& names, std::optional<bool> same_load,
             std::int64_t complete_us, MirroredSides sides) {
  Load load;
  measure_in_flight(pairing, load);
  if (pairing.mode == Mode::split) {
    load.same = same_load.value_or(share_pools(pairing));
    return load;
  }
  for (const Pair& pair : pairing.pairs) {
    sides.add(pair);
    const std::string reason_a = reason_of(*pair.a, *pair.b, names), reason_b = reason_of(*pair.b, *pair.a, names);
    count(load, reason_a, reason_b, tokens_of(pair));
    if (sides.shadow_b && !reason_b.empty()) {
      ++load.unfinished[reason_b];
    } else if (sides.shadow_a && !reason_a.empty()) {
      ++load.unfinished[reason_a];
    }
  }
  // A shadow without its primary's line tells nothing of the primary.
  const auto missing_b = sides.shadow_b ? not_mirrored(sides, pairing.only_a, complete_us) : std::vector<Single>{};
  const auto missing_a = sides.shadow_a ? not_mirrored(sides, pairing.only_b, complete_us) : std::vector<Single>{};
  load.same = same_load.value_or(twins(pairing.pairs) && missing_a.size() + missing_b.size() <= pairing.pairs.size());
  if (load.same) {
    const std::string not_sent = "not_mirrored";
    for (const Single& one : missing_b) {
      count(load, reason_of(*one.sample, *one.sample, names), not_sent, tokens_of(one));
      ++load.unfinished[not_sent];
    }
    for (const Single& one : missing_a) {
      count(load, not_sent, reason_of(*one.sample, *one.sample, names), tokens_of(one));
      ++load.unfinished[not_sent];
    }
  }
  for (Spared* const side : {&load.a, &load.b})
    side->prompt_tokens = load.prompt_tokens > 0 ? side->prompt_tokens / load.prompt_tokens : 0;
  return load;
}

}  // namespace weir::metrics::compare::pairs
