#include "proxy/fleet/engine_page.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <string>
#include <unordered_map>

#include "metrics/series/text_sample.hpp"
#include "metrics/vocabulary.hpp"

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

}  // namespace weir::proxy::fleet
