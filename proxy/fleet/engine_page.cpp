#include "proxy/fleet/engine_page.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <system_error>
#include <unordered_map>

#include "config/controls.hpp"
#include "metrics/series/text_page.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/json/parser.hpp"

namespace weir::proxy::fleet {
namespace {

using metrics::series::Sample;

std::optional<std::uint64_t> count_of(double number) {
  if (!(number >= 1 && number <= static_cast<double>(metrics::most_tokens))) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(number);
  return static_cast<double>(count) == number ? std::optional(count) : std::nullopt;
}

std::optional<std::uint64_t> count_of(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && metrics::believable(count) ? std::optional(count)
                                                                                                : std::nullopt;
}

Engine engine_of_series(std::string_view name) {
  if (name.starts_with("vllm:")) return Engine::vllm;
  if (name.starts_with("aphrodite:")) return Engine::aphrodite;
  if (name.starts_with("sglang:")) return Engine::sglang;
  if (name.starts_with("tgi_")) return Engine::tgi;
  if (name.starts_with("llamacpp:")) return Engine::llama_cpp;
  return Engine::unknown;
}

/// Newer releases of vLLM report the size in tokens. In older ones it is blocks times block size, which is right
/// because all layers share one kind of cache there.
std::optional<std::uint64_t> kv_tokens_of(const Sample& cache_config) {
  if (const auto tokens = count_of(cache_config.label("kv_cache_size_tokens"))) return tokens;
  const auto blocks = count_of(cache_config.label("num_gpu_blocks")), size = count_of(cache_config.label("block_size"));
  if (!blocks || !size || *blocks > metrics::most_tokens / *size) return std::nullopt;
  return *blocks * *size;
}

/// SGLang can have every rank of one engine tell the same: rank 0 is enough, unless each rank is an engine of its own.
bool repeats(const Sample& sample) {
  const auto zero = [&](std::string_view label) { return sample.label(label).empty() || sample.label(label) == "0"; };
  return !zero("pp_rank") || (!zero("tp_rank") && sample.label("dp_rank").empty());
}

/// The lines of one name, added up.
struct Lines {
  double sum = 0;
  std::size_t n = 0;
};

class Figures {
 public:
  explicit Figures(const config::EngineNames& names) : names_(names) {
    for (const auto* list : {&names.running, &names.waiting, &names.kv_usage, &names.kv_used_tokens, &names.kv_tokens,
                             &names.prefix_queries, &names.prefix_hits, &names.prefix_misses, &names.counters})
      for (const auto& name : *list) lines_[name];
  }

  bool wants(std::string_view name) const { return lines_.contains(name); }

  void take(const Sample& sample) {
    if (repeats(sample)) return;
    auto& lines = lines_.find(sample.name)->second;
    lines.sum += sample.value;
    ++lines.n;
  }

  EngineLoad load(std::optional<std::uint64_t> kv_tokens) const {
    EngineLoad load;
    load.running = at_most(most_requests, first(names_.running));
    load.waiting = at_most(most_requests, first(names_.waiting));
    load.prefix_queries = at_most(most_counted, first(names_.prefix_queries));
    load.prefix_hits = at_most(most_counted, first(names_.prefix_hits));
    const auto misses = at_most(most_counted, first(names_.prefix_misses));
    if (!load.prefix_queries && load.prefix_hits && misses) load.prefix_queries = *load.prefix_hits + *misses;
    if (const auto* share = first(names_.kv_usage))
      load.kv_usage = at_most(1, Lines{share->sum / static_cast<double>(share->n), 1});
    const auto* used = first(names_.kv_used_tokens);
    if (!load.kv_usage && used != nullptr && kv_tokens)
      load.kv_usage = at_most(1, Lines{used->sum / static_cast<double>(*kv_tokens), 1});
    return load;
  }

  Counters counters() const {
    Counters all;
    for (const auto& name : names_.counters) {
      const auto& lines = lines_.at(name);
      if (const auto count = lines.n > 0 ? at_most(most_worked, lines) : std::nullopt) all.emplace(name, *count);
    }
    return all;
  }

  std::optional<std::uint64_t> kv_tokens() const {
    const auto* size = first(names_.kv_tokens);
    return size != nullptr ? count_of(size->sum) : std::nullopt;
  }

 private:
  static constexpr double most_requests = 1e6, most_counted = 1e15, most_worked = 1e18;

