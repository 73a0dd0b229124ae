#include "proxy/http/routes.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "metrics/wire/dialects/dialect.hpp"

namespace weir::proxy::http {
namespace {

/// These come besides those of the APIs that are read.
constexpr std::array<std::string_view, 16> other_inference_paths{
    "/v1/embeddings", "/embeddings",     "/embed",          "/v1/rerank",
    "/v2/rerank",     "/rerank",         "/v1/reranking",   "/v1/score",
    "/score",         "/tokenize",       "/v1/tokenize",    "/detokenize",
    "/infill",        "/v1/moderations", "/apply-template", "/v1/messages/count_tokens"};

/// Every path below these is an inference route: transcriptions, speech, generations, edits.
constexpr std::array<std::string_view, 2> inference_folders{"/v1/audio/", "/v1/images/"};

constexpr std::string_view models_path = "/v1/models";

template <class List>
bool contains(const List& list, std::string_view what) {
  return std::find(list.begin(), list.end(), what) != list.end();
}

/// True for segments of letters, digits, `-` and `_`: no replica could read them as a way out of the folder.
bool is_plain(std::string_view rest) {
  char last = '/';
  for (const char c : rest) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool word = letter || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!word && (c != '/' || last == '/')) return false;
    last = c;
  }
  return last != '/';
}

bool in_inference_folder(std::string_view path) {
  return std::any_of(inference_folders.begin(), inference_folders.end(), [&](std::string_view folder) {
    return path.starts_with(folder) && is_plain(path.substr(folder.size()));
  });
}

/// TGI takes requests at "/". What other engines show a browser there is no inference.
bool known_inference(std::string_view method, std::string_view path) {
  if (path == "/") return method == "POST" || method == "OPTIONS";
  return metrics::wire::api_of("POST", path) != metrics::Api::other || contains(other_inference_paths, path) ||
         in_inference_folder(path);
}

Route own_route(std::string_view path) {
  if (path == "/health") return Route::health;
  if (path == models_path) return Route::models;
  return model_id_in(path) ? Route::model : Route::unknown;
}

}  // namespace

Route route_of(std::string_view method, std::string_view path, const std::vector<std::string>& paths) {
  if (path == "*") return Route::server;
  if (const auto own = own_route(path); own != Route::unknown) {
    if (method == "GET" || method == "HEAD") return own;
    // A browser asks before it sends a credential, and only the replicas know whom they admit.
    if (method == "OPTIONS" && path.find("..") == std::string_view::npos) return Route::open;
  }
  const bool known = known_inference(method, path);
  const bool as_default = known && (paths.empty() || contains(paths, "default"));
  if (!as_default && !contains(paths, "*") && !contains(paths, path)) return Route::unknown;
  return known && method == "POST" ? Route::inference : Route::open;
}

std::optional<std::string> model_id_in(std::string_view path) {
  if (path.size() < models_path.size() + 2 || !path.starts_with(models_path) || path[models_path.size()] != '/')
    return std::nullopt;
  std::string id;
  for (auto rest = path.substr(models_path.size() + 1); !rest.empty();) {
    if (rest.front() != '%') {
      id += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    unsigned char byte = 0;
    if (rest.size() < 3) return std::nullopt;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + 3, byte, 16);
    if (error != std::errc{} || end != rest.data() + 3) return std::nullopt;
    id += static_cast<char>(byte);
    rest.remove_prefix(3);
  }
  return id;
}

}  // namespace weir::proxy::http
