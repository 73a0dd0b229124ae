// Which paths weir serves: the engines keep weight updates and cache flushes on the same port as inference.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::proxy::http {

enum class Route : unsigned char {
  health,     ///< GET /health: weir's own.
  models,     ///< GET /v1/models: the union over pools, answered by weir.
  model,      ///< GET /v1/models/{id}: one of them.
  inference,  ///< POST on a route of the engines' that weir knows.
  open,       ///< Passed on without being such: another method, a CORS preflight, a path of the settings' own.
  unknown,    ///< 404
};

/// `paths` is server.paths: empty = the known routes, {"*"} = everything, else exactly these, of which "default" stands
/// for the known routes.
Route route_of(std::string_view method, std::string_view path, const std::vector<std::string>& paths);

/// What weir answers without a replica.
inline bool is_own(Route route) {
  return route == Route::health || route == Route::models || route == Route::model || route == Route::unknown;
}

/// The id in /v1/models/{id}, decoded: slashes may stand in it as they are. Nothing where it is none.
std::optional<std::string> model_id_in(std::string_view path);

}  // namespace weir::proxy::http
