// Decides which paths weir serves, because the engines have weight updates and cache flushes on the same port as
// inference.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::proxy::http {

enum class Route : unsigned char {
  health,     ///< GET /health, which weir answers.
  server,     ///< OPTIONS *, which is about the server as a whole; weir answers.
  models,     ///< GET /v1/models, or /models: the union over pools, which weir answers.
  model,      ///< GET /v1/models/{id}: one of them.
  inference,  ///< POST on an engines' route that weir knows.
  open,       ///< Passed on without being inference: another method, a CORS preflight, what an engine keeps, a
              ///< path of the settings' own.
  preflight,  ///< A browser asks for a page, and weir answers by server.cors_origins.
  unknown,    ///< weir answers 404.
};

/// `paths` is server.paths: empty means the known routes, {"*"} means everything, and any other list means exactly
/// these; "default" in it stands for the known routes.
Route route_of(std::string_view method, std::string_view path, const std::vector<std::string>& paths);

/// Returns the path of a route that weir knows for one in which slashes stand twice or at the end, as where a base url
/// ends in a slash. Nothing for any other path, and for one that `paths` names as it is. The ids of models in paths
/// stay as they are.
std::optional<std::string> without_spare_slashes(std::string_view method, std::string_view path,
                                                 const std::vector<std::string>& paths);

/// True for a path that every reader takes for the same route. No dot segment, backslash, semicolon (some servers cut
/// off what follows) or control character stands in it, written or escaped, and no escape of a character that means the
/// same without one, or that ends a segment.
bool means_one_route(std::string_view path);

/// A path of what an engine keeps under an id of its own: OpenAI's responses, files and batches.
struct KeptPath {
  std::string_view id;  ///< "" for the folder itself.
  bool makes = false;   ///< The engine is to keep something new.
};
/// Returns nothing for another path, and for a method that such a path does not take.
std::optional<KeptPath> kept_path(std::string_view method, std::string_view path);

/// True for routes that weir answers without a replica.
inline bool is_own(Route route) { return route != Route::inference && route != Route::open; }

/// Returns the byte of the escape (`%2F`) with which the text begins; nothing if it begins with none.
std::optional<unsigned char> escaped_byte(std::string_view text);

/// Returns the id in /v1/models/{id}, decoded; slashes may stand in it as they are. Returns nothing if it is none.
std::optional<std::string> model_id_in(std::string_view path);

}  // namespace weir::proxy::http
