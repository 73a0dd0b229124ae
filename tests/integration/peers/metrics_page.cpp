#include "tests/integration/peers/metrics_page.hpp"

#include <algorithm>
#include <stdexcept>

namespace weir::integration {

MetricsPage::MetricsPage(std::string_view text) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == text.npos) throw std::runtime_error("a metrics page without a last newline");
    auto line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.starts_with("# TYPE ")) families_.emplace(line.substr(7, line.rfind(' ') - 7));
    if (line.empty() || line.front() == '#') continue;

    auto sample = metrics::series::read_sample(line);
    if (!sample) throw std::runtime_error("not a line of a metrics page: " + std::string(line));
    samples_.push_back(*std::move(sample));
  }
}

static bool matches(const metrics::series::Sample& sample, std::string_view name, const MetricsPage::Labels& labels) {
  return sample.name == name && std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
           const auto found = sample.labels.find(label.first);
           return found != sample.labels.end() && found->second == label.second;
         });
}

double MetricsPage::sum(std::string_view name, const Labels& labels) const {
  auto family = name;
  for (const std::string_view part : {"_bucket", "_sum", "_count"}) {
    if (name.ends_with(part) && !families_.contains(name)) family.remove_suffix(part.size());
  }
  if (!families_.contains(family))
    throw std::runtime_error("no family of " + std::string(name) + " on the metrics page");
  double total = 0;
  for (const auto& sample : samples_) {
    if (matches(sample, name, labels)) total += sample.value;
  }
  return total;
}

bool MetricsPage::has(std::string_view name, const Labels& labels) const {
  return std::any_of(samples_.begin(), samples_.end(), [&](const auto& one) { return matches(one, name, labels); });
}

std::string MetricsPage::state_of(std::string_view replica) const {
  for (const std::string_view state : {"up", "starting", "draining", "ejected", "down"})
    if (sum("weir_replica_state", {{"replica", replica}, {"state", state}}) == 1) return std::string(state);
  return "";
}

}  // namespace weir::integration
