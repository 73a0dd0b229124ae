#include "config/nearest.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "config/url.hpp"

namespace weir::config {
namespace {

constexpr std::size_t shortest_prefix = 3;
constexpr std::size_t longest_word = 64;  // Known words are shorter. The cost of the distance is the product of both
                                          // lengths.

std::string folded(std::string_view word) {
  auto result = lower(word);
  std::ranges::replace(result, '-', '_');
  return result;
}

/// Computes the optimal string alignment, with three rows of the table at a time.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > longest_word) return {};
  const auto wanted = folded(word);
  std::string_view best, longer;
  std::size_t fewest = word.size() / 3 + 1;
  std::size_t longer_ones = 0;
  for (const auto candidate : candidates) {
    const auto known = folded(candidate);
    if (const auto changes = distance(wanted, known); changes < fewest) {
      fewest = changes;
      best = candidate;
    }
    if (known.starts_with(wanted)) {
      longer = candidate;
      ++longer_ones;
    }
  }
  if (!best.empty()) return best;
  return word.size() >= shortest_prefix && longer_ones == 1 ? longer : std::string_view();
}

}  // namespace weir::config