  const Lines* first(const std::vector<std::string>& names) const {
    for (const auto& name : names)
      if (const auto& lines = lines_.at(name); lines.n > 0) return &lines;
    return nullptr;
  }
  static std::optional<double> at_most(double most, const Lines* lines) {
    return lines != nullptr ? at_most(most, *lines) : std::nullopt;
  }
  static std::optional<double> at_most(double most, const Lines& lines) {
    return lines.sum >= 0 && lines.sum <= most ? std::optional(lines.sum) : std::nullopt;
  }

  const config::EngineNames& names_;
  std::unordered_map<std::string_view, Lines> lines_;
};

}  // namespace

std::optional<bool> have_moved(const Counters& first, const Counters& second) {
  std::optional<bool> moved;
  for (const auto& [name, count] : second)
    if (const auto before = first.find(name); before != first.end())
      moved = moved.value_or(false) || count != before->second;
  return moved;
}

bool have_risen(Counters& known, const Counters& page) {
  bool risen = false;
  for (const auto& [name, count] : page) {
    const auto [place, is_new] = known.try_emplace(name, count);
    risen = risen || count > place->second;
    place->second = count;
  }
  return risen;
}

EnginePage read_engine_page(std::string_view text, const config::EngineNames& names) {
  EnginePage page;
  bool asleep = false;
  Figures figures(names);
  std::map<std::string, std::uint64_t> kv_of_engines;  // The same engine may say it twice.
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with('#')) continue;
    // Most lines of a page are buckets, which are not needed: the name alone is looked at.
    const auto name = line.substr(0, line.find_first_of("{ "));
    const bool is_cache_config = name == "vllm:cache_config_info" || name == "aphrodite:cache_config_info";
    if (page.engine == Engine::unknown) page.engine = engine_of_series(name);
    const bool is_start = name == "process_start_time_seconds", is_sleep = name.ends_with(":engine_sleep_state");
    if (page.is_page && !is_cache_config && !is_start && !is_sleep && !figures.wants(name)) continue;
    const auto sample = metrics::series::read_sample(line);
    if (!sample) continue;
    page.is_page = true;
    if (is_start && sample->value > 0) page.started = sample->value;
    if (is_sleep && sample->label("sleep_state") == "awake" && sample->value == 0) asleep = true;
    if (figures.wants(name)) figures.take(*sample);
    if (!is_cache_config) continue;
    if (const auto tokens = kv_tokens_of(*sample)) kv_of_engines[std::string(sample->label("engine"))] = *tokens;
    const auto caching = sample->label("enable_prefix_caching");
    if (!caching.empty() && caching != "None") page.prefix_caching = caching == "True" || caching == "true";
  }
  if (!page.is_page) return {};
  std::uint64_t sum = 0;
  for (const auto& [engine, tokens] : kv_of_engines) sum += tokens;
  page.kv_tokens = metrics::believable(sum) ? std::optional(sum) : figures.kv_tokens();
  page.load = figures.load(page.kv_tokens);
  page.load.asleep = asleep;
  page.counters = figures.counters();
  return page;
}

namespace {

template <class Number>
bool holds(std::string_view token) {
  Number number{};
  return std::from_chars(token.data(), token.data() + token.size(), number).ec != std::errc::result_out_of_range;
}

bool is_huge(std::string_view token) {
  if (token.find_first_of(".eE") != token.npos) return !holds<double>(token);
  return token.front() == '-' ? !holds<std::int64_t>(token) : !holds<std::uint64_t>(token);
}

}  // namespace

std::string without_huge_numbers(std::string_view json) {
  std::string tamed;
  while (!json.empty()) {
    const auto plain = std::min(json.find_first_of("\"-0123456789"), json.size());
    tamed.append(json.substr(0, plain));
    json.remove_prefix(plain);
    if (json.empty()) break;
    std::size_t size = 1;
    if (json.front() == '"') {
      while (size < json.size() && json[size] != '"') size += json[size] == '\\' ? 2 : 1;
      size = std::min(size + 1, json.size());
    } else {
      size = std::min(json.find_first_not_of("+-.0123456789eE"), json.size());
    }
    const auto token = json.substr(0, size);
    tamed.append(token.front() != '"' && is_huge(token) ? "null" : token);
    json.remove_prefix(size);
  }
  return tamed;
}

simdjson::simdjson_result<simdjson::dom::element> parse_page(simdjson::dom::parser& parser, std::string_view json) {
  if (json.empty()) return simdjson::EMPTY;  // simdjson copies from the null pointer of an empty view.
  const auto page = parser.parse(json.data(), json.size());
  if (page.error() != simdjson::NUMBER_ERROR) return page;
  const auto tamed = without_huge_numbers(json);
  return parser.parse(tamed.data(), tamed.size());
}

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
