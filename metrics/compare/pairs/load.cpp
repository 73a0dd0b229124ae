#include "metrics/compare/pairs/load.hpp"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace weir::metrics::compare::pairs {
namespace {

double tokens_of(const samples::Sample& sample) {
  return sample.prompt_tokens == samples::unknown_count ? 0 : static_cast<double>(sample.prompt_tokens);
}

/// Returns the request's prompt tokens by either answer, since one that was not finished may not tell.
double tokens_of(const Pair& pair) { return std::max(tokens_of(*pair.a), tokens_of(*pair.b)); }

/// Counts what one side was spared.
class Counting {
 public:
  Counting(Load& load, const statistics::Window& window) : load_(load), window_(window) {}

  void sample(double tokens) { tokens_ += tokens; }
  void spare(std::uint64_t& side, const std::string& reason, std::int64_t at_us, double tokens) {
    ++side;
    ++load_.unfinished[reason];
    ++load_.spared_by_block[window_.block_of(at_us)];
    spared_ += tokens;
  }
  void settle() { load_.prompt_tokens_spared = tokens_ > 0 ? spared_ / tokens_ : 0; }

 private:
  Load& load_;
  const statistics::Window& window_;
  double tokens_ = 0, spared_ = 0;
};

std::string reason_of(const samples::Sample& shadow, const samples::Names& names) {
  return std::string(shadow.drop_reason != 0 ? names.text(shadow.drop_reason) : name_of(shadow.outcome));
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
std::vector<Single> not_mirrored(const Pairing& pairing, const std::vector<Single>& singles, std::int64_t complete_us) {
  std::set<samples::Names::Name> mirrored;
  for (const Pair& pair : pairing.pairs) {
    mirrored.insert(pair.a->replica);
    mirrored.insert(pair.b->replica);
  }
  std::vector<Single> result;
  for (const Single& one : singles) {
    const bool known =
        one.sample->role == Role::shadow || (to_be_mirrored(*one.sample) && mirrored.count(one.sample->replica) > 0);
    if (known && one.at_us < complete_us) result.push_back(one);
  }
  return result;
}

}  // namespace

Load load_of(const Pairing& pairing, const statistics::Window& window, const samples::Names& names,
             std::optional<bool> same_load, std::int64_t complete_us) {
  Load load;
  measure_in_flight(pairing, load);
  if (pairing.mode == Mode::split) {
    load.same = same_load.value_or(share_pools(pairing));
    return load;
  }
  Counting counting(load, window);
  bool shadow_a = false, shadow_b = false;
  for (const Pair& pair : pairing.pairs) {
    counting.sample(tokens_of(pair));
    shadow_a = pair.a->role == Role::shadow;
    shadow_b = pair.b->role == Role::shadow;
    if (shadow_a && !finished(*pair.a, *pair.b)) {
      counting.spare(load.spared_a, reason_of(*pair.a, names), pair.at_us, tokens_of(pair));
    }
    if (shadow_b && !finished(*pair.b, *pair.a)) {
      counting.spare(load.spared_b, reason_of(*pair.b, names), pair.at_us, tokens_of(pair));
    }
  }
  load.sampled = pairing.pairs.size();
  // A shadow without its primary's line tells nothing of the primary.
  const auto missing_b = shadow_b ? not_mirrored(pairing, pairing.only_a, complete_us) : std::vector<Single>{};
  const auto missing_a = shadow_a ? not_mirrored(pairing, pairing.only_b, complete_us) : std::vector<Single>{};
  load.same = same_load.value_or(twins(pairing.pairs) && missing_a.size() + missing_b.size() <= pairing.pairs.size());
  if (load.same) {
    const auto add = [&](const std::vector<Single>& missing, std::uint64_t& side) {
      for (const Single& one : missing) {
        counting.sample(tokens_of(*one.sample));
        counting.spare(side, "not_mirrored", one.at_us, tokens_of(*one.sample));
      }
      load.sampled += missing.size();
    };
    add(missing_b, load.spared_b);
    add(missing_a, load.spared_a);
  }
  counting.settle();
  return load;
}

}  // namespace weir::metrics::compare::pairs
