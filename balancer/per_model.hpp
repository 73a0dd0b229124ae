// A table of what a pool has learned by model and API. No client can make it grow: it has at most 64 rows, and a row is
// made only after a replica's successful answer. Beyond that the row of a model goes that has learned nothing for the
// longest time, because some engines answer whatever model is asked for, and names that one client makes up must not
// keep the rows from models that are there.
//
// A row for (model, API) has parents: one for the model, one for the API and one for the whole pool. A request is
// looked up in all four, widest first. A row that knows few answers relies on the row above it. A look-up goes through
// all rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

/// The levels stand from the widest to the narrowest.
enum class Level : std::uint8_t { pool, api, model, model_and_api };
inline constexpr std::array<Level, 4> levels{Level::pool, Level::api, Level::model, Level::model_and_api};

/// Returns how far a row that has learned from so many answers is believed against the row above it: 0 to 1.
inline double belief(std::uint64_t answers) {
  constexpr std::uint64_t enough = 5;
  return static_cast<double>(std::min(answers, enough)) / static_cast<double>(enough);
}

template <class Value>
class PerModel {
 public:
  static constexpr std::size_t limit = 64;
  using Chain = std::array<const Value*, levels.size()>;  ///< By Level; null where there is no row.

  Chain find(const metrics::wire::RequestFacts& facts) const {
    Chain chain{};
    for (const Row& row : rows_) {
      if (row.covers(facts)) chain[static_cast<std::size_t>(row.level)] = &row.value;
    }
    return chain;
  }

  /// Returns the rows of a request, until the next call. Missing rows are made, and may take those of another model for
  /// that: `below` gets the row above and returns the value to begin with.
  template <class Below>
  std::array<Value*, levels.size()> find_or_make(const metrics::wire::RequestFacts& facts, Below below) {
    if (rows_.empty()) rows_.reserve(limit);  // Rows never move.
    ++uses_;
    std::array<Value*, levels.size()> chain{};
    for (Row& row : rows_) {
      if (!row.covers(facts)) continue;
      chain[static_cast<std::size_t>(row.level)] = &row.value;
      row.used = uses_;
    }
    const Value* above = nullptr;
    for (const Level level : levels) {
      Value*& value = chain[static_cast<std::size_t>(level)];
      if (!value) {
        Row made{level, facts.api, by_model(level) ? facts.model : "", below(above), uses_};
        value = &place_for(std::move(made)).value;
      }
      above = value;
    }
    return chain;
  }

 private:
  static bool by_model(Level level) { return level >= Level::model; }

  struct Row {
    Level level;
    metrics::Api api;
    std::string model;
    Value value;
    std::uint64_t used = 0;  ///< See uses_.

    bool covers(const metrics::wire::RequestFacts& facts) const {
      const bool api_fits = level == Level::pool || level == Level::model || api == facts.api;
      return api_fits && (!by_model(level) || model == facts.model);
    }
  };
  // The pool's row and those of the APIs stay: there are few of them.
  Row& place_for(Row made) {
    if (rows_.size() < limit) return rows_.emplace_back(std::move(made));
    const auto age = [](const Row& row) { return by_model(row.level) ? row.used : ~std::uint64_t{0}; };
    Row& oldest = *std::ranges::min_element(rows_, {}, age);
    oldest = std::move(made);
    return oldest;
  }

  std::vector<Row> rows_;
  std::uint64_t uses_ = 0;  ///< So many requests have asked for their rows to learn.
};

}  // namespace weir::balancer
