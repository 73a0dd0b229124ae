#include "metrics/compare/comparison/window.hpp"

#include <algorithm>
#include <vector>

namespace weir::metrics::compare::comparison {
namespace {

/// `first` is the first moment that counts, `begin` the one from which a declared length is measured.
FoundWindow window_from(std::int64_t first, std::int64_t end, std::int64_t begin, const Options& options,
                        std::span<const samples::Sample> samples) {
  FoundWindow found{.declared = options.to_us || options.length_us};
  statistics::Window& window = found.window;
  // A window is a time that has requests, not one before the first of them.
  window = {begin < samples::first_moment(samples) ? std::max(begin, std::min(first, end)) : begin, end};
  if (options.length_us) window.to_us = begin + *options.length_us;
  if (options.to_us) window.to_us = *options.to_us;
  window.to_us = std::max(window.to_us, window.from_us);
  return found;
}

/// The window begins as the earlier minutes do, and ends with the last pair.
FoundWindow window_since(const table::Table& earlier, const pairs::Pairing& pairing) {
  return {.window = {*earlier.from_us, pairing.pairs.empty() ? earlier.to_us : pairing.pairs.back().at_us + 1}};
}

FoundWindow window_of_pairs(const pairs::Pairing& pairing, std::span<const samples::Sample> samples,
                            const Options& options) {
  const auto warm = std::find_if(pairing.pairs.begin(), pairing.pairs.end(),
                                 [&](const pairs::Pair& pair) { return pair.at_us >= *pairing.warm_us; });
  std::int64_t first = *pairing.warm_us;
  if (warm != pairing.pairs.end()) {
    first = warm->at_us;
  } else if (!options.from_us || first == pairs::never_warm) {
    return {};
  }
  const std::int64_t end = pairing.pairs.empty() ? 0 : pairing.pairs.back().at_us + 1;
  return window_from(first, end, std::max(options.from_us.value_or(first), *pairing.warm_us), options, samples);
}

/// Returns from the first of the requests in a window to the last.
std::optional<statistics::Window> extent_of(const std::vector<pairs::Single>& singles,
                                            const statistics::Window& window) {
  std::optional<statistics::Window> found;
  for (const pairs::Single& one : singles) {
    if (!window.holds(one.at_us)) continue;
    if (!found) found = statistics::Window{one.at_us, 0};
    found->to_us = one.at_us + 1;
  }
  return found;
}

FoundWindow window_of_split(const pairs::Pairing& pairing, std::span<const samples::Sample> samples,
                            const Options& options) {
  const statistics::Window asked = asked_for(options);
  const auto a = extent_of(pairing.only_a, asked), b = extent_of(pairing.only_b, asked);
  if (!a || !b) return {};
  const std::int64_t earlier = std::min(a->from_us, b->from_us), later = std::max(a->to_us, b->to_us);
  if (a->to_us <= b->from_us || b->to_us <= a->from_us) return {.window = {earlier, later}, .apart = Apart{*a, *b}};
  // Whoever says where the window begins wants all that follows.
  const std::int64_t first = options.from_us ? earlier : std::max(a->from_us, b->from_us);
  const std::int64_t end = options.from_us ? later : std::min(a->to_us, b->to_us);
  return window_from(first, end, options.from_us.value_or(first), options, samples);
}

}  // namespace

statistics::Window asked_for(const Options& options) {
  statistics::Window asked = pairs::any_time;
  if (options.from_us) asked.from_us = *options.from_us;
  if (options.from_us && options.length_us) asked.to_us = *options.from_us + *options.length_us;
  if (options.to_us) asked.to_us = *options.to_us;
  return asked;
}

FoundWindow window_of(const pairs::Pairing& pairing, std::span<const samples::Sample> samples, const Options& options,
                      const table::Table* earlier) {
  if (pairing.mode == pairs::Mode::split) return window_of_split(pairing, samples, options);
  if (earlier && earlier->from_us) return window_since(*earlier, pairing);
  return window_of_pairs(pairing, samples, options);
}

}  // namespace weir::metrics::compare::comparison
