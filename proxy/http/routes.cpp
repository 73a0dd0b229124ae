#include "proxy/http/routes.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "metrics/wire/dialects/dialect.hpp"
#include "proxy/http/head.hpp"

namespace weir::proxy::http {
namespace {

/// Inference paths besides those of the APIs that weir reads.
constexpr std::array<std::string_view, 11> other_inference_paths{"/tokenize",
                                                                 "/v1/tokenize",
                                                                 "/detokenize",
                                                                 "/infill",
                                                                 "/v1/moderations",
                                                                 "/apply-template",
                                                                 "/v1/messages/count_tokens",
                                                                 "/pooling",
                                                                 "/classify",
                                                                 "/v1/chat/completions/batch",
                                                                 "/api/extra/tokencount"};

/// Clients of Kobold's and Ollama's APIs ask these before their first request: which model and version is there, and
/// how much it takes. Other methods change it: a PUT of /api/v1/model loads another one.
constexpr std::array<std::string_view, 7> handshake_paths{"/api/v1/model",
                                                          "/api/v1/info/version",
                                                          "/api/v1/config/max_context_length",
                                                          "/api/v1/config/max_length",
                                                          "/api/extra/version",
                                                          "/api/extra/true_max_context_length",
                                                          "/api/tags"};

/// Every path below these is an inference route: transcriptions, speech, generations, edits.
constexpr std::array<std::string_view, 2> inference_folders{"/v1/audio/", "/v1/images/"};

constexpr std::string_view models_path = "/v1/models", models_path_without_version = "/models";

template <class List>
bool contains(const List& list, std::string_view what) {
  return std::find(list.begin(), list.end(), what) != list.end();
}

/// True for segments of letters, digits, `-` and `_`: no replica could read them as a way out of the folder.
bool is_plain(std::string_view rest) {
  char last = '/';
  for (const char c : rest) {
    if (!is_word(c) && (c != '/' || last == '/')) return false;
    last = c;
  }
  return last != '/';
}

bool in_inference_folder(std::string_view path) {
  return std::any_of(inference_folders.begin(), inference_folders.end(), [&](std::string_view folder) {
    return path.starts_with(folder) && is_plain(path.substr(folder.size()));
  });
}

struct Methods {
  bool asks = false, posts = false, deletes = false;

