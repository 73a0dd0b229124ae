// Reads a page of /metrics back, and has an exposition of one replica to scrape.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "metrics/series/exposition.hpp"
#include "metrics/series/text_page.hpp"
#include "tests/unit/metrics/record/sample_record.hpp"

namespace weir::metrics::series {

/// A scrape read back: every sample by its whole series text, and the families by name.
struct Scrape {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types, helps;
  std::vector<std::string> order;

  explicit Scrape(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string hash, keyword, name;
      if (line.starts_with("# ")) {
        words >> hash >> keyword >> name;
        std::string rest;
        std::getline(words >> std::ws, rest);
        (keyword == "HELP" ? helps : types)[name] = rest;
        if (keyword == "TYPE") order.push_back(name);
        continue;
      }
      const auto space = line.rfind(' ');
      const bool fresh = samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second;
      EXPECT_TRUE(fresh) << "twice: " << line;
    }
  }

  /// Returns the sample of a series of gpu0, with its own labels as they stand in the text: `outcome="ok"`.
  std::optional<double> gpu0(const std::string& name, const std::string& own = "") const {
    return at(name + R"({pool="chat",replica="gpu0",config="vllm-fp16",role="primary")" +
              (own.empty() ? "" : "," + own) + "}");
  }
  std::optional<double> at(const std::string& series) const {
    const auto found = samples.find(series);
    return found == samples.end() ? std::nullopt : std::optional{found->second};
  }
};

/// A histogram on a page: its buckets in their order there, each as its bound and its cumulative count.
struct ShownHistogram {
  std::vector<std::pair<double, double>> buckets;
  std::optional<double> sum, count;
};

/// Returns the histograms of a page by family and labels.
inline std::map<std::string, ShownHistogram> histograms_of(const std::string& page) {
  std::map<std::string, ShownHistogram> all;
  std::set<std::string, std::less<>> families;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ") && line.ends_with(" histogram")) families.insert(line.substr(7, line.size() - 17));
    const auto sample = read_sample(line);
    if (line.starts_with('#') || !sample) continue;
    const auto part = sample->name.rfind('_');
    if (!families.contains(std::string_view(sample->name).substr(0, part))) continue;
    std::string key = sample->name.substr(0, part);
    for (const auto& [name, value] : sample->labels)
      if (name != "le") key.append(" ").append(name).append("=").append(value);
    auto& one = all[key];
    if (sample->name.ends_with("_bucket")) {
      one.buckets.emplace_back(std::stod(std::string(sample->label("le"))), sample->value);
    } else {
      (sample->name.ends_with("_sum") ? one.sum : one.count) = sample->value;
    }
  }
  return all;
}

struct ExpositionTest : testing::Test {
  ExpositionTest() : replica(exposition.add({"chat", "gpu0", "vllm-fp16"})) {
    replica.gauges = [this] { return gauges; };
  }
  Scrape scrape() const { return Scrape(exposition.text()); }

  Exposition exposition{2,
                        {"0.1.0", "g++ 12"},
                        {{"interactive", "chat", config::Seconds{0.3}, {}, config::Seconds{0.01}, {}},
                         {"whole", "chat", {}, {}, {}, config::Seconds{1}},
                         {"elsewhere", "other", config::Seconds{0.7}, {}, {}, {}}}};
  ReplicaGauges gauges;
  ReplicaSeries& replica;
};

}  // namespace weir::metrics::series
