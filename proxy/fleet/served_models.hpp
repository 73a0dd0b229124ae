// The models that are served: what replicas tell of theirs, each id once. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::proxy::fleet {

/// The entries of one replica's list, whole, each with an id.
using ModelEntries = std::vector<boost::json::object>;

/// Those of an OpenAI model list; none where it is not one.
ModelEntries entries_of(std::string_view body);

class ServedModels {
 public:
  /// A pool that names its models serves those and no other, each with the entry of the first replica that tells one;
  /// a pool that names none serves all that its replicas tell. An id that an earlier pool has stays with it.
  void add_pool(const std::vector<std::string>& named, std::span<const std::shared_ptr<const ModelEntries>> replicas);

  bool empty() const { return entries_.empty(); }
  /// Nothing where no pool serves it.
  const boost::json::object* find(std::string_view id) const;
  /// The answer to GET /v1/models.
  std::string text() const;

 private:
  void add(boost::json::object entry, std::string_view id);

  ModelEntries entries_;
  std::map<std::string, std::size_t, std::less<>> places_;  ///< By id, in `entries_`.
};

}  // namespace weir::proxy::fleet
