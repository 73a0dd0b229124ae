#include "proxy/routes.hpp"

#include <algorithm>
#include <array>

namespace weir::proxy {
namespace {

constexpr std::array<std::string_view, 22> inference_paths{"/v1/chat/completions",
                                                           "/v1/completions",
                                                           "/v1/responses",
                                                           "/v1/messages",
                                                           "/v1/embeddings",
                                                           "/v1/rerank",
                                                           "/v2/rerank",
                                                           "/v1/score",
                                                           "/rerank",
                                                           "/score",
                                                           "/embed",
                                                           "/embeddings",
                                                           "/generate",
                                                           "/generate_stream",
                                                           "/completion",
                                                           "/tokenize",
                                                           "/detokenize",
                                                           "/v1/tokenize",
                                                           "/api/generate",
                                                           "/api/chat",
                                                           "/api/extra/generate/stream",
                                                           "/api/v1/generate"};

template <class List>
bool contains(const List& list, std::string_view what) {
  return std::find(list.begin(), list.end(), what) != list.end();
}

}  // namespace

Route route_of(std::string_view method, std::string_view path, const std::vector<std::string>& paths) {
  if (method == "GET" || method == "HEAD") {
    if (path == "/health") return Route::health;
    if (path == "/v1/models") return Route::models;
  }
  const bool known = contains(inference_paths, path);
  const bool allowed = paths.empty() ? known : contains(paths, "*") || contains(paths, path);
  if (!allowed) return Route::unknown;
  return known ? Route::inference : Route::open;
}

}  // namespace weir::proxy
