// What a pool has learned, by model and API, in a table that no client can make grow: at most 64 rows, made only by the
// caller that has seen a replica's successful answer. A row is found by looking at all.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "metrics/wire/request.hpp"

namespace weir::balancer {

template <class Value>
class PerModel {
 public:
  static constexpr std::size_t limit = 64;

  const Value* find(const metrics::wire::RequestFacts& facts) const {
    for (const Row& row : rows_) {
      if (row.api == facts.api && row.model == facts.model) return &row.value;
    }
    return nullptr;
  }

  /// The row, made if there is place for it; else null.
  Value* find_or_make(const metrics::wire::RequestFacts& facts) {
    for (Row& row : rows_) {
      if (row.api == facts.api && row.model == facts.model) return &row.value;
    }
    if (rows_.size() == limit) return nullptr;
    return &rows_.emplace_back(Row{facts.api, facts.model, Value{}}).value;
  }

 private:
  struct Row {
    metrics::Api api;
    std::string model;
    Value value;
  };
  std::vector<Row> rows_;
};

}  // namespace weir::balancer
