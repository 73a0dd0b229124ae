// Merges the replicas' model lists into the models that weir serves, each id once. No I/O.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/models.hpp"

namespace weir::proxy::fleet {

/// An entry of a replica's list, whole, as JSON on one line.
struct ModelEntry {
  std::string id, json;
  bool operator==(const ModelEntry&) const = default;
};
using ModelEntries = std::vector<ModelEntry>;

/// Returns the entries of an OpenAI model list; none if it is not one.
ModelEntries entries_of(std::string_view body);

/// Returns the ids for a pool; null for an empty list, which says nothing.
balancer::ModelList ids_of(const ModelEntries& entries);

class ServedModels {
 public:
  /// Adds a pool. A pool that names its models serves those and no others, each with the entry of the first replica
  /// that has one. A pool that names none serves all that its replicas tell. An id stays with the first pool that has
  /// it.
  void add_pool(const std::vector<std::string>& named, std::span<const std::shared_ptr<const ModelEntries>> replicas);

  /// Returns those of these models that are served.
  ServedModels only(const std::vector<std::string>& ids) const;
  bool empty() const { return entries_.empty(); }
  /// Returns the JSON of an entry; nothing if no pool serves it.
  const std::string* find(std::string_view id) const;
  /// Returns the answer to GET /v1/models.
  std::string text() const;

 private:
  void add(const ModelEntry& entry);

  ModelEntries entries_;
  std::map<std::string, std::size_t, std::less<>> places_;  ///< Maps an id to its index in `entries_`.
};

}  // namespace weir::proxy::fleet
