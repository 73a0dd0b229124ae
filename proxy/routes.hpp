// Which paths weir serves: the engines keep weight updates and cache flushes on the same port as inference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::proxy {

enum class Route : unsigned char {
  health,     ///< GET /health: weir's own.
  models,     ///< GET /v1/models: the union over pools, answered by weir.
  inference,  ///< A route of the engines' that weir knows.
  open,       ///< Let through by the settings only.
  unknown,    ///< 404
};

/// `paths` is server.paths: empty = the known routes, {"*"} = everything, else exactly these.
Route route_of(std::string_view method, std::string_view path, const std::vector<std::string>& paths);

}  // namespace weir::proxy
