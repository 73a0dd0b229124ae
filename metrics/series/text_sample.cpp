#include "metrics/series/text_sample.hpp"

#include <cstdlib>

namespace weir::metrics::series {
namespace {

using LabelMap = std::map<std::string, std::string, std::less<>>;

/// Takes `{a="b",...}` off the front of `text`. Returns nothing if the front is no such list.
std::optional<LabelMap> take_labels(std::string_view& text) {
  LabelMap labels;
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

}  // namespace

std::string_view Sample::label(std::string_view key) const {
  const auto found = labels.find(key);
  return found == labels.end() ? std::string_view() : std::string_view(found->second);
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
  sample.value = std::strtod(number.c_str(), &stop);  // strtod takes "+Inf" and "NaN" as the format writes them.
  if (stop == number.c_str()) return std::nullopt;
  return sample;
}

}  // namespace weir::metrics::series
