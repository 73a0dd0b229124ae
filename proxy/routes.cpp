#include "proxy/routes.hpp"

#include <algorithm>
#include <array>

#include "metrics/wire/request.hpp"

namespace weir::proxy {
namespace {

/// Besides those of the APIs that are read.
constexpr std::array<std::string_view, 11> other_inference_paths{
    "/v1/embeddings", "/embeddings", "/embed",    "/v1/rerank",   "/v2/rerank", "/rerank",
    "/v1/score",      "/score",      "/tokenize", "/v1/tokenize", "/detokenize"};

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
  // TGI takes requests at "/"; what other engines show there to a browser is no inference.
  const bool known =
      path == "/" ? method == "POST"
                  : metrics::wire::api_of("POST", path) != metrics::Api::other || contains(other_inference_paths, path);
  const bool allowed = paths.empty() ? known : contains(paths, "*") || contains(paths, path);
  if (!allowed) return Route::unknown;
  return known ? Route::inference : Route::open;
}

}  // namespace weir::proxy
