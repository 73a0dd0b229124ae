// Reads an engine's own metrics page: the engine's kind, the size of its KV cache, and its load. No I/O.
//
// Names differ by engine and drift between releases, so each figure has a list of names (config::EngineNames), and the
// first that is on the page counts. The lines of one name are added up, because data parallel engines behind one port
// have a line each; a share is averaged. A value that no engine can have is unknown.
#pragma once

#include <simdjson.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::fleet {

/// Counters of an engine's work by name: those of EngineNames::counters that are on a page.
using Counters = std::map<std::string, double, std::less<>>;

/// Returns whether a counter that both pages have has changed from one to the other; nothing if they have none in
/// common.
std::optional<bool> have_moved(const Counters& first, const Counters& second);
/// Takes the counters of a page into those that were known, which stay where the page lacks them. Returns true if one
/// of them has risen.
bool have_risen(Counters& known, const Counters& page);

struct EnginePage {
  bool is_page = false;  ///< Has a sample.
  Engine engine = Engine::unknown;
  std::optional<std::uint64_t> kv_tokens;
  std::optional<bool> prefix_caching;  ///< vLLM says whether it is on.
  std::optional<double> started;       ///< When its process began, in seconds of the Unix clock.
  Counters counters;
  EngineLoad load;  ///< The figures on the page: no moments, no divergence.
};

EnginePage read_engine_page(std::string_view text, const config::EngineNames& names = config::engine_names);

// Parses the JSON of engines' pages. Stateless.

/// Returns the text with null in place of each number that neither 64 bits nor a finite double hold.
std::string without_huge_numbers(std::string_view json);

/// Parses a page. simdjson refuses a document for a number that it cannot hold; such a number is null instead.
simdjson::simdjson_result<simdjson::dom::element> parse_page(simdjson::dom::parser& parser, std::string_view json);

// Reads a replica's own pages: engine, version, models, KV cache, limits.
//
// The reading is pure: pages go in, facts come out. The shape of the answers tells the engine, never a name in the
// settings. A page that is missing, or is not what it should be, leaves its facts unknown; that is no error. Only the
// facts here are kept of a page, because SGLang's /server_info holds its API keys.

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
