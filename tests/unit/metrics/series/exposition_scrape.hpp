// Reads a page of /metrics back, and has an exposition of one replica to scrape.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "metrics/series/exposition.hpp"
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
