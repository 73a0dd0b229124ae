// The models of a replica, by its own list (GET /v1/models). A request names a model; a replica whose list lacks it
// gives way to those whose list has it (eligibility.hpp). Names are compared as hashes of their first 128 bytes, which
// is as much as weir keeps of a request's name.
//
// The rule takes for granted that the replicas of a pool list one model under one name. A name that no list has, such
// as an alias, makes no difference between replicas: engines that take any name list one, and must not starve.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

/// The hash of a model's name; 0 for a request that names none.
using ModelId = std::uint64_t;

inline ModelId model_id(std::string_view name) {
  if (name.empty()) return 0;
  const std::size_t hash = std::hash<std::string_view>()(name.substr(0, metrics::wire::longest_model));
  return hash == 0 ? 1 : hash;
}

/// Sorted. Null where the list is unknown.
using ModelList = std::shared_ptr<const std::vector<ModelId>>;

/// A replica's list, and the models that it has answered though the list lacks them. Some are loaded between two
/// readings of the list.
class ListedModels {
 public:
  /// The lessons of answers hold until the list changes. Returns true if it has.
  bool set(ModelList list) {
    if (list == list_ || (list && list_ && *list == *list_)) return false;
    list_ = std::move(list);
    answered_ = {};
    return true;
  }
  void answered(ModelId model) {
    if (!lacks(model)) return;
    answered_[next_++ % answered_.size()] = model;
  }

  bool is_known() const { return list_ != nullptr; }
  /// Returns none where the list is unknown.
  std::span<const ModelId> list() const {
    if (!list_) return {};
    return *list_;
  }
  /// True if the list is known and has the model.
  bool has(ModelId model) const { return list_ && std::ranges::binary_search(*list_, model); }
  /// True if the list is known and lacks the model, and no answer has shown that the replica has it all the same.
  bool lacks(ModelId model) const {
    return list_ && !has(model) && std::ranges::find(answered_, model) == answered_.end();
  }
  /// Both are known.
  bool differs_from(const ListedModels& other) const { return *list_ != *other.list_; }

 private:
  ModelList list_;
  std::array<ModelId, 8> answered_{};  ///< The oldest is overwritten.
  std::size_t next_ = 0;
};

}  // namespace weir::balancer