  bool takes(std::string_view method) const {
    if (method == "OPTIONS") return asks || posts || deletes;
    return (asks && (method == "GET" || method == "HEAD")) || (posts && method == "POST") ||
           (deletes && method == "DELETE");
  }
};
/// The paths of what an engine keeps; "" behind the id is the thing itself.
struct KeptFolder {
  std::string_view path;
  Methods methods;
  struct {
    std::string_view name;
    Methods methods;
  } behind_id[3];
};
constexpr Methods looks{.asks = true}, posts{.posts = true}, looks_or_deletes{.asks = true, .deletes = true},
    looks_or_makes{.asks = true, .posts = true};
constexpr KeptFolder kept_folders[] = {
    {"/v1/responses", {}, {{"", looks_or_deletes}, {"/cancel", posts}, {"/input_items", looks}}},
    {"/v1/files", looks_or_makes, {{"", looks_or_deletes}, {"/content", looks}, {}}},
    {"/v1/batches", looks_or_makes, {{"", looks}, {"/cancel", posts}, {}}}};

/// TGI takes requests at "/". Pages that other engines show a browser there are no inference.
bool known_inference(std::string_view method, std::string_view path) {
  if (path == "/") return method == "POST" || method == "OPTIONS";
  if (contains(handshake_paths, path)) return method == "GET" || method == "HEAD" || method == "OPTIONS";
  return metrics::wire::api_of("POST", path) != metrics::Api::other || contains(other_inference_paths, path) ||
         in_inference_folder(path);
}

/// True for a path that means one route to servers that decode escaped slashes, and to those that do not. A model's id
/// may hold slashes, so both find the same model.
bool means_one_model(std::string_view path) {
  std::string decoded(path);
  for (std::size_t at = 0; (at = decoded.find('%', at)) != std::string::npos; ++at)
    if (escaped_byte(std::string_view(decoded).substr(at)) == '/') decoded.replace(at, 3, "/");
  const bool has_empty_name = decoded.find("//") != std::string::npos || decoded.ends_with('/');
  return means_one_route(decoded) && (decoded == path || !has_empty_name);
}

Route own_route(std::string_view path) {
  if (path == "/health") return Route::health;
  if (path == models_path || path == models_path_without_version) return Route::models;
  return model_id_in(path) ? Route::model : Route::unknown;
}

}  // namespace

Route route_of(std::string_view method, std::string_view path, const std::vector<std::string>& paths) {
  if (path == "*") return Route::server;
  if (const auto own = own_route(path); own != Route::unknown) {
    if (method == "GET" || method == "HEAD") return own;
    // A browser asks before it sends a credential, and only the replicas know whom they admit.
    if (method == "OPTIONS" && means_one_model(path)) return Route::open;
  }
  const bool kept = kept_path(method, path).has_value();
  const bool known = kept || known_inference(method, path);
  if (!known && !means_one_route(path) && !contains(paths, path)) return Route::unknown;
  const bool as_default = known && (paths.empty() || contains(paths, "default"));
  if (!as_default && !contains(paths, "*") && !contains(paths, path)) return Route::unknown;
  return known && !kept && method == "POST" ? Route::inference : Route::open;
}

std::optional<KeptPath> kept_path(std::string_view method, std::string_view path) {
  for (const KeptFolder& folder : kept_folders) {
    if (!path.starts_with(folder.path)) continue;
    auto rest = path.substr(folder.path.size());
    if (rest.empty() && !folder.methods.takes(method)) return std::nullopt;
    if (rest.empty()) return KeptPath{"", method == "POST"};
    if (!rest.starts_with('/') || !is_plain(rest.substr(1))) return std::nullopt;
    rest.remove_prefix(1);
    const auto id = rest.substr(0, rest.find('/'));
    for (const auto& [name, methods] : folder.behind_id)
      if (rest.substr(id.size()) == name && methods.takes(method)) return KeptPath{id};
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> without_spare_slashes(std::string_view method, std::string_view path,
                                                 const std::vector<std::string>& paths) {
  if (!path.ends_with('/') && path.find("//") == path.npos) return std::nullopt;
  if (contains(paths, path)) return std::nullopt;
  std::string plain;
  for (const char c : path)
    if (c != '/' || !plain.ends_with('/')) plain += c;
  if (plain.ends_with('/')) plain.pop_back();
  const auto own = own_route(plain);
  const bool known = own == Route::health || own == Route::models || (!plain.empty() && known_inference(method, plain));
  return known && plain != path ? std::optional(plain) : std::nullopt;
}

std::optional<unsigned char> escaped_byte(std::string_view text) {
  unsigned char byte = 0;
  if (text.size() < 3 || text.front() != '%') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + 3, byte, 16);
  return error == std::errc{} && end == text.data() + 3 ? std::optional(byte) : std::nullopt;
}

bool means_one_route(std::string_view path) {
  for (auto rest = path; !rest.empty();) {
    const auto slash = std::min(rest.find('/'), rest.size());
    const auto name = rest.substr(0, slash);
    if (name == "." || name == "..") return false;
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  for (auto rest = path; !rest.empty(); rest.remove_prefix(1)) {
    auto byte = static_cast<unsigned char>(rest.front());
    const bool escaped = byte == '%';
    if (escaped) {
      const auto decoded = escaped_byte(rest);
      if (!decoded) return false;
      byte = *decoded;
      rest.remove_prefix(2);
    }
    if (byte < 0x20 || byte == 0x7f || byte == '\\' || byte == ';') return false;
    if (escaped && (is_word(static_cast<char>(byte)) || std::string_view("./~%?#").find(static_cast<char>(byte)) !=
                                                            std::string_view::npos))
      return false;
  }
  return true;
}

std::optional<std::string> model_id_in(std::string_view path) {
  if (path.size() < models_path.size() + 2 || !path.starts_with(models_path) || path[models_path.size()] != '/')
    return std::nullopt;
  std::string id;
  for (auto rest = path.substr(models_path.size() + 1); !rest.empty();) {
    const auto byte = escaped_byte(rest);
    if (!byte && rest.front() == '%') return std::nullopt;
    id += byte ? static_cast<char>(*byte) : rest.front();
    rest.remove_prefix(byte ? 3 : 1);
  }
  return id;
}

}  // namespace weir::proxy::http
