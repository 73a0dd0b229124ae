#include "metrics/text_page.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace weir::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

template <typename Number, typename... Format>
void append_chars(std::string& out, Number value, Format... format) {
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof text, value, format...).ptr);
}

void append_number(std::string& out, double value) {
  constexpr double largest_whole = 1e15;  // Below it every whole number is exact, and written without an exponent.
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else if (std::trunc(value) == value && std::abs(value) < largest_whole) {
    append_chars(out, static_cast<std::int64_t>(value));
  } else {
    append_chars(out, value, std::chars_format::general);  // The fewest digits that read back the same.
  }
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || (quotes && c == '"')) out += '\\';
      out += c;
    }
  }
}

/// `name="value",` for each label.
void append_labels(std::string& out, const std::vector<ClientMetric::Label>& labels) {
  for (const auto& label : labels) {
    out += label.name;
    out += "=\"";
    append_escaped(out, label.value, true);
    out += "\",";
  }
}

/// The series' name and labels, of which `le` is one where it is given.
void append_series(std::string& out, std::string_view name, std::string_view suffix, std::string_view labels,
                   const double* le = nullptr) {
  out += name;
  out += suffix;
  if (!labels.empty() || le) {
    out += '{';
    out += labels;
    if (le) {
      out += "le=\"";
      append_number(out, *le);
      out += '"';
    } else {
      out.pop_back();  // The comma behind the last one.
    }
    out += '}';
  }
  out += ' ';
}

void append_histogram(std::string& out, std::string_view name, std::string_view labels,
                      const ClientMetric::Histogram& histogram) {
  append_series(out, name, "_count", labels);
  append_chars(out, histogram.sample_count);
  out += '\n';
  append_series(out, name, "_sum", labels);
  append_number(out, histogram.sample_sum);
  out += '\n';
  for (const auto& bucket : histogram.bucket) {
    append_series(out, name, "_bucket", labels, &bucket.upper_bound);
    append_chars(out, bucket.cumulative_count);
    out += '\n';
  }
}

std::string_view word(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Histogram:
      return "histogram";
    default:
      return "gauge";
  }
}

}  // namespace

std::string text_page(const std::vector<MetricFamily>& families) {
  std::string out, labels;
  for (const auto& family : families) {
    out += "# HELP " + family.name + ' ';
    append_escaped(out, family.help, false);
    out += "\n# TYPE " + family.name + ' ';
    out += word(family.type);
    out += '\n';
    for (const auto& metric : family.metric) {
      labels.clear();
      append_labels(labels, metric.label);
      if (family.type == MetricType::Histogram) {
        append_histogram(out, family.name, labels, metric.histogram);
        continue;
      }
      append_series(out, family.name, "", labels);
      append_number(out, family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value);
      out += '\n';
    }
  }
  return out;
}

}  // namespace weir::metrics
