#include "lab/report/metrics_text.hpp"

namespace weir::lab::report {

MetricsText read_metrics_text(std::istream& in) {
  MetricsText page;
  std::string line;
  while (std::getline(in, line)) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    if (auto sample = metrics::series::read_sample(line)) {
      page.samples.push_back(*std::move(sample));
    } else {
      ++page.unreadable;
    }
  }
  return page;
}

double MetricsText::sum(std::string_view name) const {
  double sum = 0;
  for (const metrics::series::Sample& s : samples) {
    if (s.name == name) sum += s.value;
  }
  return sum;
}

std::map<std::string, double> MetricsText::by_label(std::string_view name, const std::string& label) const {
  std::map<std::string, double> sums;
  for (const metrics::series::Sample& s : samples) {
    if (s.name != name || s.value == 0) continue;
    sums[std::string(s.label(label))] += s.value;
  }
  return sums;
}

}  // namespace weir::lab::report
