// Reads a replica's own pages: engine, version, models, KV cache, limits.
//
// The reading is pure: pages go in, facts come out. The shape of the answers tells the engine, never a name in the
// settings. A page that is missing, or is not what it should be, leaves its facts unknown; that is no error. Only the
// facts here are kept of a page, because SGLang's /server_info holds its API keys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "proxy/fleet/engine_figures.hpp"
#include "proxy/fleet/page_asking.hpp"

namespace weir::proxy::fleet {

/// The pages that tell something, by path. None of them starts work on a replica.
enum class Page : std::uint8_t {
  models,           ///< Every engine has these OpenAI routes.
  metrics,          ///< Prometheus text.
  version,          ///< vLLM and Aphrodite have it.
  server_info,      ///< SGLang has it.
  get_server_info,  ///< Older releases of SGLang have it, and the next.
  model_info,
  get_model_info,
  info,   ///< TGI has it.
  props,  ///< llama.cpp has it.
  ollama_version,
  ollama_tags,
};
inline constexpr std::array<std::string_view, 11> page_paths{
    "/v1/models",      "/metrics", "/version", "/server_info", "/get_server_info", "/model_info",
    "/get_model_info", "/info",    "/props",   "/api/version", "/api/tags"};

inline std::string_view path_of(Page page) { return page_paths[static_cast<std::size_t>(page)]; }

struct Pages {
  std::array<PageAnswer, page_paths.size()> answers;
  PageAnswer& operator[](Page page) { return answers[static_cast<std::size_t>(page)]; }
  const PageAnswer& operator[](Page page) const { return answers[static_cast<std::size_t>(page)]; }
};

/// A fact that is absent is unknown.
struct ReplicaFacts {
  Engine engine = Engine::unknown;
  std::string version;              ///< "" means unknown.
  std::vector<std::string> models;  ///< The names that clients use; an empty list means unknown.
  std::optional<std::uint64_t> kv_tokens;
  std::optional<std::uint64_t> max_context;
  std::optional<std::uint64_t> slots;  ///< llama.cpp takes so many requests at a time.
  std::optional<bool> prefix_caching;  ///< vLLM says whether it is on.
  bool metrics = false;                ///< Serves Prometheus metrics.
  bool operator==(const ReplicaFacts&) const = default;
};

ReplicaFacts facts_of(const Pages& pages);

/// Returns the pages, besides metrics and models, that identify an engine of this kind; every page where the kind is
/// unknown.
std::span<const Page> identifying_pages(Engine engine);

/// Takes new facts into the figures. Figures without a new fact stay, unless it is another engine now.
void take_facts(const ReplicaFacts& facts, EngineFigures& figures);

/// Returns what the pool is to know of them at this moment. An engine is taken to sleep as long as its load is good.
balancer::EngineLimits limits_of(const EngineFigures& figures, metrics::Moment now);

/// Returns one line: "vLLM 0.10.2, model 'm', KV cache of 1000 tokens, context of 4096".
std::string text_of(const EngineFigures& figures);

/// Returns why a replica refused, from the body of its answer: the message of any engine's error shape, else "". It is
/// printable and at most 200 bytes long.
std::string refusal_message(std::string_view body);

}  // namespace weir::proxy::fleet
