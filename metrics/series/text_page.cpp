#include "metrics/series/text_page.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace weir::metrics::series {
namespace {

void append(std::string& text, std::uint64_t value) {
  std::array<char, 20> digits;
  text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr);
}

/// Appends the fewest digits that read back as `value`, with an exponent where printf's %g has one.
void append(std::string& text, double value) {
  if (std::isnan(value)) {
    text += "NaN";
  } else if (std::isinf(value)) {
    text += value < 0 ? "-Inf" : "+Inf";
  } else {
    const double size = std::abs(value);
    const auto form =
        size == 0 || (size >= 1e-4 && size < 1e16) ? std::chars_format::fixed : std::chars_format::scientific;
    std::array<char, 32> digits;
    text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), value, form).ptr);
  }
}

void append_escaped(std::string& text, std::string_view value) {
  for (const char c : value) {
    if (c == '\\' || c == '"' || c == '\n') text += '\\';
    text += c == '\n' ? 'n' : c;
  }
}

}  // namespace

std::string labels_with(std::string_view labels, OwnLabels own) {
  std::string text(labels);
  for (const auto& [name, value] : own) {
    if (!text.empty()) text += ',';
    text.append(name).append("=\"");
    append_escaped(text, value);
    text += '"';
  }
  return text;
}

std::span<const std::string> BoundTexts::of(std::span<const std::uint64_t> bounds, double unit) {
  if (bounds.data() == bounds_.data() && bounds.size() == bounds_.size() && unit == unit_) return texts_;
  bounds_ = bounds;
  unit_ = unit;
  texts_.clear();
  for (const auto bound : bounds) {
    append(texts_.emplace_back(), static_cast<double>(bound) / unit);
    texts_.back() += "\"} ";
  }
  texts_.emplace_back("+Inf\"} ");
  return texts_;
}

void TextPage::begin(const SeriesText& text, SeriesType type) {
  begins_.push_back({{text, type}, text_.size()});
  text_.append("# HELP ").append(text.name).append(" ").append(text.help);
  text_.append("\n# TYPE ").append(text.name).append(" ").append(name_of(type)) += '\n';
}

template <typename Number>
void TextPage::add_line(std::string_view suffix, std::string_view labels, Number value) {
  text_.append(name()).append(suffix);
  if (!labels.empty()) text_.append("{").append(labels).append("}");
  text_ += ' ';
  append(text_, value);
  text_ += '\n';
}

void TextPage::add(std::string_view labels, std::uint64_t value) { add_line("", labels, value); }
void TextPage::add(std::string_view labels, double value) { add_line("", labels, value); }

void TextPage::add(std::string_view labels, std::span<const std::string> bounds, std::span<const std::uint64_t> counts,
                   double sum) {
  bucket_.assign(name()).append("_bucket{").append(labels).append(labels.empty() ? "le=\"" : ",le=\"");
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    count += counts[i];
    text_.append(bucket_).append(bounds[i]);
    append(text_, count);
    text_ += '\n';
  }
  add_line("_sum", labels, sum);
  add_line("_count", labels, count);
}

std::vector<Family> TextPage::families() const {
  std::vector<Family> families;
  for (const auto& one : begins_) families.push_back(one.family);
  return families;
}

std::string TextPage::sorted(std::string_view rest) const {
  std::vector<std::pair<std::string_view, std::string_view>> families;  // Each is a name and its text.
  for (std::size_t i = 0; i < begins_.size(); ++i) {
    const auto& [family, begin] = begins_[i];
    const auto end = i + 1 < begins_.size() ? begins_[i + 1].at : text_.size();
    families.emplace_back(family.text.name, std::string_view(text_).substr(begin, end - begin));
  }
  std::ranges::sort(families);
  std::string page;
  page.reserve(text_.size() + rest.size());
  for (const auto& [name, text] : families) page += text;
  return page += rest;
}

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
