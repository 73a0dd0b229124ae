// What a replica says of itself on its own pages: engine, version, models, KV cache, limits.
//
// Pure: pages in, facts out. An engine is told by the shape of what it answers, never by a name in the settings. A page
// that is missing, or is not what it should be, leaves its facts unknown: that is no error. Nothing of a page but the
// facts here is kept: SGLang's /server_info holds its API keys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::proxy::probe {

enum class Engine : std::uint8_t { unknown, vllm, aphrodite, sglang, tgi, llama_cpp, ollama, weir_sim };
std::string_view name_of(Engine engine);

/// The pages that tell something, by path. None of them starts work on a replica.
enum class Page : std::uint8_t {
  models,           ///< OpenAI routes of every engine.
  metrics,          ///< Prometheus text.
  version,          ///< vLLM, Aphrodite.
  server_info,      ///< SGLang.
  get_server_info,  ///< The same in older releases, as is the next.
  model_info,
  get_model_info,
  info,   ///< TGI.
  props,  ///< llama.cpp.
  ollama_version,
  ollama_tags,
};
inline constexpr std::array<std::string_view, 11> page_paths{
    "/v1/models",      "/metrics", "/version", "/server_info", "/get_server_info", "/model_info",
    "/get_model_info", "/info",    "/props",   "/api/version", "/api/tags"};

struct PageAnswer {
  unsigned status = 0;  ///< 0: no answer.
  std::string body;
};

struct Pages {
  std::array<PageAnswer, page_paths.size()> answers;
  PageAnswer& operator[](Page page) { return answers[static_cast<std::size_t>(page)]; }
  const PageAnswer& operator[](Page page) const { return answers[static_cast<std::size_t>(page)]; }
};

/// Absent is unknown.
struct ReplicaFacts {
  Engine engine = Engine::unknown;
  std::string version;              ///< "" = unknown.
  std::vector<std::string> models;  ///< As clients write them; empty = unknown.
  std::optional<std::uint64_t> kv_tokens;
  std::optional<std::uint64_t> max_context;
  std::optional<std::uint64_t> slots;  ///< llama.cpp: requests at a time.
  std::optional<bool> prefix_caching;  ///< vLLM says whether it is on.
  bool metrics = false;                ///< Prometheus metrics are served.
  bool operator==(const ReplicaFacts&) const = default;
};

ReplicaFacts facts_of(const Pages& pages);

/// Why a replica refused, from the body of its answer: the message of any engine's error shape, else "". Printable, at
/// most 200 bytes.
std::string refusal_message(std::string_view body);

/// Text of a replica for a terminal: what is not printable ASCII becomes `?`, and it is cut at `most` bytes.
std::string printable(std::string_view text, std::size_t most = 128);

}  // namespace weir::proxy::probe
