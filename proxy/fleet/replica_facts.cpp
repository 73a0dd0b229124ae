#include "proxy/fleet/replica_facts.hpp"

#include <simdjson.h>

#include <algorithm>

#include "config/controls.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/json/sax.hpp"
#include "proxy/fleet/engine_page.hpp"
#include "proxy/fleet/page_json.hpp"

namespace weir::proxy::fleet {
namespace {

constexpr std::size_t most_models = 64;
constexpr std::size_t longest_text = 256;
constexpr std::size_t longest_version = 64, longest_model = 128;

/// A value of a page. One that is missing or of another type is an error, as is any value of a page that is broken or
/// none.
using Json = simdjson::simdjson_result<simdjson::dom::element>;

/// A page and its values, which live as long as it.
class Document {
 public:
  explicit Document(std::string_view text) : root_(parse_page(parser_, text)) {}
  explicit Document(const PageAnswer& page) : Document(page.status == 200 ? page.body : std::string_view()) {}
  Json operator[](std::string_view key) const { return root_[key]; }

 private:
  simdjson::dom::parser parser_;
  Json root_;
};

bool is_there(const Json& value) { return value.error() == simdjson::SUCCESS; }

std::string text_of(const Json& value) {
  std::string_view text;
  return value.get(text) ? std::string() : std::string(text.substr(0, longest_text));
}

std::optional<std::uint64_t> count_of(const Json& value) {
  double number = 0;
  if (value.get(number)) return std::nullopt;
  const auto count = metrics::wire::as_count(number);
  return count && metrics::believable(*count) ? count : std::nullopt;
}

/// The facts in a list of models. Every engine answers in OpenAI's shape, with members of its own.
struct ModelList {
  std::vector<std::string> ids;
  std::string owner;
  std::optional<std::uint64_t> max_context;
};

ModelList model_list(const Json& list, std::string_view id) {
  ModelList models;
  simdjson::dom::array entries;
  if (list.get(entries)) return models;
  for (const auto entry : entries) {
    if (models.ids.size() == most_models) break;
    auto name = text_of(entry[id]);
    if (name.empty()) continue;
    models.ids.push_back(std::move(name));
    if (models.owner.empty()) models.owner = text_of(entry["owned_by"]);
    if (!models.max_context) models.max_context = count_of(entry["max_model_len"]);
  }
  return models;
}

Engine engine_of_owner(std::string_view owner) {
  if (owner == "weir-lab") return Engine::weir_sim;
  if (owner == "vllm") return Engine::vllm;
  if (owner == "aphrodite" || owner == "pygmalionai") return Engine::aphrodite;
  if (owner == "sglang") return Engine::sglang;
  if (owner == "llamacpp") return Engine::llama_cpp;
  return Engine::unknown;
}

/// llama.cpp's /props gives n_ctx of one slot. It does not say what all slots hold together (they may share it).
bool read_llama_cpp(const Document& props, ReplicaFacts& facts) {
  const auto generation = props["default_generation_settings"];
  if (!generation.is_object()) return false;
  facts.engine = Engine::llama_cpp;
  facts.version = text_of(props["build_info"]);
  facts.max_context = count_of(generation["n_ctx"]);
  facts.slots = count_of(props["total_slots"]);
  return true;
}

bool read_tgi(const Document& info, ReplicaFacts& facts) {
  const auto model = text_of(info["model_id"]);
  if (model.empty() || !is_there(info["max_total_tokens"])) return false;
  facts.engine = Engine::tgi;
  facts.version = text_of(info["version"]);
  facts.max_context = count_of(info["max_total_tokens"]);
  facts.kv_tokens = count_of(info["max_batch_total_tokens"]);
  if (facts.models.empty()) facts.models.push_back(model);
  return true;
}

/// SGLang gives the size of one data parallel rank.
bool read_sglang(const Document& server, const Document& model, ReplicaFacts& facts) {
  const auto tokens = count_of(server["max_total_num_tokens"]);
  if (!tokens && !(is_there(model["model_path"]) && is_there(model["is_generation"]))) return false;
  facts.engine = Engine::sglang;
  facts.version = text_of(server["version"]);
  const auto ranks = count_of(server["dp_size"]).value_or(1);
  if (tokens && *tokens <= metrics::most_tokens / ranks) facts.kv_tokens = *tokens * ranks;
  if (!facts.max_context) facts.max_context = count_of(server["context_length"]);
  return true;
}

/// Other engines also answer this for compatibility, so it is asked last.
bool read_ollama(const Document& version, const Document& tags, ReplicaFacts& facts) {
  auto said = text_of(version["version"]);
  if (said.empty() || !is_there(tags["models"])) return false;
  facts.engine = Engine::ollama;
  facts.version = std::move(said);
  if (facts.models.empty()) facts.models = model_list(tags["models"], "name").ids;
  return true;
}

const PageAnswer& first_answered(const Pages& pages, Page a, Page b) {
  return pages[a].status == 200 ? pages[a] : pages[b];
}

}  // namespace

std::string_view name_of(Engine engine) {
  static constexpr std::array<std::string_view, 8> names{"unknown", "vLLM",      "Aphrodite", "SGLang",
                                                         "TGI",     "llama.cpp", "Ollama",    "weir-lab sim"};
  return names[static_cast<std::size_t>(engine)];
}

ReplicaFacts facts_of(const Pages& pages) {
  ReplicaFacts facts;
  auto listed = model_list(Document(pages[Page::models])["data"], "id");
  const auto& metrics_page = pages[Page::metrics];
  const auto series = read_engine_page(metrics_page.status == 200 ? metrics_page.body : "");
  facts.models = std::move(listed.ids);
  facts.max_context = listed.max_context;
  facts.metrics = series.is_page;
  facts.prefix_caching = series.prefix_caching;

  const bool own_pages = read_llama_cpp(Document(pages[Page::props]), facts) ||
                         read_tgi(Document(pages[Page::info]), facts) ||
                         read_sglang(Document(first_answered(pages, Page::server_info, Page::get_server_info)),
                                     Document(first_answered(pages, Page::model_info, Page::get_model_info)), facts);
  if (!own_pages) {
    facts.engine = engine_of_owner(listed.owner);
    if (facts.engine == Engine::unknown) facts.engine = series.engine;
    if (facts.engine == Engine::unknown)
      read_ollama(Document(pages[Page::ollama_version]), Document(pages[Page::ollama_tags]), facts);
    else
      facts.version = text_of(Document(pages[Page::version])["version"]);
  }
  if (!facts.kv_tokens) facts.kv_tokens = series.kv_tokens;
  return facts;
}

std::span<const Page> identifying_pages(Engine engine) {
  static constexpr std::array openai{Page::version};
  static constexpr std::array sglang{Page::server_info, Page::get_server_info};
  static constexpr std::array tgi{Page::info};
  static constexpr std::array llama_cpp{Page::props};
  static constexpr std::array ollama{Page::ollama_version, Page::ollama_tags};
  static constexpr std::array all{Page::version,    Page::server_info,    Page::get_server_info,
                                  Page::model_info, Page::get_model_info, Page::info,
                                  Page::props,      Page::ollama_version, Page::ollama_tags};
  switch (engine) {
    case Engine::vllm:
    case Engine::aphrodite:
      return openai;
    case Engine::sglang:
      return sglang;
    case Engine::tgi:
      return tgi;
    case Engine::llama_cpp:
      return llama_cpp;
    case Engine::ollama:
      return ollama;
    case Engine::weir_sim:
      return {};
    case Engine::unknown:
      break;
  }
  return all;
}

void take_facts(const ReplicaFacts& facts, EngineFigures& figures) {
  const auto version = config::printable_ascii(facts.version, longest_version);
  const auto model =
      facts.models.empty() ? std::string() : config::printable_ascii(facts.models.front(), longest_model);
  const auto differs = [](const std::string& told, const std::string& known) {
    return !told.empty() && !known.empty() && told != known;
  };
  const bool another_kind = facts.engine != Engine::unknown && facts.engine != figures.engine;
  if (another_kind) {
    figures.engine = facts.engine;
    figures.version.clear();
    figures.model.clear();
  }
  // An engine that was started anew with another model has other limits, too.
  if (another_kind || differs(version, figures.version) || differs(model, figures.model))
    figures.kv_tokens = figures.max_context = std::nullopt;
  if (!version.empty()) figures.version = version;
  if (!model.empty()) figures.model = model;
  if (facts.kv_tokens) figures.kv_tokens = facts.kv_tokens;
  if (facts.max_context) figures.max_context = facts.max_context;
}

balancer::EngineLimits limits_of(const EngineFigures& figures, metrics::Moment now) {
  const auto* const load = figures.load_at(now);
  return {figures.kv_tokens, figures.max_context, load != nullptr && load->asleep};
}

std::string text_of(const EngineFigures& figures) {
  auto text =
      figures.engine == Engine::unknown ? std::string("an unknown engine") : std::string(name_of(figures.engine));
  if (!figures.version.empty()) text += " " + figures.version;
  if (!figures.model.empty()) text += ", model '" + figures.model + "'";
  if (figures.kv_tokens) text += ", KV cache of " + std::to_string(*figures.kv_tokens) + " tokens";
  if (figures.max_context) text += ", context of " + std::to_string(*figures.max_context);
  return text;
}

std::string refusal_message(std::string_view body) {
  const Document answer(body);
  // OpenAI's shape is {"error":{"message"}}, older ones have {"message"}, TGI {"error":"text"}, and FastAPI {"detail"}.
  std::string message = text_of(answer["error"]["message"]);
  for (const auto* key : {"message", "error", "detail"})
    if (message.empty()) message = text_of(answer[key]);
  return config::printable_ascii(message, 200);
}

}  // namespace weir::proxy::fleet
