// Reads the text of a /metrics page into values that a test asks for.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/series/text_page.hpp"

namespace weir::integration {

class MetricsPage {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  MetricsPage() = default;
  /// Throws std::runtime_error on a line that is not in the text format 0.0.4.
  explicit MetricsPage(std::string_view text);

  /// Returns the sum of all series of this name that have all these labels; 0 if the page knows the family and has no
  /// such series, because a series appears with its first use. Throws if there is no such family, because a typo is no
  /// zero.
  double sum(std::string_view name, const Labels& labels = {}) const;
  bool has(std::string_view name, const Labels& labels = {}) const;
  /// Returns the state of a replica: "up", "starting", "draining", "ejected" or "down"; "" if there is no such replica.
  std::string state_of(std::string_view replica) const;

 private:
  std::vector<metrics::series::Sample> samples_;
  std::set<std::string, std::less<>> families_;
};

}  // namespace weir::integration
