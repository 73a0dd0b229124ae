#include "lab/report/metrics_text.hpp"

#include <cstdlib>
#include <optional>

namespace weir::lab::report {
namespace {

/// Takes `{a="b",...}` off the front of `text`; nothing where it is none.
std::optional<std::map<std::string, std::string>> take_labels(std::string_view& text) {
  std::map<std::string, std::string> labels;
  text.remove_prefix(1);
  while (!text.empty() && text.front() != '}') {
    const std::size_t equals = text.find("=\"");
    if (equals == std::string_view::npos) return std::nullopt;
    std::string& value = labels[std::string(text.substr(0, equals))];
    text.remove_prefix(equals + 2);
    while (!text.empty() && text.front() != '"') {
      if (text.front() == '\\' && text.size() > 1) {
        text.remove_prefix(1);
        value += text.front() == 'n' ? '\n' : text.front();
      } else {
        value += text.front();
      }
      text.remove_prefix(1);
    }
    if (text.empty()) return std::nullopt;
    text.remove_prefix(1);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  if (text.empty()) return std::nullopt;
  text.remove_prefix(1);
  return labels;
}

std::optional<Sample> read_sample(std::string_view line) {
  Sample sample;
  const std::size_t end = line.find_first_of("{ ");
  if (end == 0 || end == std::string_view::npos) return std::nullopt;
  sample.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.front() == '{') {
    auto labels = take_labels(line);
    if (!labels) return std::nullopt;
    sample.labels = *std::move(labels);
  }
  const std::string number(line);
  char* stop = nullptr;
  sample.value = std::strtod(number.c_str(), &stop);  // Takes "+Inf" and "NaN" as the format writes them.
  if (stop == number.c_str()) return std::nullopt;
  return sample;
}

}  // namespace

MetricsText read_metrics_text(std::istream& in) {
  MetricsText page;
  std::string line;
  while (std::getline(in, line)) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    if (auto sample = read_sample(line)) {
      page.samples.push_back(*std::move(sample));
    } else {
      ++page.unreadable;
    }
  }
  return page;
}

double MetricsText::sum(std::string_view name) const {
  double sum = 0;
  for (const Sample& s : samples) {
    if (s.name == name) sum += s.value;
  }
  return sum;
}

std::map<std::string, double> MetricsText::by_label(std::string_view name, const std::string& label) const {
  std::map<std::string, double> sums;
  for (const Sample& s : samples) {
    if (s.name != name || s.value == 0) continue;
    const auto found = s.labels.find(label);
    sums[found == s.labels.end() ? "" : found->second] += s.value;
  }
  return sums;
}

}  // namespace weir::lab::report
