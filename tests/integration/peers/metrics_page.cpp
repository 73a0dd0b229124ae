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

    const auto broken = std::runtime_error("not a line of a metrics page: " + std::string(line));
    Series series;
    const auto name_end = line.find_first_of("{ ");
    if (name_end == line.npos) throw broken;
    series.name = line.substr(0, name_end);
    line.remove_prefix(name_end);
    if (line.front() == '{') {
      line.remove_prefix(1);
      while (!line.empty() && line.front() != '}') {
        const auto equals = line.find("=\"");
        if (equals == line.npos) throw broken;
        const std::string label(line.substr(0, equals));
        line.remove_prefix(equals + 2);
        std::string value;
        while (!line.empty() && line.front() != '"') {
          if (line.front() == '\\') line.remove_prefix(1);
          if (line.empty()) throw broken;
          value += line.front();
          line.remove_prefix(1);
        }
        if (line.empty()) throw broken;
        line.remove_prefix(1);
        if (line.starts_with(',')) line.remove_prefix(1);
        series.labels.emplace(label, value);
      }
      if (line.empty()) throw broken;
      line.remove_prefix(1);
    }
    series.value = std::stod(std::string(line));
    series_.push_back(std::move(series));
  }
}

bool MetricsPage::Series::matches(std::string_view wanted, Labels wanted_labels) const {
  return name == wanted && std::all_of(wanted_labels.begin(), wanted_labels.end(), [this](const auto& label) {
           const auto found = labels.find(label.first);
           return found != labels.end() && found->second == label.second;
         });
}

double MetricsPage::sum(std::string_view name, Labels labels) const {
  auto family = name;
  for (const std::string_view part : {"_bucket", "_sum", "_count"}) {
    if (name.ends_with(part) && !families_.contains(name)) family.remove_suffix(part.size());
  }
  if (!families_.contains(family))
    throw std::runtime_error("no family of " + std::string(name) + " on the metrics page");
  double total = 0;
  for (const auto& series : series_) {
    if (series.matches(name, labels)) total += series.value;
  }
  return total;
}

bool MetricsPage::has(std::string_view name, Labels labels) const {
  return std::any_of(series_.begin(), series_.end(), [&](const auto& one) { return one.matches(name, labels); });
}

}  // namespace weir::integration
