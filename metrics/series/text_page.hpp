// Writes a page in the text format of Prometheus (version 0.0.4): families, each with HELP and TYPE, and their samples.
//
// A page is written by one thread. A sample costs some tens of nanoseconds (docs/benchmarks.md), because its labels are
// text when they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::metrics::series {

/// Names a family, says what it means, and names its own labels, with commas: those of a replica are in front of them.
/// A family without a help does not compile. `help` takes neither a backslash nor a line end.
struct SeriesText {
  consteval SeriesText(std::string_view name_of_family, std::string_view help_of_it, std::string_view own_labels = "")
      : name(name_of_family), help(help_of_it), labels(own_labels) {
    if (help.empty()) throw "the help is missing";
  }
  std::string_view name, help, labels;
};

enum class SeriesType : std::uint8_t { counter, gauge, histogram };
constexpr std::string_view name_of(SeriesType type) {
  return type == SeriesType::counter ? "counter" : type == SeriesType::gauge ? "gauge" : "histogram";
}

/// A family that may be on the page.
struct Family {
  SeriesText text;
  SeriesType type;
};

/// Names and values of labels that stand behind those of a replica.
using OwnLabels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// Returns `labels` with `own` behind them, as they stand between the braces of a sample: `pool="chat",role="primary"`.
/// Values are escaped.
std::string labels_with(std::string_view labels, OwnLabels own);

/// The bounds of histograms, each as the rest of a bucket's line before its count. Histograms that come one after the
/// other and share their bounds have them made once.
class BoundTexts {
 public:
  /// `bounds` must stay where they are as long as this object is used. Each is divided by `unit`. The result is valid
  /// until the next call; its last text is that of +Inf.
  std::span<const std::string> of(std::span<const std::uint64_t> bounds, double unit);

 private:
  std::span<const std::uint64_t> bounds_;
  double unit_ = 0;
  std::vector<std::string> texts_;
};

class TextPage {
 public:
  /// Takes memory for so many bytes at once, if the page's length is about known. A page that grows to ten megabytes by
  /// itself has its memory mapped three times over, which takes longer than to write it.
  explicit TextPage(std::size_t expected_bytes = 0) { text_.reserve(expected_bytes); }

  /// Begins a family, to which the samples that follow belong. No family begins twice, and the name outlives the page.
  void begin(const SeriesText& text, SeriesType type);

  /// Adds a sample. `labels` is what labels_with() returned; "" stands for none.
  void add(std::string_view labels, std::uint64_t value);
  void add(std::string_view labels, double value);
  /// Adds a histogram's buckets, sum and count. `counts` are observations for each bucket alone, and there are as many
  /// as bounds, that of +Inf included.
  void add(std::string_view labels, std::span<const std::string> bounds, std::span<const std::uint64_t> counts,
           double sum);

  /// Returns the page: its families in the order of their names, then `rest`.
  std::string sorted(std::string_view rest = {}) const;
  /// Returns the families that have begun, in this order.
  std::vector<Family> families() const;

 private:
  template <typename Number>
  void add_line(std::string_view suffix, std::string_view labels, Number value);

  struct Begin {
    Family family;
    std::size_t at;  ///< In text_.
  };
  std::string_view name() const { return begins_.back().family.text.name; }

  std::string text_;
  std::vector<Begin> begins_;
  std::string bucket_;  ///< The begin of every line of a histogram's buckets.
};

// Reads one line of a page in the text format of Prometheus (version 0.0.4), as weir and the engines serve it on
// /metrics.
//
// Timestamps and exemplars are not read.

struct Sample {
  std::string name;
  std::map<std::string, std::string, std::less<>> labels;
  double value = 0;

  /// Returns "" if there is no such label.
  std::string_view label(std::string_view key) const;
};

/// Returns nothing if the line is not of the format. The caller skips empty lines and comments.
std::optional<Sample> read_sample(std::string_view line);

}  // namespace weir::metrics::series
